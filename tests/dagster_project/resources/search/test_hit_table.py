"""What hits say of a built index: their citations, their highlighted bytes, what is shown with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dagster_project.resources.search.opened_index import open_index
from dagster_project.resources.search.search_index import SearchIndex
from tests.archives import Workspace
from transforms.schemas.search import SEARCH_HITS
from transforms.text.terms import stems

QUERY = "how does the compactor keep its pace"


@pytest.fixture(scope="module")
def index(built_once: Workspace) -> Iterator[SearchIndex]:
    opened = open_index(built_once.settings)
    yield opened
    opened.close()


def hits(index: SearchIndex, **changed: Any) -> list[dict[str, Any]]:
    before, index.settings = index.settings, index.settings.model_copy(update=changed)
    try:
        return index.search([QUERY]).hits.to_pylist()
    finally:
        index.settings = before


def body(index: SearchIndex, message_id: str) -> bytes:
    ((text,),) = index.connection.execute(
        "SELECT body FROM messages WHERE message_id = ?", [message_id]
    ).fetchall()
    return text.encode()


def test_hits_have_the_declared_columns_and_bytes_that_hold_the_highlighted_words(index: SearchIndex):
    found = index.search([QUERY]).hits
    assert found.schema.equals(SEARCH_HITS.arrow)
    wanted = set(stems(QUERY.split(), index.term_settings))
    for hit in found.to_pylist():
        stored = body(index, hit["doc_id"])
        shown = [hit["snippet"][a:b] for a, b in hit["highlights"]]
        assert [stored[p["byte_start"] : p["byte_end"]].decode() for p in hit["highlight_bytes"]] == shown
        assert set(stems([w.lower() for w in shown], index.term_settings)) <= wanted
        assert hit["citation"] == (
            f"{hit['doc_id']} block {hit['block_index']} bytes {hit['byte_start']}-{hit['byte_end']}"
        )
        assert 0 <= hit["support"] <= 1
    assert found["highlights"][0].as_py()


def test_expansions_are_one_step_away_bounded_and_hold_the_cited_bytes(index: SearchIndex):
    plain = hits(index)
    found = hits(index, expand=("parent", "neighbours", "section", "links"), expand_chars=30)
    assert [h["chunk_id"] for h in found] == [h["chunk_id"] for h in plain]
    assert all(h["expansions"] == [] for h in plain)
    parents = dict(index.connection.execute("SELECT message_id, parent_id FROM thread_tree").fetchall())
    shown = [(hit, near) for hit in found for near in hit["expansions"]]
    assert {near["kind"] for _, near in shown} >= {"parent", "section"}
    for hit, near in shown:
        assert len(near["text"]) <= 30
        assert body(index, near["doc_id"])[near["byte_start"] : near["byte_end"]].decode() == near["text"]
        assert near["citation"].endswith(f"bytes {near['byte_start']}-{near['byte_end']}")
        if near["kind"] == "parent":
            assert near["doc_id"] == parents[hit["doc_id"]]


def test_a_thread_is_shown_once_and_names_the_mails_it_stands_for(index: SearchIndex):
    plain, found = hits(index, limit=50), hits(index, limit=50, collapse_threads=True)
    assert len({h["thread_id"] for h in found}) == len(found) < len(plain)
    stood_for = [c["doc_id"] for h in found for c in h["constituents"]]
    assert sorted([*stood_for, *(h["doc_id"] for h in found)]) == sorted(h["doc_id"] for h in plain)
    assert {c["reason"] for h in found for c in h["constituents"]} == {"a better hit of the same thread"}
