"""`weft eval run --designs`: the five designs beside the default, each over an index of its own."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dagster_project.cli.render.evaluation import counted_progress
from dagster_project.cli.sweeps import built, in_root
from dagster_project.config.settings import Settings, load_settings
from dagster_project.evaluation.evaluate import make_evaluator, required_queries, with_tag
from dagster_project.evaluation.evaluator import IndexEvaluator, run_profiles
from transforms.evaluation import quality
from transforms.evaluation.judgements import judgements
from transforms.evaluation.metrics import MEASURES
from transforms.settings.designs import DESIGNS

DEFAULT = "default"


def measured_designs(
    config: Path | None, files: Sequence[Path], tag: str | None, *, show: bool
) -> list[dict[str, Any]]:
    """A row of each design, the default first: design, the mean of each of `MEASURES`, `low` and
    `high` of its 95 % interval for `quality.HEADLINE`, `ahead`, `ahead_low` and `ahead_high` of the
    default query by query, `ms_per_query`, `chunks`, `megabytes` of the published version and
    `build_seconds`, 0 if it was built before.

    Keys that the settings set themselves hold for all.
    """
    own = load_settings(config)
    variants = {DEFAULT: _variant(load_settings(config, ""), own, DEFAULT)}
    variants |= {name: _variant(load_settings(config, name), own, name) for name in DESIGNS}
    rows, first = [], None
    with counted_progress(len(variants), show=show) as done:
        for name, settings, seconds in _timed(variants, own):
            evaluator = make_evaluator(settings, files, [DEFAULT])
            row, values = _measured(evaluator, tag)
            evaluator.index.close()
            first = values if first is None else first
            rows.append({"design": name, **row, **_ahead(first, values), "build_seconds": seconds})
            done(name)
    return rows


def _variant(settings: Settings, own: Settings, name: str) -> Settings:
    return in_root(settings, own.root / "eval" / "designs" / name)


def _timed(variants: dict[str, Settings], own: Settings) -> Iterator[tuple[str, Settings, float]]:
    """Name and settings of each variant that is up to date, and the seconds that its first build
    took.
    """
    for name, settings in variants.items():
        is_there, begun = (settings.root / "index").is_dir(), time.monotonic()
        list(built({name: settings}, own))
        yield name, settings, 0.0 if is_there else time.monotonic() - begun


def _measured(evaluator: IndexEvaluator, tag: str | None) -> tuple[dict[str, Any], pl.DataFrame]:
    """The measures and costs of an index, and `quality.HEADLINE` of each query."""
    truth = with_tag(required_queries(evaluator), tag)
    queries = pl.DataFrame(truth.queries)
    relevance = judgements(pl.DataFrame(truth.relevance), evaluator.contents(truth.relevance))
    profiles = {DEFAULT: evaluator.profiles[DEFAULT]}
    runs, seconds = run_profiles(evaluator.index, queries, profiles, stages=("final",))
    values = quality.document_quality(pl.DataFrame(runs), relevance, profiles)
    summary = {row["measure"]: row for row in quality.summary(values, {})}
    headline = summary[quality.HEADLINE]
    row = {
        **{measure: summary[measure]["mean"] for measure in MEASURES if measure in summary},
        "low": headline["low"],
        "high": headline["high"],
        "ms_per_query": 1000 * seconds[DEFAULT] / queries.height,
        "chunks": evaluator.index.chunk_count,
        "megabytes": _megabytes(evaluator),
    }
    return row, values.filter(measure=quality.HEADLINE).select("query_id", "value")


def _megabytes(evaluator: IndexEvaluator) -> float:
    """The size of the folder of published files."""
    folder = evaluator.folder.parent / "index"
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def _ahead(first: pl.DataFrame, values: pl.DataFrame) -> dict[str, float | None]:
    """How far the default is ahead of a design, query by query."""
    both = first.join(values, on="query_id", suffix="_of_design").sort("query_id")
    before = both["value_of_design"].to_numpy()
    difference, _ = quality.paired_difference(before, both["value"].to_numpy())
    return {
        "ahead": difference.mean,
        "ahead_low": difference.low,
        "ahead_high": difference.high,
    }
