"""`weft sql`: one statement on the published index."""

import csv
import json
import sys
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, TEXT_TYPE, explained
from dagster_project.cli.render.rows_file import refuse, write_rows
from dagster_project.cli.render.tables import print_rows
from dagster_project.composition.stores import make_lake
from dagster_project.config.settings import Settings, load_settings
from dagster_project.index.search.statements.context_sql import is_about_context
from dagster_project.index.search.statements.lake_sql import add_context, query_lake
from dagster_project.index.search.statements.sql import query_current
from dagster_project.models.embedders import make_embedder
from dagster_project.sources.raw_mail import readable_mail
from transforms.errors import QueryError
from transforms.mail.mbox import mbox_entry

_PLACES = """
SELECT m.source, m.place, m.message_id, m.raw_bytes, m.effective_at FROM messages m
JOIN (SELECT unnest($ids) AS message_id, generate_subscripts($ids, 1) AS n) USING (message_id) ORDER BY n, m.source
"""


@click.command()
@click.argument("statement", type=TEXT_TYPE)
@CONFIG
@JSON
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header line.")
@click.option(
    "--lake", is_flag=True, help="Ask the tables of the lake in place of the published index."
)
@click.option(
    "--to",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the rows to a new .parquet, .csv or .jsonl, or the mails of their message_id to an .mbox.",
)
@explained
def sql(
    statement: str, config: Path | None, as_json: bool, as_csv: bool, lake: bool, file: Path | None
) -> None:
    """Run one SQL STATEMENT on the published index, read-only.

    It may call the macros of the file, and search_semantic('some words', 10) for the chunks nearest
    in meaning; conversation_retrievals has what chats asked and found.
    """
    settings = load_settings(config)
    if file:
        if as_json or as_csv:
            raise QueryError(
                "the ending of FILE gives the form of --to: leave out --json and --csv"
            )
        refuse(file)
    folder = settings.root / "index"
    embedder = partial(make_embedder, settings.embedding, settings.gemini, settings.safety)
    if lake:
        rows = query_lake(make_lake(settings), folder, statement)
    elif is_about_context(statement):
        further = partial(add_context, make_lake(settings), folder, statement)
        rows = query_current(folder, statement, embedder=embedder, further=further)
    else:
        rows = query_current(folder, statement, embedder=embedder)
    if file:
        count = write_rows(rows, file, partial(_mails, settings))
        click.echo(f"{file}: {count:,} {'mails' if file.suffix == '.mbox' else 'rows'}")
    elif as_json:
        click.echo(json.dumps(rows.to_pylist(), default=str, ensure_ascii=False))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(rows.column_names)
        writer.writerows(row.values() for row in rows.to_pylist())
    else:
        print_rows(rows)


def _mails(settings: Settings, ids: list[str]) -> Iterator[bytes]:
    """The mails of these ids as their sources hold them, as entries of mbox; SourceError at the
    first that is not there.
    """
    places = query_current(settings.root / "index", _PLACES, {"ids": ids}).to_pylist()
    if missing := set(ids) - {row["message_id"] for row in places}:
        raise QueryError(
            f"the index holds no mail {min(missing)!r}: select ids that are in `messages`"
        )
    for _, rows in groupby(places, key=lambda row: row["message_id"]):
        copies = list(rows)
        times = [copy.pop("effective_at") for copy in copies]
        yield mbox_entry(readable_mail(settings, copies), times[0])
