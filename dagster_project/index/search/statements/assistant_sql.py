"""SQL of an assistant on a published file: one SELECT, in a process of its own that is bounded in
memory and can be ended.

DuckDB counts the memory of tables and joins, but not of strings from functions, and nothing
interrupts such a function.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from dagster_project.index.search.index_faults import OF_QUERY, faults_translated
from dagster_project.index.search.statements.closed_off import open_closed_off, type_of
from dagster_project.index.search.statements.context_sql import copy_context
from transforms.errors import MemoryLimitError, QueryError, QueryInterruptedError, WeftError
from transforms.text.storable import storable

_COUNTED = "1GB"
"""Memory that tables and joins of a statement may take."""
_ALL = 1_600 << 20
"""Bytes that its process may take."""
_NAME = "weft"
"""The name of the database: that of the file gives away its version, also under a lens."""
_OF_MACHINE = {
    "duckdb_databases",
    "pragma_database_list",
    "duckdb_settings",
    "pg_settings",
    "current_setting",
    "duckdb_extensions",
    "duckdb_secrets",
    "duckdb_temporary_files",
    "duckdb_external_file_cache",
    "duckdb_logs",
    "duckdb_log_contexts",
    "which_secret",
    "query",
    "query_table",
    "json_execute_serialized_sql",
}
"""Functions that name paths and settings of the machine, or run a statement that another has put
together.
"""
_AS_THEY_ARE = {
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
}
_SHORT = "left({name}::VARCHAR, {most})"
_FAULTS = {fault.__name__: fault for fault in (QueryError, MemoryLimitError)}


class Apart:
    """A process that answers one statement."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._is_ended = False

    def interrupt(self) -> None:
        """End the process, whatever it does."""
        self._is_ended = True
        self._process.kill()

    def answer(self, request: dict[str, Any]) -> bytes:
        """The answer of the process; QueryInterruptedError if it was ended, MemoryLimitError if it
        ended by itself.
        """
        answer, _ = self._process.communicate(json.dumps(request).encode())
        if self._is_ended:
            raise QueryInterruptedError("the query was interrupted before it had an answer")
        if self._process.returncode:
            raise MemoryLimitError(
                "the query takes more memory than a statement may take: ask for less at once"
            )
        return answer


def bounded_rows(
    file: Path,
    statement: str,
    most: int,
    most_characters: int,
    on_start: Callable[[Callable[[], None]], None] = lambda end: None,
    contexts: Path | None = None,
) -> pa.Table:
    """`most` rows of one SELECT on a published file, which takes a bounded memory; QueryError for
    another statement.

    All but numbers and truth values are text, of `most_characters` + 1 characters at most.
    QueryError, too, if it asks for paths or settings of the machine. No fault quotes a value of a
    row. `on_start` gets the function that ends its process; `contexts` is a file with the tables of
    the context of chats.
    """
    apart = Apart()
    on_start(apart.interrupt)
    answer = apart.answer(
        {
            "file": str(file),
            "statement": statement,
            "most": most,
            "most_characters": most_characters,
            "contexts": contexts and str(contexts),
        }
    )
    if answer.startswith(b"{"):
        fault = json.loads(answer)
        raise _FAULTS.get(fault["kind"], WeftError)(fault["error"])
    return pa.ipc.open_stream(answer).read_all()


def _main() -> None:
    """Answer the request on standard input with rows as an Arrow stream, or with a fault as JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (_ALL, _ALL))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.load(sys.stdin)
    try:
        rows = _rows(
            Path(request["file"]),
            request["statement"],
            request["most"],
            request["most_characters"],
            request["contexts"],
        )
    except WeftError as fault:
        folder = str(Path(request["file"]).parent)
        answer = {"kind": type(fault).__name__, "error": str(fault).replace(folder, "…")}
        sys.stdout.buffer.write(json.dumps(answer).encode())
        return
    with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
        stream.write_table(rows)


def _rows(
    file: Path, statement: str, most: int, most_characters: int, contexts: str | None
) -> pa.Table:
    def prepare(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute(f"SET memory_limit = '{_COUNTED}'")
        if contexts:
            copy_context(Path(contexts), statement, connection)

    with (
        open_closed_off(file, statement, _NAME, prepare) as connection,
        faults_translated(file, own=False),
    ):
        if type_of(connection, statement) != duckdb.StatementType.SELECT:
            raise QueryError("only SELECT, FROM, SHOW and DESCRIBE can be asked here")
        inner = storable(statement).rstrip().rstrip(";")
        _require_of_index(connection, inner)
        relation = connection.sql(inner)
        names = [f"c{number}" for number in range(len(relation.columns))]
        cells = [
            name
            if str(kind) in _AS_THEY_ARE
            else _SHORT.format(name=name, most=most_characters + 1)
            for name, kind in zip(names, relation.types, strict=True)
        ]
        cut = (
            f"SELECT {', '.join(cells)} FROM ({inner}\n) AS asked({', '.join(names)}) LIMIT {most}"
        )
        try:
            return connection.execute(cut).to_arrow_table().rename_columns(relation.columns)
        except OF_QUERY as error:  # its message may quote any text
            kind = type(error).__name__
            raise QueryError(
                f"{kind}: a value is not as the statement needs it; TRY_CAST gives NULL for it"
            ) from None


def _require_of_index(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    """QueryError if a statement asks for more than the index."""
    (tree,) = connection.execute(
        "SELECT json_serialize_sql($statement)", {"statement": statement}
    ).fetchone() or ("",)
    parsed = json.loads(tree)
    if parsed["error"]:
        raise QueryError("only SELECT, FROM, SHOW and DESCRIBE can be asked here")
    if refused := sorted(set(_names_in(parsed)) & _OF_MACHINE):
        raise QueryError(
            f"{refused[0]} says more than the index, or runs what it is given: it cannot be asked here"
        )


def _names_in(tree: Any) -> Iterator[str]:
    """The tables and functions that a parsed statement names, in lower case."""
    parts = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, part in parts:
        if key in ("function_name", "table_name") and isinstance(part, str):
            yield part.strip('"').lower()
        yield from _names_in(part)


if __name__ == "__main__":
    _main()
