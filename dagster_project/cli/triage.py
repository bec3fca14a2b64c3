"""`weft triage`: the issues that came, as the table `issue_triage` of the lake has them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, NO_RESULTS, TEXT, explained
from dagster_project.config.settings import load_settings
from dagster_project.engines.stores import make_lake
from transforms.errors import IndexUnavailableError, SettingsError
from transforms.schemas.documents import ISSUE_TRIAGE
from transforms.text.visible import visible

_SHOWN_CHARS = 100
"""Characters of a passage that are shown beside another."""


@click.command()
@click.argument("numbers", nargs=-1, type=int, metavar="[NUMBER]...")
@CONFIG
@JSON
@click.option("--source", type=TEXT, help="Only issues of this source.")
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only what came on this day or later.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, help="At most this many, the newest; default: 20."
)
@explained
def triage(
    numbers: tuple[int, ...],
    config: Path | None,
    as_json: bool,
    source: str | None,
    since: datetime | None,
    limit: int,
) -> None:
    """Print of each issue what it says, holds and lacks, and which earlier ones it may repeat; the newest first.

    NUMBERs name issues. Secrets, addresses of people and telephone numbers are masked in everything that is printed.
    """
    settings = load_settings(config)
    if not any(s.kind == "issues" for s in settings.sources):
        raise SettingsError(
            'no source of the settings is of kind = "issues"; `weft init PLACE` adds an export of issues'
        )
    stored = make_lake(settings).stored("issue_triage", ISSUE_TRIAGE.names)
    if stored is None:
        raise IndexUnavailableError("no issue was looked at yet; run `weft build`")
    rows = [
        row
        for row in reversed(stored.to_pylist())
        if source in (None, row["source"])
        and (not numbers or row["number"] in numbers)
        and (since is None or (row["created_at"] and row["created_at"] >= since.replace(tzinfo=UTC)))
    ][:limit]
    if as_json:
        click.echo(json.dumps(rows, default=_written, ensure_ascii=False))
    for row in () if as_json else rows:
        click.echo("\n".join(visible(line) for line in _lines(row)) + "\n")
    if not rows:
        click.echo("no issue is like that", err=True)
        sys.exit(NO_RESULTS)


def _written(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    """An issue as people read it."""
    facts = filter(None, (row["state"], row["created_at"] and f"{row['created_at']:%Y-%m-%d}", row["doc_id"]))
    yield f"#{row['number']} {row['title']}  ({', '.join(facts)})"
    yield f"  {row['summary']}"
    if row["found"]:
        yield "  holds: " + ", ".join(f"{one['count']} {one['kind']}" for one in row["found"])
    if row["missing"]:
        yield f"  lacks: {', '.join(row['missing'])}"
    for one in row["duplicates"]:
        yield f"  {one['confidence']:4.0%} like #{one['number']} {one['title']}"
        if one["passage"]:
            yield f"       “{_cut(one['passage'])}” – “{_cut(one['earlier_passage'])}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
