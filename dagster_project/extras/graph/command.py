"""`weft graph`: chunks by how well they represent a document, stored questions, exported files, and
their server.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Any
from urllib.parse import urlsplit

import click
from rich.text import Text
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from dagster_project.cli.options import CONFIG, JSON, TEXT_TYPE, QueryCommand, explained
from dagster_project.cli.search import search
from dagster_project.cli.serving import run_until_interrupted
from dagster_project.cli.terminal.completion import complete_id
from dagster_project.cli.terminal.lazy_group import OTHERS, LazyGroup
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.config.settings import load_settings
from dagster_project.extensions import Command
from dagster_project.extras.graph import EXTRA, stripes_and_prompts
from dagster_project.extras.graph.stripes_and_prompts import Prompted
from dagster_project.extras.graph.transforms.hal_export import INDEX
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.servers.guards import OwnPages
from dagster_project.servers.listening import listening
from transforms.errors import IndexUnavailableError

_SERVE = Command(
    "dagster_project.extras.graph.command:serve",
    OTHERS,
    "Serve the exported graph of documents over HTTP, read-only, until interrupted.",
)


@click.group(cls=LazyGroup, own={"serve": _SERVE})
def graph() -> None:
    """Read and serve the document graph: the chunks of a document, stored questions, its files."""


def print_stripe(rows: list[dict[str, Any]]) -> None:
    """The chunks of a stripe in its order, each under its title."""
    console = terminal()
    for row in rows:
        facts = f"chunk {row['chunk_index']}, similarity {row['similarity']:.3f}{', code' if row['is_code'] else ''}"
        console.print(
            Text(row["title"], style="bold cyan") + Text(f"  {facts}", style="dim"), soft_wrap=True
        )
        console.print(Text(row["text_display"]), soft_wrap=True)
        console.print()


def print_prompted(hits: Sequence[Prompted]) -> None:
    """Print the chunks of stored questions, each with its question and its place."""
    console = terminal()
    for number, hit in enumerate(hits, 1):
        console.print(Text(f"{number:>3}. ") + Text(hit.title, style="bold cyan"))
        question = (
            f"asked: {hit.question} ({hit.distance} bits away, similarity {hit.similarity:.3f})"
        )
        console.print(Text(f"     {question}"), soft_wrap=True)
        console.print(Text(hit.text), soft_wrap=True)
        console.print(f"     ⟨{hit.node_id or hit.doc_id}⟩", style="dim", soft_wrap=True)


@graph.command()
@click.argument("document", type=TEXT_TYPE, shell_complete=complete_id)
@CONFIG
@JSON
@click.option(
    "-n", "count", type=click.IntRange(1), default=3, show_default=True, help="How many chunks."
)
@click.option(
    "--technical", is_flag=True, help="Begin with the first code, not with the first text."
)
@explained
def stripe(document: str, config: Path | None, as_json: bool, count: int, technical: bool) -> None:
    """Show the N chunks that represent DOCUMENT best; a longer list begins with the shorter one.

    DOCUMENT is the id of a document, its path, or the end of its path.
    """
    folder = load_settings(config).root / "index"
    rows = stripes_and_prompts.stripe_of(
        folder, document, count, "technical" if technical else "conceptual"
    )
    if as_json:
        click.echo(json.dumps({"document": rows[0]["doc_id"], "chunks": rows}, ensure_ascii=False))
    else:
        print_stripe(rows)


@graph.command(cls=QueryCommand)
@click.argument("query", type=TEXT_TYPE)
@CONFIG
@JSON
@click.option(
    "--static", is_flag=True, help="First look for a stored question with nearly the same words."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=5, show_default=True, help="Hits.")
@explained
def ask(query: str, config: Path | None, as_json: bool, static: bool, limit: int) -> None:
    """Find answers to QUERY: with --static first among the questions stored with chunks, then by
    search.
    """
    folder = load_settings(config).root / "index"
    hits = stripes_and_prompts.prompted(folder, query, limit) if static else []
    if not hits:
        click.get_current_context().invoke(
            search, queries=(query,), config=config, as_json=as_json, limit=limit
        )
    elif as_json:
        rows = [hit._asdict() for hit in hits]
        click.echo(
            json.dumps({"outcome": "PROMPTS", "query": query, "hits": rows}, ensure_ascii=False)
        )
    else:
        print_prompted(hits)


CACHE_CONTROL = "no-cache"
"""Names stay when contents change, so a copy may be kept but is revalidated: an unchanged file
costs a 304.
"""
_EXPOSED = ("Accept-Ranges", "Content-Length", "Content-Range", "ETag", "Last-Modified")


def graph_app(folder: Path, settings: GraphSettings, host: str = "") -> Starlette:
    """The ASGI application that serves the graph in `folder`, read-only, to programs and pages of
    `settings.origins`.

    It answers under the names of the loopback interface, the address that it listens on, `host` (a
    name and a port) and the host of `settings.base_url`. IndexUnavailableError if nothing is
    exported there.
    """
    if not (folder / INDEX).is_file():
        raise IndexUnavailableError(
            f"no graph is exported in {folder}: set `enabled = true` in [graph] and run `weft build`"
        )
    hosts = {host, urlsplit(settings.base_url or "").netloc} - {""}
    cors = Middleware(
        CORSMiddleware,
        allow_origins=settings.origins,
        allow_methods=["GET", "HEAD"],
        allow_headers=["Range", "If-None-Match", "If-Range", "If-Modified-Since"],
        expose_headers=_EXPOSED,
    )
    app = Starlette(middleware=[Middleware(OwnPages, hosts=hosts, origins=settings.origins), cors])
    app.mount("/", _GraphFiles(directory=folder))
    return app


class _GraphFiles(StaticFiles):
    """Static files whose answers say how they may be kept; a folder answers with its index."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """The file at a path, or the index of a folder there."""
        full_path, stat = super().lookup_path(path)
        is_folder = stat is not None and S_ISDIR(stat.st_mode)
        return super().lookup_path(str(Path(path) / INDEX)) if is_folder else (full_path, stat)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """The answer for one file, or that it has not changed."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = CACHE_CONTROL
        # The texts are strangers': no browser may take one of them for a page.
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


@click.command()
@CONFIG
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=8321, show_default=True, help="Port; 0 takes a free one.")
@explained
def serve(config: Path | None, host: str, port: int) -> None:
    """Serve the exported graph of documents over HTTP, read-only, until interrupted.

    Every program may read it, but web pages only if `graph.origins` lists their origin.
    """
    settings = load_settings(config)
    listener = listening(host, port)
    app = graph_app(
        settings.root / EXTRA.folder,
        settings.section(GraphSettings),
        f"{host}:{listener.getsockname()[1]}",
    )
    run_until_interrupted(app, listener, host)
