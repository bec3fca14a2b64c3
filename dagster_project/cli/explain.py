"""`weft explain`: what every stage of a search did, and what became of one id."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, NO_RESULTS, TEXT, QueryCommand, explained, filtered
from dagster_project.cli.render.explanation import print_explanation
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.config.settings import load_settings
from dagster_project.index.search.explain import explanation
from dagster_project.index.search.filters import Filters
from dagster_project.index.search.opened_index import open_index


@click.command(cls=QueryCommand)
@click.argument("query", type=TEXT)
@click.argument("ident", metavar="[ID]", required=False, type=TEXT, shell_complete=complete_id)
@CONFIG
@JSON
@click.option("--limit", type=click.IntRange(1, 1000), help="Hits; default: search.limit of the settings.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Hits shown of each stage, and as many of those it dropped.",
)
@filtered
@explained
def explain(
    query: str,
    ident: str | None,
    config: Path | None,
    as_json: bool,
    filters: Filters,
    limit: int | None,
    rows: int,
) -> None:
    """Say what every stage of the search for QUERY did to every hit, and how long it took.

    With ID (a Message-ID, document, node or chunk) also say what became of it: "why is it not in the results".
    """
    index = open_index(load_settings(config))
    result = explanation(index, query, ident, filters, limit)
    if as_json:
        click.echo(json.dumps(result.as_json(rows), ensure_ascii=False))
    else:
        print_explanation(result, rows)
    if ident is None and not (result.stages and result.stages[-1].steps["rank"].count()):
        sys.exit(NO_RESULTS)
