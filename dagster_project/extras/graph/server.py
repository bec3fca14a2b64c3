"""`weft serve-graph`: the exported graph as static files with ranges, ETags and caching headers, to named origins."""

from __future__ import annotations

import os
from pathlib import Path
from stat import S_ISDIR
from typing import Any
from urllib.parse import urlsplit

import click
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from dagster_project.cli.options import CONFIG, explained
from dagster_project.cli.serving import run_until_interrupted
from dagster_project.config.settings import load_settings
from dagster_project.extras.graph import EXTRA
from dagster_project.extras.graph.transforms.hal_export import INDEX
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.servers.listening import listening
from dagster_project.servers.own_pages import OwnPages
from transforms.errors import IndexUnavailableError

CACHE_CONTROL = "no-cache"
"""Names stay when contents change, so a copy may be kept but is revalidated: an unchanged file costs a 304."""
_EXPOSED = ("Accept-Ranges", "Content-Length", "Content-Range", "ETag", "Last-Modified")


def graph_app(folder: Path, settings: GraphSettings, host: str = "") -> Starlette:
    """The ASGI application that serves the graph in `folder`, read-only, to programs and pages of `settings.origins`.

    It answers under the names of the loopback interface, the address that it listens on, `host` (a name and a port) and the
    host of `settings.base_url`. IndexUnavailableError if nothing is exported there.
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
        found, stat = super().lookup_path(path)
        is_folder = stat is not None and S_ISDIR(stat.st_mode)
        return super().lookup_path(str(Path(path) / INDEX)) if is_folder else (found, stat)

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        """The answer for one file, or that it has not changed."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = CACHE_CONTROL
        # The texts are strangers': no browser may take one of them for a page.
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


@click.command("serve-graph")
@CONFIG
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=8321, show_default=True, help="Port; 0 takes a free one.")
@explained
def serve_graph(config: Path | None, host: str, port: int) -> None:
    """Serve the exported graph of documents over HTTP, read-only, until interrupted.

    Programs may read it, and pages of the origins in `graph.origins`.
    """
    settings = load_settings(config)
    listener = listening(host, port)
    app = graph_app(
        settings.root / EXTRA.folder, settings.section(GraphSettings), f"{host}:{listener.getsockname()[1]}"
    )
    run_until_interrupted(app, listener, host)
