"""Runs and judgements to a report: quality per profile, stage, level and tag, and where right
answers got lost.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from transforms.evaluation import quality
from transforms.evaluation.judgements import Judgements
from transforms.evaluation.metrics import COVERAGE, MEASURES, PASSAGE_MEASURES
from transforms.retrieval.explanation import INDEPENDENT
from transforms.retrieval.labels import LABELS, NOTHING
from transforms.retrieval.pipeline import STAGES

_NEARLY_ALL = 0.8
_PASSAGE_BYTES = 5000
"""Bytes of retrieved text that passages are looked for in."""
FORMAT = 3
"""Version of the report."""

SHOWN_HITS = 10
SHOWN_RIGHT = 30
_LONG_THREAD, _MANY_ATTACHMENTS = 20, 3


def derived_tags(judgements: Judgements, facts: pl.DataFrame) -> dict[str, list[str]]:
    """Tags that follow from the best right answers of a query (the query sets of pginbox).

    `short-reply`: one is too short to be understood alone; `patch-review`: one comments on a patch;
    `long-debate`: one is in a thread of 20 mails or more; `attachment-heavy`: one is in a
    thread with three attachments or more. `facts` has a row per chunk, see `retrieved_measures`.
    """
    right = judgements.grades.filter((pl.col("level") == "chunk") & (pl.col("grade") > 0))
    best = right.filter(pl.col("grade") == pl.col("grade").max().over("query_id"))
    right_facts = best.join(facts, left_on="item", right_on="chunk_id")
    tagged = right_facts.group_by("query_id").agg(
        pl.col("needs_parent").any().alias("short-reply"),
        ((pl.col("chunk_kind") == "review_pair") & pl.col("has_patch_markers"))
        .any()
        .alias("patch-review"),
        (pl.col("thread_size") >= _LONG_THREAD).any().alias("long-debate"),
        (pl.col("thread_attachments") >= _MANY_ATTACHMENTS).any().alias("attachment-heavy"),
    )
    names = [name for name in tagged.columns if name != "query_id"]
    return {row["query_id"]: [n for n in names if row[n]] for row in tagged.iter_rows(named=True)}


def retrieved_measures(runs: pl.DataFrame, facts: pl.DataFrame) -> dict[str, Any]:
    """Shares that pginbox asks for: of the chunks of the index, and of the first ten fused ones of
    a query.

    `facts` has chunk_id, chunk_kind, needs_parent, has_patch_markers, quote_share (quoted
    characters : all), checksum (of the embedded text), thread_size and thread_attachments.
    `duplicates` is the share of chunks whose text is above them in the same list already.
    """

    def shares(frame: pl.DataFrame) -> dict[str, float | None]:
        means = frame.select(
            pl.col("needs_parent").mean().alias("needs_parent"),
            (pl.col("quote_share") > _NEARLY_ALL).mean().alias("nearly_all_quote"),
        )
        return {name: quality.json_number(means[name][0]) for name in means.columns}

    first = runs.filter((pl.col("stage") == "fused") & (pl.col("rank") <= SHOWN_HITS))
    hits = first.join(facts, on="chunk_id").sort("profile", "query_id", "rank")
    with_repeats = hits.with_columns(
        again=pl.col("checksum").is_first_distinct().over("profile", "query_id").not_()
    )
    profiles = {
        profile: {**shares(group), "duplicates": quality.json_number(group["again"].mean())}
        for (profile,), group in quality.groups_by(with_repeats, "profile")
    }
    return {"index": {"chunks": facts.height, **shares(facts)}, "retrieved": profiles}


class Evaluation(NamedTuple):
    """The inputs of a report.

    queries: `schemas.EVALUATION_QUERIES`. judgements: the right answers in the index. runs:
    `schemas.EVALUATION_RUNS`. contents: the chunks of `judgements.Contents`. facts: a row per
    chunk, see `retrieved_measures`.
    """

    queries: pl.DataFrame
    judgements: Judgements
    runs: pl.DataFrame
    contents: pl.DataFrame
    facts: pl.DataFrame


def report(
    evaluation: Evaluation,
    profiles: Mapping[str, Mapping[str, Any]],
    passage_bytes: int = _PASSAGE_BYTES,
) -> dict[str, Any]:
    """The evaluation report, ready for JSON; the same input gives the same report.

    `profiles` has the settings that each profile changes, the baseline first; `passage_bytes` is
    the budget of retrieved text in which passages are searched.
    """
    queries, judgements, runs, contents, facts = evaluation
    values = quality.quality(
        runs, judgements, contents.drop_nulls("byte_start"), passage_bytes, profiles
    )
    derived = derived_tags(judgements, facts)
    tags = {
        row["query_id"]: list(dict.fromkeys([*row["tags"], *derived.get(row["query_id"], [])]))
        for row in queries.iter_rows(named=True)
    }
    baseline, *others = profiles
    answerable = set(judgements.grades.filter(pl.col("grade") > 0)["query_id"])
    right = judgements.grades.filter((pl.col("level") == quality.MAIN[1]) & (pl.col("grade") > 0))
    lost = losses(runs, right.select("query_id", doc_id="item"), quality.stages_of(runs, profiles))
    return {
        "format": FORMAT,
        "order": list(profiles),
        "profiles": {name: dict(changed) for name, changed in profiles.items()},
        "stages": [s for s in STAGES if s in set(runs["stage"])],
        "stages_of": quality.stages_of(runs, profiles),
        "measures": [
            *MEASURES,
            COVERAGE,
            *(PASSAGE_MEASURES if judgements.passages.height else ()),
        ],
        "confidence": quality.CONFIDENCE,
        "labels": _label_counts(runs, answerable, profiles),
        "losses": counts(lost, profiles),
        "corpus": retrieved_measures(runs, facts),
        "summary": quality.summary(values, tags),
        "comparisons": quality.comparisons(values, baseline, others),
        "queries": _query_reports(queries, judgements, runs, values, lost, tags),
        "not_measured": sorted(set(queries["query_id"]) - answerable),
        "entries": _entry_counts(judgements),
    }


def before_and_after(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two reports as one with the profiles `before` and `after`: the baseline of each, on common
    queries.

    `before` is measured by the report's own values; queries that only one of them has are listed
    under `not_measured`. A query whose right answers changed is compared as it was judged each
    time.
    """
    names = ("before", "after")
    sides = dict(zip(names, (first, second), strict=True))
    by_id = {n: {q["id"]: q for q in side["queries"]} for n, side in sides.items()}
    common = sorted(set(by_id["before"]) & set(by_id["after"]))
    baselines = {n: side["order"][0] for n, side in sides.items()}
    queries: list[dict[str, Any]] = []
    for query_id in common:
        after = by_id["after"][query_id]
        results = {n: by_id[n][query_id]["results"][baselines[n]] for n in names}
        queries.append({**after, "results": results})
    rows = [
        (name, *quality.MAIN, query["id"], measure, value)
        for query in queries
        for name in names
        for measure, value in query["results"][name]["measures"].items()
    ]
    values = pl.DataFrame(rows, schema=quality.QUALITY, orient="row")
    return {
        **second,
        "order": list(names),
        **{
            part: {n: side[part][baselines[n]] for n, side in sides.items()}
            for part in ("profiles", "stages_of", "labels", "losses")
        },
        "summary": quality.summary(values, {q["id"]: q["tags"] for q in queries}),
        "comparisons": quality.comparisons(values, "before", ["after"]),
        "queries": queries,
        "not_measured": sorted(set(by_id["before"]) ^ set(by_id["after"])),
        "corpus": {
            "index": second["corpus"]["index"],
            "retrieved": {
                n: side["corpus"]["retrieved"].get(baselines[n], {}) for n, side in sides.items()
            },
        },
        "texts": {
            kind: {**first["texts"][kind], **second["texts"][kind]}
            for kind in ("documents", "chunks")
        },
        "timing": {
            "made_at": second["timing"]["made_at"],
            "latency": {
                n: side["timing"]["latency"].get(baselines[n], {}) for n, side in sides.items()
            },
        },
    }


def _query_reports(
    queries: pl.DataFrame,
    judgements: Judgements,
    runs: pl.DataFrame,
    values: pl.DataFrame,
    loss_rows: pl.DataFrame,
    tags: Mapping[str, Sequence[str]],
) -> list[dict[str, Any]]:
    """One entry per measured query: its values, hits and the fate of its right answers in each
    profile.
    """
    losses: dict[tuple[str, str], dict[str, list[str]]] = {}
    for profile, query, doc, stage, reason in loss_rows.iter_rows():
        losses.setdefault((query, profile), {})[doc] = [stage, reason]
    lists: dict[tuple[str, str], dict[str, pl.DataFrame]] = {}
    for (query, profile, stage), group in quality.groups_by(runs, "query_id", "profile", "stage"):
        lists.setdefault((query, profile), {})[stage] = group.sort("rank")
    grades, chunk_grades = (
        quality.grades_of(judgements, "document"),
        quality.grades_of(judgements, "chunk"),
    )
    measured = _shown_measures(values)
    entries = []
    for row in queries.iter_rows(named=True):
        query_id = row["query_id"]
        right = {doc: grade for doc, grade in grades.get(query_id, {}).items() if grade > 0}
        if not right:
            continue
        top = {
            doc: right[doc]
            for doc in sorted(right, key=lambda doc: (-right[doc], doc))[:SHOWN_RIGHT]
        }
        results = {}
        for profile, measures in measured.get(query_id, {}).items():
            stages, lost = lists.get((query_id, profile), {}), losses.get((query_id, profile), {})
            documents = {n: list(dict.fromkeys(frame["doc_id"])) for n, frame in stages.items()}
            results[profile] = {
                "label": stages["final"]["label"][0] if "final" in stages else NOTHING,
                "measures": measures,
                "hits": _hits(stages, right, chunk_grades.get(query_id, {})),
                "places": {
                    doc: {
                        n: docs.index(doc) + 1 if doc in docs else None
                        for n, docs in documents.items()
                    }
                    for doc in top
                },
                "lost": {doc: why for doc, why in lost.items() if doc in top},
            }
        entry = {
            "id": query_id,
            "query": row["query"],
            "tags": [*tags[query_id]],
            "is_draft": row["is_draft"],
        }
        entries.append(entry | {"right": top, "right_count": len(right), "results": results})
    return entries


def _shown_measures(values: pl.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """By query and profile its value of each measure of the final hits; of chunks those that
    documents do not have.
    """
    stage, level = quality.MAIN
    is_shown = (pl.col("level") == level) | (pl.col("level") == "chunk") & ~pl.col("measure").is_in(
        MEASURES
    )
    measured: dict[str, dict[str, dict[str, float]]] = {}
    for row in values.filter((pl.col("stage") == stage) & is_shown).iter_rows(named=True):
        of_query = measured.setdefault(row["query_id"], {}).setdefault(row["profile"], {})
        of_query[row["measure"]] = quality.json_number(row["value"]) or 0.0
    return measured


def _hits(
    stages: Mapping[str, pl.DataFrame], right: Mapping[str, int], chunk_grades: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The first hits with their grades and their place and score in each earlier stage."""
    if "final" not in stages:
        return []
    by_stage = {
        stage: {
            c: (r, quality.json_number(s))
            for c, r, s in frame.select("chunk_id", "rank", "score").rows()
        }
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
            "score": quality.json_number(row["score"]),
            "similarity": quality.json_number(row["similarity"]),
            "stages": {
                stage: positions.get(row["chunk_id"]) for stage, positions in by_stage.items()
            },
        }
        for row in stages["final"].head(SHOWN_HITS).iter_rows(named=True)
    ]


def _label_counts(
    runs: pl.DataFrame, queries: set[str], profiles: Iterable[str]
) -> dict[str, dict[str, int]]:
    first = runs.filter((pl.col("stage") == "final") & (pl.col("rank") == 1))
    counts = {}
    for profile in sorted(profiles):
        label_of = dict(first.filter(profile=profile).select("query_id", "label").iter_rows())
        labels = [label_of.get(query, NOTHING) for query in sorted(queries)]
        counts[profile] = {label: labels.count(label) for label in LABELS}
    return counts


def _entry_counts(judgements: Judgements) -> dict[str, Any]:
    counts = judgements.entries.group_by("form", "status").len().sort("form", "status")
    missing = judgements.entries.filter(pl.col("status") == "missing")
    named = missing.select("form", query="query_id", target=pl.coalesce("target", "text"))
    return {"counts": counts.rename({"len": "entries"}).to_dicts(), "missing": named.to_dicts()}


KEPT = 400
"""Chunks of a list that an evaluation keeps, so that it still names 100 documents when some have
several chunks.
"""

LOSSES = dict.fromkeys(("profile", "query_id", "doc_id", "stage", "reason"), pl.String)
"""Columns of `losses`."""

_CANDIDATES = INDEPENDENT[-1]
_NEVER = "no candidate"
_FAR_BEHIND = f"behind the first {KEPT} chunks"


def losses(
    runs: pl.DataFrame, right: pl.DataFrame, stages: Mapping[str, Sequence[str]]
) -> pl.DataFrame:
    """Right documents that a search did not return: LOSSES, with the stage that dropped the last
    chunk of each.

    `runs` is `schemas.EVALUATION_RUNS`, `right` has query_id and doc_id, `stages` those of each
    profile in their order. A chunk that is behind the first KEPT of a list is not seen in it.
    """
    frames = [pl.DataFrame(schema=LOSSES)]
    for profile, order in stages.items():
        # Both lists of candidates become the fused one.
        followers = dict(itertools.pairwise(order)) | dict.fromkeys(INDEPENDENT[:-1], _CANDIDATES)
        right_rows = runs.filter(profile=profile).join(right, on=["query_id", "doc_id"])
        last = (
            right_rows.with_columns(_at=pl.col("stage").cast(pl.Enum(order)))
            .sort("query_id", "doc_id", "_at", "rank", descending=[False, False, True, False])
            .unique(["query_id", "doc_id"], keep="first", maintain_order=True)
        )
        dropped_rows = last.filter(pl.col("stage") != order[-1]).with_columns(
            pl.col("stage").replace_strict(followers, return_dtype=pl.String),
            pl.col("reason").fill_null(_FAR_BEHIND),
        )
        never = right.join(last, on=["query_id", "doc_id"], how="anti").with_columns(
            stage=pl.lit(_CANDIDATES), reason=pl.lit(_NEVER)
        )
        frames += [
            rows.select(pl.lit(profile).alias("profile"), *list(LOSSES)[1:])
            for rows in (dropped_rows, never)
        ]
    return pl.concat(frames).sort("profile", "query_id", "doc_id")


def counts(lost: pl.DataFrame, profiles: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """How many right documents each stage dropped for which reason, most first: rows of each
    profile.

    Scores are left out of the reasons; they differ from hit to hit.
    """
    reason = pl.col("reason").str.replace_all(r"-?\d+\.\d+", "…")
    by_reason = lost.group_by("profile", "stage", reason).agg(answers=pl.len())
    ordered = by_reason.sort("answers", "stage", "reason", descending=[True, False, False])
    return {name: ordered.filter(profile=name).drop("profile").to_dicts() for name in profiles}
