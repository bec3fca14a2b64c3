"""Ibis's DuckDB backend that compiles an expression once: for small tables, to compile it takes longer than to run it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import duckdb
import ibis
import ibis.expr.operations as ops
import pyarrow as pa
from ibis.backends.duckdb import Backend
from ibis.common.graph import Graph


class LakeBackend(Backend):
    """A connection in memory, whose tables have the same names in each process and run, so that their SQL is the same."""

    def compile(self, expr: ibis.Expr, /, **options: Any) -> str:
        """The SQL of an expression; that of an equal one of an earlier connection, if there is one.

        An expression that holds rows itself is compiled each time, since they would stay in memory.
        """
        if any(options.values()) or expr.op().find(ops.InMemoryTable):
            return str(super().compile(expr, **options))
        return _sql(_numbered(expr.op()))

    def to_pyarrow(self, expr: ibis.Expr, /, **options: Any) -> Any:
        """The rows of an expression, without pandas, which Ibis's own loads for half a second and does not use here."""
        return expr.__pyarrow_result__(self._to_duckdb_relation(expr, **options).to_arrow_table())

    def _create_cached_table(self, name: str, expr: ibis.Table) -> ibis.Table:
        """The rows of `expr` in a temporary table, whose name is its number and not a random one."""
        self._cached = getattr(self, "_cached", 0) + 1
        name = f"cached_{self._cached}"
        self.raw_sql(f"CREATE TEMP TABLE {name} AS {self.compile(expr)}")
        return self.table(name)

    def _drop_cached_table(self, name: str) -> None:
        with contextlib.suppress(duckdb.ConnectionException):  # it ended with its tables
            super()._drop_cached_table(name)


@lru_cache(maxsize=256)
def _sql(node: ops.Node) -> str:
    return str(Backend().compile(node.to_expr()))


def _numbered(node: ops.Node) -> ops.Node:
    """A node whose references to tables, which Ibis numbers through the whole process, are numbered from 0."""
    every = (found for found in Graph.from_bfs(node) if isinstance(found, ops.Reference))
    references = sorted(every, key=lambda found: found.identifier)
    numbers = {reference: number for number, reference in enumerate(references)}
    if all(reference.identifier == number for reference, number in numbers.items()):
        return node

    def renumbered(old: ops.Node, new: Mapping[str, Any] | None) -> ops.Node:
        fields = dict(new) if new else dict(zip(old.argnames, old.args, strict=True))
        if old in numbers:
            fields["identifier"] = numbers[old]
        return old.__recreate__(fields)

    return node.replace(replacer=renumbered)


def evaluated(expression: Callable[..., ibis.Table], *tables: pa.Table) -> pa.Table:
    """The rows of a function of Ibis tables, applied to Arrow tables in memory."""
    backend = LakeBackend().connect()
    try:
        for number, table in enumerate(tables):
            backend.con.register(f"input_{number}", table)
        return expression(*(backend.table(f"input_{number}") for number in range(len(tables)))).to_pyarrow()
    finally:
        backend.disconnect()
