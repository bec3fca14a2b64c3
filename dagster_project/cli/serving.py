"""`weft serve-graph` and `mcp`: servers for programs, which run until they are interrupted."""

from __future__ import annotations

from pathlib import Path

import click
import uvicorn

from dagster_project.cli.options import CONFIG, explained
from dagster_project.config.settings import load_settings
from dagster_project.resources.system.extras import not_installed
from dagster_project.servers.graph import graph_app


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
    app = graph_app(settings.graph_folder, settings.graph, f"{host}:{port}")
    uvicorn.run(app, host=host, port=port, access_log=False, server_header=False, use_colors=False)


@click.command()
@CONFIG
@click.option(
    "--http", "port", type=click.IntRange(0, 65535), help="Serve HTTP on this port of 127.0.0.1, at /mcp."
)
@explained
def mcp(config: Path | None, port: int | None) -> None:
    """Serve search, get and context to assistants by the Model Context Protocol, on standard input and output."""
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
