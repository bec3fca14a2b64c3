"""The assets with their jobs and resources: what builds run, and what schedules and sensors stand on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets import fetch, operations
from assets.evaluation import GROUP
from assets.operations import operations_report_asset
from assets.partitions import CONTEXT_TABLES, GRAPH, SLOW, SOURCE_TYPES
from assets.publish import publish_checks
from assets.search import GROUP as SEARCH_GROUP
from assets.search import search_results_asset
from assets.sources import partitions_key
from dagster_project.composition import make_resources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.asset_graph import (
    make_assets,
    make_evaluation_assets,
    make_fetch_assets,
    make_graph_assets,
    make_published_assets,
    make_source_assets,
)
from dagster_project.orchestration.names import (
    CONTEXT,
    EVALUATE,
    FETCH,
    LANE_TAG,
    LATER,
    PUBLISH,
    REPORT,
    SCOPE_TAG,
    SEARCH,
    refresh_job,
)

_REFRESHES = "Read, parse and chunk {}, for the partitions of the run."
_REFRESHES_SLOW = "Cut and count what of mail waits for the slow lane, for the partitions of the run."
_REFRESHES_GRAPH = "Classify and order the embedded chunks of documents, for the partitions of the run."


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
    return dg.Definitions(
        assets=[
            *(_with_owner(spec, settings) for spec in (*make_source_assets(settings), *published)),
            *(
                _with_code_references(definition.map_asset_specs(lambda spec: _with_owner(spec, settings)))
                for definition in assets
            ),
        ],
        asset_checks=[publish_checks(settings.embedding), *checks],
        jobs=_jobs(settings, fetches=bool(fetching)),
        resources={**make_resources(settings), **(resources or {})},
        executor=dg.in_process_executor,
    )


def _jobs(settings: Settings, *, fetches: bool) -> list[Any]:
    """One job for each thing that people do with a part of the assets; publishing takes what no other job does."""
    source_types = (*SOURCE_TYPES, SLOW, GRAPH) if settings.graph.enabled else (*SOURCE_TYPES, SLOW)
    parts = {
        FETCH: (dg.AssetSelection.groups(fetch.GROUP), "Bring what is new in the remotes of the sources."),
        REPORT: (
            dg.AssetSelection.groups(operations.GROUP),
            "Draw how fast, how late and how large everything is.",
        ),
        CONTEXT: (
            dg.AssetSelection.assets(*CONTEXT_TABLES),
            "Search the published index with every conversation and put its context together.",
        ),
        EVALUATE: (
            dg.AssetSelection.groups(GROUP),
            "Measure the published index with the configured queries.",
        ),
        SEARCH: (
            dg.AssetSelection.groups(SEARCH_GROUP),
            "Search the published index for the queries of the run's configuration.",
        ),
    }
    for source_type in source_types:
        others = {SLOW.name: _REFRESHES_SLOW, GRAPH.name: _REFRESHES_GRAPH}
        told = others.get(source_type.name, _REFRESHES.format(source_type.name))
        parts[refresh_job(source_type.name)] = (dg.AssetSelection.assets(*source_type.tables), told)
    published: dg.AssetSelection = dg.AssetSelection.all()
    if not settings.graph.enabled:
        published = published - dg.AssetSelection.groups(GRAPH.name)
    for selection, _ in parts.values():
        published = published - selection
    parts[PUBLISH] = (published, "Relate, embed, check and publish what the partitions hold.")
    if not fetches:
        del parts[FETCH]
    return [
        dg.define_asset_job(
            name,
            selection=selection,
            description=told,
            executor_def=dg.in_process_executor,
            tags={LANE_TAG: SLOW.name, **LATER} if name == refresh_job(SLOW.name) else None,
        )
        for name, (selection, told) in parts.items()
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


def _with_owner(spec: dg.AssetSpec, settings: Settings) -> dg.AssetSpec:
    """`spec` with who answers for it, and a tag that tells what has partitions from what is made as a whole."""
    scope = "whole" if spec.partitions_def is None else "partition"
    return spec.replace_attributes(
        owners=list(settings.operations.owners), tags={**spec.tags, SCOPE_TAG: scope}
    )


def _with_code_references(definition: dg.AssetsDefinition) -> Any:
    """`definition` with a link to the code that makes it; a stage links to the function that it calls."""
    if any("dagster/code_references" in spec.metadata for spec in definition.specs):
        return definition
    with warnings.catch_warnings():
        # Code references are marked beta in Dagster 1.13; the pin keeps them as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.with_source_code_references([definition])[0]
