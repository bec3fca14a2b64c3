"""What Dagster loads: assets, checks, jobs, the schedule and their resources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets import fetch, operations
from assets.evaluation import GROUP
from assets.operations import operations_report_asset
from assets.partitions import CONTEXT_TABLES, FAMILIES, GRAPH, Family
from assets.publish import publish_checks
from assets.search import GROUP as SEARCH_GROUP
from assets.search import search_results_asset
from dagster_project.composition import (
    make_assets,
    make_evaluation_assets,
    make_fetch_assets,
    make_resources,
)
from dagster_project.schedules import hourly_job, hourly_schedule
from dagster_project.settings import Settings, load_settings
from dagster_project.vault_sensor import vault_sensor

FETCH = "fetch"
"""The job that brings what the sources' remotes have; there if a source has one."""

PUBLISH = "publish"
"""The job of everything over the whole lake: relations, vectors, checks and the published file."""

SCOPE_TAG = "weft/scope"
"""Tag of every asset: `partition` or `whole`."""

REPORT = "report"
"""The job of the report on how the system does; the hourly run runs it after a publish."""

CONTEXT = "find_context"
"""The job of what conversations find in the published file; it runs after it."""

EVALUATE = "evaluate"
"""The job that measures what is published; nothing else runs it."""

SEARCH = "search"
"""The job that asks the published index what its configuration says; schedules of one's own run it."""


_REFRESHES = "Read, parse and chunk {}, for the partitions of the run."
_REFRESHES_GRAPH = "Classify and order the embedded chunks of documents, for the partitions of the run."


def refresh_job(family: Family) -> str:
    """Name of the job that makes a family's partitions."""
    return f"refresh_{family.name}"


def build_definitions(settings: Settings, resources: Mapping[str, Any] | None = None) -> dg.Definitions:
    """The definitions for `settings`; `resources` replaces resources by name."""
    families = (*FAMILIES, GRAPH) if settings.graph.enabled else FAMILIES
    partitioned = dg.AssetSelection.assets(*(table for family in families for table in family.tables))
    context = dg.AssetSelection.assets(*CONTEXT_TABLES)
    evaluation = dg.AssetSelection.groups(GROUP)
    report = dg.AssetSelection.groups(operations.GROUP)
    search = dg.AssetSelection.groups(SEARCH_GROUP)
    fetched = dg.AssetSelection.groups(fetch.GROUP)
    fetching = make_fetch_assets(settings)
    assets = [
        *fetching,
        *make_assets(settings),
        *make_evaluation_assets(settings),
        operations_report_asset(),
        search_results_asset(),
    ]
    return dg.Definitions(
        assets=[_owned(definition, settings) for definition in assets],
        asset_checks=[publish_checks(settings.embedding)],
        jobs=[
            *(
                [
                    dg.define_asset_job(
                        FETCH,
                        selection=fetched,
                        description="Bring what is new in the remotes of the sources.",
                        executor_def=dg.in_process_executor,
                    )
                ]
                if fetching
                else []
            ),
            *(
                dg.define_asset_job(
                    refresh_job(family),
                    selection=dg.AssetSelection.assets(*family.tables),
                    description=_REFRESHES.format(family.name) if family != GRAPH else _REFRESHES_GRAPH,
                    executor_def=dg.in_process_executor,
                )
                for family in families
            ),
            dg.define_asset_job(
                PUBLISH,
                selection=dg.AssetSelection.all()
                - partitioned
                - context
                - evaluation
                - report
                - search
                - fetched,
                description="Relate, embed, check and publish what the partitions hold.",
                executor_def=dg.in_process_executor,
            ),
            dg.define_asset_job(
                REPORT,
                selection=report,
                description="Draw how fast, how late and how large everything is.",
                executor_def=dg.in_process_executor,
            ),
            dg.define_asset_job(
                CONTEXT,
                selection=context,
                description="Search the published index with every conversation and put its context together.",
                executor_def=dg.in_process_executor,
            ),
            dg.define_asset_job(
                EVALUATE,
                selection=evaluation,
                description="Measure the published index with the configured queries.",
                executor_def=dg.in_process_executor,
            ),
            dg.define_asset_job(
                SEARCH,
                selection=search,
                description="Search the published index for the queries of the run's configuration.",
                executor_def=dg.in_process_executor,
            ),
            hourly_job(settings),
        ],
        schedules=[hourly_schedule(settings)],
        sensors=[vault_sensor(settings)],
        resources={**make_resources(settings), **(resources or {})},
        executor=dg.in_process_executor,
    )


def _owned(definition: dg.AssetsDefinition, settings: Settings) -> dg.AssetsDefinition:
    """`definition` with who answers for it, and a tag that tells what has partitions from what is made as a whole."""
    scope = "whole" if definition.partitions_def is None else "partition"
    return definition.map_asset_specs(
        lambda spec: spec.replace_attributes(
            owners=list(settings.operations.owners), tags={**spec.tags, SCOPE_TAG: scope}
        )
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster loads: the definitions for the settings file that `WEFT_CONFIG` names."""
    return build_definitions(load_settings())
