"""The context of replies that are too short to be understood alone."""

from typing import Any

import ibis
import pyarrow as pa
import pytest

from transforms.embedding import embedded_text
from transforms.hashing import text_hash
from transforms.schemas.chunks import CHUNKS


def chunk(ident: str, doc: str, text: str, **given: Any) -> dict[str, Any]:
    row = {c.name: None for c in CHUNKS.columns}
    defaults = {
        "source": "s",
        "partition": "u",
        "chunk_index": 0,
        "title": "T",
        "needs_parent": False,
        "text_embed": text,
        "chunk_id": ident,
        "doc_id": doc,
        "text_lex": text,
        "checksum": text_hash(text),
    }
    return {**row, **defaults, **given}


def table(chunks: list[dict[str, Any]]) -> ibis.Table:
    fields = pa.schema([(c.name, c.type) for c in CHUNKS.columns])
    return ibis.memtable(pa.Table.from_pylist(chunks, schema=fields))


TREE = ibis.memtable(pa.table({"message_id": ["reply"], "parent_id": ["asked"]}))
NONE = embedded_text.quotes_moved(
    pa.table({n: pa.array([], pa.string()) for n in ("chunk_id", "doc_id", "text_lex")}),
    pa.table({"message_id": pa.array([], pa.string()), "body": pa.array([], pa.string())}),
)
SHORT = chunk("c", "reply", "Yes.", needs_parent=True, parent_id="asked")


def contexts(*chunks: dict[str, Any]) -> dict[str, str]:
    rows = embedded_text.parent_texts(table(list(chunks)), TREE, 10).to_pyarrow().to_pylist()
    return {r["chunk_id"]: r["context"] for r in rows}


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        pytest.param(
            [chunk("p", "asked", "Is it fast?")],
            {"c": "Is it fast"},
            id="the start of what it answers",
        ),
        pytest.param(
            [chunk("p", "asked", "Is it?", partition="another")],
            {"c": "Is it?"},
            id="across partitions",
        ),
        pytest.param([], {}, id="an answer to nothing that is here"),
        pytest.param([chunk("p", "asked", " \n ")], {}, id="nothing said"),
        pytest.param(
            [chunk("p", "asked", "file", attachment_id="x")], {}, id="attachments say nothing"
        ),
        pytest.param(
            [chunk("p", "asked", "First."), chunk("q", "asked", "Second.", chunk_index=1)],
            {"c": "First."},
            id="the first chunk only",
        ),
        pytest.param(
            [
                chunk("p", "asked", "Later.", partition="v"),
                chunk("q", "asked", "Sooner.", partition="b"),
            ],
            {"c": "Sooner."},
            id="of copies the first by source and partition",
        ),
        pytest.param(
            [chunk("p", "asked", "\U0001f98a" * 11)],
            {"c": "\U0001f98a" * 10},
            id="characters, not bytes",
        ),
    ],
)
def test_a_short_reply_is_given_what_it_answers(
    others: list[dict[str, Any]], expected: dict[str, str]
):
    assert contexts(SHORT, *others) == expected


@pytest.mark.parametrize(
    ("asked", "above", "expected"),
    [
        pytest.param(
            "Fine with me as well.",
            "Shall we rename the field?",
            "Shall we rename the field?\n\nFine with me as well.",
            id="a parent of a few words",
        ),
        pytest.param("w " * 100, "Shall we?", "w " * 100, id="a parent that says enough"),
        pytest.param("Fine.", "v " * 500, "v " * 397 + "v\n\nFine.", id="800 characters at most"),
        pytest.param("Fine.", None, "Fine.", id="nothing above it"),
    ],
)
def test_rule_5_goes_up_the_thread_until_enough_is_said(
    asked: str, above: str | None, expected: str
):
    tree = pa.table(
        {"message_id": ["reply", "asked", "first"], "parent_id": ["asked", "first", None]}
    )
    reply = chunk("c", "reply", "No objection.", needs_parent=True)
    others = [chunk("q", "first", above)] if above else []
    chunks = table([reply, chunk("p", "asked", asked), *others])
    rows = embedded_text.parent_texts(chunks, ibis.memtable(tree)).to_pyarrow().to_pylist()
    assert [row["context"] for row in rows] == [expected]


def test_rule_5_goes_through_several_brief_mails_and_no_further_than_needed():
    ids = [f"m{i}" for i in range(8)]
    tree = pa.table({"message_id": ids, "parent_id": [None, *ids[:-1]]})
    chunks = [chunk(i, i, f"Yes, {i}.", needs_parent=i == "m7") for i in ids]
    (row,) = embedded_text.parent_texts(table(chunks), ibis.memtable(tree)).to_pyarrow().to_pylist()
    assert row["context"] == "\n\n".join(f"Yes, m{i}." for i in (3, 4, 5, 6))


def test_a_reply_that_stands_alone_is_given_nothing():
    assert contexts({**SHORT, "needs_parent": False}, chunk("p", "asked", "Is it fast?")) == {}


def test_a_chunk_is_embedded_by_its_text_or_by_subject_question_and_answer():
    chunks = table([SHORT, chunk("p", "asked", "Is it fast?")])
    added = embedded_text.chunk_context(
        embedded_text.parent_texts(chunks, TREE, 10).to_pyarrow(), NONE
    )
    assert added.column("context_kind").to_pylist() == ["parent"]
    rows = embedded_text.texts_to_embed(chunks, ibis.memtable(added)).to_pyarrow().to_pylist()
    expected = ["Is it fast?", "Subject: T\n\nIn reply to:\nIs it fast\n\nReply:\nYes."]
    assert sorted((r["text"], r["text_hash"]) for r in rows) == [
        (text, text_hash(text)) for text in expected
    ]


BODY = "Agreed.\n\nWhat the other said,\nin two lines.\n"
QUOTE = pa.table({"message_id": ["reply"], "byte_start": [9], "byte_end": [len(BODY)]})


def restatements(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """The chunks of the mail `reply` as they are without its inferred quote."""
    near = embedded_text.chunks_with_quotes(table(list(chunks)), ibis.memtable(QUOTE)).to_pyarrow()
    return embedded_text.quotes_moved(
        near, pa.table({"message_id": ["reply"], "body": [BODY]})
    ).to_pylist()


def own(ident: str, text: str, start: int, end: int, **given: Any) -> dict[str, Any]:
    spans = [{"byte_start": start, "byte_end": end, "role": "own"}]
    return chunk(
        ident, "reply", text, spans=spans, quote_lex="", text_embed=f"Subject: T\n\n{text}", **given
    )


def test_an_inferred_quote_goes_from_the_authored_to_the_quoted_text():
    (row,) = restatements(own("c", BODY.strip(), 0, len(BODY)))
    assert row == {
        "chunk_id": "c",
        "text_lex": "Agreed.",
        "quote_lex": "What the other said,\nin two lines.",
        "text_embed": "Subject: T\n\nAgreed.",
        "is_quote": False,
    }


def test_a_chunk_of_quoted_text_alone_is_kept_and_marked():
    rows = restatements(own("c", BODY[9:].strip(), 9, len(BODY)))
    assert [(r["text_lex"], r["is_quote"]) for r in rows] == [("", True)]
    assert rows[0]["text_embed"] == f"Subject: T\n\n{BODY[9:].strip()}"


def test_chunks_beside_the_quote_and_of_other_mails_are_left_alone():
    assert (
        restatements(own("c", "Agreed.", 0, 8), {**own("d", "Agreed.", 0, 99), "doc_id": "other"})
        == []
    )


def test_a_short_reply_with_an_inferred_quote_is_given_what_it_answers_and_nothing_twice():
    short = own("c", BODY.strip(), 0, len(BODY), needs_parent=True)
    chunks = [short, chunk("p", "asked", "Is it fast?")]
    parents = embedded_text.parent_texts(table(chunks), TREE, 10).to_pyarrow()
    near = embedded_text.chunks_with_quotes(table(chunks), ibis.memtable(QUOTE)).to_pyarrow()
    own_text = embedded_text.quotes_moved(near, pa.table({"message_id": ["reply"], "body": [BODY]}))
    (row,) = embedded_text.chunk_context(parents, own_text).to_pylist()
    assert (row["context_kind"], row["context"]) == ("parent_unquoted", "Is it fast")
    assert row["text_embed"] == "Subject: T\n\nIn reply to:\nIs it fast\n\nReply:\nAgreed."
