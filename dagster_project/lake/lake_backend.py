"""Ibis's DuckDB backend without pandas, and functions of its tables over Arrow tables."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from typing import Any

import duckdb
import ibis
import pyarrow as pa
from ibis.backends.duckdb import Backend
from ibis.expr.operations import DatabaseTable, InMemoryTable, Node

from transforms.schemas.table import Table

# DuckDB joins selects into one itself, in a fraction of the time.
ibis.options.sql.fuse_selects = False


_MOST_WRITTEN = 256
_written: dict[Node, str] = {}
"""The SQL of expressions without rows in memory: those of one build, about a hundred, are those of
the next.
"""


class LakeBackend(Backend):
    """A connection in memory, after `reconnect`."""

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        self._numbers = count()

    def to_pyarrow(self, expr: ibis.Expr, /, **options: Any) -> Any:
        """The rows of an expression, without pandas, which Ibis's own loads for half a second and
        does not use here.
        """
        return expr.__pyarrow_result__(self._to_duckdb_relation(expr, **options).to_arrow_table())

    def compile(self, expr: ibis.Expr, /, **options: Any) -> str:
        """The SQL of an expression. One that an earlier run of this process asked for is not written
        again, which takes longer than to run it.
        """
        operation = expr.op()
        if any(options.values()) or operation.find(InMemoryTable):
            return super().compile(expr, **options)
        sql = _written.get(operation)
        if sql is None:
            sql = _written[operation] = super().compile(expr)
            if len(_written) > _MOST_WRITTEN:
                del _written[next(iter(_written))]
        return sql

    def _create_cached_table(self, name: str, expr: ibis.Table) -> ibis.Table:
        """The table of rows that stay, under the same name in each run."""
        return super()._create_cached_table(f"rows_{next(self._numbers)}", expr)

    def view(self, name: str, rows: str, table: Table) -> ibis.Table:
        """A new view of the rows that `SELECT` with `rows` reads, with the declared columns of
        `table`.
        """
        self.raw_sql(f"CREATE TEMP VIEW {name} AS SELECT {rows}")
        columns = pa.schema([field.with_nullable(True) for field in table.arrow])
        return DatabaseTable(name, ibis.Schema.from_pyarrow(columns), self).to_expr()

    def _drop_cached_table(self, name: str) -> None:
        with suppress(duckdb.ConnectionException):  # it ended with its tables
            super()._drop_cached_table(name)


def result_of(expression: Callable[..., ibis.Table], *tables: pa.Table) -> pa.Table:
    """The rows of a function of Ibis tables, applied to Arrow tables in memory."""
    sql, schema = _statement(expression, *(table.schema for table in tables))
    with _memory().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for number, table in enumerate(tables):
            connection.register(f"input_{number}", table)
        return connection.execute(sql).to_arrow_table().cast(schema)


@cache
def _memory() -> duckdb.DuckDBPyConnection:
    """The database in which a process evaluates: of the rows of a bucket, a second thread doubles
    the work.
    """
    return duckdb.connect(config={"threads": 1})


@cache
def _statement(expression: Callable[..., ibis.Table], *schemas: pa.Schema) -> tuple[str, pa.Schema]:
    """The SQL of `expression` over tables of these schemas and the schema of its rows, once in a
    process.

    A stage evaluates it for each bucket, and to build the expression takes longer than to run it.
    """
    inputs = (ibis.Schema.from_pyarrow(schema) for schema in schemas)
    rows = expression(*(ibis.table(schema, name=f"input_{n}") for n, schema in enumerate(inputs)))
    return str(Backend().compile(rows)), rows.schema().to_pyarrow()
