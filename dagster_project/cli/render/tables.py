"""Tables of facts, records and rows as people read them in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from rich.table import Table

from dagster_project.cli.terminal.safe_console import terminal
from transforms.text.visible import visible

_LEAST_WIDTH = 13
"""Signs of a line that a column takes at least, so that a word or a day stays whole."""
_WIDEST = 1 << 20
"""Characters of the widest line of a table in a pipe."""


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    console = terminal()
    for name, value in facts.items():
        formatted = f"{value:,}" if isinstance(value, int | float) else str(value)
        console.print(f"{name.replace('_', ' '):<16}{formatted:>24}")


def print_records(records: Sequence[Mapping[str, Any]], none: str) -> None:
    """Records as a table, or `none` where there are none."""
    if records:
        print_rows(pa.Table.from_pylist([dict(r) for r in records]))
    else:
        terminal().print(none)


def print_rows(rows: pa.Table) -> None:
    """A result of SQL as a table; if it is too wide for the terminal, the first columns, and the
    names of the others.
    """
    console, table = terminal(), Table()
    most = max(console.width // _LEAST_WIDTH, 1) if console.is_terminal else rows.num_columns
    rows, others = rows.select(rows.column_names[:most]), rows.column_names[most:]
    for name, type_ in zip(rows.column_names, rows.schema.types, strict=True):
        is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
        table.add_column(visible(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows.to_pylist():
        # The widths of columns are measured before the console makes texts safe.
        table.add_row(*("" if v is None else visible(str(v)) for v in row.values()))
    if not console.is_terminal:
        widest = console.options.update(max_width=_WIDEST)
        console.width = max(console.width, console.measure(table, options=widest).maximum)
    console.print(table)
    if others:
        console.print(
            f"{len(others)} more columns: {', '.join(others)}. Select them by name.", style="dim"
        )
