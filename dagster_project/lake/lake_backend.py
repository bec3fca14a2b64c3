"""Ibis's DuckDB backend that compiles an expression once: for small tables, to compile it takes longer than to run it."""

import io
import json
import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.operations as ops
import pyarrow as pa
import sqlglot
from ibis.backends import BaseBackend
from ibis.backends.duckdb import Backend

from dagster_project.system.globs import write_atomically
from transforms.hashing import parts_hash, text_hash

_known: dict[str, str] = {}
_MARK = re.compile(r" IN \(list (\d+)\)")


class LakeBackend(Backend):
    """A connection in memory, whose tables have the same names in each process and run, so that their SQL is the same."""

    def __init__(self, file: Path):
        """The SQL is stored in `file` for later processes."""
        super().__init__()
        self.file, self._compiled = file, 0
        self.reconnect()

    def compile(self, expr: ibis.Expr, /, **options: Any) -> str:
        """The SQL of an expression; that of an equal one of an earlier connection, if there is one.

        An expression that holds rows itself is compiled each time, since they would be kept for good.
        """
        if any(options.values()) or expr.op().find(ops.InMemoryTable):
            return str(super().compile(expr, **options))
        shape, known = _Shape(expr.op()), statements(self.file)
        if shape.key not in known:
            known[shape.key] = shape.compiled(expr.op())
            self._compiled += 1
        return shape.filled(known[shape.key])

    def to_pyarrow(self, expr: ibis.Expr, /, **options: Any) -> Any:
        """The rows of an expression, without pandas, which Ibis's own loads for half a second and does not use here."""
        return expr.__pyarrow_result__(self._to_duckdb_relation(expr, **options).to_arrow_table())

    def disconnect(self) -> None:
        """Close the connection, and store the SQL if some is new and the file can be written."""
        super().disconnect()
        if self._compiled:
            written = json.dumps(dict([*_known.items()][-1000:]))
            with suppress(OSError):
                write_atomically(self.file, f"{text_hash(written)}\n{written}")

    def _create_cached_table(self, name: str, expr: ibis.Table) -> ibis.Table:
        """The rows of `expr` in a temporary table, whose name is its number and not a random one."""
        self._cached = getattr(self, "_cached", 0) + 1
        name = f"cached_{self._cached}"
        self.raw_sql(f"CREATE TEMP TABLE {name} AS {self.compile(expr)}")
        return self.table(name)

    def _drop_cached_table(self, name: str) -> None:
        with suppress(duckdb.ConnectionException):  # it ended with its tables
            super()._drop_cached_table(name)


@cache
def statements(file: Path) -> dict[str, str]:
    """By key the SQL that this process compiled or read, here from `file`, unless that is not what was written."""
    with suppress(OSError, ValueError):
        checksum, _, written = file.read_text().partition("\n")
        _known.update(json.loads(written) if checksum == text_hash(written) else {})
    return _known


class _Shape(pickle.Pickler):
    """What an expression is but for the lists of words in it, and the numbers that Ibis gives tables in each process."""

    def __init__(self, node: ops.Node):
        written = io.BytesIO()
        super().__init__(written, pickle.HIGHEST_PROTOCOL)
        self._numbers: dict[int, int] = {}
        self._lists: dict[str, int] = {}
        self.dump((ibis.__version__, sqlglot.__version__, node))
        self.key = parts_hash([written.getvalue()])

    def reducer_override(self, node: object) -> Any:
        """How `pickle` writes a node."""
        if isinstance(node, ops.SelfReference):
            return tuple, ((node.parent, self._numbers.setdefault(node.identifier, len(self._numbers))),)
        if isinstance(node, ops.InValues):
            words = [option.value for option in node.options if isinstance(option, ops.Literal)]
            if words and len(words) == len(node.options) and all(isinstance(word, str) for word in words):
                quoted = ", ".join("'" + word.replace("'", "''") + "'" for word in words)
                return tuple, ((node.value, self._lists.setdefault(f" IN ({quoted})", len(self._lists))),)
        return (str, ()) if isinstance(node, BaseBackend) else NotImplemented

    def compiled(self, node: ops.Node) -> str:
        """The SQL of the expression, with a mark in place of each list."""
        sql = str(Backend().compile(node.to_expr()))
        for words, number in self._lists.items():
            sql = sql.replace(words, f" IN (list {number})")
        return sql

    def filled(self, sql: str) -> str:
        """The SQL with the lists in place of the marks."""
        lists = list(self._lists)
        return _MARK.sub(lambda mark: lists[int(mark[1])], sql)


def evaluated(file: Path, expression: Callable[..., ibis.Table], *tables: pa.Table) -> pa.Table:
    """The rows of a function of Ibis tables, applied to Arrow tables in memory; its SQL is stored in `file`."""
    sql, schema = _statement(file, expression, *(table.schema for table in tables))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for number, table in enumerate(tables):
            connection.register(f"input_{number}", table)
        return connection.execute(sql).to_arrow_table().cast(schema)


@cache
def _statement(
    file: Path, expression: Callable[..., ibis.Table], *schemas: pa.Schema
) -> tuple[str, pa.Schema]:
    """The SQL of `expression` over tables of these schemas and the schema of its rows, once in a process.

    A stage evaluates it for each bucket, and to build the expression takes longer than to run it.
    """
    backend = LakeBackend(file)
    try:
        for number, schema in enumerate(schemas):
            backend.con.register(f"input_{number}", schema.empty_table())
        rows = expression(*(backend.table(f"input_{number}") for number in range(len(schemas))))
        return backend.compile(rows), rows.schema().to_pyarrow()
    finally:
        backend.disconnect()
