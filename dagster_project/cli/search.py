"""`weft search`, `similar` and `get`: the commands that read hits and texts of the published index.

This module loads nothing that searches: beside a server a command needs only its answer.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import (
    CONFIG,
    JSON,
    NO_RESULTS,
    TEXT_TYPE,
    SearchCommand,
    explained,
    filtered,
    searched,
)
from dagster_project.cli.render.lines import reading_line
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.servers.local import answer
from transforms.text.visible import visible


@click.command(cls=SearchCommand)
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
    "--agent",
    "for_agent",
    is_flag=True,
    help="Print of each hit its citation, the titles above it, and its whole text.",
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
    config: Path | None,
    as_json: bool,
    more: bool,
    explains: bool,
    for_agent: bool,
    stages: bool,
    ident: str | None,
    rows: int,
    **question: Any,
) -> None:
    """Search the published index; several QUERIES are answered in one pass.

    \b
    In a query: "a phrase", -without, this OR that, (groups), vacu*, vacum~, word^2:
      f:tom s:vacuum d:2004..2006 "index scan" -toast

    \b
    Fields of a query, and examples:
      who    f: from: to: cc:                     f:"tom lane" from:example.org
             reviewed: acked: tested: reported:   reviewed:ann
      when   d: date:                             d:2004-05 d:2004..2006
             newer_than: older_than:              newer_than:30d
      where  l: list: source: tree:               list:dev source:notes
             path: thread: series: m: id:         path:src/*.c
      what   kind: has: is: type:                 has:patch is:unanswered type:pdf
             tag: tags: keyword: meta.KEY:        tag:idea meta.status:done
             larger: language: is_code:           larger:1M language:de is_code:true
             sensitivity:                         sensitivity:public
      words  s: subject: hierarchy: title:        s:"two phase"
             b: body: nq: q:                      nq:toast (not quoted) q:toast (quoted)
      diffs  dfn: dfhh: dfa: dfb:                 dfn:log.c (file) dfhh:main (function)
                                                  dfa:old (removed) dfb:new (added)
    """
    question["command"] = "search"
    if for_agent and (as_json or stages or ident is not None):
        raise click.UsageError("--agent takes neither --json nor --stages nor --why")
    if for_agent:
        _print_for_agent(config, answer(config, question))
        return
    if not stages and ident is None:
        _print(answer(config, question), as_json, explain=explains, more=more)
        return
    if len(question["queries"]) > 1:
        raise click.UsageError("--stages and --why take one query")
    from dagster_project.cli.own_answers import print_stages

    if not print_stages(config, question, ident, rows, as_json):
        sys.exit(NO_RESULTS)


def _print(hits: Mapping[str, Any], as_json: bool, **details: bool) -> None:
    """Print hits with these details, else as JSON; exit code 3 without one."""
    if as_json:
        click.echo(json.dumps(hits, ensure_ascii=False))
    else:
        from dagster_project.cli.render.hits import Details, print_hits

        print_hits(hits, Details(**details))
    if hits["outcome"] == "NO_RESULTS":
        sys.exit(NO_RESULTS)


def _print_for_agent(config: Path | None, hits: Mapping[str, Any]) -> None:
    """Print of each hit its citation, the titles from the document down to it, and the text that is
    cited (ra, "Breadcrumbs"); exit code 3 without a hit.
    """
    for hit in (hit for query in hits["queries"] for hit in query["hits"]):
        above = hit["breadcrumb"] or f"> {hit['subject'] or '(no subject)'}"
        text = answer(config, {"command": "get", "name": hit["citation"]})["text"].strip("\n")
        lines = [f"⟨{hit['citation']}⟩", above, "", *text.split("\n"), ""]
        click.echo("\n".join(map(visible, lines)))
    if hits["outcome"] == "NO_RESULTS":
        click.echo("NO_RESULTS: no text answers this")
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
    _print(answer(config, {"command": "similar", "name": name, "limit": limit}), as_json)


@click.command()
@click.argument("name", metavar="ID", type=TEXT_TYPE, shell_complete=complete_id)
@CONFIG
@JSON
@explained
def get(name: str, config: Path | None, as_json: bool) -> None:
    """Print the exact text of ID, and its kind on standard error.

    ID is a Message-ID, the id of a chunk, attachment, thread, conversation or document, the path of
    a document or its end (`faq.md#slug`), or a citation as hits print it.
    """
    text = answer(config, {"command": "get", "name": name})
    if as_json:
        click.echo(json.dumps(text, ensure_ascii=False))
    else:
        click.echo(reading_line(text), err=True)
        click.echo(text["text"], nl=False)
