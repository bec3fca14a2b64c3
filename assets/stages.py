"""The partitioned stages of every family, made by two functions: one that reads units, one that transforms tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.partitions import BACKFILL, Family, stage_partitions, table_metadata
from assets.protocols import Lake, Progress, Sources, Unit
from transforms import schemas


def reading_asset(
    family: Family,
    name: str,
    tables: Mapping[str, schemas.Table],
    version: str,
    read: Callable[[Sources, Unit], Sequence[pa.Table]],
) -> dg.AssetsDefinition:
    """The multi-asset `name`: `tables` made of the units of a family's sources."""

    @dg.multi_asset(
        name=name,
        partitions_def=family.partitions,
        backfill_policy=BACKFILL,
        group_name=family.name,
        outs=_outs(tables, version, {"parquet"}),
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
            lambda partition: read(sources, sources.unit(partition)),
            fingerprint=lambda partition: sources.unit(partition).fingerprint,
        )
        yield from map(dg.Output, staged, tables)

    return read_units


def stage_asset(
    family: Family,
    name: str,
    tables: Mapping[str, schemas.Table],
    inputs: Sequence[str],
    version: str,
    make: Callable[..., Sequence[pa.Table]],
) -> dg.AssetsDefinition:
    """The multi-asset `name`: `tables` made of the tables `inputs` of the same partition.

    `make` takes the partition's key and its input tables in their order, and returns one table for
    each of `tables`.
    """

    @dg.multi_asset(
        name=name,
        partitions_def=family.partitions,
        backfill_policy=BACKFILL,
        group_name=family.name,
        ins={table: dg.AssetIn(table) for table in inputs},
        outs=_outs(tables, version, {"parquet", "polars"}),
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
            make,
            compared=next((name for name, table in tables.items() if table.key == ("chunk_id",)), None),
        )
        yield from map(dg.Output, staged, tables)

    return transform


def _outs(tables: Mapping[str, schemas.Table], version: str, kinds: set[str]) -> dict[str, dg.AssetOut]:
    return {
        name: dg.AssetOut(
            description=table.comment, code_version=version, metadata=table_metadata(table), kinds=kinds
        )
        for name, table in tables.items()
    }
