"""Blocks and chunks of real mail: nothing is lost, and people would agree with the kinds."""

import json
import random
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.corpora.conftest import mails_of
from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.table import message_chunks
from transforms.mail.threads.threads import build_threads
from transforms.schemas.mail import ATTACHMENTS
from transforms.settings.mail import BlockSettings, ChunkSettings, ThreadSettings

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module", params=["pgsql/pgsql-*", "linux-erofs/linux-erofs.2022*"])
def mails(corpora: Path, request: pytest.FixtureRequest) -> pa.Table:
    """The PostgreSQL mails, and those of a year of linux-erofs, each once."""
    return mails_of(sorted(corpora.glob(request.param)))


def test_blocks_of_real_bodies_are_the_bodies(mails: pa.Table) -> None:
    bodies = dict(zip(mails["message_id"].to_pylist(), mails["body"].to_pylist(), strict=True))
    at: Counter[str] = Counter()
    for row in message_blocks(mails, BlockSettings()).to_pylist():
        assert row["byte_start"] == at[row["message_id"]]
        at[row["message_id"]] = row["byte_end"]
    assert {m: len(b.encode()) for m, b in bodies.items() if b} == dict(at)


@given(st.data())
@examples(25)
def test_damaged_bodies_stay_whole_and_alone(mails: pa.Table, data: st.DataObject) -> None:
    """Bytes of real mails cut out, doubled or replaced: every byte stays in one block, batched or
    not.
    """
    bodies = []
    for row in data.draw(st.lists(st.integers(0, len(mails) - 1), min_size=1, max_size=4)):
        text = mails["body"][row].as_py()
        for at in data.draw(st.lists(st.integers(0, max(len(text) - 1, 0)), max_size=6)):
            put = data.draw(
                st.sampled_from(
                    ["", "\n", "> ", "\r\n", "-- \n", "\x1b", "\u2028", text[at : at + 300]]
                )
            )
            text = text[:at] + put + text[at + data.draw(st.integers(0, 40)) :]
        bodies.append(text)
    table = pa.table(
        {"message_id": [str(i) for i in range(len(bodies))], "body": pa.array(bodies, pa.string())}
    )
    together = message_blocks(table, BlockSettings()).to_pylist()
    alone = [
        r
        for i in range(len(table))
        for r in message_blocks(table.slice(i, 1), BlockSettings()).to_pylist()
    ]
    assert together == alone
    for i, body in enumerate(bodies):
        edges = [(r["byte_start"], r["byte_end"]) for r in together if r["message_id"] == str(i)]
        assert [a for a, _ in edges] == [0, *(b for _, b in edges[:-1])][: len(edges)]
        assert (edges[-1][1] if edges else 0) == len(body.encode())


def test_every_byte_of_real_bodies_is_in_a_chunk_or_an_exclusion(mails: pa.Table) -> None:
    blocks = message_blocks(mails, BlockSettings())
    chunks, exclusions = message_chunks(mails, blocks, ATTACHMENTS.empty(), ChunkSettings())
    covered: dict[str, list[tuple[int, int]]] = {m: [] for m in mails["message_id"].to_pylist()}
    for row in chunks.to_pylist():
        covered[row["doc_id"]].extend((s["byte_start"], s["byte_end"]) for s in row["spans"])
    for row in exclusions.to_pylist():
        covered[row["doc_id"]].append((row["byte_start"], row["byte_end"]))
    for message_id, body in zip(
        mails["message_id"].to_pylist(), mails["body"].to_pylist(), strict=True
    ):
        data, at = body.encode(), 0
        for start, end in sorted(covered[message_id]):
            assert not data[at:start].decode().strip(), message_id
            at = max(at, end)
        assert not data[at:].decode().strip(), message_id


def test_chunks_of_real_mail_are_made_of_authored_bytes(mails: pa.Table) -> None:
    bodies = dict(zip(mails["message_id"].to_pylist(), mails["body"].to_pylist(), strict=True))
    blocks = message_blocks(mails, BlockSettings())
    chunks, _ = message_chunks(mails, blocks, ATTACHMENTS.empty(), ChunkSettings())
    assert not [
        t for t in chunks["text_lex"].to_pylist() if re.fullmatch(r"\W*(?i:snip(ped)?)\W*", t)
    ]
    authored = chunks.filter(pc.field("chunk_kind") != "unauthored_message")
    rows = authored.select(["doc_id", "spans", "text_display"]).to_pylist()
    assert rows
    for row in rows:
        data = bodies[row["doc_id"]].encode()
        own = [s for s in row["spans"] if s["role"] == "own"]
        assert own, "a chunk of quote only"
        for span in row["spans"]:
            words = data[span["byte_start"] : span["byte_end"]].decode().replace(">", " ").split()
            shown = row["text_display"].replace(">", " ").split()
            assert Counter(words) <= Counter(shown), row


def test_threads_of_real_mail_do_not_depend_on_its_order(mails: pa.Table) -> None:
    order = list(range(len(mails)))
    random.Random(5).shuffle(order)
    shuffled = mails.take(order)
    limits = ThreadSettings()
    assert build_threads(shuffled, shuffled, limits) == build_threads(mails, mails, limits)


@pytest.mark.parametrize(
    ("name", "least_f1", "least_accuracy"), [("lines", 0.97, 0.98), ("office", 0.91, 0.88)]
)
def test_people_agree_with_the_kinds(
    corpora: Path, name: str, least_f1: float, least_accuracy: float
):
    """Author-line F1 and accuracy over five kinds; separators and blank lines do not count."""
    labelled = corpora / "labelled-mail" / f"{name}.jsonl"
    if not labelled.is_file():
        pytest.skip(f"no {labelled}")
    with labelled.open(encoding="utf-8") as file:
        mails = [json.loads(line)["lines"] for line in file]
    bodies = ["\n".join(text for _, text in lines) + "\n" for lines in mails]
    table = pa.table({"message_id": [str(i) for i in range(len(mails))], "body": bodies})
    found: dict[str, list[str]] = {}
    for row in message_blocks(table, BlockSettings()).to_pylist():
        found.setdefault(row["message_id"], []).extend([row["kind"]] * row["line_count"])
    counts: Counter[tuple[str, str]] = Counter()
    for i, lines in enumerate(mails):
        for (label, text), kind in zip(lines, found[str(i)], strict=True):
            if label not in ("separator", "blank") and text.strip():
                counts[label, kind] += 1
    called = sum(n for (_, kind), n in counts.items() if kind == "author")
    labels = sum(n for (label, _), n in counts.items() if label == "author")
    f1 = 2 * counts["author", "author"] / (called + labels)
    accuracy = sum(counts[k, k] for k in KINDS) / counts.total()
    assert f1 >= least_f1 and accuracy >= least_accuracy, (
        f"F1 {f1:.4f}, accuracy {accuracy:.4f}\n{_table(counts)}"
    )


def _table(counts: Counter[tuple[str, str]]) -> str:
    """The confusion table: labels down, found kinds across."""
    rows = [
        ["label", *KINDS],
        *([label, *(str(counts[label, k]) for k in KINDS)] for label in KINDS),
    ]
    return "\n".join("".join(f"{cell:>15}" for cell in row) for row in rows)


KINDS = ("author", "header", "patch_or_code", "quote", "signature")
