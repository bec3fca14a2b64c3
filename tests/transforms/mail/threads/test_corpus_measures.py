"""The measures of a mail collection, on mails small enough to count by hand."""

import re

import ibis
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.mail.blocks.table import message_blocks
from transforms.mail.chunks.table import message_chunks
from transforms.mail.messages import RawMail, read_mail
from transforms.mail.threads import corpus_measures
from transforms.mail.threads.threads import build_threads
from transforms.schemas.mail import ATTACHMENTS
from transforms.schemas.operations import CORPUS_MEASURES, MEASURE_COUNTS
from transforms.settings.mail import BlockSettings, ChunkSettings, MailSettings, ThreadSettings

QUOTED_LINES = (
    "Does the compactor ever hold the write lock",
    "for longer than a single page is written?",
)
QUESTION = f"{QUOTED_LINES[0]} {QUOTED_LINES[1]}\nI saw pauses of a second.\n"
COPY = "No, it never does that, not even once.\n"
ANSWER = f"> {QUOTED_LINES[0]}\n> {QUOTED_LINES[1]}\n{COPY}"
INVENTED = "> A line that nobody has written anywhere before\nStrange, where does this come from in the end?\n"


def mail(number: int, body: str, answers: int | None = None) -> RawMail:
    reply = f"In-Reply-To: <m{answers}@x>\n" if answers is not None else ""
    head = f"From: p{number}@x\nMessage-ID: <m{number}@x>\nDate: Mon, 5 Jan 2004 1{number}:00:00 +0000\n{reply}"
    return RawMail(
        f"f:{number}", f"{head}Subject: {'Re: ' if reply else ''}pauses\n\n{body}".encode()
    )


def tables_of(raw: list[RawMail]) -> corpus_measures.BucketTables:
    mails = read_mail(raw, source="s", partition="u", list_id="l", settings=MailSettings()).messages
    blocks = message_blocks(mails, BlockSettings())
    chunks = message_chunks(mails, blocks, ATTACHMENTS.empty(), ChunkSettings()).chunks
    tree = build_threads(mails, mails, ThreadSettings()).tree
    return corpus_measures.BucketTables(mails, blocks, chunks, ATTACHMENTS.empty(), tree)


def measured(*buckets: list[RawMail]) -> dict[str, tuple[int, int]]:
    """Numerator and denominator by measure and detail."""
    counts = [corpus_measures.counts_of_bucket(tables_of(raw)) for raw in buckets]
    for table in counts:
        assert table.equals(table.sort_by([(column, "ascending") for column in MEASURE_COUNTS.key]))
    found = corpus_measures.corpus_measures(ibis.memtable(pa.concat_tables(counts))).to_pyarrow()
    assert found.schema.names == CORPUS_MEASURES.names
    return {
        f"{r['measure']} {r['detail']}".strip(): (r["numerator"], r["denominator"])
        for r in found.to_pylist()
    }


@pytest.fixture(scope="module")
def values() -> dict[str, tuple[int, int]]:
    """The measures of a thread of four mails."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(corpus_measures, "_LONG_THREAD_MESSAGES", 4)
        return measured(
            [mail(0, QUESTION), mail(1, ANSWER, 0), mail(2, INVENTED, 0), mail(3, COPY, 0)]
        )


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (
            "quoted_lines_in_parent",
            (2, 3),
        ),  # the answer's are rewrapped and match, the invented one does not
        ("anchors_in_parent", (1, 2)),
        ("anchored_replies", (2, 3)),
        ("near_duplicate_authored", (2, 4)),  # a sentence that two mails hold
        ("chunks_that_need_their_parent", (1, 4)),  # the copy has no quote and is short
        ("needed_parents_found", (1, 1)),
        ("long_debates", (1, 1)),
        ("mails_without_chunk", (0, 4)),
        ("short_replies", (2, 2)),
    ],
)
def test_each_measure_counts_what_it_says(
    values: dict[str, tuple[int, int]], measure: str, expected
):
    assert values[measure] == expected


def test_buckets_add_up_to_the_measures_of_all_their_mails():
    """Also of a defect that only one of them has."""
    first, second = [mail(0, QUESTION), mail(1, ANSWER, 0)], [mail(5, QUESTION), mail(6, COPY, 5)]
    second.append(
        RawMail(
            "f:7",
            second[0].data.replace(b"m5@x", b"m7@x").replace(b"Date: Mon, 5 Jan", b"Date: no"),
        )
    )
    whole = measured([*first, *second])
    assert measured(first, second) == measured(second, first) == whole
    assert whole["mails_without_chunk"][1] == 5
    assert {n: v for n, v in whole.items() if n.startswith("parse_defects")} == {
        "parse_defects date_unreadable": (1, 5)
    }


def test_a_list_without_mail_has_no_measures():
    assert measured([]) == {}


@given(st.lists(st.text(" ab\t\r\n\x0b\x85\u2003\u2028é", max_size=30), max_size=5))
def test_lines_are_compared_whatever_their_blanks_are(texts: list[str]):
    names = [str(number) for number in range(len(texts))]
    ids = dict.fromkeys(("chunk_id", "doc_id", "thread_id"), names)
    texts_of_chunks = {"text_lex": texts, "quote_lex": [""] * len(texts)}
    chunks = pl.DataFrame(ids | texts_of_chunks, dict.fromkeys((*ids, *texts_of_chunks), pl.String))
    lines_table = corpus_measures.compared_lines(chunks, line_chars=3)
    lines = [
        (name, plain)
        for name, text in zip(names, texts, strict=True)
        for line in text.split("\n")
        if len(plain := re.sub(r"\s+", " ", line).strip()) >= 3
    ]
    expected = pl.DataFrame(lines, {"chunk": pl.String, "line": pl.String}, orient="row")
    hashed = expected.select(pl.col("chunk").hash(seed=0), pl.col("line").hash(seed=0))
    assert lines_table.select("chunk", "line").equals(hashed)
    assert lines_table["chars"].to_list() == [len(line) for _, line in lines]
