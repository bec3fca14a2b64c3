"""The sentence before a chunk: from what is known, or what a model says if it is usable."""

from datetime import UTC, datetime
from typing import Any

import ibis
import pyarrow as pa
import pytest
from pydantic import ValidationError

from transforms.embedding import context_sentences
from transforms.hashing import text_hash
from transforms.schemas.chunks import CHUNK_CONTEXT, CHUNKS
from transforms.schemas.documents import DOCUMENTS
from transforms.schemas.mail import MESSAGES
from transforms.schemas.relations import THREAD_TREE, THREADS
from transforms.schemas.table import Table
from transforms.settings.models import SafetySettings

DAY, WRITTEN = datetime(2024, 1, 2, tzinfo=UTC), datetime(2023, 5, 6, tzinfo=UTC)


def table(declared: Table, *rows: dict[str, Any]) -> ibis.Table:
    plain = {c.name: None for c in declared.columns}
    fields = pa.schema([(c.name, c.type) for c in declared.columns])
    return ibis.memtable(pa.Table.from_pylist([{**plain, **row} for row in rows], schema=fields))


KNOWN = context_sentences.FactTables(
    table(
        MESSAGES,
        {"message_id": "m", "from_name": "Ann\n Lee", "from_addr": "ann@x", "effective_at": DAY},
        {"message_id": "n", "from_addr": "bob@x"},
    ),
    table(
        THREAD_TREE, {"message_id": "m", "thread_id": "t"}, {"message_id": "n", "thread_id": "t"}
    ),
    table(THREADS, {"thread_id": "t", "subject": "Slow vacuum"}),
    table(
        DOCUMENTS,
        {
            "doc_id": "d",
            "title": "Guide",
            "tags": ["how to", "new"],
            "description": "All of it",
            "modified_at": WRITTEN,
        },
        {"doc_id": "e", "title": "Bare", "tags": []},
    ),
)


def chunk(ident: str, doc: str, **given: Any) -> dict[str, Any]:
    plain = {
        "chunk_id": ident,
        "doc_id": doc,
        "source": "s",
        "source_kind": "message",
        "chunk_index": 0,
        "chunk_count": 1,
        "heading_path": [],
        "text_display": f"text of {ident}",
        "title": "Re: Slow vacuum",
    }
    return {**plain, **given}


def placed(*chunks: dict[str, Any]) -> pa.Table:
    return context_sentences.chunk_facts(table(CHUNKS, *chunks), KNOWN).to_pyarrow()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (chunk("c", "m"), "Mail by Ann Lee of 2024-01-02 in the thread “Slow vacuum”."),
        (
            chunk("c", "m", chunk_index=1, chunk_count=3),
            "Mail by Ann Lee of 2024-01-02 in the thread “Slow vacuum”, part 2 of 3.",
        ),
        (chunk("c", "n"), "Mail by bob@x in the thread “Slow vacuum”."),
        (chunk("c", "gone"), "Mail."),
        (
            chunk(
                "c", "m", source_kind="attachment", attachment_id="a", title="Slow vacuum: log.txt"
            ),
            "Attachment “Slow vacuum: log.txt” of a mail by Ann Lee of 2024-01-02 in the thread “Slow vacuum”.",
        ),
        (
            chunk(
                "c",
                "d",
                source_kind="document",
                heading_path=["Install", "On Linux"],
                chunk_count=9,
            ),
            "Section “Install › On Linux” of the document “Guide” of 2023-05-06 on how to, new: All of it.",
        ),
        (chunk("c", "e", source_kind="document"), "Document “Bare”."),
        (
            chunk(
                "c",
                "w",
                source_kind="conversation",
                heading_path=["Team", "2024-01-02", "amber-fox"],
            ),
            "Conversation “Team”.",
        ),
    ],
)
def test_a_sentence_says_what_is_known(given: dict[str, Any], expected: str):
    made = context_sentences.structural_sentences(placed(given)).to_pylist()
    assert made == [{"chunk_id": "c", "sentence": expected}]


def asked(
    *chunks: dict[str, Any], safety: SafetySettings = SafetySettings()
) -> list[context_sentences.Request]:
    rows = placed(*chunks)
    asking = context_sentences.Asking("model", safety)
    return context_sentences.requests(rows, context_sentences.structural_sentences(rows), asking)[0]


def test_a_chunk_is_shown_with_those_before_it_in_its_document_and_no_others():
    rows = [chunk(f"c{n}", "m", chunk_index=n, chunk_count=4) for n in range(4)]
    others = [chunk("o", "n"), chunk("a", "m", attachment_id="x")]
    before = {r.chunk_id: r.data["before"] for r in asked(*reversed(rows), *others)}
    assert before == {
        "c0": "",
        "c1": "text of c0",
        "c2": "text of c0\n…\ntext of c1",
        "c3": "text of c1\n…\ntext of c2",
        "o": "",
        "a": "",
    }


def test_secrets_are_masked_before_a_text_is_cut_and_hashed():
    secret = "x" * 1990 + " AKIAIOSFODNN7EXAMPLE"
    (request,) = asked(chunk("c", "m", text_display=secret))
    assert "AKIA" not in request.data["text"]
    (loose,) = asked(chunk("c", "m", text_display=secret), safety=SafetySettings(secrets="send"))
    assert loose.key != request.key


@pytest.mark.parametrize(
    ("sentence", "text", "expected"),
    [
        (
            "The vacuum\n is  slow today.",
            "Why is the vacuum so slow today?",
            "The vacuum is slow today.",
        ),
        ("It is ok.", "text", None),
        ("…………………………", "text", None),
        ("x" * 301, "text", None),
        ("This is about the weather.", "Сегодня хорошая погода и светит солнце", None),
        ("Это письмо о погоде.", "Сегодня хорошая погода и светит солнце", "Это письмо о погоде."),
        (
            "日本語の文です。検索の話です。",
            "これは日本語で書かれた長い文章で、検索の話をしています。",
            "日本語の文です。検索の話です。",
        ),
        ("About a table of numbers.", "1 2 3 4 5 6 7 8 9 10", "About a table of numbers."),
    ],
)
def test_a_sentence_is_taken_if_it_is_short_and_in_the_script_of_the_chunk(
    sentence: str, text: str, expected: str | None
):
    assert context_sentences.usable(sentence, text) == expected


def test_an_answer_has_one_sentence_for_each_chunk():
    shape = context_sentences.sentences_shape(2)
    with pytest.raises(ValidationError):
        shape.model_validate_json('{"sentences": ["one"]}')
    assert shape.model_validate_json('{"sentences": ["one", "two"]}').sentences == ["one", "two"]


def test_the_sentence_stands_before_the_text_that_is_embedded_and_is_kept_apart():
    context = CHUNK_CONTEXT.from_rows(
        [
            {
                "chunk_id": i,
                "context": "Is it?",
                "context_kind": "parent",
                "sentence": "",
                "sentence_kind": "",
                "text_embed": "In reply to:\nIs it?\n\nReply:\nYes.",
                "checksum": "old",
            }
            for i in ("b", "z")
        ]
    )
    texts = pa.table({"chunk_id": ["a", "b"], "text_embed": ["Plain.", "Yes."]})
    told = pa.table(
        {
            "chunk_id": ["a", "b"],
            "sentence": ["About a.", "About b."],
            "sentence_kind": ["gemini", "structural"],
        }
    )
    rows = CHUNK_CONTEXT.conform(context_sentences.with_sentences(context, texts, told)).to_pylist()
    embedded = {
        r["chunk_id"]: (r["context_kind"], r["sentence_kind"], r["text_embed"]) for r in rows
    }
    assert embedded == {
        "a": ("sentence", "gemini", "About a.\n\nPlain."),
        "b": ("parent", "structural", "About b.\n\nIn reply to:\nIs it?\n\nReply:\nYes."),
        "z": ("parent", "", "In reply to:\nIs it?\n\nReply:\nYes."),
    }
    assert all(r["checksum"] == text_hash(r["text_embed"]) for r in rows)


def test_a_chunk_of_a_long_document_is_shown_with_all_of_it_if_its_source_says_so():
    long = [
        chunk(f"d{n}", "d", source_kind="document", chunk_index=n, text_display=f"{n} " * 3000)
        for n in range(4)
    ]
    rows = placed(
        *long,
        chunk("e0", "e", source="s", source_kind="document"),
        chunk("m0", "m", source="other"),
    )
    known = context_sentences.structural_sentences(rows)

    def asked(kind: str) -> dict[str, context_sentences.Request]:
        asking = context_sentences.Asking("model", SafetySettings(), {"s": kind, "other": "gemini"})
        return {r.chunk_id: r for r in context_sentences.requests(rows, known, asking)[0]}

    reads, not_read = asked("document"), asked("gemini")
    whole = reads["d0"].document
    assert whole == "\n\n".join(f"{n} " * 3000 for n in range(4))
    assert (
        {i for i, r in reads.items() if r.document}
        == {"d0", "d1", "d2", "d3"}
        == {i for i in reads if reads[i].key != not_read[i].key}
    )
    assert context_sentences.sentence_prompt([reads["d0"], reads["d1"]])["document"] == whole
    assert "document" not in context_sentences.sentence_prompt([reads["e0"], reads["m0"]])
