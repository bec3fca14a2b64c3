"""Rows of the index about one thing, which it may not hold."""

from typing import Any

from dagster_project.index.search.lookup import Ask
from transforms.errors import UnknownIdError, shortened


def rows_about(ask: Ask, statement: str, kind: str, id_: str) -> list[dict[str, Any]]:
    """The rows of a statement about the thing `$id`; UnknownIdError that names its kind if there is none."""
    if rows := ask(statement, {"id": id_}).to_pylist():
        return rows
    raise UnknownIdError(f"the index holds no {kind} {shortened(id_)!r}; `weft search` finds things by words")
