"""How good a block of context is: parts of the question covered, tokens of right passages, budget used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import polars as pl

from transforms.evaluation.judgements import Judgements


class ShownPassage(NamedTuple):
    """A passage of a block: the chunks whose bytes it shows, and its tokens."""

    chunks: frozenset[str]
    tokens: int


class BlockMeasures(NamedTuple):
    """coverage: share of the parts of which a right passage is shown; precision: share of the passages' tokens that are of
    right ones, 0 of an empty block; budget: share of the budget that is used."""

    coverage: float
    precision: float
    budget: float


def parts_of(relevance: pl.DataFrame, judged: Judgements) -> dict[str, list[frozenset[str]]]:
    """By query the right chunks of each of its parts: entries of one topic, and all entries without one together.

    `relevance` is `schemas.EVALUATION_RELEVANCE`. An entry that the index does not hold is a part that cannot be
    covered; one of a kind that it holds nothing of is left out, and so is a query of such entries alone.
    """
    grades = relevance.select("query_id", pl.col("entry").cast(pl.Int64), "grade")
    entries = judged.entries.filter(pl.col("status") != "unanswerable").join(grades, on=["query_id", "entry"])
    parts = (
        entries.filter(pl.col("grade") > 0)
        .group_by("query_id", pl.col("topic").fill_null(""), maintain_order=True)
        .agg(pl.col("chunk_ids"))
    )
    found: dict[str, list[frozenset[str]]] = {}
    for query_id, _, chunks in parts.iter_rows():
        found.setdefault(query_id, []).append(frozenset().union(*chunks))
    return found


def block_measures(
    shown: Sequence[ShownPassage], parts: Sequence[Collection[str]], tokens: int, budget: int
) -> BlockMeasures:
    """The measures of a block of so many tokens under a budget; `parts` are not empty.

    >>> passages = [ShownPassage(frozenset("a"), 30), ShownPassage(frozenset("x"), 10)]
    >>> block_measures(passages, [{"a", "b"}, {"c"}], 50, 100)
    BlockMeasures(coverage=0.5, precision=0.75, budget=0.5)
    """
    seen = frozenset[str]().union(*(passage.chunks for passage in shown))
    right = frozenset[str]().union(*parts)
    covered = sum(not seen.isdisjoint(part) for part in parts) / len(parts)
    all_tokens = sum(passage.tokens for passage in shown)
    of_right = sum(passage.tokens for passage in shown if not right.isdisjoint(passage.chunks))
    return BlockMeasures(covered, of_right / all_tokens if all_tokens else 0.0, tokens / budget)
