"""The assets with their jobs and resources: for builds, schedules and sensors."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any

import dagster as dg

from assets import fetch
from assets.evaluation import GROUP
from assets.operations import GROUP as OPERATIONS_GROUP
from assets.operations import operations_report_asset, readiness_checks
from assets.partitions import CONTEXT, SOURCE_TYPES
from assets.protocols.lake import Progress
from assets.publish import publish_checks
from assets.search import GROUP as SEARCH_GROUP
from assets.search import search_results_asset
from assets.sources import partitions_key
from dagster_project.composition.objects import make_lake, make_resources
from dagster_project.config.settings import Settings
from dagster_project.extensions import extra_parts
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.orchestration import asset_graph, names
from dagster_project.orchestration.freshness import freshness_checks
from dagster_project.orchestration.isolation import set_ending_aside
from dagster_project.orchestration.runs import held_by_run


def whole_assets(settings: Settings) -> set[str]:
    """The assets over the whole lake that a refresh makes."""
    return {table for phase in asset_graph.whole_phases(settings) for table in phase}


def asset_definitions(
    settings: Settings, resources: Mapping[str, Any] | None = None
) -> dg.Definitions:
    """Assets, checks and asset jobs for `settings`; `resources` replaces resources by name."""
    fetching = asset_graph.make_fetch_assets(settings)
    stages = (
        _with_sources(definition, settings) for definition in asset_graph.make_assets(settings)
    )
    assets = [
        *fetching,
        *_of_used_types(stages, settings),
        *asset_graph.make_evaluation_assets(settings),
        operations_report_asset(),
        search_results_asset(),
    ]
    by_name = {**make_resources(settings), **(resources or {})}
    by_name["io_manager"] = _lake(settings, by_name["progress"])
    return dg.Definitions(
        assets=[
            *map(_with_owner, asset_graph.make_source_assets(settings)),
            *(
                _with_code_references(definition.map_asset_specs(_with_owner))
                for definition in assets
            ),
        ],
        asset_checks=[
            publish_checks(settings.embedding),
            readiness_checks(settings.operations),
            freshness_checks(settings),
            *(check for checks in extra_parts("checks") for check in checks(settings)),
        ],
        jobs=[*refresh_jobs(settings), *_other_jobs(fetches=bool(fetching))],
        resources=by_name,
        executor=dg.in_process_executor,
    )


def published_definitions(settings: Settings) -> dg.Definitions:
    """The tables of the published file and the checks that people run on them; no build needs
    either.
    """
    published, checks = asset_graph.make_published_assets(settings)
    return dg.Definitions([_with_owner(spec) for spec in published], asset_checks=[checks])


def _lake(settings: Settings, progress: Progress) -> dg.IOManagerDefinition:
    """The way into the lake, with the run's locks held as long as the run lasts; `progress` hears
    of waits.
    """
    whole, tell = whole_assets(settings), partial(progress.step, names.WAITS, rows=0)
    apart = partial(set_ending_aside, settings)

    def open_lake(context: dg.InitResourceContext) -> Iterator[LakeIOManager]:
        with (
            held_by_run(context, settings.root, settings.lake_uri, whole, tell, apart),
            contextlib.closing(LakeIOManager(make_lake(settings))) as manager,
        ):
            yield manager

    return dg.IOManagerDefinition(resource_fn=contextlib.contextmanager(open_lake))  # type: ignore[arg-type]


def refresh_jobs(settings: Settings) -> list[Any]:
    """The jobs of a refresh: one for the partitions of each kind of source, and one for the whole
    lake.
    """
    types = [*SOURCE_TYPES, CONTEXT]
    jobs = [
        dg.define_asset_job(
            names.partitions_job(kind.partitions),
            selection=dg.AssetSelection.assets(
                *(
                    table
                    for each in types
                    if each.partitions == kind.partitions
                    for table in each.tables
                )
            ),
            description=f"Make the stale tables of partitions of {kind.name}: the plan says which, in ranges.",
        )
        for kind in SOURCE_TYPES
        if kind.partitions in asset_graph.used_partitions(settings)
    ]
    whole = dg.define_asset_job(
        names.WHOLE_LAKE,
        selection=dg.AssetSelection.assets(*sorted(whole_assets(settings))),
        description="Relate, embed and publish the partitions.",
        tags={names.SCOPE_TAG: names.WHOLE},
    )
    return [*jobs, whole]


_BEGINS = "Refresh now: fetch from the remotes of the sources, if they have any; runs of changed tables follow."


@dg.op
def no_remotes() -> None:
    """Nothing: no source has a remote, and only the runs that follow this one count."""


@dg.job(name=names.REFRESH_NOW, description=_BEGINS)
def refresh_without_remotes() -> None:
    """The job that begins a refresh where no source has a remote; runs of stale tables follow when
    it has ended.
    """
    no_remotes()


def recording_job(events: Sequence[dg.AssetMaterialization] = ()) -> dg.JobDefinition:
    """The job whose run records materializations that `weft follow` made."""

    @dg.op
    def record(context: dg.OpExecutionContext) -> None:
        for event in events:
            context.log_event(event)

    @dg.job(
        name=names.FOLLOWED,
        description="The tables that `weft follow` made, of an hour in one run.",
    )
    def followed_tables() -> None:
        record()

    return followed_tables


def _other_jobs(*, fetches: bool) -> list[Any]:
    parts = {
        **({names.REFRESH_NOW: (fetch.GROUP, _BEGINS)} if fetches else {}),
        names.REPORT: (OPERATIONS_GROUP, "Draw how fast, how late and how large everything is."),
        names.EVALUATE: (GROUP, "Measure the published index with the configured queries."),
        names.SEARCH: (
            SEARCH_GROUP,
            "Search the published index for the queries of the run's configuration.",
        ),
    }
    return [
        dg.define_asset_job(
            name, selection=dg.AssetSelection.groups(group), description=description
        )
        for name, (group, description) in parts.items()
    ] + [recording_job(), *([] if fetches else [refresh_without_remotes])]


def _with_sources(definition: dg.AssetsDefinition, settings: Settings) -> dg.AssetsDefinition:
    """`definition` below the partitions of its source type, if it reads sources and there are any."""
    source_type = next(
        (f for f in SOURCE_TYPES if definition.keys <= {*map(dg.AssetKey, f.tables)}), None
    )
    if source_type is None or definition.dependency_keys:
        return definition
    if not any(source.source_type == source_type.name for source in settings.sources):
        return definition
    deps = [partitions_key(source_type.name)]
    return definition.map_asset_specs(lambda spec: spec.merge_attributes(deps=deps))


def _of_used_types(
    definitions: Iterable[dg.AssetsDefinition], settings: Settings
) -> Iterator[dg.AssetsDefinition]:
    """The definitions without those whose source type no source has, and without edges to these:
    half of the graph would be assets that nothing ever makes.
    """
    unused = {*map(dg.AssetKey, asset_graph.unused_tables(settings))}

    def without(spec: dg.AssetSpec) -> dg.AssetSpec:
        deps = [dep for dep in spec.deps if dep.asset_key not in unused]
        metadata = {name: _lineage_without(value, unused) for name, value in spec.metadata.items()}
        return spec.replace_attributes(deps=deps, metadata=metadata)

    for definition in definitions:
        if not definition.keys & unused:
            reads = {*definition.dependency_keys} & unused
            yield definition.map_asset_specs(without) if reads else definition


def _lineage_without(value: Any, tables: Set[dg.AssetKey]) -> Any:
    """The lineage of columns without those of some tables; any other value as it is."""
    if not isinstance(value, dg.TableColumnLineage):
        return value
    columns = value.deps_by_column.items()
    deps = {name: [d for d in own if d.asset_key not in tables] for name, own in columns}
    return dg.TableColumnLineage({name: own for name, own in deps.items() if own})


def _with_owner(spec: dg.AssetSpec) -> dg.AssetSpec:
    """`spec` with who answers for it, and whether it has partitions or is over the whole lake."""
    scope = names.WHOLE if spec.partitions_def is None else "partition"
    return spec.replace_attributes(owners=["team:weft"], tags={**spec.tags, names.SCOPE_TAG: scope})


def _with_code_references(definition: dg.AssetsDefinition) -> Any:
    """`definition` with a link to the code that makes it; a stage links to the function that it
    calls.
    """
    if any("dagster/code_references" in spec.metadata for spec in definition.specs):
        return definition
    with warnings.catch_warnings():
        # Code references are marked beta in Dagster 1.13; the pin keeps them as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.with_source_code_references([definition])[0]
