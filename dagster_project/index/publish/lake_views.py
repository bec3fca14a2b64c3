"""Temporary DuckDB views over the files of the lake."""

from collections.abc import Iterable, Sequence

import duckdb

from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.text_references import referring
from dagster_project.system.duckdb_types import nulls
from transforms.schemas.registry import REGISTRY, partitions_of


class LakeViews:
    """Creates views over stored files; `statements` recreate them on another connection, as each has its own views."""

    def __init__(self, lake: ParquetLake, *, texts_stay: bool = False):
        """If `texts_stay`, views of partitions show references in place of texts (`text_references`)."""
        self.lake, self.texts_stay = lake, texts_stay
        self.statements: list[str] = []

    def of_partitions(
        self, connection: duckdb.DuckDBPyConnection, view: str, table: str, partitions: Sequence[str | None]
    ) -> None:
        """Create a view over the stored files of a table; those of partitions get the column `partition`."""
        declared = self.lake.tables[table]
        adds = "partition" not in declared.names and partitions_of(table) is not None
        selects = [
            f"SELECT {self._columns(table, p)}{_constant(p) if adds else ''} "
            f"FROM read_parquet('{quoted(self.lake.verified(table, p))}')"
            for p in partitions
        ]
        no_rows = f"SELECT {nulls(declared)}{', NULL::VARCHAR AS partition' if adds else ''} LIMIT 0"
        self._create(connection, view, " UNION ALL ".join(selects) or no_rows)

    def _columns(self, table: str, partition: str | None) -> str:
        """The columns of a table as they are selected from the file of a partition."""
        published = REGISTRY[table].published if table in REGISTRY else ""
        names = self.lake.tables[table].names
        return ", ".join(
            referring(published or "" if self.texts_stay and partition else "", table, partition or "", names)
        )

    def of_parts(
        self,
        connection: duckdb.DuckDBPyConnection,
        view: str,
        table: str,
        parts: Sequence[str],
        *,
        verifies: bool = True,
    ) -> None:
        """Create a view over some parts of a table, with the column `part`; their content is verified.

        It is a single scan: of several scans, each would keep its read buffers until the last one ends.
        """
        declared = self.lake.tables[table]
        names = ", ".join(f'"{name}"' for name in declared.names)
        rows = f"SELECT {nulls(declared)}, NULL::VARCHAR AS part LIMIT 0"
        if parts:
            file = self.lake.verified if verifies else self.lake.local
            paths = _list(str(file(table, part)) for part in parts)
            part = f"({_list(parts)})[list_position({paths}, _file)]"
            rows = f"SELECT {names}, {part} AS part FROM read_parquet({paths}, filename = '_file')"
        self._create(connection, view, rows)

    def _create(self, connection: duckdb.DuckDBPyConnection, view: str, rows: str) -> None:
        self.statements.append(f"CREATE TEMP VIEW {view} AS {rows}")
        connection.execute(self.statements[-1])


def _list(values: Iterable[str]) -> str:
    """A list of strings in SQL."""
    return "[" + ", ".join(f"'{quoted(value)}'" for value in values) + "]"


def _constant(partition: str | None) -> str:
    """A column with the name of the partition."""
    return f", '{quoted(partition or '')}' AS partition"


def quoted(value: object) -> str:
    """A value inside a SQL string literal."""
    return str(value).replace("'", "''")
