"""An explanation of a search as bars: of each stage its time and its hits, and the way of one id through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from dagster_project.index.search.explain import Explanation

_ROWS = 10
_REASONS = 8


@dataclass(frozen=True)
class Stage:
    """A stage: its name, its share of the time, how many hits it kept and dropped, and where the id stands in it."""

    name: str
    milliseconds: float
    share: float
    kept: int
    dropped: int
    reasons: list[tuple[str, int]]
    place: int | None
    score: float | None
    reason: str | None
    best: float
    strength: float


@dataclass(frozen=True)
class Why:
    """What the page of an explanation shows; `ways` has a row for each of the first hits with its place in every stage."""

    query: str
    label: str
    milliseconds: float
    answer: str | None
    stages: list[Stage]
    ways: list[dict[str, Any]]


def stages(result: Explanation, ident: str | None) -> Why:
    """The page of an explanation, with what became of `ident` if it is not None."""
    longest = max((table.seconds for table in result.stages), default=0.0) or 1.0
    moments = {m.stage: m for m in result.fate.moments} if result.fate else {}
    shown = []
    for table in result.stages:
        kept = table.steps.drop_nulls("rank")
        moment = moments.get(table.stage)
        best = float(kept["score"][0]) if kept.height and kept["score"][0] is not None else 0.0
        score = moment.score if moment else None
        shown.append(
            Stage(
                name=table.stage,
                milliseconds=table.seconds * 1000,
                share=table.seconds / longest,
                kept=kept.height,
                dropped=table.steps.height - kept.height,
                reasons=_reasons(table.steps),
                place=moment.rank if moment else None,
                score=score,
                reason=moment.reason if moment else None,
                best=best,
                strength=min(1.0, max(0.0, (score or 0.0) / best)) if best > 0 else 0.0,
            )
        )
    answer = result.fate.answer if result.fate else None
    return Why(result.query, result.label, result.seconds * 1000, answer, shown, _ways(result))


def _reasons(steps: pl.DataFrame) -> list[tuple[str, int]]:
    counts = (
        steps.drop_nulls("reason").group_by("reason").len().sort("len", "reason", descending=[True, False])
    )
    return [(str(reason), int(count)) for reason, count in counts.head(_REASONS).iter_rows()]


def _ways(result: Explanation) -> list[dict[str, Any]]:
    """The first hits with their places in the list of every stage."""
    if not result.stages:
        return []
    ranks = [dict(table.steps.select("chunk_no", "rank").iter_rows()) for table in result.stages]
    ways = []
    for chunk in result.stages[-1].steps.drop_nulls("rank").head(_ROWS)["chunk_no"]:
        chunk_id, place, title = result.name(chunk)
        places = [of_stage.get(chunk) for of_stage in ranks]
        ways.append({"chunk_id": chunk_id, "id": place, "title": title, "places": places})
    return ways
