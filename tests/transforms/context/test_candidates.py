"""Dedup, diversity and order of candidates, after the tests of the egregora design."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from transforms.context.candidates import (
    deduplicate,
    drop_similar,
    order_documents,
    strategy_queries,
    telling_terms,
)
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import TermSettings

FOUND = pl.DataFrame(
    [
        {"document_id": "post-123", "similarity": 0.90, "content": "chunk 0"},
        {"document_id": "post-123", "similarity": 0.85, "content": "chunk 1"},
        {"document_id": "post-456", "similarity": 0.88, "content": "chunk 0"},
        {"document_id": "post-456", "similarity": 0.82, "content": "chunk 1"},
    ]
)


def test_one_chunk_of_each_document():
    assert deduplicate(FOUND, n=1).select("document_id", "similarity").rows() == [
        ("post-123", 0.90),
        ("post-456", 0.88),
    ]


def test_two_chunks_of_each_document():
    three = pl.DataFrame({"document_id": ["post-123"] * 3, "similarity": [0.80, 0.90, 0.85]})
    assert deduplicate(three, n=2)["similarity"].to_list() == [0.90, 0.85]


def test_a_candidate_without_document_is_kept_and_one_without_similarity_is_last():
    rows = pl.DataFrame(
        {
            "chunk_id": ["a", "b", "c", "d"],
            "document_id": [None, None, "x", "x"],
            "similarity": [0.5, 0.4, None, -0.3],
        }
    )
    assert deduplicate(rows, n=1)["chunk_id"].to_list() == ["a", "b", "d"]
    assert deduplicate(rows, n=2)["chunk_id"].to_list() == ["a", "b", "d", "c"]


def test_a_chunk_that_two_queries_found_counts_once():
    rows = pl.DataFrame(
        {"chunk_id": ["a", "a", "b"], "document_id": ["x"] * 3, "similarity": [0.7, 0.9, 0.5]}
    )
    assert deduplicate(rows, n=2).rows() == [("a", "x", 0.9), ("b", "x", 0.5)]


def test_no_candidates_make_none():
    assert deduplicate(FOUND.clear()).is_empty()


def found(rows: list[tuple[int, str, float]]) -> pl.DataFrame:
    """Candidates of one window: query, document (one chunk each) and score."""
    return pl.DataFrame(
        [
            {"window_id": "w", "query": q, "chunk_id": d, "document_id": d, "similarity": s, "score": s}
            for q, d, s in rows
        ]
    )


THREE_TOPICS = found(
    [
        (0, "paris-1", 0.9), (0, "paris-2", 0.89), (0, "paris-3", 0.88),
        (1, "paris-1", 0.5), (1, "bug-1", 0.6), (1, "bug-2", 0.5),
        (2, "recipe-1", 0.55), (2, "recipe-2", 0.5),
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("pick", "first"),
    [
        ("score", ["paris-1", "paris-2", "paris-3"]),
        ("coverage", ["paris-1", "recipe-1", "bug-1"]),
        ("mmr", ["paris-1", "bug-1", "recipe-1"]),
    ],
)
def test_who_comes_first_by_each_way_of_picking(pick: str, first: list[str]):
    topics = {"paris": [1.0, 0, 0], "bug": [0, 1.0, 0], "recipe": [0, 0, 1.0]}
    vectors = {c: np.array(topics[c.split("-")[0]]) for c in THREE_TOPICS["chunk_id"]}
    settings = ContextSettings(pick=pick)  # type: ignore[arg-type]
    made = order_documents(THREE_TOPICS, deduplicate(THREE_TOPICS), settings, vectors)
    assert made["chunk_id"].to_list()[:3] == first
    assert made["place"].to_list() == list(range(1, 8))


def test_the_order_does_not_depend_on_the_order_of_the_rows():
    settings = ContextSettings(pick="coverage")
    shuffled = THREE_TOPICS.sample(fraction=1.0, shuffle=True, seed=3)
    one, other = (order_documents(rows, deduplicate(rows), settings) for rows in (THREE_TOPICS, shuffled))
    assert one["chunk_id"].to_list() == other["chunk_id"].to_list()


def test_near_equal_texts_are_left_out_whatever_their_document():
    rows = found([(0, "a", 0.9), (0, "b", 0.8), (0, "c", 0.7)])
    vectors = {"a": np.array([1.0, 0]), "b": np.array([0.999, 0.045]), "c": np.array([0, 1.0])}
    assert drop_similar(rows, vectors, 0.95)["chunk_id"].to_list() == ["a", "c"]


@pytest.mark.parametrize(
    ("strategy", "small", "large"),
    [
        ("window", [-1], [-1]),
        ("chunks", [0, 1], [0, 1]),
        ("hybrid", [-1, 0, 1], [-1, 0, 1]),
        ("adaptive", [-1], [0, 1]),
        ("adaptive_tokens", [-1], [0, 1]),
        ("off", [], []),
    ],
)
def test_which_queries_a_window_makes(strategy: str, small: list[int], large: list[int]):
    windows = pl.DataFrame({"doc_id": ["l", "s"], "message_count": [101, 100], "text": ["all", "all"]})
    chunks = pl.DataFrame(
        {
            "doc_id": ["l", "l", "s", "s"],
            "chunk_index": [0, 1, 0, 1],
            "token_count": [1800, 1, 1700, 100],
            "text": ["a", "b", "c", "d"],
        }
    )
    made = strategy_queries(windows, chunks, ContextSettings(strategy=strategy))  # type: ignore[arg-type]
    assert made.filter(pl.col("window_id") == "s")["query"].to_list() == small
    assert made.filter(pl.col("window_id") == "l")["query"].to_list() == large


def test_telling_terms_are_frequent_here_and_rare_elsewhere():
    made = telling_terms(
        ["the heron the heron the gauge level", ""],
        {"the": 990, "heron": 2, "gaug": 40, "level": 900},
        1000,
        2,
        ["the"],
        TermSettings(),
    )
    assert made.rows() == [(0, "heron"), (0, "gaug")]
