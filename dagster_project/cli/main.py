"""The command line: building, searching, reading and serving what is published."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dagster_project.cli.eval import evaluate
from dagster_project.cli.explain import explain
from dagster_project.cli.options import CONFIG, JSON, TEXT, explained, filtered
from dagster_project.cli.safe_streams import SafeGroup
from transforms.errors import FetchError, SourceError, WeftError

if TYPE_CHECKING:
    from dagster_project.resources.search.filters import Filters

NO_RESULTS = 3
"""Exit code of a search that worked and found nothing."""


# With `color`, Click does not cut sequences out of texts in silence: the stream shows them.
@click.group(cls=SafeGroup, context_settings={"help_option_names": ["-h", "--help"], "color": True})
@click.version_option(package_name="weft")
def main() -> None:
    """Turn mail, notes and documentation into a searchable DuckDB file.

    \b
    Exit codes: 0 done; 2 wrong settings or usage; 3 nothing found; 4 a source cannot be read;
    5 no usable index; 6 index of another model; 7 a check failed, nothing was published;
    8 another build is running; 9 a service on the network failed, or would cost more than the budget;
    10 a remote could not be fetched, the rest was done; 11 the disk is full; 12 a folder cannot be written;
    130 interrupted by Ctrl-C; 143 ended by SIGTERM; 1 any other fault.
    """
    for name in ("dagster", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)


@main.command()
@CONFIG
@JSON
@click.option("--quiet", is_flag=True, help="Print nothing but faults.")
@click.option("--fetch/--no-fetch", default=True, help="Ask the remotes of the sources first, or not.")
@click.option(
    "--verify", is_flag=True, help="Read every byte of the lake first, and make again what is damaged."
)
@explained
def build(config: Path | None, as_json: bool, quiet: bool, fetch: bool, verify: bool) -> None:
    """Fetch, find what changed in the sources, materialize it and publish the index.

    A remote that fails is told at the end (exit code 10); what it gave before is built and published. So is a source
    that cannot be read (exit code 4); what the index has of it stays.
    """
    from dagster_project.cli.render import BuildView
    from dagster_project.config.settings import load_settings
    from dagster_project.orchestration.instance import open_instance

    settings = load_settings(config)
    with open_instance(settings) as instance, BuildView(show=not quiet and not as_json) as view:
        from dagster_project.orchestration.build import build as run_build

        result = run_build(settings, instance, tell=view.step, on_plan=view.plan, fetch=fetch, verify=verify)
    if as_json:
        click.echo(json.dumps(result.as_json()))
    elif not quiet:
        view.summary(result)
    _end_with_faults(result.faults(), SourceError if result.plan.broken else FetchError)


@main.command()
@click.argument("sources", nargs=-1)
@CONFIG
@JSON
@click.option("--quiet", is_flag=True, help="Print nothing but faults.")
@explained
def backfill(sources: tuple[str, ...], config: Path | None, as_json: bool, quiet: bool) -> None:
    """Make years of archives of all SOURCES, or of those named, in batches, and publish once at the end.

    Builds that come meanwhile wait for one batch at most. Ended at any moment, it goes on when it is called again.
    """
    from dagster_project.cli.render import BuildView
    from dagster_project.config.settings import load_settings
    from dagster_project.orchestration.instance import open_instance

    settings = load_settings(config)
    with open_instance(settings) as instance, BuildView(show=not quiet and not as_json) as view:
        from dagster_project.orchestration.backfill import backfill as run_backfill

        done = run_backfill(settings, instance, sources, tell=view.step)
    if as_json:
        click.echo(json.dumps(done.as_json()))
    elif not quiet:
        view.backfilled(done)
    _end_with_faults(done.build.faults(), SourceError)


@main.command()
@click.argument("sources", nargs=-1)
@CONFIG
@JSON
@explained
def fetch(sources: tuple[str, ...], config: Path | None, as_json: bool) -> None:
    """Fetch what is new in the remotes of all sources, or of those named, and build nothing."""
    from dagster_project.cli.render import print_fetched
    from dagster_project.config.settings import load_settings
    from dagster_project.orchestration.build import fetch_only
    from dagster_project.orchestration.instance import open_instance
    from dagster_project.orchestration.outcomes import fetch_faults

    settings = load_settings(config)
    with open_instance(settings) as instance:
        outcomes = fetch_only(settings, instance, sources)
    if as_json:
        click.echo(json.dumps({name: outcome.as_json() for name, outcome in outcomes.items()}))
    else:
        print_fetched(outcomes)
    _end_with_faults(fetch_faults(outcomes), FetchError)


def _end_with_faults(faults: str, kind: type[WeftError]) -> None:
    """End with the exit code of a kind of fault, and the reasons on stderr, if there are any."""
    if faults:
        click.echo(f"error: {faults}", err=True)
        sys.exit(kind.exit_code)


@main.command()
@click.argument("queries", nargs=-1, required=True, type=TEXT)
@CONFIG
@JSON
@click.option("--plain", is_flag=True, help="Take QUERIES as text; nothing in them is syntax.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), help="Hits per query; default: search.limit of the settings."
)
@click.option(
    "--turn",
    "turns",
    type=TEXT,
    multiple=True,
    help="An earlier turn of the conversation; several from the oldest on.",
)
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
) -> None:
    """Search the published index; several QUERIES are answered in one pass.

    \b
    In a query: "a phrase", -without, this OR that, (groups), and field:value, as in
      f:tom s:vacuum d:2004..2006 "index scan" -toast
    Fields: s subject, f from, l list, d dates, b body, nq not quoted, q quoted, dfn file and dfhh function
    of a diff, dfa removed and dfb added lines, path, tag, kind, has, source, thread, series, m Message-ID.
    """
    from dagster_project.cli.render import print_hits
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search.opened_index import open_index
    from dagster_project.resources.search.query_rewriting import make_rewriter

    settings = load_settings(config)
    rewriter = make_rewriter(settings.queries, settings.gemini, settings.safety)
    asked = [rewriter.standalone(query, turns) for query in queries]
    with closing(open_index(settings)) as index:
        result, version = (
            index.search([q.used for q in asked], filters, limit, plain),
            index.manifest["version"],
        )
    if as_json:
        click.echo(json.dumps(result.as_json(asked, version), ensure_ascii=False))
    else:
        print_hits([q.used for q in asked], result, version)
    if not result.hits.num_rows:
        sys.exit(NO_RESULTS)


def _known_zone(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    from dagster_project.config.settings import known_zone

    try:
        return name and known_zone(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@main.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@CONFIG
@JSON
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the conversation from standard input.")
@click.option(
    "--budget",
    type=click.IntRange(64),
    help="Tokens of the block; default: context.budget_tokens of the settings.",
)
@click.option(
    "--timezone",
    callback=_known_zone,
    metavar="ZONE",
    help="Zone of times that name none, as Europe/London; default: that of FILE's source, else UTC.",
)
@click.option("--manifest", type=click.Path(path_type=Path), help="Write what made the block to this file.")
@click.option(
    "--reproduce", type=click.Path(exists=True, path_type=Path), help="Make the block of this manifest again."
)
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(exists=True, path_type=Path),
    help="Say how the second of two manifests differs from the first.",
)
@partial(explained, outcome="SYSTEM_ERROR")
def context(
    file: Path | None,
    config: Path | None,
    as_json: bool,
    from_stdin: bool,
    budget: int | None,
    timezone: str | None,
    manifest: Path | None,
    reproduce: Path | None,
    compare: tuple[Path, Path] | None,
) -> None:
    """Print what the index knows about the conversation in FILE: a chat export, or any text.

    The block holds passages with citations, as many as the budget allows. The outcome is CONTEXT,
    NO_HITS (exit code 3) or SYSTEM_ERROR (any other).
    """
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search import conversation_context as work
    from transforms.context.block import difference

    if sum(map(bool, (file, from_stdin, reproduce, compare))) != 1:
        raise click.UsageError("name one of FILE, --stdin, --reproduce and --compare")
    if compare:
        changes = difference(*map(work.read_manifest, compare))
        click.echo(
            json.dumps(changes, ensure_ascii=False) if as_json else "\n".join(work.difference_lines(changes))
        )
        return
    settings = load_settings(config)
    if reproduce:
        block = work.reproduced(settings, work.read_manifest(reproduce))
        click.echo(
            json.dumps({"outcome": "CONTEXT", "block": block}, ensure_ascii=False) if as_json else block,
            nl=as_json,
        )
        return
    if budget:
        settings = settings.model_copy(
            update={"context": settings.context.model_copy(update={"budget_tokens": budget})}
        )
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if from_stdin else None
    made = work.context_of(settings, work.given_conversation(settings, file, text, timezone))
    if manifest:
        manifest.write_text(json.dumps(made.manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n")
    if as_json:
        click.echo(json.dumps(made.as_json(), ensure_ascii=False))
    else:
        click.echo(made.block, nl=False)
        facts = f"{made.outcome}: {made.queries} queries, {made.results} results, {made.documents} documents"
        click.echo(f"{facts}, {made.manifest['block_tokens']} tokens, {made.seconds * 1000:.0f} ms", err=True)
    if made.outcome == "NO_HITS":
        sys.exit(NO_RESULTS)


@main.command()
@click.argument("statement", type=TEXT)
@CONFIG
@JSON
@explained
def sql(statement: str, config: Path | None, as_json: bool) -> None:
    """Run one SQL STATEMENT on the published index, read-only."""
    from dagster_project.cli.render import print_rows
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search.search_index import query_current

    settings = load_settings(config)
    rows = query_current(settings.root / "index", statement)
    if as_json:
        click.echo(json.dumps(rows.to_pylist(), default=str, ensure_ascii=False))
    else:
        print_rows(rows)


@main.command()
@click.argument("name", metavar="ID", type=TEXT)
@CONFIG
@JSON
@explained
def get(name: str, config: Path | None, as_json: bool) -> None:
    """Print the exact text that ID stands for; what it is goes to standard error.

    ID is a Message-ID with or without <>, the id of a chunk, attachment, thread or conversation, a document's id or
    path or the end of it, perhaps with #slug, or a citation as hits print it, with its bytes.
    """
    from dagster_project.cli.render import reading_line
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search.lookup import reading
    from dagster_project.resources.search.search_index import query_current

    found = reading(partial(query_current, load_settings(config).root / "index"), name)
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False))
    else:
        click.echo(reading_line(found), err=True)
        click.echo(found.text, nl=False)


@main.command("similar")
@click.argument("name", metavar="ID", type=TEXT)
@CONFIG
@JSON
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Hits.")
@explained
def similar_(name: str, config: Path | None, as_json: bool, limit: int) -> None:
    """Find what is nearest to ID: mails, documents and windows of conversations, its own left out.

    ID is what `weft get` takes, without bytes.
    """
    from dagster_project.cli.render import print_hits
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search.opened_index import open_index
    from dagster_project.resources.search.similar import similar
    from transforms.retrieval.query_rewriting import Standalone

    with closing(open_index(load_settings(config))) as index:
        result, version = similar(index, name, limit), index.manifest["version"]
    if as_json:
        asked = [Standalone(name, name)]
        click.echo(json.dumps(result.as_json(asked, version), ensure_ascii=False))
    else:
        print_hits([name], result, version)
    if not result.hits.num_rows:
        sys.exit(NO_RESULTS)


@main.command()
@click.argument("document", type=TEXT)
@CONFIG
@JSON
@click.option("-n", "count", type=click.IntRange(1), default=3, show_default=True, help="How many chunks.")
@click.option("--technical", is_flag=True, help="Order by nearness to the first code, not the first text.")
@explained
def stripe(document: str, config: Path | None, as_json: bool, count: int, technical: bool) -> None:
    """Show the N chunks that represent DOCUMENT best; more chunks begin with those of fewer.

    DOCUMENT is the id of a document, its path, or the end of its path.
    """
    from dagster_project.cli.render import print_stripe
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search import disclosure

    folder = load_settings(config).root / "index"
    rows = disclosure.stripe(folder, document, count, "technical" if technical else "conceptual")
    if as_json:
        click.echo(json.dumps({"document": rows[0]["doc_id"], "chunks": rows}, ensure_ascii=False))
    else:
        print_stripe(rows)


@main.command()
@click.argument("query", type=TEXT)
@CONFIG
@JSON
@click.option("--static", is_flag=True, help="First look for a stored question with nearly the same words.")
@click.option("--limit", type=click.IntRange(1, 1000), default=5, show_default=True, help="Hits.")
@explained
def ask(query: str, config: Path | None, as_json: bool, static: bool, limit: int) -> None:
    """Find what answers QUERY by search, with --static first among the questions stored with chunks."""
    from dagster_project.cli.render import print_prompted
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.search import disclosure

    settings = load_settings(config)
    folder = settings.root / "index"
    found = disclosure.prompted(folder, query, limit) if static else []
    if not found:
        click.get_current_context().invoke(
            search, queries=(query,), config=config, as_json=as_json, limit=limit
        )
    elif as_json:
        hits = [hit._asdict() for hit in found]
        click.echo(json.dumps({"outcome": "PROMPTS", "query": query, "hits": hits}, ensure_ascii=False))
    else:
        print_prompted(found)


@main.command("serve-graph")
@CONFIG
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=8321, show_default=True, help="Port; 0 takes a free one.")
@explained
def serve_graph(config: Path | None, host: str, port: int) -> None:
    """Serve the exported graph of documents over HTTP, read-only, until interrupted.

    Programs may read it, and pages of the origins in `graph.origins`.
    """
    import uvicorn

    from dagster_project.composition import make_graph_exporter
    from dagster_project.config.settings import load_settings
    from dagster_project.servers.graph import graph_app

    settings = load_settings(config)
    app = graph_app(make_graph_exporter(settings).folder, settings.graph, f"{host}:{port}")
    uvicorn.run(app, host=host, port=port, access_log=False, server_header=False, use_colors=False)


@main.command()
@CONFIG
@click.option(
    "--http", "port", type=click.IntRange(0, 65535), help="Serve HTTP on this port of 127.0.0.1, at /mcp."
)
@explained
def mcp(config: Path | None, port: int | None) -> None:
    """Serve search, get and context to assistants by the Model Context Protocol, on standard input and output."""
    from dagster_project.config.settings import load_settings
    from dagster_project.resources.system.extras import not_installed

    settings = load_settings(config)
    try:
        from dagster_project.servers.mcp import mcp_server, own_pages
    except ModuleNotFoundError as error:
        raise not_installed(error, "mcp") from error
    server = mcp_server(settings)
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port, transport_security=own_pages(port))


@main.command()
@CONFIG
@JSON
@explained
def cost(config: Path | None, as_json: bool) -> None:
    """Make the chunks and say what embedding them would cost, and sentences for them; nothing is asked for."""
    from dagster_project.cli.render import BuildView, print_facts
    from dagster_project.config.settings import load_settings
    from dagster_project.orchestration.instance import open_history, open_instance
    from dagster_project.resources.system.disk_space import may_be_written

    settings = load_settings(config)
    opened = open_instance if may_be_written(settings.root) else open_history
    with opened(settings) as instance, BuildView(show=not as_json) as view:
        from dagster_project.cli.cache import run_estimate
        from dagster_project.orchestration.build import make_texts

        make_texts(settings, instance, tell=view.step, on_plan=view.plan)
        found, writing = run_estimate(settings)
    facts = {
        "model": settings.embedding.model_id,
        "dimensions": settings.embedding.dimensions,
        "texts": found.texts,
        "texts_to_embed": found.missing,
        "calls": found.calls,
        "tokens": found.tokens,
        "texts_to_cut": found.truncated,
        "price_usd": round(found.dollars, 4),
    }
    if found.unfinished:
        facts["texts_perhaps_paid"] = found.unfinished
    if writing.chunks:
        facts |= {
            "sentences": writing.chunks,
            "sentences_to_write": writing.missing,
            "sentence_calls": writing.calls,
            "sentence_tokens": writing.tokens,
            "sentence_price_usd": round(writing.dollars, 4),
        }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        print_facts(facts)


@main.command()
@CONFIG
@JSON
@explained
def plan(config: Path | None, as_json: bool) -> None:
    """Say what a build would make again and why, and what that would take; nothing is made or asked for.

    Figures are estimates by what earlier runs took; `weft cost` counts the texts to embed exactly.
    """
    from dagster_project.cli.render import print_outlook
    from dagster_project.config.settings import load_settings
    from dagster_project.orchestration.dry_run import outlook
    from dagster_project.orchestration.instance import open_history

    settings = load_settings(config)
    with open_history(settings) as instance:
        found = outlook(settings, instance)
    if as_json:
        click.echo(json.dumps(found.as_json(), ensure_ascii=False))
    else:
        print_outlook(found)


@main.command()
@CONFIG
@JSON
@explained
def doctor(config: Path | None, as_json: bool) -> None:
    """Look whether everything is there and whole, and say what to do; exit code 7 if something is not."""
    from dataclasses import asdict

    from dagster_project.cli.doctor import examination
    from dagster_project.cli.render import print_findings
    from dagster_project.config.settings import load_settings
    from transforms.errors import CheckFailedError

    findings = list(examination(load_settings(config)))
    if as_json:
        click.echo(json.dumps([asdict(f) for f in findings], ensure_ascii=False))
    else:
        print_findings(findings)
    if faults := sorted({f.area for f in findings if f.state == "fault"}):
        raise CheckFailedError(f"not well: {', '.join(faults)}; each line above says what to do")


@main.group()
def cache() -> None:
    """Look after the caches of vectors and of what language models answered."""


@cache.command()
@CONFIG
@JSON
@explained
def stats(config: Path | None, as_json: bool) -> None:
    """List what the caches hold of each model: vectors, refused texts and answers of language models."""
    from dagster_project.cli.cache import holdings
    from dagster_project.cli.render import print_records
    from dagster_project.config.settings import load_settings

    found = holdings(load_settings(config))
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_records(found, "The cache is empty.")


@cache.command()
@CONFIG
@JSON
@click.option(
    "--discard", is_flag=True, help="Delete damaged files; the next build asks for what they held again."
)
@explained
def verify(config: Path | None, as_json: bool, discard: bool) -> None:
    """Read every vector and answer; exit code 7 if a file is damaged and stays."""
    from dagster_project.cli.render import print_records
    from dagster_project.composition import make_answer_cache, make_embedding_cache
    from dagster_project.config.settings import load_settings
    from transforms.errors import CheckFailedError

    settings = load_settings(config)
    damages = [*make_embedding_cache(settings).verify(), *make_answer_cache(settings).verify()]
    found = [{"file": str(d.path), "reason": d.reason} for d in damages]
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_records(found, "All vectors and answers are as they were stored.")
    if discard:
        for damage in damages:
            damage.path.unlink(missing_ok=True)
    elif damages:
        raise CheckFailedError(
            f"{len(damages)} files of the cache are damaged: `weft cache verify --discard` deletes them, and the "
            "next build asks for what they held again"
        )


@cache.command()
@CONFIG
@JSON
@click.option(
    "--other-models", is_flag=True, help="Drop all that models made which the settings do not name, too."
)
@click.option(
    "--refused", is_flag=True, help="Forget refused texts instead; the next build asks for them again."
)
@explained
def prune(config: Path | None, as_json: bool, other_models: bool, refused: bool) -> None:
    """Drop the vectors of texts, and answers about chunks, that are no longer in the lake."""
    from dagster_project.cli.cache import prune as drop
    from dagster_project.config.settings import load_settings

    dropped = drop(load_settings(config), other_models, refused)
    facts = ", ".join(f"{count:,} {what}" for what, count in dropped.items())
    click.echo(json.dumps(dropped) if as_json else f"{facts} dropped.")


@cache.command("import")
@click.argument("index", type=click.Path(path_type=Path))
@CONFIG
@JSON
@explained
def import_(index: Path, config: Path | None, as_json: bool) -> None:
    """Take the vectors of a published INDEX (a weft-….duckdb file) into the cache."""
    from dagster_project.cli.cache import import_vectors
    from dagster_project.composition import make_embedding_cache
    from dagster_project.config.settings import load_settings

    model, count, new = import_vectors(index, make_embedding_cache(load_settings(config)))
    facts = {"model": model, "vectors": count, "new": new}
    click.echo(json.dumps(facts) if as_json else f"{count:,} vectors of {model}, {new:,} of them new.")


@main.command()
@CONFIG
@click.option("--port", type=int, default=3000, show_default=True, help="Port on the loopback interface.")
@explained
def ui(config: Path | None, port: int) -> None:
    """Open Dagster's UI for these settings on 127.0.0.1, with the schedule's daemon."""
    import signal
    import subprocess

    from dagster_project.composition import make_sources
    from dagster_project.config.settings import CONFIG_VARIABLE, config_path, load_settings
    from dagster_project.orchestration.instance import instance_home, open_instance
    from dagster_project.orchestration.plan import add_partitions

    settings = load_settings(config)
    with open_instance(settings) as instance:
        add_partitions(instance, make_sources(settings).discover())
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(instance_home(settings)),
        CONFIG_VARIABLE: str(config_path(config).resolve()),
    }
    guarded = [sys.executable, "-m", "dagster_project.servers.guarded_ui", "dev"]
    command = [*guarded, "-m", "dagster_project.definitions", "-h", "127.0.0.1"]
    # Dagster ends its own processes by SIGINT; in a session of its own no terminal does.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    sys.exit(subprocess.run([*command, "-p", str(port)], env=environment, start_new_session=True).returncode)


main.add_command(evaluate)
main.add_command(explain)

if __name__ == "__main__":
    from dagster_project.cli.command import run

    run()
