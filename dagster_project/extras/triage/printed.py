"""Issues as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from transforms.text.visible import visible

_SHOWN_CHARS = 100
"""Characters of a passage that are shown beside another."""
_NAMED, _LIKELY = 0.05, 0.1
"""Confidence from which an earlier issue is named to people, and from which the passages that agree are shown."""


def print_issues(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of `issue_triage`, one behind the other."""
    for row in rows:
        click.echo("\n".join(visible(line) for line in _lines(row)) + "\n")


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    """An issue as people read it."""
    facts = filter(None, (row["state"], row["created_at"] and f"{row['created_at']:%Y-%m-%d}", row["doc_id"]))
    yield f"#{row['number']} {row['title']}  ({', '.join(facts)})"
    yield f"  {row['summary']}"
    if row["found"]:
        yield "  holds: " + ", ".join(f"{one['count']} {one['kind']}" for one in row["found"])
    if row["missing"]:
        yield f"  lacks: {', '.join(row['missing'])}"
    for one in (d for d in row["duplicates"] if d["confidence"] >= _NAMED):
        yield f"  {one['confidence']:4.0%} like #{one['number']} {one['title']}"
        if one["passage"] and one["confidence"] >= _LIKELY:
            yield f"       “{_cut(one['passage'])}” – “{_cut(one['earlier_passage'])}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
