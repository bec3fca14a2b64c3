"""Diffs that a web view of git shows as a table, a row a line: numbers, perhaps a sign, and the text."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

_BEFORE = re.compile(r"[-+]?|\d{1,7}|\.{3}|…")
_ADDED = re.compile(r"(?:^|[\s_-])(?:add(?:ed|ition)?|new|ins(?:ert(?:ed|ion)?)?|plus)(?:$|[\s_-])", re.I)
_REMOVED = re.compile(r"(?:^|[\s_-])(?:del(?:eted?|etion)?|old|rem(?:oved?)?|minus)(?:$|[\s_-])", re.I)
_CHANGED = re.compile(f"{_ADDED.pattern}|{_REMOVED.pattern}", re.I)


def diff_lines(table: LexborNode) -> list[str]:
    """The lines of the diff that `table` shows, as git writes them; none if it shows something else.

    Before the text stand cells with nothing but the line's numbers or its sign. Where the text has no sign, the class
    of its cell or row says what became of the line.
    """
    rows = [cells for row in table.css("tr") if (cells := _cells(row))]
    before = [_text(cell).strip() for cells in rows for cell in cells[:-1]]
    if not any(text.isdigit() for text in before) or not all(_BEFORE.fullmatch(text) for text in before):
        return []
    hunk = any(_text(cells[-1]).lstrip().startswith("@@ -") for cells in rows)
    if not hunk and not any(_CHANGED.search(_classes(cells[-1])) for cells in rows):
        return []
    return [line for cells in rows for line in _lines(cells)]


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter(include_text=False) if cell.tag in ("td", "th")]


def _text(cell: LexborNode) -> str:
    return cell.text(deep=True).replace("\xa0", " ").replace("\r", "")


def _classes(cell: LexborNode) -> str:
    """The classes of a cell and of its row."""
    nodes = (cell, cell.parent) if cell.parent else (cell,)
    return " ".join(node.attributes.get("class") or "" for node in nodes)


def _lines(cells: list[LexborNode]) -> list[str]:
    """The lines of a row with their signs."""
    text = _text(cells[-1]).strip("\n").split("\n")
    if len(cells) == 1 or text[0].lstrip().startswith("@@"):
        return [line.strip() for line in text if line.strip()]
    sign = "".join(_text(cell).strip() for cell in cells[:-1]).strip("0123456789.…")
    if not sign and text[0][:1] not in ("+", "-"):
        classes = _classes(cells[-1])
        sign = "+" if _ADDED.search(classes) else "-" if _REMOVED.search(classes) else ""
        sign = sign or " " * (not text[0].startswith(" "))
    return [sign + line for line in text]
