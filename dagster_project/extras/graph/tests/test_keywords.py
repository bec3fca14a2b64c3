"""Keywords of trees: read from their lists, computed where there is none, found in chunks."""

from typing import Any

import pyarrow as pa
import pytest

from dagster_project.extras.graph.transforms.keywords import chunk_keywords, keywords, list_folder
from tests.documents import read
from transforms.settings.search import TermSettings

LIST = """# Keywords

| Term | Type | Count | Score |
|------|:----:|------:|------:|
| segment | single | 73 | 73.000 |
| GROUP BY | compound | 22 | 33.5 |
| `wal_sync` | compound | 2 | 4 |
| a \\| b | compound | 1 | 1.5 |
"""
PAGES = {
    "a.md": "# Write-ahead log\n\nThe write-ahead log is cut. A torn record ends the write-ahead log.",
    "b.md": "# Records\n\nA torn record is no record. Torn records are kept: see https://torn.example/record.",
    "c.md": "# Other\n\nThe store and the compactor, the compactor and the store, and the compactor.",
}


def rows(files: dict[str, str], **settings: Any) -> list[dict[str, Any]]:
    documents = read(dict(files)).documents
    return keywords(documents, TermSettings(), **settings).to_pylist()


def scores(files: dict[str, str], **settings: Any) -> dict[str, float]:
    return {row["keyword"]: row["score"] for row in rows(files, **settings)}


def found(files: dict[str, str], **texts: str) -> dict[str, list[str]]:
    """The keywords of one chunk of each document, whose text is given by the document's path."""
    documents = read(dict(files)).documents
    words = keywords(documents, TermSettings())
    ids = [f"s:{path.replace('__', '/')}.md" for path in texts]
    chunks = pa.table(
        {"chunk_id": list(texts), "doc_id": ids, "text_display": list(texts.values())}
    )
    made: dict[str, list[str]] = {}
    for row in chunk_keywords(chunks, documents, words, TermSettings()).to_pylist():
        made.setdefault(row["chunk_id"], []).append(row["keyword"])
    return made


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("_keywords/words.md", ""),
        ("a/b/_keywords/words.md", "a/b"),
        ("words.md", None),
        ("a_keywords/words.md", None),
    ],
)
def test_a_list_belongs_to_the_folder_it_stands_in(path: str, folder: str | None):
    assert list_folder(path) == folder


def test_a_list_is_read_as_it_stands():
    made = rows({"_keywords/words.md": LIST, "a.md": PAGES["a.md"] * 3})
    assert [(r["keyword"], r["count"], r["score"], r["origin"]) for r in made] == [
        ("segment", 73, 73.0, "list"),
        ("GROUP BY", 22, 33.5, "list"),
        ("wal_sync", 2, 4.0, "list"),
        ("a | b", 1, 1.5, "list"),
    ]


def test_scores_are_count_times_heading_times_kind_times_rarity():
    made = scores(PAGES)
    # In one page of three: not rare. In a title, so 1.5; a compound, so 1.5 again.
    assert made["write-ahead log"] == 3 * 1.5 * 1.5
    assert made["torn record"] == 3 * 1.0 * 1.5
    assert made["compactor"] == 3


def test_words_inside_compounds_function_words_and_addresses_do_not_count():
    made = {word.lower() for word in scores(PAGES)}
    assert not made & {"write-ahead", "log", "torn", "the", "and", "https", "example"}


def test_rare_terms_count_more():
    pages = {f"{n}.md": "Plain text about nothing much." for n in range(20)}
    assert scores({**pages, "x.md": "zebra, zebra; zebra"})["zebra"] == 3 * 2.0


def test_lists_of_questions_are_no_pages():
    assert scores({"qa-pairs.md": "Q: zebra zebra, zebra, zebra?\nA: zebra"}) == {}


def test_the_best_are_kept():
    assert len(rows(PAGES, most=2)) == 2
    assert rows(PAGES, most=0) == []


def test_order_of_documents_changes_nothing():
    assert rows(PAGES) == rows(dict(reversed(PAGES.items())))


def test_chunks_have_the_keywords_that_stand_in_them():
    files = {"_keywords/words.md": LIST, "a.md": "x", "b.md": "x"}
    made = found(
        files,
        a="Two segments, one `wal_sync`, and a\ngroup, by day.",
        b="GROUP by tag; segmentation",
    )
    assert made == {"a": ["segment", "wal_sync"], "b": ["segment", "GROUP BY"]}


def test_the_nearest_list_holds():
    other = LIST.replace("segment", "bucket")
    files = {
        "_keywords/words.md": LIST,
        "in/_keywords/words.md": other,
        "in/deep/a.md": "x",
        "b.md": "x",
    }
    made = found(files, in__deep__a="segment bucket", b="segment bucket")
    assert made == {"in__deep__a": ["bucket"], "b": ["segment"]}
