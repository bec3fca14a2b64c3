"""Lanes: together they make what one lane makes, each text once, and the queue says when that must be made again."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.transforms.mail.chunks.test_table import attachment, mails, patch, sized
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.oversize import fast_chunks, slow_chunks
from transforms.mail.chunks.table import message_chunks
from transforms.schemas.chunks import SLOW_QUEUE
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.mail import BlockSettings, ChunkSettings

NONE = ATTACHMENTS.empty()
LONG = "I measured it again, and again it was slower.\n\n" * 9


def tables(*bodies: str, parts: pa.Table = NONE) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Messages, blocks and attachments."""
    written = mails(*bodies)
    return written, message_blocks(written, BlockSettings()), parts


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in an order of their own, without what names the lane."""
    columns = [name for name in table.column_names if name != "lane"]
    return sorted(table.select(columns).to_pylist(), key=repr)


def queue_of(*bodies: str, parts: pa.Table = NONE, **options: int) -> pa.Table:
    """The queue that the fast lane leaves."""
    return fast_chunks(*tables(*bodies, parts=parts), ChunkSettings(**options)).queue


@examples(25)
@given(
    st.lists(
        st.sampled_from(["Short.", LONG, f"> asked\n\n{LONG}", "> only a quote", ""]), min_size=1, max_size=5
    ),
    st.sampled_from(
        [
            NONE,
            attachment("a line of a log\n" * 50, "log", "x.log", "slow"),
            attachment("fine", "text"),
            attachment(patch(5, 1), "patch", "x.patch"),
            attachment(patch(5, 1), "patch", "x.patch", "slow"),
        ]
    ),
)
def test_both_lanes_make_what_one_makes(bodies: list[str], parts: pa.Table):
    inputs = tables(*bodies, parts=parts)
    lanes = ChunkSettings(slow_body_chars=200)
    with sized(PATCH_FILES=3):
        fast = fast_chunks(*inputs, lanes)
        slow = slow_chunks(fast.queue, *inputs, lanes)
        at_once = message_chunks(*inputs, ChunkSettings())
    assert fast.queue.schema.equals(SLOW_QUEUE.arrow)
    assert rows(pa.concat_tables([fast.chunks, slow.chunks])) == rows(at_once.chunks)
    assert rows(pa.concat_tables([fast.exclusions, slow.exclusions])) == rows(at_once.exclusions)
    assert not (set(fast.chunks["chunk_id"].to_pylist()) & set(slow.chunks["chunk_id"].to_pylist()))


@pytest.mark.parametrize(
    ("bodies", "parts", "waits"),
    [
        (("Short.",), NONE, []),
        (("Short.", LONG), NONE, [("m1", None, "body")]),
        (("Short.",), attachment("x" * 9, "text", lane="slow"), [("m0", "a0", "attachment")]),
        (("Short.",), attachment("x" * 9, "log", lane="slow"), [("m0", "a0", "log")]),
        (("Short.",), attachment(patch(4, 1), "patch"), [("m0", "a0", "patch")]),
        (("Short.",), attachment(patch(3, 1), "patch"), []),
    ],
    ids=["nothing", "body", "attachment", "log", "patch of many files", "patch of few files"],
)
def test_what_waits(bodies: tuple[str, ...], parts: pa.Table, waits: list[tuple[str, str | None, str]]):
    with sized(PATCH_FILES=3):
        queue = queue_of(*bodies, parts=parts, slow_body_chars=200)
    assert [(r["doc_id"], r["attachment_id"], r["kind"]) for r in queue.to_pylist()] == waits
    assert pc.all(pc.equal(queue["reason"], "slow_lane")).as_py() in (True, None)


def test_a_patch_of_many_files_can_be_found_by_its_record_while_its_parts_wait():
    result = fast_chunks(*tables("Attached.\n", parts=attachment(patch(101, 1), "patch")), ChunkSettings())
    (record,) = [r for r in result.chunks.to_pylist() if r["attachment_id"]]
    assert record["diff_files"] == [f"src/f{n}.c" for n in range(101)]
    assert record["chunk_count"] == 102


def test_the_queue_stays_while_other_mail_comes_and_changes_with_what_it_names():
    before = queue_of(LONG, "Short.", slow_body_chars=200)
    assert queue_of(LONG, "Short.", "Another.", slow_body_chars=200).equals(before)
    assert not queue_of(LONG + "More.", "Short.", slow_body_chars=200).equals(before)
    renamed = attachment("x" * 9, "text", "other.txt", "slow")
    assert not queue_of("", parts=renamed).equals(queue_of("", parts=attachment("x" * 9, lane="slow")))
