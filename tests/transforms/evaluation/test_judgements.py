"""Which chunks, documents and threads the entries of ground truth mean."""

import polars as pl
import pytest

from transforms.evaluation.ground_truth import parse_ground_truth
from transforms.evaluation.judgements import Contents, Judgements, judgements

MAILS = {"root@x": "T1", "reply@x": "T1", "quotes@x": "T1", "other@x": "T2"}
"""Mails by thread; quotes@x has no chunk."""

NODES = [
    ("docs:a.md", "docs:a.md", 0, 0, 100),
    ("docs:a.md#setup", "docs:a.md", 1, 10, 60),
    ("docs:a.md#linux", "docs:a.md", 2, 30, 60),
    ("docs:a.md#setup-more", "docs:a.md", 1, 60, 100),
]
CHUNKS = [
    ("c-root", "root@x", "T1", "message", 0, 50),
    ("c-root-file", "root@x", "T1", "attachment", None, None),
    ("c-reply", "reply@x", "T1", "message", 0, 50),
    ("c-other", "other@x", "T2", "message", 0, 9),
    ("c-intro", "docs:a.md", "docs:a.md", "document", 0, 10),
    ("c-setup", "docs:a.md", "docs:a.md", "document", 15, 30),
    ("c-linux", "docs:a.md", "docs:a.md", "document", 35, 60),
    ("c-more", "docs:a.md", "docs:a.md", "document", 65, 100),
]
CHAT = [("c-chat", "chat:1", "chat:1", "conversation", 0, 9)]


def contents(chat: bool = False) -> Contents:
    rows = CHUNKS + (CHAT if chat else [])
    names = ["chunk_id", "doc_id", "thread_id", "source_kind", "byte_start", "byte_end"]
    chunks = pl.DataFrame(rows, schema=names, orient="row")
    others = {row[1]: row[2] for row in rows if row[1] not in MAILS}
    documents = MAILS | others
    return Contents(
        chunks,
        pl.DataFrame({"doc_id": list(documents), "thread_id": list(documents.values())}),
        pl.DataFrame({"message_id": [*MAILS, "ghost@x"], "thread_id": [*MAILS.values(), "T2"]}),
        pl.DataFrame(
            NODES, schema=["node_id", "doc_id", "depth", "heading_start", "byte_end"], orient="row"
        ),
        pl.DataFrame({"doc_id": ["docs:a.md"], "text": ["é" * 20 + "the exact words" + "." * 45]}),
        pl.DataFrame(
            {
                "chunk_id": ["c-chat"] if chat else [],
                "text": ["well, I said (so)."] if chat else [],
            },
            schema={"chunk_id": pl.String, "text": pl.String},
        ),
    )


def judged(entries: str, chat: bool = False) -> Judgements:
    truth = parse_ground_truth(f"queries: [{{id: q, query: x, relevant: [{entries}]}}]", "f")
    return judgements(pl.from_arrow(truth.relevance), contents(chat))


def grades(found: Judgements, level: str) -> dict[str, int]:
    rows = found.grades.filter(level=level)
    return dict(zip(rows["item"], rows["grade"], strict=True))


ALL_A = {"c-intro": 1, "c-setup": 1, "c-linux": 1, "c-more": 1}
CASES = {
    "a mail is all its chunks": (
        "{message: root@x, grade: 2}",
        {"c-root": 2, "c-root-file": 2},
        {"root@x": 2},
        {"T1": 2},
    ),
    "a mail without chunks is still an answer": (
        "{message: quotes@x}",
        {},
        {"quotes@x": 1},
        {"T1": 1},
    ),
    "a thread is all its mails": (
        "{thread: root@x}",
        {"c-root": 1, "c-root-file": 1, "c-reply": 1},
        {"root@x": 1, "reply@x": 1, "quotes@x": 1},
        {"T1": 1},
    ),
    "a thread may be named by a mail that no archive holds": (
        "{thread: ghost@x}",
        {"c-other": 1},
        {"other@x": 1},
        {"T2": 1},
    ),
    "a mail that is listed itself is not graded by its thread": (
        "{thread: root@x, grade: 2}, {message: reply@x, grade: 1}, {message: quotes@x, grade: 0}",
        {"c-root": 2, "c-root-file": 2, "c-reply": 1},
        {"root@x": 2, "reply@x": 1, "quotes@x": 0},
        {"T1": 2},
    ),
    "a document is all its chunks": (
        "{document: 'docs:a.md'}",
        ALL_A,
        {"docs:a.md": 1},
        {"docs:a.md": 1},
    ),
    "a section and what is below it": (
        "{node: 'docs:a.md#setup'}",
        {"c-setup": 1, "c-linux": 1},
        {"docs:a.md": 1},
        {"docs:a.md": 1},
    ),
    "a slug that begins like another is another": (
        "{node: 'docs:a.md#setup-more'}",
        {"c-more": 1},
        {"docs:a.md": 1},
        {"docs:a.md": 1},
    ),
    "a deeper section that is listed decides": (
        "{node: 'docs:a.md#setup', grade: 1}, {node: 'docs:a.md#linux', grade: 2}, {document: 'docs:a.md', grade: 0}",
        {"c-intro": 0, "c-setup": 1, "c-linux": 2, "c-more": 0},
        {"docs:a.md": 2},
        {"docs:a.md": 2},
    ),
    "a chunk": ("{chunk: c-linux, grade: 3}", {"c-linux": 3}, {"docs:a.md": 3}, {"docs:a.md": 3}),
    "a passage is the chunks that hold a part of it": (
        "{passage: the exact words, document: 'docs:a.md'}",
        {"c-linux": 1},
        {"docs:a.md": 1},
        {"docs:a.md": 1},
    ),
    "what is not there stays an answer": (
        "{message: gone@x}, {node: 'docs:gone.md#a'}, {document: 'docs:gone.md', grade: 2}, {chunk: gone}",
        {},
        {"gone@x": 1, "docs:gone.md": 2, "gone": 1},
        {"gone@x": 1, "docs:gone.md": 2, "gone": 1},
    ),
    "a heading that is gone leaves its document": (
        "{node: 'docs:a.md#gone'}",
        {},
        {"docs:a.md": 1},
        {"docs:a.md": 1},
    ),
}


@pytest.mark.parametrize(
    ("entries", "chunks", "documents", "threads"), CASES.values(), ids=list(CASES)
)
def test_what_entries_mean(entries: str, chunks: dict, documents: dict, threads: dict):
    found = judged(entries)
    assert grades(found, "chunk") == chunks
    assert grades(found, "document") == documents
    assert grades(found, "thread") == threads


def test_chat_is_left_out_where_no_conversation_is_published():
    found = judged("{message: other@x}, {chat: I said (so)}")
    assert found.entries["status"].to_list() == ["found", "unanswerable"]
    assert grades(found, "document") == {"other@x": 1}


def test_chat_is_the_chunk_that_holds_the_words():
    found = judged("{chat: I said (so)}, {chat: never said}", chat=True)
    assert found.entries["status"].to_list() == ["found", "missing"]
    assert grades(found, "chunk") == {"c-chat": 1}
    assert grades(found, "document") == {"chat:1": 1, "never said": 1}


def test_entries_know_their_chunks_and_passages_their_bytes():
    found = judged(
        "{node: 'docs:a.md#setup', topic: t}, {passage: the exact words, document: 'docs:a.md'}"
    )
    assert found.entries.select("topic", "status").rows() == [("t", "found"), (None, "found")]
    assert found.entries["chunk_ids"].to_list() == [["c-setup"], ["c-linux"]]
    assert found.passages.rows() == [("q", "docs:a.md", 40, 55)]
