"""Measures of ranked lists: per query, summarised by tag, compared between profiles, and how sure a
mean is.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.errors import not_installed
from transforms.evaluation import metrics
from transforms.evaluation.judgements import LEVELS, Judgements
from transforms.evaluation.metrics import BINARY, COVERAGE, MEASURES, PASSAGE_MEASURES, DocumentSpan
from transforms.retrieval.pipeline import in_order

CONFIDENCE = 0.95
"""Level of every interval that is reported."""

_RESAMPLES = 4000
_SEED = 20250328
_CELLS_AT_ONCE = 1 << 23


class Interval(NamedTuple):
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float


def wilson(hits: int, count: int) -> Interval:
    """The interval of a proportion by Wilson's score (1927); (0, 0, 1) for a count of 0.

    >>> [round(end, 3) for end in wilson(9, 10)]
    [0.9, 0.596, 0.982]
    """
    if not count:
        return Interval(0.0, 0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    share = hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = (
        z
        / (1 + z * z / count)
        * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    )
    return Interval(share, min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))


def bootstrap(values: np.ndarray) -> Interval:
    """The interval of a mean by the expanded percentile bootstrap, the same for the same values.

    The percentiles are moved out as a t interval is wider than a normal one, without which small
    samples cover too little (Hesterberg 2015, "What Teachers Should Know About the Bootstrap").
    One value has the interval from minus to plus infinity; none is an error of the caller.
    """
    count = len(values)
    if count < 2:
        return Interval(float(values[0]), -math.inf, math.inf)
    tail = _expanded_tail(count)
    low, high = np.quantile(_resampled_means(values), [tail, 1 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def paired_difference(first: np.ndarray, second: np.ndarray) -> tuple[Interval, float]:
    """How much better `second` is than `first` on the same queries, and the p-value of no
    difference.

    The interval is that of `bootstrap` over the differences. The p-value is that of Fisher's
    randomisation test, two-sided, over random signs of the differences (Smucker, Allan and
    Carterette 2007), counted with the observed signs among them, so that it is never 0.
    """
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    interval, observed = bootstrap(differences), abs(differences.sum())
    if not differences.any():
        return interval, 1.0
    beyond = 0
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS_AT_ONCE // len(differences))
    for start in range(0, _RESAMPLES, step):
        signs = random.integers(
            0, 2, (min(step, _RESAMPLES - start), len(differences)), dtype=np.int8
        )
        sums = np.abs((2.0 * signs - 1) @ differences)
        beyond += int((sums >= observed * (1 - 1e-12)).sum())
    return interval, (beyond + 1) / (_RESAMPLES + 1)


def _resampled_means(values: np.ndarray) -> np.ndarray:
    """Means of samples drawn with replacement; the same draws for every sample of one size."""
    count = len(values)
    if count <= 2000:
        return _draws(count) @ np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(_SEED)
    step = max(1, _CELLS_AT_ONCE // count)
    blocks = [
        values[random.integers(0, count, (min(step, _RESAMPLES - start), count))].mean(axis=1)
        for start in range(0, _RESAMPLES, step)
    ]
    return np.concatenate(blocks)


@lru_cache(maxsize=16)
def _draws(count: int) -> np.ndarray:
    """How often each of `count` values is drawn, over `count`: float32 of shape (resamples, count)."""
    random = np.random.default_rng(_SEED)
    picked = random.integers(0, count, (_RESAMPLES, count))
    rows = np.arange(_RESAMPLES)[:, None] * count
    times = np.bincount((picked + rows).ravel(), minlength=_RESAMPLES * count)
    return (times.reshape(_RESAMPLES, count) / count).astype(np.float32)


def _expanded_tail(count: int) -> float:
    """The share of bootstrap means below the interval; SettingsError if the extra `evaluation` is
    not installed.
    """
    try:
        from scipy.special import stdtrit
    except ImportError as error:
        raise not_installed(error, "evaluation") from error
    t = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2))
    return NormalDist().cdf(-math.sqrt(count / (count - 1)) * t)


MAIN = ("final", "document")
"""The stage and level that profiles are compared by."""

HEADLINE = "nDCG@10"
FEWEST = 5
"""Queries below which a bootstrap knows too little to give an interval."""
_LEVEL_COLUMN = {"document": "doc_id", "thread": "thread_id", "chunk": "chunk_id"}

QUALITY = {"profile": pl.String, "stage": pl.String, "level": pl.String, **metrics.PER_QUERY}
"""Columns of `quality`."""


def quality(
    runs: pl.DataFrame,
    judgements: Judgements,
    spans: pl.DataFrame,
    budget: int,
    profiles: Iterable[str],
) -> pl.DataFrame:
    """Every measure of every query with judgements, profile, stage and level: the columns QUALITY.

    `runs` is `schemas.EVALUATION_RUNS`; `spans` has chunk_id, doc_id, byte_start and byte_end.
    Coverage and passages are measured on the chunks of a list, and only for queries that have them.
    A profile that found nothing has 0.
    """
    queries = judgements.grades.filter(pl.col("grade") > 0)["query_id"].unique().sort().to_list()
    topics, columns = _topics(judgements), ("doc_id", "byte_start", "byte_end")
    groups = groups_by(judgements.passages, "query_id")
    passages = {
        query: [DocumentSpan(*s) for s in rows.select(columns).rows()] for (query,), rows in groups
    }
    span_rows = spans.select("chunk_id", "doc_id", "byte_start", "byte_end").rows()
    spans_by_chunk = {chunk_id: DocumentSpan(*span) for chunk_id, *span in span_rows}
    grades = {level: grades_of(judgements, level) for level in LEVELS}
    frames = [pl.DataFrame(schema=QUALITY)]
    for profile, stage, ranking in _stage_lists(runs, profiles):
        chunks = _lists(ranking, "chunk_id")
        for level in LEVELS:
            measured = metrics.query_measures(_lists(ranking, _LEVEL_COLUMN[level]), grades[level])
            frames.append(_marked(measured, profile, stage, level))
        extra = [
            (query, COVERAGE, metrics.coverage(topics[query], chunks.get(query, [])))
            for query in queries
            if query in topics
        ]
        for query, passage_spans in passages.items():
            retrieved = [spans_by_chunk[c] for c in chunks.get(query, []) if c in spans_by_chunk]
            score = metrics.passage_score(passage_spans, retrieved, budget)
            extra += [
                (query, name, value) for name, value in zip(PASSAGE_MEASURES, score, strict=True)
            ]
        frame = pl.DataFrame(extra, schema=metrics.PER_QUERY, orient="row")
        frames.append(_marked(frame, profile, stage, "chunk"))
    return pl.concat(frames)


def document_quality(
    runs: pl.DataFrame, judgements: Judgements, profiles: Iterable[str]
) -> pl.DataFrame:
    """MEASURES of every query with judgements and profile by MAIN alone: the columns QUALITY."""
    grades = grades_of(judgements, MAIN[1])
    frames = [
        _marked(metrics.query_measures(_lists(ranking, "doc_id"), grades), profile, *MAIN)
        for profile, stage, ranking in _stage_lists(runs.filter(stage=MAIN[0]), profiles)
    ]
    return pl.concat([pl.DataFrame(schema=QUALITY), *frames])


def _stage_lists(
    runs: pl.DataFrame, profiles: Iterable[str]
) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Profile, stage and rows of each list that a profile makes, and of the final one where nothing
    was found.
    """
    by_key = {
        (profile, stage): ranking
        for (profile, stage), ranking in groups_by(runs, "profile", "stage")
    }
    stages = stages_of(runs, profiles)
    for profile in sorted(profiles):
        for stage in stages[profile]:
            yield profile, stage, by_key.get((profile, stage), runs.clear())


def stages_of(runs: pl.DataFrame, profiles: Iterable[str]) -> dict[str, list[str]]:
    """The stages whose lists each profile makes, in its order, the final one always.

    A stage that a profile switches off is not there: it lost nothing.
    """
    present = set(runs.select("profile", "stage").unique().iter_rows())
    return {
        name: in_order({MAIN[0]} | {stage for profile, stage in present if profile == name})
        for name in sorted(profiles)
    }


def summary(values: pl.DataFrame, tags: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Means with intervals: one row per profile, stage, level and measure, and per tag for MAIN.

    `tags` has the tags of each query. Rows have profile, stage, level, tag (null for all queries),
    measure, queries, mean, low and high; low and high are null if there are fewer than FEWEST
    queries.
    """
    main = values.filter(stage=MAIN[0], level=MAIN[1])
    frames: list[tuple[str | None, pl.DataFrame]] = [(None, values)]
    for name in sorted({tag for query_tags in tags.values() for tag in query_tags}):
        tagged = [query for query, query_tags in tags.items() if name in query_tags]
        frames.append((name, main.filter(pl.col("query_id").is_in(tagged))))
    key = ("profile", "stage", "level", "measure")
    return [
        _row(names, tag, group["value"].to_numpy())
        for tag, frame in frames
        for names, group in groups_by(frame, *key)
    ]


def comparisons(values: pl.DataFrame, baseline: str, others: Iterable[str]) -> list[dict[str, Any]]:
    """How much better each of `others` is than `baseline` by MAIN, on the queries both were
    measured with.

    Rows have baseline, profile, measure, queries, difference, low, high, p_value, won and lost (ids
    of queries whose value rose or fell).
    """
    main = values.filter(stage=MAIN[0], level=MAIN[1])
    rows = []
    for profile in others:
        for measure in MEASURES:
            first, second = (
                main.filter(profile=p, measure=measure).select("query_id", "value")
                for p in (baseline, profile)
            )
            both = first.join(second, on="query_id", suffix="_of").sort("query_id")
            if both.is_empty():
                continue
            a, b = both["value"].to_numpy(), both["value_of"].to_numpy()
            result, p_value = paired_difference(a, b)
            ids = both["query_id"].to_numpy()
            rows.append(
                {
                    "baseline": baseline,
                    "profile": profile,
                    "measure": measure,
                    "queries": len(ids),
                    "difference": json_number(result.mean),
                    "low": json_number(result.low),
                    "high": json_number(result.high),
                    "p_value": json_number(p_value),
                    "won": ids[b > a + 1e-9].tolist(),
                    "lost": ids[b < a - 1e-9].tolist(),
                }
            )
    return rows


def _topics(judgements: Judgements) -> dict[str, dict[str, set[str]]]:
    """Chunks of each topic of each query; an entry without a topic is one of its own."""
    topics: dict[str, dict[str, set[str]]] = {}
    answerable = judgements.entries.filter(
        (pl.col("grade") > 0) & (pl.col("status") != "unanswerable")
    )
    for row in answerable.iter_rows(named=True):
        name = row["topic"] or f"entry {row['entry']}"
        topics.setdefault(row["query_id"], {}).setdefault(name, set()).update(row["chunk_ids"])
    return topics


def grades_of(judgements: Judgements, level: str) -> dict[str, dict[str, int]]:
    groups = groups_by(judgements.grades.filter(level=level), "query_id")
    return {query: dict(rows.select("item", "grade").rows()) for (query,), rows in groups}


def _lists(ranking: pl.DataFrame, column: str) -> dict[str, list[str]]:
    by_query = (
        ranking.sort("query_id", "rank").group_by("query_id", maintain_order=True).agg(column)
    )
    return dict(zip(by_query["query_id"], by_query[column].to_list(), strict=True))


def _marked(frame: pl.DataFrame, profile: str, stage: str, level: str) -> pl.DataFrame:
    marks = {"profile": profile, "stage": stage, "level": level}
    columns = [pl.lit(value).alias(name) for name, value in marks.items()]
    return frame.select(*columns, *metrics.PER_QUERY).cast(QUALITY)  # type: ignore[arg-type]


def groups_by(frame: pl.DataFrame, *columns: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Groups in the order of their keys."""
    return sorted(frame.group_by(*columns, maintain_order=True), key=lambda pair: pair[0])


def _row(key: tuple[str, ...], tag: str | None, values: np.ndarray) -> dict[str, Any]:
    profile, stage, level, measure = key
    if measure in BINARY:
        interval = wilson(int(values.sum()), len(values))
    elif len(values) >= FEWEST:
        interval = bootstrap(values)
    else:
        interval = Interval(float(values.mean()), math.nan, math.nan)
    return {
        "profile": profile,
        "stage": stage,
        "level": level,
        "tag": tag,
        "measure": measure,
        "queries": len(values),
        "mean": json_number(interval.mean),
        "low": json_number(interval.low),
        "high": json_number(interval.high),
    }


def json_number(value: Any) -> float | None:
    """A number that JSON can hold, with the digits that mean something."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)
