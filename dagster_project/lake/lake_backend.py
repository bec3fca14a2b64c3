"""Ibis's DuckDB backend without pandas, and functions of its tables over Arrow tables."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import duckdb
import ibis
import pyarrow as pa
from ibis.backends.duckdb import Backend


class LakeBackend(Backend):
    """A connection in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.reconnect()

    def to_pyarrow(self, expr: ibis.Expr, /, **options: Any) -> Any:
        """The rows of an expression, without pandas, which Ibis's own loads for half a second and does not use here."""
        return expr.__pyarrow_result__(self._to_duckdb_relation(expr, **options).to_arrow_table())

    def _drop_cached_table(self, name: str) -> None:
        with suppress(duckdb.ConnectionException):  # it ended with its tables
            super()._drop_cached_table(name)


def result_of(expression: Callable[..., ibis.Table], *tables: pa.Table) -> pa.Table:
    """The rows of a function of Ibis tables, applied to Arrow tables in memory."""
    sql, schema = _statement(expression, *(table.schema for table in tables))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for number, table in enumerate(tables):
            connection.register(f"input_{number}", table)
        return connection.execute(sql).to_arrow_table().cast(schema)


@cache
def _statement(expression: Callable[..., ibis.Table], *schemas: pa.Schema) -> tuple[str, pa.Schema]:
    """The SQL of `expression` over tables of these schemas and the schema of its rows, once in a process.

    A stage evaluates it for each bucket, and to build the expression takes longer than to run it.
    """
    backend = LakeBackend()
    try:
        for number, schema in enumerate(schemas):
            backend.con.register(f"input_{number}", schema.empty_table())
        rows = expression(*(backend.table(f"input_{number}") for number in range(len(schemas))))
        return str(backend.compile(rows)), rows.schema().to_pyarrow()
    finally:
        backend.disconnect()
