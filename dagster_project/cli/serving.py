"""`weft serve`, `serve-graph` and `mcp`: servers for people and programs, which run until they are interrupted."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import click
from starlette.types import ASGIApp

from dagster_project.cli.options import CONFIG, LENS, explained
from dagster_project.config.settings import load_settings
from dagster_project.resources.search.opened_index import require_lens
from dagster_project.resources.system.extras import not_installed
from dagster_project.servers.graph import graph_app
from dagster_project.servers.listening import listening, log_aside, make_server
from dagster_project.servers.web.app import web_app
from dagster_project.servers.web.guards import LEAST_TOKEN, TOKEN_VARIABLE
from transforms.errors import SettingsError


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
    app = graph_app(settings.graph_folder, settings.graph, f"{host}:{listener.getsockname()[1]}")
    _run(app, listener, host)


@click.command()
@CONFIG
@click.option(
    "--http", "port", type=click.IntRange(0, 65535), help="Serve HTTP on this port of 127.0.0.1, at /mcp."
)
@LENS
@click.option("--sql", "has_sql", is_flag=True, help="Also let assistants run SQL on what they may see.")
@explained
def mcp(config: Path | None, port: int | None, lens: str | None, has_sql: bool) -> None:
    """Serve the published index to assistants by the Model Context Protocol, on standard input and output.

    Over HTTP who asks must know the token in WEFT_SERVE_TOKEN, where one is set; pages of `mcp.origins` need one.
    """
    settings = load_settings(config)
    try:
        from dagster_project.servers.mcp import mcp_app, mcp_server
    except ModuleNotFoundError as error:
        raise not_installed(error, "mcp") from error
    require_lens(settings, lens)
    log_aside()
    server = mcp_server(settings, lens, has_sql=has_sql)
    if port is None:
        server.run("stdio")
        return
    token = _token(is_needed=bool(settings.mcp.origins))
    listener = listening("127.0.0.1", port)
    app = mcp_app(server, listener.getsockname()[1], token, settings.mcp.origins)
    _run(app, listener, "127.0.0.1")


@click.command()
@CONFIG
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8320, show_default=True, help="Port; 0 takes a free one."
)
@click.option(
    "--name", "names", multiple=True, help="A further name under which browsers ask, as search.example.org."
)
@LENS
@explained
def serve(config: Path | None, host: str, port: int, names: tuple[str, ...], lens: str | None) -> None:
    """Serve a page to search and read the published index in, until interrupted.

    On the loopback interface anyone on this machine may read. Any other address or name needs a token in
    WEFT_SERVE_TOKEN, which browsers ask for as a password; put a proxy with TLS before it.
    """
    settings = load_settings(config)
    require_lens(settings, lens)
    token = _token(is_needed=bool(names) or not _is_loopback(host))
    listener = listening(host, port)
    port = listener.getsockname()[1]
    hosts = {f"{host}:{port}", *names, *(f"{name}:{port}" for name in names)}
    _run(web_app(settings, hosts, token, lens=lens), listener, f"[{host}]" if ":" in host else host)


def _run(app: ASGIApp, listener: socket.socket, address: str) -> None:
    """Serve until interrupted."""
    log_aside()
    with listener:
        click.echo(f"http://{address}:{listener.getsockname()[1]}/ until Ctrl-C", err=True)
        make_server(app).run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _token(*, is_needed: bool) -> str | None:
    """The token of the environment; SettingsError if one is needed and there is none, or one that is easily guessed."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token and is_needed:
        raise SettingsError(
            "beyond the loopback interface, or from pages of other origins, everyone could read the index: set a token in "
            f"{TOKEN_VARIABLE}, for example "
            f'{TOKEN_VARIABLE}="$(openssl rand -hex 24)"'
        )
    if token and len(token) < LEAST_TOKEN:
        raise SettingsError(
            f"the token in {TOKEN_VARIABLE} has {len(token)} characters, at least {LEAST_TOKEN} are needed"
        )
    return token or None
