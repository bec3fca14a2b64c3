"""Where right answers got lost: the stage that dropped the last of each, and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from transforms.retrieval.explanation import INDEPENDENT

KEPT = 400
"""Chunks of a list that an evaluation keeps, so that it still names 100 documents when some have several chunks."""

LOSSES = dict.fromkeys(("profile", "query_id", "doc_id", "stage", "reason"), pl.String)
"""Columns of `losses`."""

_CANDIDATES = INDEPENDENT[-1]
_NEVER = "no candidate"
_FAR_BEHIND = f"behind the first {KEPT} chunks"


def losses(runs: pl.DataFrame, right: pl.DataFrame, stages: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Right documents that a search did not return: LOSSES, with the stage that dropped the last chunk of each.

    `runs` is `schemas.EVALUATION_RUNS`, `right` has query_id and doc_id, `stages` those of each profile in their
    order. A chunk that stands behind the first KEPT of a list is not seen in it.
    """
    frames = [pl.DataFrame(schema=LOSSES)]
    for profile, order in stages.items():
        right_rows = runs.filter(profile=profile).join(right, on=["query_id", "doc_id"])
        last = (
            right_rows.with_columns(_at=pl.col("stage").cast(pl.Enum(order)))
            .sort("query_id", "doc_id", "_at", "rank", descending=[False, False, True, False])
            .unique(["query_id", "doc_id"], keep="first", maintain_order=True)
        )
        dropped_rows = last.filter(pl.col("stage") != order[-1]).with_columns(
            pl.col("stage").replace_strict(_followers(order), return_dtype=pl.String),
            pl.col("reason").fill_null(_FAR_BEHIND),
        )
        never = right.join(last, on=["query_id", "doc_id"], how="anti").with_columns(
            stage=pl.lit(_CANDIDATES), reason=pl.lit(_NEVER)
        )
        frames += [
            rows.select(pl.lit(profile).alias("profile"), *list(LOSSES)[1:]) for rows in (dropped_rows, never)
        ]
    return pl.concat(frames).sort("profile", "query_id", "doc_id")


def _followers(order: Sequence[str]) -> dict[str, str]:
    """The stage that takes the list of each stage; both lists of candidates become the fused one."""
    return {
        stage: _CANDIDATES if stage in INDEPENDENT[:-1] else next_stage
        for stage, next_stage in itertools.pairwise(order)
    }


def counts(lost: pl.DataFrame, profiles: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """How many right documents each stage dropped for which reason, most first: rows of each profile.

    Scores are left out of the reasons; they differ from hit to hit.
    """
    reason = pl.col("reason").str.replace_all(r"-?\d+\.\d+", "…")
    by_reason = lost.group_by("profile", "stage", reason).agg(answers=pl.len())
    ordered = by_reason.sort("answers", "stage", "reason", descending=[True, False, False])
    return {name: ordered.filter(profile=name).drop("profile").to_dicts() for name in profiles}
