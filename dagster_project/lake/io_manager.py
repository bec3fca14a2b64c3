"""Dagster's way into the lake: assets hand tables over, and get them as readers or as Ibis tables."""

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import dagster as dg
import ibis

from assets.partitions import CONTEXT, IN_PARTS
from assets.protocols.lake import Partitions, Parts
from dagster_project.lake.lake import ParquetLake, StagedFile, commit_all
from dagster_project.lake.lake_backend import LakeBackend
from dagster_project.system.dagster_internals import ONLY_OWN_EVENTS, set_data_version
from dagster_project.system.long_work import MANY_BYTES, give_memory_back
from dagster_project.system.sql_files import identifiers, literal, nulls
from transforms.schemas.registry import partitions_of, tables_of

MEMORY_LIMIT = "1GB"
"""Memory of DuckDB; beyond it spills to disk."""


class LakeIOManager(dg.IOManager):
    """Dagster's way into the lake.

    A partitioned asset hands over its staged partitions, and another one an Arrow or Ibis table.
    Inputs are Ibis tables, over all partitions that exist where there are any.
    """

    own_events = ONLY_OWN_EVENTS

    def __init__(self, lake: ParquetLake):
        self.lake = lake
        self._backend: LakeBackend | None = None
        self._tables: dict[tuple[str, ...], ibis.Table] = {}
        self.shared: dict[Any, Any] = {}

    def handle_output(self, context: dg.OutputContext, obj: Any) -> Any:
        """Commit every staged partition of the output and yield its materialization, or commit its
        one table.
        """
        if not context.has_asset_partitions:
            staged = obj if isinstance(obj, StagedFile) else self._stage_whole(context, obj)
            staged.commit()
            set_data_version(context, staged.content_hash)
            return
        parts = [obj[partition] for partition in context.asset_partition_keys]
        commit_all(part.staged for part in parts if part.staged)
        yield from (part.event for part in parts)
        give_memory_back()

    def load_input(self, context: dg.InputContext) -> ibis.Table:
        """An Ibis table; the steps themselves read tables by partition."""
        return self.over_all(context.asset_key.path[-1], context.instance)

    def reader(self, table: str) -> Partitions:
        """The reader of the partitions of a table."""
        return Partitions(
            table, lambda partition, columns: self.lake.read(table, partition, columns)
        )

    def over_all(self, table: str, instance: dg.DagsterInstance) -> ibis.Table:
        """A table over all partitions that Dagster knows, or a table without partitions as a whole."""
        kind = partitions_of(table)
        named = CONTEXT.partitions if kind == CONTEXT.name else kind
        keys = instance.get_dynamic_partitions(named) if named else [None]
        return self.table(table, keys)

    def table(self, name: str, partitions: Sequence[str | None]) -> ibis.Table:
        """An Ibis table over the stored files of `partitions` that are finished; empty if none is.

        LakeDamageError if a file is missing of a table, of a part, or of a partition whose last
        table is there.
        """
        if self._backend is None:
            self._backend = LakeBackend(threads=1, memory_limit=MEMORY_LIMIT)
            self._backend.reconnect()
            # The stages of a run open the same files some forty times.
            self._backend.raw_sql("SET TimeZone = 'UTC'; SET parquet_metadata_cache = true")
            spills = f"SET temp_directory = '{tempfile.gettempdir()}/weft-{os.getpid()}'"
            self._backend.raw_sql(f"SET enable_progress_bar = false; {spills}")
        places = [(name, p) for p in (self.lake.parts(name) if name in IN_PARTS else partitions)]
        sizes: dict[str, int] = {}
        for place in places:
            try:
                file = self.lake.local(*place)
                sizes[str(file)] = file.stat().st_size
            except FileNotFoundError:
                # A whole table and a part must be there, and a partition whose last table is.
                kind = None if name in IN_PARTS else partitions_of(name)
                if kind is None or self.lake.is_stored(tables_of(kind)[-1], place[1]):
                    raise self.lake.unusable(*place) from None
        if sum(sizes.values()) > MANY_BYTES:
            self._backend.raw_sql("RESET threads")
        key = (name, *sizes)
        if key not in self._tables:
            view, table = (
                f"{name}_{sum(other[0] == name for other in self._tables)}",
                self.lake.tables[name],
            )
            # A view reads its files at each query, so it stays right when they are written again.
            files = (
                f"{identifiers(table.names)} FROM read_parquet([{', '.join(map(literal, sizes))}])"
            )
            self._tables[key] = self._backend.view(
                view, files if sizes else f"{nulls(table)} LIMIT 0", table
            )
        return self._tables[key]

    def close(self) -> None:
        """Close the connection of the Ibis tables, which nothing may read any more."""
        if self._backend is not None:
            self._backend.disconnect()
            self._backend, self._tables, self.shared = None, {}, {}

    def staged(self, table: str, obj: Any, code_version: str | None) -> StagedFile:
        """The file of a table without partitions, of its rows, its parts, or itself."""
        if isinstance(obj, StagedFile):
            return obj
        data = obj.to_pyarrow() if isinstance(obj, ibis.Table) else obj
        if isinstance(data, Parts):
            return self.lake.stage_parts(table, data, code_version=code_version or "")
        return self.lake.stage(table, None, data, code_version=code_version or "", inputs={})

    def _stage_whole(self, context: dg.OutputContext, obj: Any) -> StagedFile:
        staged = self.staged(context.asset_key.path[-1], obj, context.asset_spec.code_version)
        context.add_output_metadata(
            {
                "dagster/row_count": staged.row_count,
                "content_hash": staged.content_hash,
                "dagster/uri": str(staged.place),
            }
        )
        return staged
