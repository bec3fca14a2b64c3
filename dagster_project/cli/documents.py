"""`weft stripe`, `ask` and `triage`: what is stored about documents beside their chunks."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from dagster_project.cli.options import CONFIG, JSON, LENS, NO_RESULTS, TEXT, QueryCommand, explained
from dagster_project.cli.render.hits import print_prompted, print_stripe
from dagster_project.cli.render.issues import print_issues
from dagster_project.cli.search import search
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.config.settings import load_settings
from dagster_project.engines.stores import make_lake
from dagster_project.resources.context import issues
from dagster_project.resources.context.accounting import Account
from dagster_project.resources.search import disclosure
from dagster_project.resources.search.opened_index import open_index
from transforms.errors import IndexUnavailableError, SettingsError
from transforms.schemas.documents import ISSUE_TRIAGE


@click.command()
@click.argument("document", type=TEXT, shell_complete=complete_id)
@CONFIG
@JSON
@click.option("-n", "count", type=click.IntRange(1), default=3, show_default=True, help="How many chunks.")
@click.option("--technical", is_flag=True, help="Order by nearness to the first code, not the first text.")
@explained
def stripe(document: str, config: Path | None, as_json: bool, count: int, technical: bool) -> None:
    """Show the N chunks that represent DOCUMENT best; more chunks begin with those of fewer.

    DOCUMENT is the id of a document, its path, or the end of its path.
    """
    folder = load_settings(config).root / "index"
    rows = disclosure.stripe(folder, document, count, "technical" if technical else "conceptual")
    if as_json:
        click.echo(json.dumps({"document": rows[0]["doc_id"], "chunks": rows}, ensure_ascii=False))
    else:
        print_stripe(rows)


@click.command(cls=QueryCommand)
@click.argument("query", type=TEXT)
@CONFIG
@JSON
@click.option("--static", is_flag=True, help="First look for a stored question with nearly the same words.")
@click.option("--limit", type=click.IntRange(1, 1000), default=5, show_default=True, help="Hits.")
@explained
def ask(query: str, config: Path | None, as_json: bool, static: bool, limit: int) -> None:
    """Find what answers QUERY: with --static first among the questions stored with chunks, then by search."""
    folder = load_settings(config).root / "index"
    hits = disclosure.prompted(folder, query, limit) if static else []
    if not hits:
        click.get_current_context().invoke(
            search, queries=(query,), config=config, as_json=as_json, limit=limit
        )
    elif as_json:
        rows = [hit._asdict() for hit in hits]
        click.echo(json.dumps({"outcome": "PROMPTS", "query": query, "hits": rows}, ensure_ascii=False))
    else:
        print_prompted(hits)


@click.command()
@click.argument("numbers", nargs=-1, type=int, metavar="[NUMBER]...")
@CONFIG
@JSON
@LENS
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
    lens: str | None,
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
    if lens:
        with closing(open_index(settings, lens=lens)) as index:
            rows = _chosen(issues.shown_issues(settings, index, stored), numbers, source, since)[:limit]
            asked = json.dumps([numbers, source, since, limit], default=str)
            account = Account(settings, lens, index)
            account.note("weft triage", asked, issues.disclosed(rows), issues.masked(rows))
    else:
        rows = _chosen(stored, numbers, source, since)[:limit]
    if as_json:
        click.echo(json.dumps(rows, default=datetime.isoformat, ensure_ascii=False))
    else:
        print_issues(rows)
    if not rows:
        click.echo("no issue is like that", err=True)
        sys.exit(NO_RESULTS)


def _chosen(
    table: pa.Table, numbers: Sequence[int], source: str | None, since: datetime | None
) -> list[dict[str, Any]]:
    """The rows of `issue_triage` that are asked for, the newest first."""
    return [
        row
        for row in reversed(table.to_pylist())
        if source in (None, row["source"])
        and (not numbers or row["number"] in numbers)
        and (since is None or (row["created_at"] and row["created_at"] >= since.replace(tzinfo=UTC)))
    ]
