"""`weft search`, `similar` and `get`: the commands that read hits and texts of the published index.

This module loads nothing that builds: that would take longer than a search.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from dagster_project.cli.options import (
    CONFIG,
    JSON,
    NO_RESULTS,
    TEXT_TYPE,
    QueryCommand,
    explained,
    filtered,
    searched,
)
from dagster_project.cli.render.hits import Details, print_explanation, print_hits, reading_line
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.config.settings import load_settings
from dagster_project.index.search.explain import Explanation, explanation
from dagster_project.index.search.filters import Filters
from dagster_project.index.search.hit_table import SearchResult
from dagster_project.index.search.lookup import reading
from dagster_project.index.search.opened_index import open_index, with_options
from dagster_project.index.search.query_rewriting import make_rewriter
from dagster_project.index.search.similar import similar
from dagster_project.index.search.statements.sql import query_current
from dagster_project.outgoing.screen import Screen
from transforms.retrieval.query_rewriting import Standalone
from transforms.settings.search import SearchOptions


@click.command(cls=QueryCommand)
@click.argument("queries", nargs=-1, required=True, type=TEXT_TYPE)
@CONFIG
@JSON
@click.option("--plain", is_flag=True, help="Take QUERIES as text; nothing in them is syntax.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), help="Hits per query; default: search.limit."
)
@click.option(
    "--turn",
    "turns",
    type=TEXT_TYPE,
    multiple=True,
    help="An earlier turn of the conversation; give several from the oldest on.",
)
@click.option("--more", is_flag=True, help="List other matches in the mail or page of each hit.")
@click.option(
    "--explain", "explains", is_flag=True, help="Print the kind and the scores of each hit."
)
@click.option(
    "--stages", is_flag=True, help="Show the effect of every stage on every hit, and its time."
)
@click.option(
    "--why",
    "ident",
    metavar="ID",
    type=TEXT_TYPE,
    shell_complete=complete_id,
    help="Show the stages, and what each did with this Message-ID, document, node or chunk.",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="At most this many hits, and as many dropped ones, of each stage.",
)
@searched
@filtered
@explained
def search(
    queries: tuple[str, ...],
    turns: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    plain: bool,
    filters: Filters,
    limit: int | None,
    more: bool,
    explains: bool,
    stages: bool,
    ident: str | None,
    rows: int,
    options: SearchOptions,
) -> None:
    """Search the published index; several QUERIES are answered in one pass.

    \b
    In a query: "a phrase", -without, this OR that, (groups), and field:value:
      f:tom s:vacuum d:2004..2006 "index scan" -toast
    Fields: s subject, f from, l list, d dates, b body, nq not quoted, q quoted,
    dfn file and dfhh function of a diff, dfa removed and dfb added lines, path,
    tag, kind, has, source, thread, series, m Message-ID.
    """
    settings = with_options(load_settings(config), options)
    rewriter = make_rewriter(
        settings.queries, settings.sentences.name, settings.gemini, settings.safety
    )
    rewritten = [rewriter.standalone(query, turns) for query in queries]
    texts = [query.used for query in rewritten]
    is_explained = stages or ident is not None
    if is_explained and len(texts) > 1:
        raise click.UsageError("--stages and --why take one query")
    with closing(open_index(settings)) as index:
        if is_explained:
            _explain(explanation(index, texts[0], ident, filters, limit, plain), as_json, rows)
            return
        result, version = index.search(texts, filters, limit, plain), index.manifest["version"]
    _print(result, version, rewritten, None if as_json else Details(explains, more))


def _print(
    result: SearchResult, version: str, queries: Sequence[Standalone], details: Details | None
) -> None:
    """Print hits with these details, else as JSON; exit code 3 without one."""
    if details:
        print_hits([query.used for query in queries], result, version, details)
    else:
        click.echo(json.dumps(result.as_json(queries, version), ensure_ascii=False))
    if not result.hits.num_rows:
        sys.exit(NO_RESULTS)


def _explain(result: Explanation, as_json: bool, rows: int) -> None:
    """Print the stages; exit code 3 without a hit and the fate of an id."""
    if as_json:
        click.echo(json.dumps(result.as_json(rows), ensure_ascii=False))
    else:
        print_explanation(result, rows)
    if result.fate is None and not (result.stages and result.stages[-1].steps["rank"].count()):
        sys.exit(NO_RESULTS)


@click.command("similar")
@click.argument("name", metavar="ID", type=TEXT_TYPE, shell_complete=complete_id)
@CONFIG
@JSON
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Hits.")
@explained
def similar_(name: str, config: Path | None, as_json: bool, limit: int) -> None:
    """Find the mails, documents and windows of conversations that are nearest to ID.

    ID is one that `weft get` takes, but not a citation with bytes.
    """
    with closing(open_index(load_settings(config))) as index:
        result, version = similar(index, name, limit), index.manifest["version"]
    _print(result, version, [Standalone(name, name)], None if as_json else Details())


@click.command()
@click.argument("name", metavar="ID", type=TEXT_TYPE, shell_complete=complete_id)
@CONFIG
@JSON
@explained
def get(name: str, config: Path | None, as_json: bool) -> None:
    """Print the exact text of ID, and its kind on standard error.

    ID is a Message-ID, the id of a chunk, attachment, thread, conversation or document, the path of a document or its
    end (`faq.md#slug`), or a citation as hits print it.
    """
    settings = load_settings(config)
    screen = Screen(settings.safety)
    text = reading(screen.asking(partial(query_current, settings.root / "index")), name)
    text = replace(text, text=screen.text(text.text))
    if as_json:
        click.echo(json.dumps(text.as_json(), ensure_ascii=False))
    else:
        click.echo(reading_line(text), err=True)
        click.echo(text.text, nl=False)
