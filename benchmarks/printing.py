"""What the benchmarks share of their command lines and tables."""

import argparse
from collections.abc import Iterable

from rich.table import Table


def new_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that prints the text of a module as it stands."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def new_table(title: str, columns: Iterable[str], left: int = 1) -> Table:
    """An empty table; all columns but the first `left` are of numbers."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table
