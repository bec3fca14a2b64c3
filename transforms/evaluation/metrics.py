"""Measures of a ranked list against graded judgements, one value per query and measure; and of a
block of context.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from transforms.errors import not_installed
from transforms.evaluation.judgements import Judgements

_NAMES = {
    "nDCG@10": "nDCG@10",
    "MRR@10": "RR@10",
    "Recall@5": "R@5",
    "Recall@10": "R@10",
    "Recall@100": "R@100",
    "Precision@5": "P@5",
    "Hit@10": "Success@10",
}
"""The names that ir-measures has for the measures."""
MEASURES = tuple(_NAMES)
"""Measures of ranked items; Hit@10 is 1 where one of the first ten is right, else 0."""

BINARY = frozenset({"Hit@10"})
"""Measures that are 0 or 1 for each query, so that their mean is a proportion."""

PASSAGE_MEASURES = ("passage recall", "passage precision", "passage IoU")
COVERAGE = "Coverage@10"
DEPTH = 100
"""Items of a ranked list that any measure looks at."""

PER_QUERY = {"query_id": pl.String, "measure": pl.String, "value": pl.Float64}
"""Columns of `query_measures`."""


class DocumentSpan(NamedTuple):
    """A half-open range of a document, in any one unit of length."""

    document: str
    start: int
    end: int


class PassageScore(NamedTuple):
    """Recall, precision and intersection over union of retrieved text."""

    recall: float
    precision: float
    iou: float


def query_measures(
    runs: Mapping[str, Sequence[str]], judgements: Mapping[str, Mapping[str, int]]
) -> pl.DataFrame:
    """MEASURES of every query with judgements: columns PER_QUERY, in the order of `judgements`.

    `runs` has each query's items, best first; of an item that comes twice the first place counts.
    `judgements` has the grades of right items; grade 0 is wrong. A query without a run has 0
    everywhere. The values are those of ir-measures. It orders by score, so its input is the
    position in the list, as scores might tie. SettingsError if the extra `evaluation` is not
    installed.
    """
    try:
        import ir_measures
    except ImportError as error:
        raise not_installed(error, "evaluation") from error

    measures = {ir_measures.parse_measure(text): name for name, text in _NAMES.items()}
    judged = {
        query: grades for query, grades in judgements.items() if any(g > 0 for g in grades.values())
    }
    run = [
        ir_measures.ScoredDoc(query, item, -float(position))
        for query in judged
        for position, item in enumerate(list(dict.fromkeys(runs.get(query, ())))[:DEPTH])
    ]
    right = [
        ir_measures.Qrel(query, item, grade)
        for query in judged
        for item, grade in judged[query].items()
    ]
    values = {
        (m.query_id, measures[m.measure]): float(m.value)
        for m in ir_measures.iter_calc(list(measures), right, run)
    }
    rows = [(query, name, values.get((query, name), 0.0)) for query in judged for name in MEASURES]
    return pl.DataFrame(rows, schema=PER_QUERY, orient="row")


def coverage(
    topics: Mapping[str, Collection[str]], ranked: Sequence[str], depth: int = 10
) -> float:
    """Share of topics that one of the first `depth` items belongs to; `topics` has the items of
    each.
    """
    first = set(ranked[:depth])
    return sum(not first.isdisjoint(items) for items in topics.values()) / len(topics)


def passage_score(
    relevant: Sequence[DocumentSpan], ranked: Sequence[DocumentSpan], budget: int
) -> PassageScore:
    """How much of the relevant text the first `budget` units of length of the ranked spans hold.

    Spans are taken in order until the budget is full, the last one cut to fit. Repeated text
    costs twice and counts once.
    """
    retrieved, room = [], budget
    for span in ranked:
        if room <= 0:
            break
        end = min(span.end, span.start + room)
        retrieved.append(DocumentSpan(span.document, span.start, end))
        room -= end - span.start
    spent = max(budget - room, 1)
    size = _length(relevant)
    shared = size + _length(retrieved) - _length([*relevant, *retrieved])
    return PassageScore(shared / size, shared / spent, shared / (size + spent - shared))


def _length(spans: Sequence[DocumentSpan]) -> int:
    """The length of the text that spans hold, each part of it once."""
    total, last = 0, DocumentSpan("", 0, 0)
    for span in sorted(spans):
        start = max(span.start, last.end) if span.document == last.document else span.start
        total += max(0, span.end - start)
        last = DocumentSpan(span.document, start, max(start, span.end))
    return total


class ShownPassage(NamedTuple):
    """A passage of a block: the chunks whose bytes it shows, and its tokens."""

    chunks: frozenset[str]
    tokens: int


class BlockMeasures(NamedTuple):
    """coverage: share of the parts with a shown right passage; precision: share of the passages'
    tokens that are of right ones, 0 of an empty block; budget: share of the budget that is used.
    """

    coverage: float
    precision: float
    budget: float


def judged_parts(relevance: pl.DataFrame, judged: Judgements) -> dict[str, list[frozenset[str]]]:
    """By query the right chunks of each of its parts: entries of one topic, and all entries without
    one together.

    `relevance` is `schemas.EVALUATION_RELEVANCE`. An entry that the index does not hold is a part
    that cannot be covered; one of a kind that it holds nothing of is left out, and so is a query of
    such entries alone.
    """
    grades = relevance.select("query_id", pl.col("entry").cast(pl.Int64), "grade")
    entries = judged.entries.filter(pl.col("status") != "unanswerable").join(
        grades, on=["query_id", "entry"]
    )
    parts = (
        entries.filter(pl.col("grade") > 0)
        .group_by("query_id", pl.col("topic").fill_null(""), maintain_order=True)
        .agg(pl.col("chunk_ids"))
    )
    by_query: dict[str, list[frozenset[str]]] = {}
    for query_id, _, chunks in parts.iter_rows():
        by_query.setdefault(query_id, []).append(frozenset().union(*chunks))
    return by_query


def block_measures(
    passages: Sequence[ShownPassage], parts: Sequence[Collection[str]], tokens: int, budget: int
) -> BlockMeasures:
    """The measures of a block of so many tokens under a budget; `parts` are not empty.

    >>> passages = [ShownPassage(frozenset("a"), 30), ShownPassage(frozenset("x"), 10)]
    >>> block_measures(passages, [{"a", "b"}, {"c"}], 50, 100)
    BlockMeasures(coverage=0.5, precision=0.75, budget=0.5)
    """
    chunks = frozenset[str]().union(*(passage.chunks for passage in passages))
    right = frozenset[str]().union(*parts)
    covered = sum(not chunks.isdisjoint(part) for part in parts) / len(parts)
    all_tokens = sum(passage.tokens for passage in passages)
    of_right = sum(passage.tokens for passage in passages if not right.isdisjoint(passage.chunks))
    return BlockMeasures(covered, of_right / all_tokens if all_tokens else 0.0, tokens / budget)
