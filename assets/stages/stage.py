"""The one function that makes Dagster's assets of stages, their partitions and their runs."""

import contextlib
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import IN_PARTS, PARTITIONS_OF_RUN, SOURCE_TYPES, WHOLE_PART, SourceType
from assets.protocols.engine import Engine, MadeTable, Outcome
from assets.protocols.lake import Lake, Partitions, Parts, Progress, Staged
from assets.protocols.search import ContextIndex
from assets.stages.apart import TextInPartition, failing_of_bucket, failing_of_lake, set_aside
from assets.stages.buckets import BUCKETS, Buckets, Reads
from assets.stages.declaration import Made, SettingsOf, Stage
from assets.stages.shown import (
    chosen_settings,
    code_reference,
    column_lineage,
    config_of,
    drawn,
    in_words,
    preview,
    table_metadata,
)
from assets.stages.singly import FILE_FAULTS, is_of_content
from assets.stages.stage_run import StageRun, figures_of
from transforms.errors import WeftError
from transforms.hashing import parts_hash

_TASK = ("engine", "sources")
"""Resources of a stage that an engine may run elsewhere."""


class Tables(Protocol):
    """The tables of the lake as the stages of one run read them."""

    own_events: Mapping[str, bool]
    """Metadata of an output of partitions: their materializations are recorded here, and by Dagster
    none.
    """

    shared: dict[Any, Any]
    """Results that the stages of a run share, by a name or a key."""

    def reader(self, table: str) -> Partitions:
        """The reader of the partitions of a table."""

    def over_all(self, table: str, instance: dg.DagsterInstance) -> ibis.Table:
        """A table over all partitions that Dagster knows, or a table without partitions as a whole."""

    def table(self, name: str, partitions: Sequence[str]) -> ibis.Table:
        """A table over some partitions."""


def assets_of(stages: Sequence[Stage]) -> list[dg.AssetsDefinition]:
    """The multi-assets of the stages, in their order."""
    with warnings.catch_warnings():
        # Backfill policies and code references are marked beta in Dagster 1.13; the pin keeps them
        # as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return [stage_asset(stage) for stage in stages]


def stage_asset(stage: Stage) -> dg.AssetsDefinition:
    """The multi-asset of a stage: its view in Dagster, its configuration, and the run of `make`."""
    # A stage that reads sources takes the settings of the file alone: with these the sources were
    # opened.
    config = (
        None
        if stage.settings is None or stage.reads_sources
        else config_of(stage.name, stage.settings)
    )
    source_type = stage.source_type
    inputs = (*stage.inputs, *([BUCKETS] if stage.in_buckets else []))

    @dg.multi_asset(
        name=stage.name,
        partitions_def=partitions_def(source_type) if source_type else None,
        backfill_policy=BACKFILL if source_type else None,
        group_name=source_type.name if source_type else stage.shown.group,
        # Read in the step itself: of each input that Dagster loads it stores two events.
        deps=[*inputs, *stage.needs.deps, *(["search_index"] if stage.asks_index else [])],
        outs={name: _out(stage, name) for name in stage.outputs},
        can_subset=len(stage.outputs) > 1,
        pool="embedding" if "embedder" in stage.needs.resources else None,
        config_schema=config.to_fields_dict() if config else None,
        required_resource_keys=_resources(stage),
    )
    def run_stage(context: dg.AssetExecutionContext) -> Iterator[dg.Output[Any]]:
        settings = chosen_settings(
            stage.settings, context.op_execution_context.op_config if config else None
        )
        tables: Tables = context.resources.io_manager
        if source_type:
            loaded: dict[str, Any] = {table: tables.reader(table) for table in inputs}
        else:
            loaded = {table: tables.over_all(table, context.instance) for table in inputs}
        run = _Run(context, stage, settings, loaded)
        with in_words(), _opened_index(context, stage) as index:
            run.resources.update(index)
            if source_type:
                yield from run.partitions()
            else:
                yield from run.buckets(stage.in_buckets) if stage.in_buckets else run.lake_wide()

    return run_stage


def _resources(stage: Stage) -> set[str]:
    """The names of the resources of Dagster that a stage needs."""
    needed = {"published_index" if name == "index" else name for name in stage.needs.resources}
    apart = ("sources",) if stage.source_type is None and stage.has_no_effect else ()
    own = _TASK if stage.is_task else apart
    return needed | {"io_manager", "lake", "progress", *own}


@contextlib.contextmanager
def _opened_index(
    context: dg.AssetExecutionContext, stage: Stage
) -> Iterator[dict[str, ContextIndex]]:
    """The published index as a resource of `make`, open as long as a stage needs it."""
    if not stage.asks_index:
        yield {}
        return
    with context.resources.published_index.open() as index:
        yield {"index": index}


def _out(stage: Stage, name: str) -> dg.AssetOut:
    table = stage.schemas[name]
    metadata: dict[str, Any] = {}
    if isinstance(stage.settings, Mapping):
        metadata["settings"] = {
            source: own.model_dump(mode="json") for source, own in stage.settings.items()
        }
    elif stage.settings is not None:
        metadata["settings"] = stage.settings.model_dump(mode="json")
    lineage = column_lineage(table, stage.inputs, stage.shown.lineage)
    return dg.AssetOut(
        is_required=len(stage.outputs) == 1,
        description=f"{stage.shown.does}\n\nOne row: {table.comment}",
        code_version=stage.code_version(stage.settings),
        metadata={
            **table_metadata(table),
            **metadata,
            **({"dagster/column_lineage": lineage} if lineage.deps_by_column else {}),
            "dagster/code_references": code_reference(stage.shown.code or stage.make),
        },
        kinds={"parquet", *stage.shown.kinds},
    )


@dataclass(frozen=True)
class _MadePartition:
    """The materialization of a partition, and its file if that is still to be made visible."""

    staged: Staged | None
    event: dg.AssetMaterialization


class _Run:
    """One run of a stage's asset: `loaded` are its inputs, readers of partitions or Ibis tables
    over all of them.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        stage: Stage,
        settings: SettingsOf | None,
        loaded: Mapping[str, Any],
    ):
        self.context, self.stage, self.loaded = context, stage, loaded
        self.lake: Lake = context.resources.lake
        self.progress: Progress = context.resources.progress
        self.resources = {
            name: getattr(context.resources, name)
            for name in stage.needs.resources
            if name != "index"
        }
        sources = context.resources.sources if stage.is_task else None
        self.work = StageRun(stage, settings, self.lake, self.resources, sources)
        self.code_version = self.work.code_version
        chosen = context.op_execution_context.selected_output_names
        self.selected = [name for name in stage.outputs if name in chosen]

    def lake_wide(self) -> Iterator[dg.Output[Any]]:
        """The tables over the whole lake, each staged under the code version of the settings of
        this run.
        """
        start, first = time.perf_counter(), self.selected[0]
        self.progress.step(first, None, 0)
        # Before reading: changes meanwhile make the tables stale.
        state = state_of_run(self.lake, self.context)
        read = {table: self.loaded[table] for table in self.stage.inputs}

        def make(tables: Sequence[ibis.Table]) -> tuple[Made, dict[str, pa.Table]]:
            output = self.work.make(tables)
            return output, dict(self._selected(output.tables))

        with self._setting_aside(partial(failing_of_lake, self.stage.name, make, read)):
            result, made_tables = make([*read.values()])
        inputs = {**result.inputs, LAKE: state}
        for name, table in made_tables.items():
            part = WHOLE_PART if name in IN_PARTS else None
            staged = self.lake.stage(
                name, part, table, code_version=self.code_version, inputs=inputs
            )
            figures = figures_of(staged, start, "dagster/row_count")
            figures["preview"] = preview(table)
            if name == first:
                self.progress.step(first, None, staged.row_count)
                figures |= drawn(result.metadata)
            yield dg.Output(
                Parts((), [(WHOLE_PART, staged)]) if name in IN_PARTS else staged,
                name,
                metadata=figures,
                tags={"dagster/code_version": self.code_version},
            )

    def buckets(self, reads: Reads) -> Iterator[dg.Output[Any]]:
        """The tables in parts; rebuilds parts of other code, or of other rows than those of now."""
        start, first = time.perf_counter(), self.selected[0]
        self.progress.step(first, None, 0)
        manager: Tables = self.context.resources.io_manager
        buckets = Buckets(reads, self.loaded, manager.table, manager.shared)
        codes = self._codes(reads)
        inputs = {bucket: codes | hashes for bucket, hashes in buckets.fingerprints().items()}
        stale = []
        for bucket, hashes in sorted(inputs.items()):
            footers = [self.lake.footer(name, bucket) for name in self.selected]
            if not all(
                f and (f.code_version, f.inputs) == (self.code_version, hashes) for f in footers
            ):
                stale.append(bucket)
        staged: dict[str, list[tuple[str, Staged]]] = {name: [] for name in self.selected}
        for bucket, tables in buckets.rows_of(stale):
            make = partial(self.work.make, bucket=bucket)
            read = dict(zip(reads, tables, strict=True))
            with self._setting_aside(
                partial(failing_of_bucket, self.stage.name, make, read, self.loaded["memberships"])
            ):
                result = make(tables)
            for name, table in self._selected(result.tables):
                part = self.lake.stage(
                    name, bucket, table, code_version=self.code_version, inputs=inputs[bucket]
                )
                staged[name].append((bucket, part))
            self.progress.step(first, bucket, staged[first][-1][1].row_count)
        retained = inputs.keys() - set(stale)
        seconds = round(time.perf_counter() - start, 3)
        for name, parts in staged.items():
            yield dg.Output(
                Parts(retained, parts),
                name,
                metadata={"buckets": len(inputs), "made": len(stale), "time_seconds": seconds},
                tags={"dagster/code_version": self.code_version},
            )

    @contextlib.contextmanager
    def _setting_aside(
        self, failing: Callable[[BaseException], Mapping[TextInPartition, str]]
    ) -> Iterator[None]:
        """Raise SetAsideError if mails or documents cause a fault, which are in quarantine then."""
        try:
            yield
        except FILE_FAULTS as fault:
            if not (self.stage.has_no_effect and is_of_content(fault)):
                raise
            if not (units := failing(fault)):
                raise
            sources = self.context.resources.sources
            name, inputs = self.stage.name, self.stage.inputs
            raise set_aside(name, self.lake, sources, inputs, units) from fault

    def _selected(self, tables: Sequence[Any]) -> Iterator[tuple[str, pa.Table]]:
        for name, data in zip(self.stage.outputs, tables, strict=True):
            if name in self.selected:
                yield name, data.to_pyarrow() if isinstance(data, ibis.Table) else data

    def _codes(self, tables: Iterable[str]) -> dict[str, str]:
        """The code versions of the stored partitions of tables, since not every column of these is
        compared.
        """
        codes = {f"code of {table}": self.lake.code_versions(table) for table in tables}
        return {name: " ".join(versions) for name, versions in codes.items() if versions}

    def partitions(self) -> Iterator[dg.Output[Any]]:
        """Each output: its staged partitions of this run by key. One partition is in memory at a
        time.
        """
        stage = self.stage
        provenance = Provenance(self.context, stage.inputs, stage.compared_inputs())
        staged: dict[str, dict[str, _MadePartition]] = {name: {} for name in self.selected}
        first, keys = next(iter(staged)), self._partition_keys()
        outcomes, faults = self._outcomes(), []
        for partition in keys:
            outcome = outcomes[partition] if outcomes else None
            if outcome and outcome.fault and first not in outcome.tables:
                faults.append(outcome.fault)
                continue
            stored = ((outcome.tables[name], None) for name in self.selected) if outcome else None
            for output, file in stored or self._staged(partition, partition == keys[-1]):
                tags = provenance.tags(output.content_hash, output.code_version, output.read)
                event = dg.AssetMaterialization(
                    output.name, partition=partition, metadata=drawn(output.figures), tags=tags
                )
                staged[output.name][partition] = _MadePartition(file, event)
                if output.name == first:
                    self.progress.step(first, partition, output.row_count)
            pa.default_memory_pool().release_unused()
        if faults:
            for part in (part for parts in staged.values() for part in parts.values()):
                self.context.log_event(part.event)
            raise faults[0]
        for name, parts in staged.items():
            yield dg.Output(parts, name, metadata=self.context.resources.io_manager.own_events)

    def _partition_keys(self) -> Sequence[str]:
        """The partitions of the run; WeftError if it names none."""
        if self.context.has_partition_key or self.context.has_partition_key_range:
            return self.context.partition_keys
        raise WeftError(
            f"the run names no partition of {self.selected[0]}: add one, as `--partition dev/2025-01`, or choose some "
            "in Dagster; `weft build` makes all that are stale"
        )

    def _outcomes(self) -> Mapping[str, Outcome] | None:
        """The outcomes of the engine for the partitions of this run; None if the stage makes them
        here.

        The engine knows the settings of the file alone: a run with settings of its own makes its
        partitions itself.
        """
        run = self.context.run
        if not self.stage.is_task or run.run_config.get("ops"):
            return None
        engine: Engine = self.context.resources.engine
        tables = {key.path[-1] for key in run.asset_selection or self.context.selected_asset_keys}
        return engine.outcomes(run.run_id, tables, self.context.partition_keys)

    def _staged(self, partition: str, is_last: bool) -> Iterator[tuple[MadeTable, Staged]]:
        """Make and stage the tables of one partition; the tables leave memory when this ends."""
        readers = [self.loaded[table] for table in self.stage.inputs]
        for output, file, data in self.work.stage_partition(partition, readers, self.selected):
            # Dagster shows the newest; beside each partition previews would swell its history.
            shown = {"preview": preview(data)} if is_last else {}
            yield replace(output, figures={**output.figures, **shown}), file


BACKFILL = dg.BackfillPolicy.multi_run(PARTITIONS_OF_RUN)


def partitions_def(source_type: SourceType) -> dg.DynamicPartitionsDefinition:
    """The dynamic partitions of a source type; source types with the same name of partitions share
    them.
    """
    return dg.DynamicPartitionsDefinition(name=source_type.partitions)


_NEVER_COMPARED = 1 << 62
"""Behind every event: Dagster looks for changes of an input behind this one, and must find none."""


class Provenance:
    """The tags of the materializations of one step (dagster 1.13, `_build_data_version_tags` and
    `StaleStatusResolver`).

    If an input has partitions, Dagster compares the data versions before and after the event that a
    materialization points to: the last of all when the step began. If not, it compares the data
    version itself.
    """

    def __init__(
        self, context: dg.AssetExecutionContext, inputs: Collection[str], compared: Collection[str]
    ):
        """`inputs` are the tables that the step reads by partition; those that are not `compared`
        make nothing stale.
        """
        newest = context.instance.event_log_storage.get_maximum_record_id() or 0
        uncompared = set(inputs) - set(compared)
        self._tags: dict[str, str] = {}
        self._names: dict[str, str] = {}
        for key in {key for keys in context.assets_def.asset_deps.values() for key in keys}:
            name, table = key.to_user_string(), key.path[-1]
            pointer = _NEVER_COMPARED if table in uncompared else newest
            self._tags[f"dagster/input_event_pointer/{name}"] = str(pointer)
            self._tags[f"dagster/input_data_version/{name}"] = "INITIAL"
            if table in inputs:
                self._names[table] = name
            elif table == "search_index" and (
                event := context.instance.get_latest_materialization_event(key)
            ):
                version = (event.tags or {}).get("dagster/data_version", "INITIAL")
                self._tags[f"dagster/input_data_version/{name}"] = version

    def tags(
        self, content_hash: str, code_version: str, inputs: Mapping[str, str]
    ) -> dict[str, str]:
        """The tags of a partition with that content, made by that code of `inputs` (content hash by
        table).
        """
        versions = {
            f"dagster/input_data_version/{self._names[t]}": h
            for t, h in inputs.items()
            if t in self._names
        }
        return {
            **self._tags,
            **versions,
            "dagster/data_version": content_hash,
            "dagster/data_version_is_user_provided": "true",
            "dagster/code_version": code_version,
        }


LAKE = "lake"
"""The name of the hash among the inputs in the footer of a table over the whole lake."""


def lake_state(lake: Lake, partitions: Mapping[str, Sequence[str]]) -> str:
    """A hash of the content of all tables of `partitions`, by the name of their kind, that the lake
    has.
    """

    def parts() -> Iterator[str]:
        for source_type in SOURCE_TYPES:
            for partition in sorted(partitions.get(source_type.partitions, ())):
                for table in source_type.tables:
                    if footer := lake.footer(table, partition):
                        yield from (table, partition, footer.content_hash)

    return parts_hash(parts())


def state_of_run(lake: Lake, context: dg.AssetExecutionContext) -> str:
    """`lake_state` of the partitions that Dagster knows, as it was when a step of the run first
    asked.
    """
    names = [source_type.partitions for source_type in SOURCE_TYPES]
    partitions = tuple(
        (name, tuple(context.instance.get_dynamic_partitions(name))) for name in names
    )
    whole: Any = lake
    return _remembered(whole, context.run.run_id, partitions)


@lru_cache(maxsize=2)
def _remembered(lake: Any, run_id: str, partitions: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """`lake_state`, once in a run: each step over the whole lake asks for it."""
    return lake_state(lake, dict(partitions))
