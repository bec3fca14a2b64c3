"""Declared tables: columns with Arrow types and meaning, and the conversion of data to it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from transforms.errors import SchemaError

TIME = pa.timestamp("us", tz="UTC")
TEXT = pa.large_string()
SPAN = pa.struct([("byte_start", pa.int64()), ("byte_end", pa.int64()), ("role", pa.string())])


@dataclass(frozen=True)
class Column:
    """One column: its name, its Arrow type, its meaning, and whether it may be null."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """One table: its name, the meaning of a row, the columns of its key, and its columns."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The table as an Arrow schema, comments kept as field metadata."""
        return pa.schema(
            [
                pa.field(c.name, c.type, c.nullable, {b"comment": c.comment.encode()})
                for c in self.columns
            ]
        )

    @cached_property
    def _row(self) -> pa.StructType:
        return pa.struct(list(self.arrow))

    @cached_property
    def names(self) -> list[str]:
        """The column names in declared order."""
        return [c.name for c in self.columns]

    def empty(self) -> pa.Table:
        """The table with no rows."""
        return self.arrow.empty_table()

    def from_rows(self, rows: list[dict[str, Any]]) -> pa.Table:
        """The table from a list of row dictionaries; a key that is not a column raises SchemaError."""
        declared = set(self.names)
        if rows and (odd := set(rows[0]) - declared):
            raise SchemaError(f"table {self.name}: undeclared columns {sorted(odd)}")
        # As one array: a list for each column takes longer than its values.
        return pa.Table.from_arrays(pa.array(rows, self._row).flatten(), schema=self.arrow)

    def from_columns(self, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
        """The table from the values of every declared column."""
        return pa.Table.from_pydict(dict(columns), schema=self.arrow)

    def conform(self, data: pa.Table) -> pa.Table:
        """`data` with exactly the declared columns, matched by name and cast to type.

        Raises SchemaError naming the table and the column when a column is missing,
        undeclared, of a type that cannot be cast without loss, or null if it must not be.
        """
        missing = [n for n in self.names if n not in data.column_names]
        odd = [n for n in data.column_names if n not in set(self.names)]
        if missing or odd:
            raise SchemaError(
                f"table {self.name}: missing columns {missing}, undeclared columns {odd}; "
                "the declaration is in transforms/schemas/"
            )
        arrays = []
        for column in self.columns:
            array = data.column(column.name)
            if array.type != column.type:
                try:
                    array = array.cast(column.type)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise SchemaError(
                        f"table {self.name}, column {column.name}: {array.type} does not fit "
                        f"the declared {column.type}: {error}"
                    ) from error
            if not column.nullable and array.null_count:
                raise SchemaError(
                    f"table {self.name}, column {column.name}: {array.null_count} nulls where none is allowed"
                )
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=self.arrow)


def rows_of(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """The values of some columns, row by row.

    >>> list(rows_of(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [0, 0]}), "b", "a"))
    [('x', 1), ('y', 2)]
    """
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def required(name: str, type_: pa.DataType, comment: str) -> Column:
    return Column(name, type_, comment, nullable=False)


SOURCE = required("source", pa.string(), "name of the configured source")
PARTITION = required("partition", pa.string(), "partition that the row comes from, as source/name")
MESSAGE_ID = required(
    "message_id",
    pa.string(),
    "Message-ID without angle brackets; synthesised from the content if the mail lacks one",
)
