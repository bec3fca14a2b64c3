"""The partitioned stages of every source type: assets that read sources, and assets that transform tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.partitions import BACKFILL, SourceType, outs
from assets.protocols.lake import Lake, Partitions, Progress, Staged
from assets.protocols.sources import SourcePartition, Sources
from transforms.schemas.chunks import TERMS
from transforms.schemas.table import Table
from transforms.settings.search import TermSettings
from transforms.text import terms

Fingerprint = Callable[..., str]
"""A hash of the rows of an Ibis table that concern a partition: takes the table, the partition's key and its inputs."""


@dataclass(frozen=True)
class Stage:
    """A multi-asset that makes `tables` of the tables `inputs` of the same partition.

    `make` takes the partition's key, its input tables in their order, then the tables of `whole`, which have no
    partitions, as Ibis tables; it returns one table for each of `tables`. `whole` maps each of its tables to a
    fingerprint; a new fingerprint makes the partition stale. If `columns` are named, only these of the inputs are read.
    """

    name: str
    tables: Mapping[str, Table]
    inputs: Sequence[str]
    version: str
    make: Callable[..., Sequence[pa.Table]]
    whole: Mapping[str, Fingerprint] = field(default_factory=dict)
    columns: Sequence[str] | None = None


@dataclass(frozen=True)
class _Step:
    """How to make the tables of one partition: `make(partition, *inputs)` returns one for each of `outputs`.

    The content hashes of the inputs, only of those `compared` if given, and the `fingerprints`, functions of the same
    arguments as `make`, are stored with the tables, so that a later run can tell whether they are up to date.
    """

    outputs: Mapping[str, Table]
    inputs: Sequence[Partitions]
    make: Callable[..., Sequence[pa.Table]]
    fingerprints: Mapping[str, Callable[..., str]]
    compared: Sequence[str] | None = None
    columns: Sequence[str] | None = None


def reading_asset(
    source_type: SourceType,
    name: str,
    tables: Mapping[str, Table],
    version: str,
    read: Callable[[Sources, SourcePartition], Sequence[pa.Table]],
) -> dg.AssetsDefinition:
    """The multi-asset `name`: `tables` read from the partitions of a source type's sources."""

    @dg.multi_asset(
        name=name,
        partitions_def=source_type.partitions,
        backfill_policy=BACKFILL,
        group_name=source_type.name,
        outs=outs(tables, version),
    )
    def read_partitions(
        context: dg.AssetExecutionContext,
        sources: dg.ResourceParam[Sources],
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[dg.Output[Any]]:
        step = _Step(
            tables,
            [],
            lambda partition: read(sources, sources.partition(partition)),
            {"partition": lambda partition: sources.partition(partition).fingerprint},
        )
        yield from _outputs(context, lake, progress, step)

    return read_partitions


def stage_asset(source_type: SourceType, stage: Stage) -> dg.AssetsDefinition:
    """The multi-asset of a stage of a source type."""

    @dg.multi_asset(
        name=stage.name,
        partitions_def=source_type.partitions,
        backfill_policy=BACKFILL,
        group_name=source_type.name,
        ins={table: dg.AssetIn(table) for table in (*stage.inputs, *stage.whole)},
        outs=outs(stage.tables, stage.version, "polars"),
        pool=source_type.pool,
    )
    def transform(
        context: dg.AssetExecutionContext,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
        **loaded: Any,
    ) -> Iterator[dg.Output[Any]]:
        step = _Step(
            stage.tables,
            [loaded[table] for table in stage.inputs],
            lambda partition, *tables: stage.make(
                partition, *tables, *(loaded[table] for table in stage.whole)
            ),
            {table: partial(fingerprint, loaded[table]) for table, fingerprint in stage.whole.items()},
            source_type.compared_inputs(stage.inputs),
            stage.columns,
        )
        yield from _outputs(context, lake, progress, step)

    return transform


def terms_asset(
    source_type: SourceType, name: str, chunk_table: str, settings: TermSettings
) -> dg.AssetsDefinition:
    """The asset `name`: the terms of the chunks in `chunk_table`."""
    return stage_asset(
        source_type,
        Stage(
            name,
            {name: TERMS},
            [chunk_table],
            f"{terms.VERSION}-{settings.digest()}",
            lambda partition, table: (terms.chunk_terms(table, settings),),
            columns=terms.CHUNK_COLUMNS,
        ),
    )


def _outputs(
    context: dg.AssetExecutionContext, lake: Lake, progress: Progress, step: _Step
) -> Iterator[dg.Output[Any]]:
    """Each output of a step: its staged partitions of this run by key. One partition is in memory at a time."""
    staged: dict[str, dict[str, Staged]] = {name: {} for name in step.outputs}
    first = next(iter(step.outputs))
    for partition in context.partition_keys:
        for name, part in _stage_partition(context, lake, step, partition):
            staged[name][partition] = part
        progress.step(first, partition, staged[first][partition].row_count)
        pa.default_memory_pool().release_unused()
    for name, parts in staged.items():
        yield dg.Output(parts, name)


def _stage_partition(
    context: dg.AssetExecutionContext, lake: Lake, step: _Step, partition: str
) -> Iterator[tuple[str, Staged]]:
    """Make and stage the tables of one partition; the tables leave memory when this ends."""
    versions = {k.path[-1]: v or "" for k, v in context.assets_def.code_versions_by_key.items()}
    loaded = [p.read(partition, step.columns) for p in step.inputs]
    inputs = [part.table for part in loaded]
    hashes = {p.table: part.content_hash for p, part in zip(step.inputs, loaded, strict=True)}
    compared = {table: hashes[table] for table in (hashes if step.compared is None else step.compared)}
    tables = step.make(partition, *inputs)
    # After making: a file that changes while it is read gives its partition another fingerprint.
    compared |= {name: fingerprint(partition, *inputs) for name, fingerprint in step.fingerprints.items()}
    with_ids = next((name for name, table in step.outputs.items() if table.key == ("chunk_id",)), None)
    for name, data in zip(step.outputs, tables, strict=True):
        counts = _id_changes(lake, name, partition, data) if name == with_ids else {}
        part = lake.stage(name, partition, data, code_version=versions[name], inputs=compared)
        _record(context, name, partition, part, counts)
        yield name, part


def _id_changes(lake: Lake, table: str, partition: str, data: pa.Table) -> dict[str, int]:
    """How many ids of a partition's table are new, were there before, and are gone."""
    before, now = lake.ids(table, partition), set(data.column(0).to_pylist())
    return {"added": len(now - before), "kept": len(now & before), "removed": len(before - now)}


def _record(
    context: dg.AssetExecutionContext, name: str, partition: str, part: Staged, counts: Mapping[str, int]
) -> None:
    context.add_asset_metadata(
        {"dagster/row_count": part.row_count, "content_hash": part.content_hash, **counts},
        asset_key=name,
        partition_key=partition,
    )
    if len(context.partition_keys) == 1:
        context.set_data_version(dg.AssetKey(name), dg.DataVersion(part.content_hash))
