"""Markdown tables of texts by others, for pages that show Markdown, as Dagster's metadata: no cell is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from transforms.text.visible import visible

_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#+!|~$&]")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table whose cells are shown as they are: in one, an image would be fetched by whoever looks at it."""
    cells = [[_cell(str(value)) for value in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


def _cell(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", visible(" ".join(text.split())))
