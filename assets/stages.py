"""The partitioned stages of every source type, made by two functions: one that reads sources, one that transforms tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.partitions import BACKFILL, SourceType, outs, stage_partitions
from assets.protocols.lake import Lake, Progress
from assets.protocols.sources import SourcePartition, Sources
from transforms.schemas.table import Table

Fingerprint = Callable[..., str]
"""A hash of what an Ibis table holds for a partition: takes the table, the partition's key and its input tables."""


def reading_asset(
    source_type: SourceType,
    name: str,
    tables: Mapping[str, Table],
    version: str,
    read: Callable[[Sources, SourcePartition], Sequence[pa.Table]],
) -> dg.AssetsDefinition:
    """The multi-asset `name`: `tables` made of the partitions of a source type's sources."""

    @dg.multi_asset(
        name=name,
        partitions_def=source_type.partitions,
        backfill_policy=BACKFILL,
        group_name=source_type.name,
        outs=outs(tables, version),
    )
    def read_units(
        context: dg.AssetExecutionContext,
        sources: dg.ResourceParam[Sources],
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> Iterator[dg.Output[Any]]:
        staged = stage_partitions(
            context,
            lake,
            progress,
            list(tables),
            [],
            lambda partition: read(sources, sources.partition(partition)),
            fingerprints={"partition": lambda partition: sources.partition(partition).fingerprint},
        )
        yield from map(dg.Output, staged, tables)

    return read_units


def stage_asset(
    source_type: SourceType,
    name: str,
    tables: Mapping[str, Table],
    inputs: Sequence[str],
    version: str,
    make: Callable[..., Sequence[pa.Table]],
    whole: Mapping[str, Fingerprint] | None = None,
    pool: str | None = None,
    columns: Sequence[str] | None = None,
) -> dg.AssetsDefinition:
    """The multi-asset `name`: `tables` made of the tables `inputs` of the same partition.

    `make` takes the partition's key, its input tables in their order, then as Ibis tables those that
    `whole` names, which have no partitions, and returns one table for each of `tables`. `whole` says of
    each what of it concerns a partition, as a hash: when that changes, the partition is made again. Where all that
    is read of the inputs are some `columns`, the others stay out of memory.
    """
    joined = whole or {}

    @dg.multi_asset(
        name=name,
        partitions_def=source_type.partitions,
        backfill_policy=BACKFILL,
        group_name=source_type.name,
        ins={table: dg.AssetIn(table) for table in (*inputs, *joined)},
        outs=outs(tables, version, "polars"),
        pool=pool,
    )
    def transform(
        context: dg.AssetExecutionContext,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
        **loaded: Any,
    ) -> Iterator[dg.Output[Any]]:
        staged = stage_partitions(
            context,
            lake,
            progress,
            list(tables),
            [loaded[table] for table in inputs],
            lambda partition, *given: make(partition, *given, *(loaded[table] for table in joined)),
            fingerprints={table: partial(of, loaded[table]) for table, of in joined.items()},
            compared=next((name for name, table in tables.items() if table.key == ("chunk_id",)), None),
            noted=source_type.made_from(inputs),
            columns=columns,
        )
        yield from map(dg.Output, staged, tables)

    return transform
