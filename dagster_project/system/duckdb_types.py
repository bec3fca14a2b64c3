"""Declared Arrow types as DuckDB writes them."""

import pyarrow as pa

from transforms.schemas.table import SPAN, TIME, Table

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
