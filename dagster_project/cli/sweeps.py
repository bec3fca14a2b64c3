"""`weft eval sweep`: grids of settings of [search] over one index, and of other sections over an
index for each.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
from pydantic import ValidationError

from dagster_project.cli.options import CONFIG, JSON, QUERY_FILES, explained
from dagster_project.cli.render.evaluation import counted_progress, print_sweep
from dagster_project.config.settings import Settings, changed_search, faults_of, load_settings
from dagster_project.evaluation.evaluate import make_evaluator, required_queries
from dagster_project.evaluation.evaluator import IndexEvaluator, run_profiles, write_report
from dagster_project.orchestration.build import build
from dagster_project.orchestration.instance import open_instance
from transforms.errors import SettingsError
from transforms.evaluation import quality
from transforms.evaluation.judgements import judgements
from transforms.evaluation.metrics import MEASURES
from transforms.hashing import text_hash
from transforms.settings.base import StageSettings
from transforms.settings.search import SearchSettings

_FASTER = 0.95
"""Share of another's time below which a profile is faster and not only measured at a better moment.
"""

_TIMED = ("ms_per_query", "frontier")
_NOT_BUILT = ("sources", "storage", "search", "evaluation", "profiles", "base")


@click.command()
@CONFIG
@JSON
@QUERY_FILES
@click.option(
    "--measure", default="nDCG@10", show_default=True, help="Order profiles by this measure."
)
@click.option(
    "--set",
    "axes",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="A setting of [search] and the values to try; several make a grid.",
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    metavar="SECTION.NAME=VALUE,...",
    help="A setting of another section; Weft builds an index for each value, below eval/builds/.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@explained
def sweep(
    config: Path | None,
    as_json: bool,
    files: tuple[Path, ...],
    measure: str,
    axes: tuple[str, ...],
    builds: tuple[str, ...],
    quiet: bool,
) -> None:
    """Try every combination of settings; print their quality and cost, mark the best, and write all
    as JSON.
    """
    if measure not in MEASURES:
        raise SettingsError(f"--measure {measure}: known are {', '.join(MEASURES)}")
    if not axes and not builds:
        raise SettingsError("there is nothing to sweep over: give --set or --build")
    settings = load_settings(config)
    profiles = grid(settings.search, _axes(axes))
    variants = built_grid(settings, _axes(builds))
    results = []
    with counted_progress(len(profiles) * len(variants), show=not quiet and not as_json) as done:
        for variant, changed in built(variants, settings):
            evaluator = make_evaluator(changed, files)
            for row in _measured(evaluator, profiles, measure, done):
                parts = [variant, row["profile"] if axes or not variant else ""]
                results.append({**row, "profile": " ".join(filter(None, parts))})
            evaluator.index.close()
    rows = with_frontier(results)
    path = write_sweep(rows, measure, settings)
    if as_json:
        click.echo(json.dumps(rows))
    else:
        print_sweep(rows, measure)
        click.echo(f"json: {path}")


def _axes(pairs: tuple[str, ...]) -> dict[str, list[str]]:
    axes: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, values = pair.partition("=")
        if not sign or not values or name in axes:
            raise SettingsError(f"--set {pair}: write NAME=VALUE,VALUE, each name once")
        axes[name] = values.split(",")
    return axes


def grid(settings: SearchSettings, axes: Mapping[str, Sequence[str]]) -> dict[str, SearchSettings]:
    """Search settings for every combination of values, by a name with the differing values."""
    profiles = {}
    for values in _combinations(axes):
        try:
            profiles[_name(values) or "as configured"] = changed_search(settings, values)
        except ValidationError as error:
            raise SettingsError(f"--set: {faults_of(error)}") from error
    return profiles


def built_grid(settings: Settings, axes: Mapping[str, Sequence[str]]) -> dict[str, Settings]:
    """Settings for every combination of values of `section.key`, each with a storage root of its
    own.

    The roots are in eval/builds/ below that of `settings`, named by their differing values, so that
    a second sweep finds them built; built ones come first. Without axes there is one entry, the
    settings as they are.
    """
    variants = {
        _name(values): _in_own_root(settings, values) if values else settings
        for values in _combinations(axes)
    }
    return dict(sorted(variants.items(), key=lambda pair: not (pair[1].root / "index").is_dir()))


def built(variants: Mapping[str, Settings], own: Settings) -> Iterator[tuple[str, Settings]]:
    """Name and settings of each variant after its index is brought up to date; `own` is published
    already.

    Vectors that `own` has in its cache are not computed again.
    """
    own_cache = own.root / "cache" / "embeddings"
    for name, settings in variants.items():
        if settings is not own:
            cache = settings.root / "cache" / "embeddings"
            if own_cache.is_dir() and not cache.exists():
                shutil.copytree(own_cache, cache)
            with open_instance(settings) as instance:
                build(settings, instance)
        yield name, settings


def _measured(
    evaluator: IndexEvaluator,
    profiles: Mapping[str, SearchSettings],
    measure: str,
    done: Callable[[str], None],
) -> list[dict[str, Any]]:
    """One row per profile: those of `evaluation.summary`, ms_per_query and the chunks of the index.

    The time is that of the profile alone, of queries in batches; lexical scores are made
    once for all profiles that share them.
    """
    truth = required_queries(evaluator)
    relevance = judgements(pl.DataFrame(truth.relevance), evaluator.contents(truth.relevance))
    runs, seconds = run_profiles(
        evaluator.index, pl.DataFrame(truth.queries), profiles, done, ("final",)
    )
    values = quality.document_quality(pl.DataFrame(runs), relevance, profiles).filter(
        measure=measure
    )
    return [
        {
            **row,
            "ms_per_query": 1000 * seconds[row["profile"]] / truth.queries.num_rows,
            "chunks": evaluator.index.chunk_count,
        }
        for row in quality.summary(values, {})
    ]


def with_frontier(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows best first; `frontier` is true for one that is clearly faster than every better one."""
    ordered = sorted(rows, key=lambda row: (-row["mean"], row["ms_per_query"]))
    fastest = np.minimum.accumulate([np.inf, *(row["ms_per_query"] for row in ordered[:-1])])
    return [
        {**row, "frontier": bool(row["ms_per_query"] < _FASTER * before)}
        for row, before in zip(ordered, fastest, strict=True)
    ]


def write_sweep(rows: Sequence[Mapping[str, Any]], measure: str, settings: Settings) -> str:
    """Write the rows as JSON, all times under `timing`; the path, `sweep-<model>-<time>.json`
    beside the reports.
    """
    now = datetime.now(UTC)
    report = {
        "measure": measure,
        "rows": [{k: v for k, v in row.items() if k not in _TIMED} for row in rows],
        "timing": {
            "made_at": now.isoformat(timespec="seconds"),
            "rows": [{"profile": row["profile"]} | {k: row[k] for k in _TIMED} for row in rows],
        },
    }
    name = f"sweep-{settings.embedding.model}-{now:%Y%m%dT%H%M%SZ}"
    return write_report(report, settings.root / "eval", name, page=False)["json"]


def _combinations(axes: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _name(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _in_own_root(settings: Settings, values: Mapping[str, str]) -> Settings:
    changes: dict[str, Any] = {}
    for dotted, value in values.items():
        section, _, key = dotted.partition(".")
        before = changes.get(section, getattr(settings, section, None))
        if section in _NOT_BUILT or not isinstance(before, StageSettings):
            raise SettingsError(
                f"--build {dotted}: write SECTION.KEY of a section that a build reads, such as chunks"
            )
        try:
            changes[section] = type(before).model_validate({**before.model_dump(), key: value})
        except ValidationError as error:
            raise SettingsError(f"--build {section}: {faults_of(error)}") from error
    root = settings.root / "eval" / "builds" / text_hash(_name(values))[:12]
    return in_root(settings.model_copy(update=changes), root)


def in_root(settings: Settings, root: Path) -> Settings:
    """The settings with another storage root, to build an index beside that which is published."""
    changes = {
        "storage": settings.storage.model_copy(update={"root": str(root), "lake": None}),
        "evaluation": settings.evaluation.model_copy(update={"publish_check": False}),
    }
    return settings.model_copy(update=changes)
