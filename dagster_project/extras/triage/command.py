"""`weft triage`: the table of triage as people and scripts read it."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from dagster_project.cli.options import (
    CONFIG,
    JSON,
    LENS,
    NO_RESULTS,
    TEXT_TYPE,
    DateType,
    explained,
)
from dagster_project.composition.stores import make_lake
from dagster_project.config.settings import Settings, load_settings
from dagster_project.context.sessions import Account
from dagster_project.extras.triage.transforms.table import ISSUE_TRIAGE
from dagster_project.extras.triage.under_lens import disclosed, find_counts, shown_issues
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from transforms.errors import IndexUnavailableError, SettingsError
from transforms.text.visible import visible

_SHOWN_CHARS = 100
"""Characters of a passage that are shown beside another."""
_NAMED, _LIKELY = 0.05, 0.1
"""Confidence from which an earlier issue is named to people, and from which the passages that agree
are shown.
"""


def _lines(row: Mapping[str, Any]) -> Iterator[str]:
    facts = filter(
        None, (row["state"], row["created_at"] and f"{row['created_at']:%Y-%m-%d}", row["doc_id"])
    )
    yield f"#{row['number']} {row['title']}  ({', '.join(facts)})"
    yield f"  {row['summary']}"
    if row["found"]:
        yield "  holds: " + ", ".join(f"{one['count']} {one['kind']}" for one in row["found"])
    if row["missing"]:
        yield f"  lacks: {', '.join(row['missing'])}"
    for one in (d for d in row["duplicates"] if d["confidence"] >= _NAMED):
        facts = [f"the same {', '.join(one['same'])}"] if one["same"] else []
        facts += [f"another {', '.join(one['different'])}"] if one["different"] else []
        fields = f" ({'; '.join(facts)})" if facts else ""
        yield f"  {one['confidence']:4.0%} like #{one['number']} {one['title']}{fields}"
        if one["passage"] and one["confidence"] >= _LIKELY:
            yield f"       “{_cut(one['passage'])}” – “{_cut(one['earlier_passage'])}”"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


@click.command()
@click.argument("numbers", nargs=-1, type=int, metavar="[NUMBER]...")
@CONFIG
@JSON
@LENS
@click.option("--source", type=TEXT_TYPE, help="Only issues of this source.")
@click.option(
    "--since", type=DateType(), help="Only issues that came on this day, month or year, or later."
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    help="At most this many, the newest; default: 20.",
)
@explained
def triage(
    numbers: tuple[int, ...],
    config: Path | None,
    as_json: bool,
    lens: str | None,
    source: str | None,
    since: datetime | None,
    limit: int,
) -> None:
    """Print the summary, findings and gaps of each issue, and earlier ones that it may repeat;
    newest first.

    NUMBERs name issues. Secrets, addresses of people and telephone numbers are masked in everything
    that is printed.
    """
    settings = load_settings(config)
    stored = _stored(settings)
    if lens:
        with closing(open_index(settings, lens=lens)) as index:
            rows = _chosen(shown_issues(settings, index, stored), numbers, source, since)[:limit]
            question = json.dumps([numbers, source, since, limit], default=str)
            account = Account(settings, lens, index)
            account.note("weft triage", question, disclosed(rows), find_counts(rows))
    else:
        rows = _chosen(stored, numbers, source, since)[:limit]
    if as_json:
        click.echo(json.dumps(rows, default=datetime.isoformat, ensure_ascii=False))
    else:
        for row in rows:
            click.echo("\n".join(visible(line) for line in _lines(row)) + "\n")
    if not rows:
        click.echo("no issue is like that", err=True)
        sys.exit(NO_RESULTS)


def _stored(settings: Settings) -> pa.Table:
    """The table `issue_triage`; SettingsError without a source of issues, IndexUnavailableError
    before the first build.
    """
    if not any(s.kind == "issues" for s in settings.sources):
        raise SettingsError(
            'no source of the settings is of kind = "issues"; `weft init PLACE` adds an export of issues'
        )
    stored = make_lake(settings).stored("issue_triage", ISSUE_TRIAGE.names)
    if stored is None:
        raise IndexUnavailableError("no issue was looked at yet; run `weft build`")
    return stored


def noted_issues(settings: Settings, index: SearchIndex, lens: str | None) -> list[dict[str, Any]]:
    """The rows of `issue_triage`, the newest first; under a lens as if there were no others."""
    stored = _stored(settings)
    return _chosen(shown_issues(settings, index, stored) if lens else stored, (), None, None)


def _chosen(
    table: pa.Table, numbers: Sequence[int], source: str | None, since: datetime | None
) -> list[dict[str, Any]]:
    """The rows of `issue_triage` that are asked for, the newest first."""
    return [
        row
        for row in reversed(table.to_pylist())
        if source in (None, row["source"])
        and (not numbers or row["number"] in numbers)
        and (since is None or (row["created_at"] and row["created_at"] >= since))
    ]
