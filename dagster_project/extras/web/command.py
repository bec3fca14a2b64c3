"""`weft serve`: the pages, until they are interrupted."""

from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, LENS, DateType, explained
from dagster_project.cli.serving import required_token, run_until_interrupted
from dagster_project.config.settings import load_settings
from dagster_project.extras.web.app import web_app
from dagster_project.extras.web.tokens import Tokens, is_loopback
from dagster_project.index.search.opened_index import require_lens
from dagster_project.servers.listening import listening
from dagster_project.servers.local_server import answering


@click.group(invoke_without_command=True)
@CONFIG
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8320,
    show_default=True,
    help="Port; 0 takes a free one.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    help="A further name of this server, HOST or HOST:PORT of addresses.",
)
@LENS
@click.option(
    "--person-header",
    default="",
    metavar="HEADER[=PROXY]",
    help="Header in which a proxy on this machine, or at the address PROXY, names the person.",
)
@click.option(
    "--follow",
    "follows",
    is_flag=True,
    help="Also build what comes to the sources, as `weft follow` does.",
)
@explained
def serve(
    config: Path | None,
    host: str,
    port: int,
    names: tuple[str, ...],
    lens: str | None,
    person_header: str,
    follows: bool,
) -> None:
    """Serve web pages to search and read the published index, until interrupted.

    On the loopback interface anyone on this machine may read. Any other address or name needs a
    token in WEFT_SERVE_TOKEN, which browsers ask for as a password, or `weft serve tokens`; put a
    proxy with TLS before it.
    """
    context = click.get_current_context()
    if context.invoked_subcommand:
        context.obj = config
        return
    settings = load_settings(config)
    require_lens(settings, lens)
    has_persons = Tokens(settings).folder.exists()
    token = required_token(
        is_needed=not (has_persons or person_header) and (bool(names) or not is_loopback(host))
    )
    listener = listening(host, port)
    port = listener.getsockname()[1]
    hosts = {f"{host}:{port}", *names, *(f"{name}:{port}" for name in names)}
    app = web_app(settings, hosts, token, lens, person_header)
    with answering(config), _following(config) if follows else nullcontext():
        run_until_interrupted(app, listener, f"[{host}]" if ":" in host else host)


def _following(config: Path | None) -> AbstractContextManager[None]:
    """A process that follows, whose modules a server needs not."""
    from dagster_project.cli.follow import follower_beside

    return follower_beside(config)


@serve.command()
@click.argument("part", type=click.Choice(["list", "new", "revoke"]), default="list")
@click.argument("name", required=False)
@CONFIG
@LENS
@click.option("--until", type=DateType(), help="First day, in UTC, on which the token is refused.")
@explained
def tokens(
    part: str, name: str | None, config: Path | None, lens: str | None, until: datetime | None
) -> None:
    """List, make and revoke tokens; each lets the person NAME read, under a lens.

    `new` shows the token once; Weft keeps its hash. A server that runs sees each change at once. If
    there is a token, nobody reads without one. A token without --lens has the lens of the server.
    """
    store = Tokens(load_settings(config or click.get_current_context().obj))
    if part != "list" and not name:
        raise click.UsageError(f"name the person: weft serve tokens {part} NAME")
    if part == "new" and name:
        click.echo(store.new(name, lens, until.date() if until else None))
    elif part == "revoke" and name:
        store.revoke(name)
    else:
        for token in store.all():
            end = (
                f"{'ended' if token.is_ended else 'until'} {token.until}"
                if token.until
                else "no end"
            )
            used = (
                f"{at:used %Y-%m-%d %H:00 UTC}"
                if (at := store.last_use(token.name))
                else "never used"
            )
            click.echo(f"{token.name}  lens: {token.lens or 'that of the server'}  {end}  {used}")
