"""`weft serve`: the pages, until they are interrupted."""

import ipaddress
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, LENS, explained
from dagster_project.cli.serving import required_token, run_until_interrupted
from dagster_project.cli.standby_process import standing_by
from dagster_project.config.settings import load_settings
from dagster_project.extras.web.app import web_app
from dagster_project.index.search.opened_index import require_lens
from dagster_project.servers.listening import listening


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
    WEFT_SERVE_TOKEN, which browsers ask for as a password; put a proxy with TLS before it."""
    settings = load_settings(config)
    require_lens(settings, lens)
    token = required_token(is_needed=bool(names) or not _is_loopback(host))
    listener = listening(host, port)
    port = listener.getsockname()[1]
    hosts = {f"{host}:{port}", *names, *(f"{name}:{port}" for name in names)}
    app = web_app(settings, hosts, token, lens=lens)
    with standing_by(config):
        run_until_interrupted(app, listener, f"[{host}]" if ":" in host else host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
