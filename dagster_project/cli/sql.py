"""`weft sql`: one statement on the published index."""

import csv
import json
import sys
from functools import partial
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, TEXT_TYPE, explained
from dagster_project.cli.render.hits import print_rows
from dagster_project.composition.stores import make_lake
from dagster_project.config.settings import load_settings
from dagster_project.index.search.statements.lake_sql import query_lake
from dagster_project.index.search.statements.sql import query_current
from dagster_project.models.embedders import make_embedder


@click.command()
@click.argument("statement", type=TEXT_TYPE)
@CONFIG
@JSON
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a line of names.")
@click.option("--lake", is_flag=True, help="Ask the tables of the lake in place of the published index.")
@explained
def sql(statement: str, config: Path | None, as_json: bool, as_csv: bool, lake: bool) -> None:
    """Run one SQL STATEMENT on the published index, read-only.

    Beside the macros of the file it may call search_semantic('some words', 10), the chunks nearest in meaning."""
    settings = load_settings(config)
    folder = settings.root / "index"
    embedder = partial(make_embedder, settings.embedding, settings.gemini, settings.safety)
    rows = (
        query_lake(make_lake(settings), folder, statement)
        if lake
        else query_current(folder, statement, embedder=embedder)
    )
    if as_json:
        click.echo(json.dumps(rows.to_pylist(), default=str, ensure_ascii=False))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows(row.values() for row in rows.to_pylist())
    else:
        print_rows(rows)
