"""Stages: what makes tables of the lake, declared as data, and the one function that makes Dagster's assets of them."""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import BACKFILL, IN_PARTS, WHOLE_PART, SourceType, table_metadata
from assets.protocols.lake import Lake, Partitions, Parts, Progress, Staged, StagedPartition
from assets.protocols.sources import Sources
from assets.stages.buckets import BUCKETS, Buckets, OfBucket, Reads
from assets.stages.config import chosen_settings, config_of
from assets.stages.provenance import Provenance
from assets.stages.shown import code_reference, column_lineage, preview
from transforms.schemas.chunks import TERMS
from transforms.schemas.table import Table
from transforms.settings.base import StageSettings, digest_of
from transforms.settings.search import TermSettings
from transforms.text import terms

Fingerprint = Callable[..., str]
"""A hash of the rows of an Ibis table that concern a partition: takes the table, the partition's key and its inputs."""
Settings = StageSettings | Mapping[str, StageSettings]
"""The settings of a stage: one for all its partitions, or one for each source, by its name."""

_ONLY_OWN_EVENTS = {"__source_asset_observation__": True}
"""Metadata of an output of which Dagster itself records no materialization.

Of a range of partitions it would record the same data version for each (dagster 1.13, `_get_output_asset_events`); the
lake's I/O manager records the materializations of the stage, each with the content hash of its partition.
"""


@dataclass(frozen=True)
class Made:
    """The tables that a stage made, with figures that Dagster shows beside the first of them.

    `inputs` say what a table over the whole lake was made of, if its stage wants to know the next time.
    """

    tables: Sequence[Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """A step that makes the tables `outputs`, of each partition of `source_type`, or of the whole lake if that is None.

    `make` takes the `inputs` (of a partition: Arrow tables of the same partition; else Ibis tables), then the tables
    `whole`, which have no partitions, as Ibis tables, then the `settings`, and the `resources` by name. It returns a
    table, one for each of `outputs`, or `Made`. A stage without inputs reads sources: its `make` takes the sources and
    a `SourcePartition`. Its code version is `version` and a digest of the settings.

    With `in_buckets`, what the stage reads of its inputs by their names, the tables are stored in parts, one for each bucket
    of mails; `make` takes the rows of one bucket, and a part is made again only if these changed. The resource `lake` is
    then an `OfBucket`.

    `whole` maps each table to a fingerprint of what concerns a partition; a new one makes the partition stale. `deps` are
    tables that are read through the inputs. If the stage `asks_index`, `make` takes the published index as `index`, one
    version for all partitions of a run, and this version is compared like an input. If `columns` are named, only these of
    the inputs are read. `code` is the function that Dagster links to, `make` by default. `lineage` names the columns
    (`table.column`) that a column is made of; a column that is declared the same in an input comes from there.
    """

    name: str
    outputs: Mapping[str, Table]
    make: Callable[..., Any]
    version: str
    does: str
    inputs: Sequence[str] = ()
    settings: Settings | None = None
    source_type: SourceType | None = None
    group: str = "relations"
    digest: Callable[[Any], str] | None = None
    whole: Mapping[str, Fingerprint] = field(default_factory=dict)
    in_buckets: Mapping[str, Reads] | None = None
    deps: Sequence[str] = ()
    columns: Sequence[str] | None = None
    resources: Sequence[str] = ()
    asks_index: bool = False
    pool: str | None = None
    kinds: Sequence[str] = ("polars",)
    code: Callable[..., Any] | None = None
    lineage: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def code_version(self, settings: Settings | None) -> str:
        """The version of the code with a digest of `settings`, by which stored tables are compared."""
        version = f"{self.version}b" if self.in_buckets else self.version
        if settings is None:
            return version
        if self.digest:
            return f"{version}-{self.digest(settings)}"
        return (
            f"{version}-{settings.digest() if isinstance(settings, StageSettings) else digest_of(settings)}"
        )

    @property
    def reads_sources(self) -> bool:
        """True if the stage reads sources and no tables."""
        return self.source_type is not None and not self.inputs

    def compared_inputs(self) -> list[str]:
        """The inputs whose content decides whether the tables of a partition are up to date."""
        return [] if self.source_type is None else self.source_type.compared_inputs(self.inputs)


def terms_stage(source_type: SourceType, name: str, chunk_table: str, settings: TermSettings) -> Stage:
    """The stage of the table `name`: the terms of the chunks in `chunk_table`."""
    return Stage(
        name,
        {name: TERMS},
        terms.chunk_terms,
        terms.VERSION,
        f"Counts the terms of each chunk in `{chunk_table}`, field by field, for the lexical index.",
        inputs=(chunk_table,),
        settings=settings,
        source_type=source_type,
        columns=terms.CHUNK_COLUMNS,
        lineage={"chunk_id": (f"{chunk_table}.chunk_id",)},
    )


def assets_of(stages: Sequence[Stage]) -> list[dg.AssetsDefinition]:
    """The multi-assets of the stages, in their order."""
    with warnings.catch_warnings():
        # Backfill policies and code references are marked beta in Dagster 1.13; the pin keeps them as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return [stage_asset(stage) for stage in stages]


def stage_asset(stage: Stage) -> dg.AssetsDefinition:
    """The multi-asset of a stage: what Dagster shows of it, how it is configured, and the run of `make`."""
    # What reads sources takes the settings of the file alone: with these the sources were opened.
    config = None if stage.settings is None or stage.reads_sources else config_of(stage.name, stage.settings)
    source_type = stage.source_type
    bucketed = [BUCKETS] if stage.in_buckets else []

    @dg.multi_asset(
        name=stage.name,
        partitions_def=source_type.partitions if source_type else None,
        backfill_policy=BACKFILL if source_type else None,
        group_name=source_type.name if source_type else stage.group,
        ins={table: dg.AssetIn(table) for table in (*stage.inputs, *bucketed, *stage.whole)},
        deps=[*stage.deps, *_index_of(stage)],
        outs={name: _out(stage, name) for name in stage.outputs},
        pool=stage.pool or (source_type.pool if source_type else None),
        config_schema=config.to_fields_dict() if config else None,
        required_resource_keys={
            "lake",
            "progress",
            *(["sources"] if stage.reads_sources else []),
            *stage.resources,
            *(["published_index"] if stage.asks_index else []),
        },
    )
    def run_stage(context: dg.AssetExecutionContext, **loaded: Any) -> Iterator[dg.Output[Any]]:
        settings = chosen_settings(stage.settings, context.op_execution_context.op_config if config else None)
        run = _Run(context, stage, settings, loaded)
        with run.published_index():
            if source_type:
                yield from run.partitions()
            else:
                yield from run.buckets(stage.in_buckets) if stage.in_buckets else run.lake_wide()

    return run_stage


def _index_of(stage: Stage) -> list[str]:
    """The asset that publishes, if the stage asks what it published."""
    return ["search_index"] if stage.asks_index else []


def _out(stage: Stage, name: str) -> dg.AssetOut:
    """What Dagster shows of the table `name` of a stage."""
    table = stage.outputs[name]
    shown: dict[str, Any] = {}
    if isinstance(stage.settings, Mapping):
        shown["settings"] = {source: own.model_dump(mode="json") for source, own in stage.settings.items()}
    elif stage.settings is not None:
        shown["settings"] = stage.settings.model_dump(mode="json")
    lineage = column_lineage(table, stage.inputs, stage.lineage)
    return dg.AssetOut(
        description=f"{stage.does}\n\nOne row: {table.comment}",
        code_version=stage.code_version(stage.settings),
        metadata={
            **table_metadata(table),
            **shown,
            **({"dagster/column_lineage": lineage} if lineage.deps_by_column else {}),
            "dagster/code_references": code_reference(stage.code or stage.make),
        },
        kinds={"parquet", *stage.kinds},
    )


class _Run:
    """One run of a stage's asset: `loaded` are its inputs as the I/O manager gives them."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        stage: Stage,
        settings: Settings | None,
        loaded: Mapping[str, Any],
    ):
        self.context, self.stage, self.settings, self.loaded = context, stage, settings, loaded
        self.lake: Lake = context.resources.lake
        self.progress: Progress = context.resources.progress
        self.code_version = stage.code_version(settings)
        self.whole = [loaded[table] for table in stage.whole]
        self.resources = {name: getattr(context.resources, name) for name in stage.resources}

    @contextlib.contextmanager
    def published_index(self) -> Iterator[None]:
        """Hold the published index open, if the stage asks it."""
        if not self.stage.asks_index:
            yield
            return
        with self.context.resources.published_index.open() as index:
            self.resources["index"] = index
            yield

    def lake_wide(self) -> Iterator[dg.Output[Any]]:
        """The tables over the whole lake, each staged under the code version of the settings of this run."""
        start = time.perf_counter()
        made = self._make([self.loaded[table] for table in self.stage.inputs], self.settings)
        for name, data in zip(self.stage.outputs, made.tables, strict=True):
            table = data.to_pyarrow() if isinstance(data, ibis.Table) else data
            part = WHOLE_PART if name in IN_PARTS else None
            staged = self.lake.stage(name, part, table, code_version=self.code_version, inputs=made.inputs)
            facts = _facts(staged, start) | {"dagster/row_count": staged.row_count, "preview": preview(table)}
            first = name == next(iter(self.stage.outputs))
            yield dg.Output(
                Parts((), [(WHOLE_PART, staged)]) if name in IN_PARTS else staged,
                name,
                metadata={**facts, **(made.metadata if first else {})},
                tags={"dagster/code_version": self.code_version},
            )

    def buckets(self, reads: Mapping[str, Reads]) -> Iterator[dg.Output[Any]]:
        """The tables in parts, of which those are made that are of other code, or of other rows than there are now."""
        start, outputs = time.perf_counter(), self.stage.outputs
        buckets = Buckets(reads, self.loaded)
        codes = self._codes(reads)
        inputs = {bucket: codes | hashes for bucket, hashes in buckets.fingerprints().items()}
        stale = [bucket for bucket, hashes in sorted(inputs.items()) if not self._is_right(bucket, hashes)]
        staged: dict[str, list[tuple[str, Staged]]] = {name: [] for name in outputs}
        for bucket, tables in buckets.rows_of(stale):
            made = self._make(tables, self.settings, bucket)
            for name, data in zip(outputs, made.tables, strict=True):
                table = data.to_pyarrow() if isinstance(data, ibis.Table) else data
                part = self.lake.stage(
                    name, bucket, table, code_version=self.code_version, inputs=inputs[bucket]
                )
                staged[name].append((bucket, part))
        retained = inputs.keys() - set(stale)
        figures = {
            "buckets": len(inputs),
            "made": len(stale),
            "seconds": round(time.perf_counter() - start, 3),
        }
        for name, parts in staged.items():
            yield dg.Output(
                Parts(retained, parts),
                name,
                metadata=figures,
                tags={"dagster/code_version": self.code_version},
            )

    def _codes(self, tables: Iterable[str]) -> dict[str, str]:
        """The code versions of the stored partitions of tables, since not every column of these is compared."""
        found = {f"code of {table}": self.lake.code_versions(table) for table in tables}
        return {name: " ".join(versions) for name, versions in found.items() if versions}

    def _is_right(self, bucket: str, inputs: Mapping[str, str]) -> bool:
        """True if this code made the parts of a bucket of these inputs."""
        footers = [self.lake.footer(name, bucket) for name in self.stage.outputs]
        return all(f and (f.code_version, f.inputs) == (self.code_version, inputs) for f in footers)

    def partitions(self) -> Iterator[dg.Output[Any]]:
        """Each output: its staged partitions of this run by key. One partition is in memory at a time."""
        stage = self.stage
        whole = [*stage.whole, *_index_of(stage)]
        provenance = Provenance(self.context, stage.inputs, stage.compared_inputs(), whole)
        staged: dict[str, dict[str, StagedPartition]] = {name: {} for name in stage.outputs}
        first, keys = next(iter(staged)), self.context.partition_keys
        for partition in keys:
            for name, made in self._stage_partition(partition, provenance, partition == keys[-1]):
                staged[name][partition] = made
            self.progress.step(first, partition, staged[first][partition].staged.row_count)
            pa.default_memory_pool().release_unused()
        for name, parts in staged.items():
            yield dg.Output(parts, name, metadata=_ONLY_OWN_EVENTS)

    def _stage_partition(
        self, partition: str, provenance: Provenance, is_last: bool
    ) -> Iterator[tuple[str, StagedPartition]]:
        """Make and stage the tables of one partition; the tables leave memory when this ends."""
        start, stage = time.perf_counter(), self.stage
        if stage.reads_sources:
            sources: Sources = self.context.resources.sources
            made = self._make([sources, sources.partition(partition)], self.settings)
            # After making: a file that changes while it is read gives its partition another fingerprint.
            inputs = compared = {"partition": sources.partition(partition).fingerprint}
        else:
            readers: list[Partitions] = [self.loaded[table] for table in stage.inputs]
            read = {reader.table: reader.read(partition, stage.columns) for reader in readers}
            tables = [part.table for part in read.values()]
            made = self._make([*tables, *self.whole], _of_source(self.settings, partition))
            inputs = {table: part.content_hash for table, part in read.items()}
            compared = {table: inputs[table] for table in stage.compared_inputs()} | {
                table: fingerprint(self.loaded[table], partition, *tables)
                for table, fingerprint in stage.whole.items()
            }
            if stage.asks_index:
                compared["search_index"] = self.resources["index"].facts["index_version"]
        counted = next((name for name, table in stage.outputs.items() if table.key == ("chunk_id",)), None)
        for name, data in zip(stage.outputs, made.tables, strict=True):
            counts = _id_changes(self.lake, name, partition, data) if name == counted else dict(made.metadata)
            part = self.lake.stage(name, partition, data, code_version=self.code_version, inputs=compared)
            facts = _facts(part, start) | {"dagster/partition_row_count": part.row_count} | counts
            if is_last:  # Dagster shows the newest; beside each partition they would swell its history.
                facts["preview"] = preview(data)
            tags = provenance.tags(part.content_hash, self.code_version, inputs)
            event = dg.AssetMaterialization(name, partition=partition, metadata=facts, tags=tags)
            yield name, StagedPartition(part, event)

    def _make(self, inputs: Sequence[Any], settings: Settings | None, bucket: str | None = None) -> Made:
        """What `make` returns for the inputs, as `Made`."""
        args = [*inputs] if settings is None else [*inputs, settings]
        resources = self.resources
        if bucket and "lake" in resources:
            resources = resources | {"lake": OfBucket(self.lake, bucket)}
        made = self.stage.make(*args, **resources)
        if isinstance(made, Made):
            return made
        return Made([made] if isinstance(made, pa.Table | ibis.Table) else made)


def _of_source(settings: Settings | None, partition: str) -> Settings | None:
    """The settings for the source of a partition."""
    return settings[partition.partition("/")[0]] if isinstance(settings, Mapping) else settings


def _facts(staged: Staged, start: float) -> dict[str, Any]:
    """What of a staged file is shown beside its rows, and the seconds since `start`."""
    return {
        "content_hash": staged.content_hash,
        "bytes": staged.bytes,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _id_changes(lake: Lake, table: str, partition: str, data: pa.Table) -> dict[str, int]:
    """How many ids of a partition's table are new, were there before, and are gone."""
    before, now = lake.ids(table, partition), set(data.column(0).to_pylist())
    return {"added": len(now - before), "kept": len(now & before), "removed": len(before - now)}
