"""Very long texts: what waits is accounted for, what was made stays, and at last all is as if
nothing had waited.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.transforms.mail.chunks.test_table import attachment, mails, patch, sized
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.long_texts import (
    EVERYTHING,
    AtOnce,
    Chunked,
    chunks_in_time,
    present_texts,
)
from transforms.mail.chunks.table import message_chunks
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.mail import BlockSettings, ChunkSettings

NONE = ATTACHMENTS.empty()
LONG = "I measured it again, and again it was slower.\n\n" * 9
LIMITS = ChunkSettings(slow_body_chars=200)
NOTHING = AtOnce(0, 0)


def tables(*bodies: str, parts: pa.Table = NONE) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Messages, blocks and attachments."""
    written = mails(*bodies)
    return written, message_blocks(written, BlockSettings()), parts


def texts(rows: pa.Table) -> list[tuple[str, str | None]]:
    return [(row["doc_id"], row["attachment_id"]) for row in rows.to_pylist()]


def waiting(made: Chunked) -> list[dict[str, Any]]:
    return [row for row in made.exclusions.to_pylist() if row["reason"] == "slow_lane"]


@examples(25)
@given(
    st.lists(
        st.sampled_from(["Short.", LONG, f"> asked\n\n{LONG}", "> only a quote", ""]),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(
        [
            NONE,
            attachment("a line of a log\n" * 50, "log", "x.log", "slow"),
            attachment(".\n" * 50, "log", "x.log", "slow"),
            attachment("fine", "text"),
            attachment(patch(5, 1), "patch", "x.patch"),
            attachment(patch(5, 1), "patch", "x.patch", "slow"),
        ]
    ),
)
def test_what_waits_is_all_that_is_missing_until_it_is_made(bodies: list[str], parts: pa.Table):
    inputs = tables(*bodies, parts=parts)
    with sized(PATCH_FILES=3):
        whole = message_chunks(*inputs, ChunkSettings())
        left = chunks_in_time(*inputs, LIMITS, at_once=NOTHING)
        at_once = chunks_in_time(*inputs, LIMITS, at_once=EVERYTHING)
        stays = chunks_in_time(
            *inputs, LIMITS, present=present_texts(*at_once[:2]), at_once=NOTHING
        )
    waits = {(row["doc_id"], row["attachment_id"]) for row in waiting(left)}
    ids = set(left.chunks["chunk_id"].to_pylist())
    missing = [id_ not in ids for id_ in whole.chunks["chunk_id"].to_pylist()]
    assert set(texts(whole.chunks.filter(pa.array(missing, pa.bool_())))) <= waits
    assert left.waiting == sum(row["byte_end"] for row in waiting(left))
    others = [
        row
        for row in whole.exclusions.to_pylist()
        if (row["doc_id"], row["attachment_id"]) not in waits
    ]
    assert [row for row in left.exclusions.to_pylist() if row["reason"] != "slow_lane"] == others
    assert not present_texts(*left[:2]) & waits and stays == at_once
    without = [name for name in whole.chunks.column_names if name != "lane"]
    assert (
        at_once.chunks.select(without).equals(whole.chunks.select(without)) and at_once.waiting == 0
    )
    assert at_once.exclusions.equals(whole.exclusions)


@pytest.mark.parametrize(
    ("bodies", "parts", "waits"),
    [
        (("Short.",), NONE, []),
        (("Short.", LONG), NONE, [("m1", None)]),
        (("Short.",), attachment("x" * 9, "text", lane="slow"), [("m0", "a0")]),
        (("Short.",), attachment(patch(4, 1), "patch"), [("m0", "a0")]),
        (("Short.",), attachment(patch(3, 1), "patch"), []),
        (("Short.",), attachment(None, "patch"), []),
    ],
    ids=[
        "nothing",
        "body",
        "attachment",
        "patch of many files",
        "patch of few files",
        "patch without text",
    ],
)
def test_what_waits(bodies: tuple[str, ...], parts: pa.Table, waits: list[tuple[str, str | None]]):
    with sized(PATCH_FILES=3):
        found = waiting(chunks_in_time(*tables(*bodies, parts=parts), LIMITS, at_once=NOTHING))
    assert [(row["doc_id"], row["attachment_id"]) for row in found] == waits


@pytest.mark.parametrize(("more", "waits"), [(0, 0), (1, 3)])
def test_up_to_the_limit_nothing_waits_and_above_it_everything_long(more: int, waits: int):
    inputs, size = tables(LONG, LONG, "Short.", LONG), 3 * len(LONG) - more
    for at_once in (AtOnce(size, 0), AtOnce(0, size / len(3 * LONG + "Short."))):
        assert len(waiting(chunks_in_time(*inputs, LIMITS, at_once=at_once))) == waits
    assert not waiting(chunks_in_time(*inputs, LIMITS)), "what is little is made at once"


def test_a_patch_of_many_files_can_be_found_by_its_record_while_its_parts_wait():
    inputs = tables("Attached.\n", parts=attachment(patch(101, 1), "patch"))
    rows = chunks_in_time(*inputs, LIMITS, at_once=NOTHING).chunks.to_pylist()
    (record,) = [row for row in rows if row["attachment_id"]]
    assert record["diff_files"] == [f"src/f{n}.c" for n in range(101)]
    assert record["chunk_count"] == 102
