"""Runs and judgements to a report: quality per profile, stage, level and tag, and what became of each query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from transforms.evaluation import losses, metrics
from transforms.evaluation.intervals import CONFIDENCE, Interval, bootstrap, paired_difference, wilson
from transforms.evaluation.judgements import LEVELS, Judgements
from transforms.evaluation.metrics import BINARY, COVERAGE, MEASURES, PASSAGE_MEASURES, Span
from transforms.retrieval.labels import LABELS, NOTHING
from transforms.retrieval.pipeline import STAGES
from transforms.settings.evaluation import EvaluationSettings

FORMAT = 3
"""Version of the report."""

MAIN = ("final", "document")
"""The stage and level that profiles are compared by."""

HEADLINE = "nDCG@10"
FEWEST = 5
"""Queries below which a bootstrap knows too little to give an interval."""

SHOWN_HITS = 10
SHOWN_RIGHT = 30
_NEARLY_ALL = 0.8
_LONG_THREAD, _MANY_ATTACHMENTS = 20, 3
_LEVEL_COLUMN = {"document": "doc_id", "thread": "thread_id", "chunk": "chunk_id"}

QUALITY = {"profile": pl.String, "stage": pl.String, "level": pl.String, **metrics.PER_QUERY}
"""Columns of `quality`."""


def quality(
    runs: pl.DataFrame, judged: Judgements, spans: pl.DataFrame, budget: int, profiles: Iterable[str]
) -> pl.DataFrame:
    """Every measure of every judged query, profile, stage and level: the columns QUALITY.

    `runs` is `schemas.EVALUATION_RUNS`; `spans` has chunk_id, doc_id, byte_start and byte_end.
    Coverage and passages are measured on the chunks of a list, and only for queries that have them.
    A profile that found nothing has 0.
    """
    queries = judged.grades.filter(pl.col("grade") > 0)["query_id"].unique().sort().to_list()
    topics, passages = _topics(judged), _passages(judged)
    named = spans.select("chunk_id", "doc_id", "byte_start", "byte_end").rows()
    places = {chunk_id: Span(*place) for chunk_id, *place in named}
    grades = {level: _grades(judged, level) for level in LEVELS}
    parts = [pl.DataFrame(schema=QUALITY)]
    for profile, stage, listed in _stage_lists(runs, profiles):
        chunks = _lists(listed, "chunk_id")
        for level in LEVELS:
            measured = metrics.measured(_lists(listed, _LEVEL_COLUMN[level]), grades[level])
            parts.append(_marked(measured, profile, stage, level))
        extra = [
            (query, COVERAGE, metrics.coverage(topics[query], chunks.get(query, [])))
            for query in queries
            if query in topics
        ]
        for query, wanted in passages.items():
            ranked = [places[c] for c in chunks.get(query, []) if c in places]
            score = metrics.passage_score(wanted, ranked, budget)
            extra += [(query, name, value) for name, value in zip(PASSAGE_MEASURES, score, strict=True)]
        frame = pl.DataFrame(extra, schema=metrics.PER_QUERY, orient="row")
        parts.append(_marked(frame, profile, stage, "chunk"))
    return pl.concat(parts)


def document_quality(runs: pl.DataFrame, judged: Judgements, profiles: Iterable[str]) -> pl.DataFrame:
    """MEASURES of every judged query and profile by MAIN alone: the columns QUALITY."""
    grades = _grades(judged, MAIN[1])
    parts = [
        _marked(metrics.measured(_lists(listed, "doc_id"), grades), profile, *MAIN)
        for profile, stage, listed in _stage_lists(runs.filter(stage=MAIN[0]), profiles)
    ]
    return pl.concat([pl.DataFrame(schema=QUALITY), *parts])


def _stage_lists(runs: pl.DataFrame, profiles: Iterable[str]) -> Iterator[tuple[str, str, pl.DataFrame]]:
    """Profile, stage and rows of each list that a profile makes, and of the final one where nothing was found."""
    by_key = {(profile, stage): listed for (profile, stage), listed in _by(runs, "profile", "stage")}
    made = stages_of(runs, profiles)
    for profile in sorted(profiles):
        for stage in made[profile]:
            yield profile, stage, by_key.get((profile, stage), runs.clear())


def stages_of(runs: pl.DataFrame, profiles: Iterable[str]) -> dict[str, list[str]]:
    """The stages whose lists each profile makes, in the order of STAGES, the final one always.

    A stage that a profile switches off is not there: it lost nothing.
    """
    known = set(runs.select("profile", "stage").unique().iter_rows())
    return {name: [s for s in STAGES if s == MAIN[0] or (name, s) in known] for name in sorted(profiles)}


def summary(values: pl.DataFrame, tags: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Means with intervals: one row per profile, stage, level and measure, and per tag for MAIN.

    `tags` has the tags of each query. Rows have profile, stage, level, tag (null for all queries),
    measure, queries, mean, low and high; low and high are null where there are fewer than FEWEST queries.
    """
    rows = [
        _row(profile, stage, level, measure, None, group["value"].to_numpy())
        for (profile, stage, level, measure), group in _by(values, "profile", "stage", "level", "measure")
    ]
    names = sorted({tag for given in tags.values() for tag in given})
    main = values.filter(stage=MAIN[0], level=MAIN[1])
    for tag in names:
        tagged = [query for query, given in tags.items() if tag in given]
        for (profile, measure), group in _by(
            main.filter(pl.col("query_id").is_in(tagged)), "profile", "measure"
        ):
            rows.append(_row(profile, *MAIN, measure, tag, group["value"].to_numpy()))
    return rows


def comparisons(values: pl.DataFrame, baseline: str, others: Iterable[str]) -> list[dict[str, Any]]:
    """How much better each of `others` is than `baseline` by MAIN, on the queries both were measured with.

    Rows have baseline, profile, measure, queries, difference, low, high, p_value, won and lost (ids of
    queries whose value rose or fell).
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
            found = paired_difference(a, b)
            ids = both["query_id"].to_numpy()
            rows.append(
                {
                    "baseline": baseline,
                    "profile": profile,
                    "measure": measure,
                    "queries": len(ids),
                    "difference": _round(found.mean),
                    "low": _round(found.low),
                    "high": _round(found.high),
                    "p_value": _round(found.p_value),
                    "won": ids[b > a + 1e-9].tolist(),
                    "lost": ids[b < a - 1e-9].tolist(),
                }
            )
    return rows


def derived_tags(judged: Judgements, facts: pl.DataFrame) -> dict[str, list[str]]:
    """Tags that follow from the best right answers of a query (the sets that seed 000 asks for).

    `short-reply`: one is too short to be understood alone; `patch-review`: one comments on a patch;
    `long-debate`: one stands in a thread of 20 mails or more; `attachment-heavy`: one stands in a
    thread with three attachments or more. `facts` has a row per chunk, see `retrieved_measures`.
    """
    right = judged.grades.filter((pl.col("level") == "chunk") & (pl.col("grade") > 0))
    best = right.filter(pl.col("grade") == pl.col("grade").max().over("query_id"))
    joined = best.join(facts, left_on="item", right_on="chunk_id")
    tagged = joined.group_by("query_id").agg(
        pl.col("needs_parent").any().alias("short-reply"),
        ((pl.col("chunk_kind") == "review_pair") & pl.col("has_patch_markers")).any().alias("patch-review"),
        (pl.col("thread_size") >= _LONG_THREAD).any().alias("long-debate"),
        (pl.col("thread_attachments") >= _MANY_ATTACHMENTS).any().alias("attachment-heavy"),
    )
    names = [name for name in tagged.columns if name != "query_id"]
    return {row["query_id"]: [n for n in names if row[n]] for row in tagged.iter_rows(named=True)}


def retrieved_measures(runs: pl.DataFrame, facts: pl.DataFrame) -> dict[str, Any]:
    """Shares that seed 000 asks for: of the chunks of the index, and of the first ten fused ones of a query.

    `facts` has chunk_id, chunk_kind, needs_parent, has_patch_markers, quote_share (quoted characters :
    all), checksum (of the embedded text), thread_size and thread_attachments. `duplicates` is the share of
    chunks whose text stands above them in the same list already.
    """

    def shares(frame: pl.DataFrame) -> dict[str, float | None]:
        found = frame.select(
            pl.col("needs_parent").mean().alias("needs_parent"),
            (pl.col("quote_share") > _NEARLY_ALL).mean().alias("nearly_all_quote"),
        )
        return {name: _round(found[name][0]) for name in found.columns}

    first = runs.filter((pl.col("stage") == "fused") & (pl.col("rank") <= SHOWN_HITS))
    shown = first.join(facts, on="chunk_id").sort("profile", "query_id", "rank")
    again = shown.with_columns(
        again=pl.col("checksum").is_first_distinct().over("profile", "query_id").not_()
    )
    profiles = {
        profile: {**shares(group), "duplicates": _round(group["again"].mean())}
        for (profile,), group in _by(again, "profile")
    }
    return {"index": {"chunks": facts.height, **shares(facts)}, "retrieved": profiles}


def report(
    queries: pl.DataFrame,
    judged: Judgements,
    runs: pl.DataFrame,
    contents: pl.DataFrame,
    facts: pl.DataFrame,
    settings: EvaluationSettings,
    profiles: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Everything that an evaluation found, ready for JSON; the same input gives the same report.

    `queries` is `schemas.EVALUATION_QUERIES`, `contents` the chunks of `judgements.Contents`, `facts` that
    of `retrieved_measures`, `profiles` what each profile changes, the baseline first.
    """
    values = quality(runs, judged, contents.drop_nulls("byte_start"), settings.passage_bytes, profiles)
    derived = derived_tags(judged, facts)
    tags = {
        row["query_id"]: list(dict.fromkeys([*row["tags"], *derived.get(row["query_id"], [])]))
        for row in queries.iter_rows(named=True)
    }
    baseline, *others = profiles
    answerable = set(judged.grades.filter(pl.col("grade") > 0)["query_id"])
    right = judged.grades.filter((pl.col("level") == MAIN[1]) & (pl.col("grade") > 0))
    lost = losses.losses(runs, right.select("query_id", doc_id="item"), stages_of(runs, profiles))
    return {
        "format": FORMAT,
        "order": list(profiles),
        "profiles": {name: dict(changed) for name, changed in profiles.items()},
        "stages": [s for s in STAGES if s in set(runs["stage"])],
        "stages_of": stages_of(runs, profiles),
        "measures": [*MEASURES, COVERAGE, *(PASSAGE_MEASURES if judged.passages.height else ())],
        "confidence": CONFIDENCE,
        "labels": _label_counts(runs, answerable, profiles),
        "losses": losses.counts(lost, profiles),
        "corpus": retrieved_measures(runs, facts),
        "summary": summary(values, tags),
        "comparisons": comparisons(values, baseline, others),
        "queries": _query_reports(queries, judged, runs, values, lost, tags),
        "not_measured": sorted(set(queries["query_id"]) - answerable),
        "entries": _entry_counts(judged),
    }


def joined_reports(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two reports as one with the profiles `before` and `after`: the baseline of each, on common queries.

    `before` is measured by the report's own values; queries that only one of them has are listed under
    `not_measured`. A query whose right answers changed is compared as it was judged each time.
    """
    names = ("before", "after")
    sides = dict(zip(names, (first, second), strict=True))
    by_id = {n: {q["id"]: q for q in side["queries"]} for n, side in sides.items()}
    common = sorted(set(by_id["before"]) & set(by_id["after"]))
    baselines = {n: side["order"][0] for n, side in sides.items()}
    merged = []
    for query_id in common:
        after = by_id["after"][query_id]
        results = {n: by_id[n][query_id]["results"][baselines[n]] for n in names}
        merged.append({**after, "results": results})
    rows = [
        (name, *MAIN, query["id"], measure, value)
        for query in merged
        for name in names
        for measure, value in query["results"][name]["measures"].items()
    ]
    values = pl.DataFrame(rows, schema=QUALITY, orient="row")
    return {
        **second,
        "order": list(names),
        "profiles": {n: side["profiles"][baselines[n]] for n, side in sides.items()},
        "stages_of": {n: side["stages_of"][baselines[n]] for n, side in sides.items()},
        "labels": {n: side["labels"][baselines[n]] for n, side in sides.items()},
        "losses": {n: side["losses"][baselines[n]] for n, side in sides.items()},
        "summary": summary(values, {q["id"]: q["tags"] for q in merged}),
        "comparisons": comparisons(values, "before", ["after"]),
        "queries": merged,
        "not_measured": sorted(set(by_id["before"]) ^ set(by_id["after"])),
        "corpus": {
            "index": second["corpus"]["index"],
            "retrieved": {n: side["corpus"]["retrieved"].get(baselines[n], {}) for n, side in sides.items()},
        },
        "texts": {
            kind: {**first["texts"][kind], **second["texts"][kind]} for kind in ("documents", "chunks")
        },
        "timing": {
            "made_at": second["timing"]["made_at"],
            "latency": {n: side["timing"]["latency"].get(baselines[n], {}) for n, side in sides.items()},
        },
    }


def _query_reports(
    queries: pl.DataFrame,
    judged: Judgements,
    runs: pl.DataFrame,
    values: pl.DataFrame,
    lost: pl.DataFrame,
    tags: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """One entry per measured query: its values, hits and what became of its right answers in each profile."""
    gone: dict[tuple[str, str], dict[str, list[str]]] = {}
    for profile, query, doc, stage, reason in lost.iter_rows():
        gone.setdefault((query, profile), {})[doc] = [stage, reason]
    grades = _grades(judged, "document")
    chunk_grades = _grades(judged, "chunk")
    measured: dict[str, dict[str, dict[str, float]]] = {}
    main = values.filter((pl.col("stage") == MAIN[0]) & pl.col("level").is_in([MAIN[1], "chunk"]))
    kept = main.filter((pl.col("level") == MAIN[1]) | ~pl.col("measure").is_in(MEASURES))
    for row in kept.iter_rows(named=True):
        of_query = measured.setdefault(row["query_id"], {}).setdefault(row["profile"], {})
        of_query[row["measure"]] = _round(row["value"]) or 0.0
    lists: dict[tuple[str, str], dict[str, pl.DataFrame]] = {}
    for (query, profile, stage), group in _by(runs, "query_id", "profile", "stage"):
        lists.setdefault((query, profile), {})[stage] = group.sort("rank")
    made = []
    for row in queries.iter_rows(named=True):
        query_id = row["query_id"]
        right = {d: g for d, g in grades.get(query_id, {}).items() if g > 0}
        if not right:
            continue
        shown = sorted(right, key=lambda d: (-right[d], d))[:SHOWN_RIGHT]
        results = {}
        for profile, values_of in measured.get(query_id, {}).items():
            stages = lists.get((query_id, profile), {})
            results[profile] = {
                "label": stages["final"]["label"][0] if "final" in stages else NOTHING,
                "measures": values_of,
                "hits": _hits(stages, right, chunk_grades.get(query_id, {})),
                "places": {doc: _places(stages, doc) for doc in shown},
                "lost": {doc: why for doc, why in gone.get((query_id, profile), {}).items() if doc in shown},
            }
        made.append(
            {
                "id": query_id,
                "query": row["query"],
                "tags": list(tags[query_id]),
                "is_draft": row["is_draft"],
                "right": {doc: right[doc] for doc in shown},
                "right_count": len(right),
                "results": results,
            }
        )
    return made


def _hits(
    stages: Mapping[str, pl.DataFrame], right: Mapping[str, int], chunk_grades: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The first hits with their grades and their place and score in each earlier stage."""
    if "final" not in stages:
        return []
    earlier = {
        stage: {c: (r, _round(s)) for c, r, s in frame.select("chunk_id", "rank", "score").rows()}
        for stage, frame in stages.items()
        if stage != "final"
    }
    return [
        {
            "rank": row["rank"],
            "doc_id": row["doc_id"],
            "chunk_id": row["chunk_id"],
            "grade": right.get(row["doc_id"], 0),
            "chunk_grade": chunk_grades.get(row["chunk_id"], 0),
            "score": _round(row["score"]),
            "similarity": _round(row["similarity"]),
            "stages": {stage: found.get(row["chunk_id"]) for stage, found in earlier.items()},
        }
        for row in stages["final"].head(SHOWN_HITS).iter_rows(named=True)
    ]


def _places(stages: Mapping[str, pl.DataFrame], doc: str) -> dict[str, int | None]:
    """The place of a document among the distinct documents of each stage's list; None where it is not."""
    made = {}
    for stage, frame in stages.items():
        documents = frame["doc_id"].unique(maintain_order=True).to_list()
        made[stage] = documents.index(doc) + 1 if doc in documents else None
    return made


def _label_counts(
    runs: pl.DataFrame, queries: set[str], profiles: Iterable[str]
) -> dict[str, dict[str, int]]:
    """How many queries have each label, by profile."""
    first = runs.filter((pl.col("stage") == "final") & (pl.col("rank") == 1))
    made = {}
    for profile in sorted(profiles):
        found = dict(first.filter(profile=profile).select("query_id", "label").iter_rows())
        labels = [found.get(query, NOTHING) for query in sorted(queries)]
        made[profile] = {label: labels.count(label) for label in LABELS}
    return made


def _entry_counts(judged: Judgements) -> dict[str, Any]:
    """How many entries there are by form and status, and those that were not found."""
    counted = judged.entries.group_by("form", "status").len().sort("form", "status")
    lost = judged.entries.filter(pl.col("status") == "missing")
    return {
        "counts": [dict(zip(("form", "status", "entries"), row, strict=True)) for row in counted.iter_rows()],
        "missing": [
            {"query": q, "form": f, "target": t or s}
            for q, f, t, s in lost.select("query_id", "form", "target", "text").iter_rows()
        ],
    }


def _topics(judged: Judgements) -> dict[str, dict[str, set[str]]]:
    """Chunks of each topic of each query; an entry without a topic is one of its own."""
    made: dict[str, dict[str, set[str]]] = {}
    kept = judged.entries.filter((pl.col("grade") > 0) & (pl.col("status") != "unanswerable"))
    for row in kept.iter_rows(named=True):
        name = row["topic"] or f"entry {row['entry']}"
        made.setdefault(row["query_id"], {}).setdefault(name, set()).update(row["chunk_ids"])
    return made


def _passages(judged: Judgements) -> dict[str, list[Span]]:
    made: dict[str, list[Span]] = {}
    for row in judged.passages.iter_rows(named=True):
        span = Span(row["doc_id"], row["byte_start"], row["byte_end"])
        made.setdefault(row["query_id"], []).append(span)
    return made


def _grades(judged: Judgements, level: str) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    for query, item, grade in (
        judged.grades.filter(level=level).select("query_id", "item", "grade").iter_rows()
    ):
        made.setdefault(query, {})[item] = grade
    return made


def _lists(listed: pl.DataFrame, column: str) -> dict[str, list[str]]:
    grouped = listed.sort("query_id", "rank").group_by("query_id", maintain_order=True).agg(column)
    return dict(zip(grouped["query_id"], grouped[column].to_list(), strict=True))


def _marked(frame: pl.DataFrame, profile: str, stage: str, level: str) -> pl.DataFrame:
    marks = {"profile": profile, "stage": stage, "level": level}
    return frame.select(*(pl.lit(v).alias(n) for n, v in marks.items()), *metrics.PER_QUERY).cast(QUALITY)  # type: ignore[arg-type]


def _by(frame: pl.DataFrame, *columns: str) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Groups in the order of their keys."""
    return sorted(frame.group_by(*columns, maintain_order=True), key=lambda pair: pair[0])


def _row(
    profile: str, stage: str, level: str, measure: str, tag: str | None, values: np.ndarray
) -> dict[str, Any]:
    if measure in BINARY:
        found = wilson(int(values.sum()), len(values))
    elif len(values) >= FEWEST:
        found = bootstrap(values)
    else:
        found = Interval(float(values.mean()), math.nan, math.nan)
    return {
        "profile": profile,
        "stage": stage,
        "level": level,
        "tag": tag,
        "measure": measure,
        "queries": len(values),
        "mean": _round(found.mean),
        "low": _round(found.low),
        "high": _round(found.high),
    }


def _round(value: Any) -> float | None:
    """A number that JSON can hold, with the digits that mean something."""
    return None if value is None or not math.isfinite(value) else round(float(value), 6)
