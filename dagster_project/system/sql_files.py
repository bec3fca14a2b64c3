"""SQL statements in `.sql` files beside the modules that run them, and declared Arrow types as
DuckDB writes them.

A file holds statements, each below a line `-- name: NAME`. A value is a parameter of the statement
(`$name`). Else a name in braces has the text: in double quotes it is part of an identifier, in
single quotes part of a literal, else it is SQL, which the caller composes or which is another
statement of the file.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from transforms.schemas.table import SPAN, TIME, Table

_COMMENT = re.compile(r"^\s*--(?! name: ).*\n", re.MULTILINE)
_PART = re.compile(r"""'[^']*'|"[^"]*"|\{[a-z_]+\}""")
_NAME = re.compile(r"\{([a-z_]+)\}")


class SqlFile:
    """The statements of a file, which is read when the first of them is wanted."""

    def __init__(self, module: str, name: str, **values: str):
        """`module` is the `__file__` of the module that the file is beside; `values` are those of
        all statements.
        """
        self._path, self._values = Path(module).with_name(name), values

    def __call__(self, statement: str, /, **values: str) -> str:
        """A statement, with the values of its names in braces.

        KeyError if the file has no such statement or name, or if a name is that of a value and of a
        statement.
        """
        values = self._values | values
        if both := values.keys() & self._statements.keys():
            raise KeyError(
                f"{self._path.name}: {', '.join(sorted(both))} names a value and a statement"
            )

        def filled(part: re.Match[str]) -> str:
            quote = part[0][0] if part[0][0] in "'\"" else ""
            return _NAME.sub(lambda name: value(name[1]).replace(quote, quote * 2), part[0])

        def value(name: str) -> str:
            return values[name] if name in values else self(name, **values)

        return _PART.sub(filled, self._statements[statement])

    def __iter__(self) -> Iterator[str]:
        """The names of the statements in the order of the file."""
        return iter(self._statements)

    @cached_property
    def _statements(self) -> dict[str, str]:
        _, *statements = _COMMENT.sub("", self._path.read_text(encoding="utf-8")).split("-- name: ")
        return {name: sql.strip() for name, _, sql in (text.partition("\n") for text in statements)}


def identifiers(names: Iterable[str]) -> str:
    """Quoted identifiers, separated by commas."""
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


def literal(text: object) -> str:
    """The literal of a text."""
    return "'" + str(text).replace("'", "''") + "'"


_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.uint64(): "UBIGINT",
    TIME: "TIMESTAMPTZ",
    SPAN: "STRUCT(byte_start BIGINT, byte_end BIGINT, role VARCHAR)",
}


def sql_type(type_: pa.DataType) -> str:
    """The DuckDB type of a declared Arrow type."""
    if pa.types.is_fixed_size_list(type_):
        return f"{sql_type(type_.value_type)}[{type_.list_size}]"
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


def nulls(table: Table) -> str:
    """The columns of a table as they are selected where it has no rows."""
    return ", ".join(f'NULL::{sql_type(c.type)} AS "{c.name}"' for c in table.columns)
