"""Measures of blocks: what covers a part, whose tokens count, what is left out."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.evaluation.blocks import ShownPassage, block_measures, parts_of
from transforms.evaluation.judgements import Judgements

EMPTY = pl.DataFrame()


def passage(chunks: str, tokens: int = 10) -> ShownPassage:
    return ShownPassage(frozenset(chunks), tokens)


@pytest.mark.parametrize(
    ("shown", "parts", "coverage", "precision"),
    [
        ([], ["ab"], 0.0, 0.0),
        ([passage("a")], ["ab", "c"], 0.5, 1.0),
        ([passage("ac")], ["ab", "c"], 1.0, 1.0),
        ([passage("a", 10), passage("x", 30)], ["ab"], 1.0, 0.25),
        ([passage("a")], ["a", ""], 0.5, 1.0),
    ],
)
def test_a_part_is_covered_by_any_of_its_chunks(
    shown: list[ShownPassage], parts: list[str], coverage: float, precision: float
):
    measures = block_measures(shown, [frozenset(part) for part in parts], 50, 200)
    assert measures == (coverage, precision, 0.25)


def test_parts_are_topics_and_what_the_index_cannot_hold_is_left_out():
    rows = [
        ("q", 0, "one", "found", ["a"], 2), ("q", 1, "one", "found", ["b"], 1), ("q", 2, "two", "missing", [], 1),
        ("q", 3, None, "found", ["c"], 1), ("q", 4, None, "found", ["x"], 0), ("r", 0, None, "unanswerable", [], 2),
    ]  # fmt: skip
    names = ["query_id", "entry", "topic", "status", "chunk_ids", "grade"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        pl.col("chunk_ids").cast(pl.List(pl.String))
    )
    judged = Judgements(EMPTY, frame.drop("grade"), EMPTY)
    found = parts_of(frame.select("query_id", "entry", "grade"), judged)
    assert found == {"q": [frozenset("ab"), frozenset(), frozenset("c")]}
