"""The assets with their jobs and resources: what builds run, and what schedules and sensors stand on."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg

from assets import fetch, operations
from assets.evaluation import GROUP
from assets.operations import operations_report_asset
from assets.partitions import GRAPH, SLOW, SOURCE_TYPES
from assets.protocols.lake import Progress
from assets.publish import publish_checks
from assets.search import GROUP as SEARCH_GROUP
from assets.search import search_results_asset
from assets.sources import partitions_key
from dagster_project.composition import make_lake, make_resources
from dagster_project.config.settings import Settings
from dagster_project.extras.registry import named
from dagster_project.orchestration.asset_graph import (
    around_graph,
    make_assets,
    make_evaluation_assets,
    make_fetch_assets,
    make_graph_assets,
    make_published_assets,
    make_source_assets,
)
from dagster_project.orchestration.conditions import Watched, daily_condition, whole_lake_condition
from dagster_project.orchestration.freshness import freshness_check
from dagster_project.orchestration.names import (
    EVALUATE,
    FETCH,
    FETCH_TAG,
    REPORT,
    REPORT_ASSET,
    SCOPE_TAG,
    SEARCH,
    WAITS,
    WHOLE,
)
from dagster_project.orchestration.runs import held_by_run
from dagster_project.resources.lake.io_manager import LakeIOManager


def whole_tables(settings: Settings) -> set[str]:
    """The assets over the whole lake that a refresh makes."""
    before, after = around_graph(settings)
    return {*before, *after}


def asset_definitions(settings: Settings, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """Assets, checks and asset jobs for `settings`; `resources` replaces resources by name."""
    fetching = make_fetch_assets(settings)
    assets = [
        *fetching,
        *(_with_sources(definition, settings) for definition in make_assets(settings)),
        *(() if settings.graph.enabled else make_graph_assets(settings)),
        *make_evaluation_assets(settings),
        operations_report_asset(),
        search_results_asset(),
    ]
    published, checks = make_published_assets(settings)
    given = {**make_resources(settings), **(resources or {})}
    given["io_manager"] = _lake(settings, given["progress"])
    watched = _watched(assets, published)
    owned = partial(_with_owner, settings=settings, watched=watched)
    return dg.Definitions(
        assets=[
            *map(owned, (*make_source_assets(settings), *published)),
            *(_with_code_references(definition.map_asset_specs(owned)) for definition in assets),
        ],
        asset_checks=[
            publish_checks(settings.embedding),
            freshness_check(settings),
            *(check for checks in named("checks") for check in checks(settings)),
            *checks,
        ],
        jobs=_jobs(fetches=bool(fetching)),
        resources=given,
        executor=dg.in_process_executor,
    )


def _lake(settings: Settings, progress: Progress) -> dg.IOManagerDefinition:
    """The way into the lake, with the run's locks held as long as the run lasts; `progress` hears of waits."""
    whole = whole_tables(settings)

    def opened(context: dg.InitResourceContext) -> Iterator[LakeIOManager]:
        with (
            held_by_run(
                context, settings.root, settings.lake_uri, whole, partial(progress.step, WAITS, rows=0)
            ),
            contextlib.closing(LakeIOManager(make_lake(settings))) as manager,
        ):
            yield manager

    return dg.IOManagerDefinition(resource_fn=contextlib.contextmanager(opened))  # type: ignore[arg-type]


def _jobs(*, fetches: bool) -> list[Any]:
    """A job for each thing that is no part of a refresh; what a refresh makes runs by asset selection."""
    parts = {
        REPORT: (operations.GROUP, "Draw how fast, how late and how large everything is."),
        EVALUATE: (GROUP, "Measure the published index with the configured queries."),
        SEARCH: (SEARCH_GROUP, "Search the published index for the queries of the run's configuration."),
    }
    if fetches:
        parts[FETCH] = (fetch.GROUP, "Bring what is new in the remotes of the sources.")
    return [
        dg.define_asset_job(
            name,
            selection=dg.AssetSelection.groups(group),
            description=description,
            executor_def=dg.in_process_executor,
            tags={FETCH_TAG: "all"} if name == FETCH else None,
        )
        for name, (group, description) in parts.items()
    ]


def _with_sources(definition: dg.AssetsDefinition, settings: Settings) -> dg.AssetsDefinition:
    """`definition` below the partitions of its source type, if it reads sources and there are any."""
    source_type = next(
        (f for f in SOURCE_TYPES if definition.keys <= {dg.AssetKey(t) for t in f.tables}), None
    )
    if source_type is None or definition.dependency_keys:
        return definition
    if not any(source.source_type == source_type.name for source in settings.sources):
        return definition
    read = [partitions_key(source_type.name)]
    return definition.map_asset_specs(lambda spec: spec.merge_attributes(deps=read))


def _watched(definitions: Sequence[Any], published: Sequence[dg.AssetSpec]) -> dict[dg.AssetKey, Watched]:
    """By asset what says whether anything that it is made of changed, or is under way.

    A run makes what follows of one source type, or over the whole lake, and several assets in a step. Very long texts
    are under way for long, and nothing waits for them.
    """
    deps = {key: set(found) for each in definitions for key, found in each.asset_deps.items()}
    deps |= {spec.key: {dep.asset_key for dep in spec.deps} for spec in published}
    step_of = {key: min(each.keys) for each in definitions for key in each.keys}
    source_types = (*SOURCE_TYPES, SLOW, GRAPH)
    source_type_of = {dg.AssetKey(table): each.name for each in source_types for table in each.tables}
    earlier: dict[dg.AssetKey, set[dg.AssetKey]] = {}

    def steps_before(key: dg.AssetKey) -> set[dg.AssetKey]:
        if key not in earlier:
            same = [d for d in deps.get(key, ()) if source_type_of.get(d) == source_type_of.get(key)]
            earlier[key] = {step_of.get(d, d) for d in same}.union(*map(steps_before, same))
        return earlier[key]

    last_of = {
        each.name: max(map(dg.AssetKey, each.tables), key=lambda key: len(steps_before(key)))
        for each in source_types
    }
    watched = {}
    for key, found in deps.items():
        not_last = set[dg.AssetKey]().union(*map(steps_before, found))
        of_steps = {step_of.get(dep, dep): dep for dep in sorted(found, reverse=True)}
        changes = [dep for step, dep in of_steps.items() if step not in not_last]
        runs = {last_of.get(source_type_of.get(dep, ""), dep) for dep in changes} - {last_of[SLOW.name]}
        watched[key] = Watched(changes, sorted(runs))
    return watched


def _with_owner(
    spec: dg.AssetSpec, settings: Settings, watched: Mapping[dg.AssetKey, Watched]
) -> dg.AssetSpec:
    """`spec` with who answers for it, what has partitions told from what is made as a whole, and when Dagster makes it."""
    return spec.replace_attributes(
        owners=list(settings.operations.owners),
        tags={**spec.tags, SCOPE_TAG: WHOLE if spec.partitions_def is None else "partition"},
        automation_condition=_condition(spec.key, settings, watched.get(spec.key)),
    )


def _condition(
    key: dg.AssetKey, settings: Settings, watched: Watched | None
) -> dg.AutomationCondition | None:
    """When Dagster makes an asset by itself: what is over the whole lake, if what it is made of changed.

    What is made of the graph's partitions follows these alone, so that it never meets those of other chunks. The report
    on how the system does is no part of a refresh: drawing it each time would be a sixth of an hour's build.
    """
    before, after = around_graph(settings)
    whole = dg.AssetSelection.assets(*before, *after)
    name = key.to_user_string()
    if watched and name in before:
        return whole_lake_condition(watched, whole)
    if watched and name in after:
        return whole_lake_condition(watched, whole, dg.AssetSelection.assets(*GRAPH.tables, *after))
    return daily_condition() if name == REPORT_ASSET else None


def _with_code_references(definition: dg.AssetsDefinition) -> Any:
    """`definition` with a link to the code that makes it; a stage links to the function that it calls."""
    if any("dagster/code_references" in spec.metadata for spec in definition.specs):
        return definition
    with warnings.catch_warnings():
        # Code references are marked beta in Dagster 1.13; the pin keeps them as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.with_source_code_references([definition])[0]
