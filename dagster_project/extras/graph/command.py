"""`weft stripe` and `ask`: what is stored about documents beside their chunks."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, TEXT, QueryCommand, explained
from dagster_project.cli.search import search
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.config.settings import load_settings
from dagster_project.extras.graph import stripes_and_prompts
from dagster_project.extras.graph.printed import print_prompted, print_stripe


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
    rows = stripes_and_prompts.stripe(folder, document, count, "technical" if technical else "conceptual")
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
    hits = stripes_and_prompts.prompted(folder, query, limit) if static else []
    if not hits:
        click.get_current_context().invoke(
            search, queries=(query,), config=config, as_json=as_json, limit=limit
        )
    elif as_json:
        rows = [hit._asdict() for hit in hits]
        click.echo(json.dumps({"outcome": "PROMPTS", "query": query, "hits": rows}, ensure_ascii=False))
    else:
        print_prompted(hits)
