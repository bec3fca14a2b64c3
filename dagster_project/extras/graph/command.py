"""`weft stripe` and `ask`: what is stored about documents beside their chunks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from dagster_project.cli.options import CONFIG, JSON, TEXT, QueryCommand, explained
from dagster_project.cli.search import search
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.config.settings import load_settings
from dagster_project.extras.graph import stripes_and_prompts
from dagster_project.extras.graph.stripes_and_prompts import Prompted


def print_stripe(rows: list[dict[str, Any]]) -> None:
    """The chunks of a stripe in its order, each under its title."""
    console = terminal()
    for row in rows:
        facts = f"chunk {row['chunk_index']}, similarity {row['similarity']:.3f}{', code' if row['is_code'] else ''}"
        console.print(Text(row["title"], style="bold cyan") + Text(f"  {facts}", style="dim"), soft_wrap=True)
        console.print(Text(row["text_display"]), soft_wrap=True)
        console.print()


def print_prompted(hits: Sequence[Prompted]) -> None:
    """The chunks of stored questions, each with its question and where it stands."""
    console = terminal()
    for number, hit in enumerate(hits, 1):
        console.print(Text(f"{number:>3}. ") + Text(hit.title, style="bold cyan"))
        question = f"asked: {hit.question} ({hit.distance} bits away, similarity {hit.similarity:.3f})"
        console.print(Text(f"     {question}"), soft_wrap=True)
        console.print(Text(hit.text), soft_wrap=True)
        console.print(f"     ⟨{hit.node_id or hit.doc_id}⟩", style="dim", soft_wrap=True)


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
