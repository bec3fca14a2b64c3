"""Dedup, diversity and order of candidates, after the tests of the egregora design."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

from transforms.context.candidates import (
    borne_out,
    deduplicate,
    in_stretches,
    order_documents,
    strangers,
    strategy_queries,
    telling_terms,
    worth,
)
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import SearchSettings, TermSettings


def found(rows: list[tuple[int, str, float]]) -> pl.DataFrame:
    """Candidates of one window: query, document (one chunk each) and score."""
    frame = pl.DataFrame(rows, schema=["query", "chunk_id", "score"], orient="row")
    return frame.with_columns(window_id=pl.lit("w"), document_id="chunk_id", similarity="score")


@pytest.mark.parametrize(
    ("rows", "n", "kept"),
    [
        ([("a", "x", 0.9), ("b", "x", 0.85), ("c", "y", 0.88), ("d", "y", 0.82)], 1, ["a", "c"]),
        ([("a", "x", 0.8), ("b", "x", 0.9), ("c", "x", 0.85)], 2, ["b", "c"]),
        (
            [("a", None, 0.5), ("b", None, 0.4), ("c", "x", None), ("d", "x", -0.3)],
            1,
            ["a", "b", "d"],
        ),
        (
            [("a", None, 0.5), ("b", None, 0.4), ("c", "x", None), ("d", "x", -0.3)],
            2,
            ["a", "b", "d", "c"],
        ),
        ([("a", "x", 0.7), ("a", "x", 0.9), ("b", "x", 0.5)], 2, ["a", "b"]),
    ],
)
def test_what_is_left_of_each_document(rows: list[tuple], n: int, kept: list[str]):
    frame = pl.DataFrame(rows, schema=["chunk_id", "document_id", "score"], orient="row")
    frame = frame.with_columns(window_id=pl.lit("w"))
    assert deduplicate(frame, n)["chunk_id"].to_list() == kept
    assert deduplicate(frame.clear()).is_empty()


THREE_TOPICS = found(
    [
        (0, "paris-1", 0.9),
        (0, "paris-2", 0.89),
        (0, "paris-3", 0.88),
        (1, "paris-1", 0.5),
        (1, "bug-1", 0.6),
        (1, "bug-2", 0.5),
        (2, "recipe-1", 0.55),
        (2, "recipe-2", 0.5),
    ]
)


@pytest.mark.parametrize(
    ("pick", "first"),
    [("score", ["paris-1", "paris-2", "paris-3"]), ("coverage", ["paris-1", "recipe-1", "bug-1"])],
)
def test_who_comes_first_by_each_way_of_picking(pick: str, first: list[str]):
    settings = ContextSettings(pick=pick)  # type: ignore[arg-type]
    shuffled = THREE_TOPICS.sample(fraction=1.0, shuffle=True, seed=3)
    made, other = (
        order_documents(rows, deduplicate(rows), settings) for rows in (THREE_TOPICS, shuffled)
    )
    assert made["chunk_id"].to_list()[:3] == first
    assert made["place"].to_list() == list(range(1, 8))
    assert made["chunk_id"].to_list() == other["chunk_id"].to_list()


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
    windows = pl.DataFrame(
        {"doc_id": ["l", "s"], "message_count": [101, 100], "text": ["all", "all"]}
    )
    counts = {"chunk_index": [0, 1, 0, 1], "token_count": [1800, 1, 1700, 100]}
    chunks = pl.DataFrame({"doc_id": list("llss"), "text": list("abcd"), **counts})
    made = strategy_queries(windows, chunks, ContextSettings(strategy=strategy))  # type: ignore[arg-type]
    assert made.filter(pl.col("window_id") == "s")["query"].to_list() == small
    assert made.filter(pl.col("window_id") == "l")["query"].to_list() == large


def test_telling_terms_are_frequent_here_and_rare_elsewhere():
    made = telling_terms(
        ["the heron the heron the gauge level", ""],
        {"the": 990, "heron": 2, "gaug": 40, "level": 900}.__getitem__,
        1000,
        2,
        ["the"],
        TermSettings(),
    )
    assert made.rows() == [(0, "heron"), (0, "gaug")]


def test_turns_that_answer_together_stand_above_a_single_one_and_bring_those_between():
    rows = [
        ("chat", n, n, score, False, 0.0, 150 * n)
        for n, score in ((1, 0.8), (20, 0.7), (22, 0.7), (24, 0.7))
    ]
    rows += [("chat", 50, None, 0.9, True, 1.0, 2_250), ("page", 51, None, 0.6, False, 0.5, 0)]
    names = ["document_id", "chunk_no", "turn", "score", "is_segment", "near", "byte_start"]
    found = pl.DataFrame(rows, schema=names, orient="row")
    found = found.with_columns(
        row=pl.lit(0),
        byte_end=pl.col("byte_start") + pl.when("is_segment").then(2_250).otherwise(90),
    )
    numbers = list(range(30))
    turns = pl.DataFrame({"document_id": ["chat"] * 30, "turn": numbers, "chunk_no": numbers})
    turns = turns.with_columns(byte_start=150 * pl.col("turn"), byte_end=150 * pl.col("turn") + 90)
    best = in_stretches(found, turns).sort("score", "chunk_no", descending=[True, False])
    assert best["chunk_no"].to_list()[:4] == [22, 21, 23, 20] and best["score"].max() == 0.8
    assert {1, 50} & {*best["chunk_no"]} == set()
    assert best.filter(document_id="page")["near"].to_list() == [0.5]


@pytest.mark.parametrize(("gap", "is_there"), [(900, True), (1_100, False)])
def test_a_turn_far_away_in_bytes_is_not_of_the_stretch(gap: int, is_there: bool):
    turns = pl.DataFrame({"document_id": "chat", "turn": [0, 1], "chunk_no": [0, 1]})
    turns = turns.with_columns(
        byte_start=pl.Series([0, 10 + gap]), byte_end=pl.Series([10, 20 + gap])
    )
    found = turns.head(1).with_columns(row=0, score=0.5, is_segment=False, near=1.0)
    assert (1 in in_stretches(found, turns)["chunk_no"]) == is_there


def test_a_long_passage_counts_by_what_its_tokens_show():
    found = pl.DataFrame({"score": 0.8, "near": [1.0, 1.0, 0.5], "byte_start": 0})
    found = found.with_columns(byte_end=pl.Series([100, 9_600, 2_400]))
    assert worth(found)["score"].to_list() == pytest.approx([0.8, 0.2, 0.4])


@pytest.mark.parametrize(
    ("searched", "evidence", "near"),
    [
        (0, [0.42, 0.22, 0.2], [1, 0.5, 0]),
        (200, [0.41, 0.22, 0.2], [0, 0, 0]),
        (2_000, [0.52, 0.43, 0.22, 0.2], [1, 1, 0.5, 0]),
        (20_000, [0.52, 0.43, 0.22, 0.2], [0] * 4),
        (20_000, [0.6] * 9 + [0.22], [1] * 9 + [0.5]),
        (1_000_000, [0.5] * 8 + [0.2] * 9, [0] * 17),
        (1_000_000, [0.65, 0.2], [1, 0]),
    ],
)
def test_the_more_chunks_were_searched_the_more_opens_a_query(
    searched: int, evidence: list, near: list
):
    found = pl.DataFrame({"row": 1, "evidence": evidence})
    assert (
        borne_out(found, [7, searched], SearchSettings(label_weak=0.42))["near"].to_list() == near
    )


STRANGERS = [
    ("mail", "a", "message", 1),
    ("notes", "b", "document", 30),
    ("notes", "c", "document", None),
    ("mail", "d", "message", 3),
    ("chat", "e", "conversation", 90),
]


@pytest.mark.parametrize(
    ("kept", "linked", "pairs"),
    [
        ("abcde", [], {"ab", "ac", "bd", "cd"}),
        ("abcde", [("b", "a"), ("x", "c")], {"ac", "bd", "cd"}),
        ("bce", [], {"bc"}),
        ("adx", [], set()),
    ],
    ids=["no chat, not of one week", "no link", "of one source", "none"],
)
def test_pairs_that_tell_nothing_of_each_other(
    kept: str, linked: list[tuple[str, str]], pairs: set[str]
):
    rows = [row for row in STRANGERS if row[1] in kept]
    facts = [
        {
            "source": source,
            "doc_id": doc_id,
            "source_kind": kind,
            "effective_at": days and datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=days),
        }
        for source, doc_id, kind, days in rows
    ]
    chosen = strangers(facts, linked)
    found = [{rows[a][1] + rows[b][1] for a, b in np.argwhere(choice)} for choice in chosen]
    assert found[:-1] == ([pairs] if pairs else [])
