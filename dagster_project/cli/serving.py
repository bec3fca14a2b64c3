"""`weft mcp`, the server for assistants, its receipts, and the common parts of servers' commands."""

import json
import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import click
from starlette.types import ASGIApp

from dagster_project.cli.options import CONFIG, JSON, LENS, explained
from dagster_project.config.settings import load_settings
from dagster_project.index.search.opened_index import require_lens
from dagster_project.outgoing.receipt_seals import parsed_heads
from dagster_project.outgoing.receipts import Receipts, receipt_line
from dagster_project.servers.guards import LEAST_TOKEN, TOKEN_VARIABLE
from dagster_project.servers.listening import listening, log_aside, make_server
from dagster_project.servers.local_server import answering
from transforms.errors import SettingsError, not_installed


@click.group(invoke_without_command=True)
@CONFIG
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    help="Serve HTTP on this port of 127.0.0.1, at /mcp.",
)
@LENS
@click.option(
    "--sql", "has_sql", is_flag=True, help="Also let assistants run SQL on texts that they may see."
)
@explained
def mcp(config: Path | None, port: int | None, lens: str | None, has_sql: bool) -> None:
    """Serve the published index to assistants by the Model Context Protocol, on standard input and
    output.

    If WEFT_SERVE_TOKEN is set, programs over HTTP must send this token; pages of `mcp.origins`
    always need one.
    """
    context = click.get_current_context()
    if context.invoked_subcommand:
        context.obj = config
        return
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
    token = required_token(is_needed=bool(settings.mcp.origins))
    listener = listening("127.0.0.1", port)
    app = mcp_app(server, listener.getsockname()[1], token, settings.mcp.origins)
    with answering(config):
        run_until_interrupted(app, listener, "127.0.0.1")


def run_until_interrupted(app: ASGIApp, listener: socket.socket, address: str) -> None:
    """Serve an application on a socket until interrupted; `address` is the host that the message
    names.
    """
    log_aside()
    with listener:
        click.echo(f"http://{address}:{listener.getsockname()[1]}/ until Ctrl-C", err=True)
        make_server(app).run(sockets=[listener])


def required_token(*, is_needed: bool) -> str | None:
    """The token of the environment; SettingsError if one is needed and there is none, or one that
    is easily guessed.
    """
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


@mcp.command()
@click.argument("folders", nargs=-1, type=click.Path(file_okay=False, path_type=Path))
@explained
def skill(folders: tuple[Path, ...]) -> None:
    """Write weft/SKILL.md, by which an agent knows when to ask and how to cite, into FOLDERS of
    skills.

    Without FOLDERS it writes into .claude/skills and .agents/skills of this folder, where agents
    look.
    """
    text = (Path(__file__).parents[1] / "servers" / "skill.md").read_bytes()
    for folder in folders or (Path(".claude/skills"), Path(".agents/skills")):
        file = folder / "weft" / "SKILL.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
        click.echo(file)


@mcp.command()
@click.argument("part", type=click.Choice(["list", "verify", "export"]), default="list")
@CONFIG
@JSON
@click.option("--last", type=click.IntRange(1), help="Only this many, the newest.")
@click.option("--new-key", is_flag=True, help="First change the key that signs; a receipt says so.")
@click.option(
    "--heads",
    type=click.File(errors="replace"),
    help="Compare also heads that were sent elsewhere.",
)
@explained
def receipts(
    part: str,
    config: Path | None,
    as_json: bool,
    last: int | None,
    new_key: bool,
    heads: TextIO | None,
) -> None:
    """List the texts that assistants were shown, and verify that no receipt was changed, added or
    removed.

    A receipt has the hashes of the question and of each text, and how much was masked. Exit code 5
    if a receipt is changed or missing. `verify` lists the keys and the changes that it cannot
    notice; `export` prints the signed receipts as JSON lines for others, who verify them with the
    public key.
    """
    chain = Receipts(load_settings(config or click.get_current_context().obj).root)
    if new_key:
        chain.renew_key()
    others = _heads_of(chain, heads) if heads else []
    read = _Extent()
    counted = read.counted(chain.read(others))
    for receipt in deque(counted, last) if last else counted:
        if part == "export" or part == "list" and as_json:
            click.echo(receipt_line(receipt), nl=False)
        elif part == "list":
            click.echo(_shown(receipt))
    if part == "verify":
        unknown = chain.unknown(read.first, read.last)
        if heads and not any(head["number"] >= read.start for head in others):
            unknown.append(
                f"what {heads.name} shows: it has no head of these receipts of {chain.heads.root}"
            )
        _print_verified(read, unknown, as_json)
    if part != "export" and not as_json:
        click.echo(read)


def _heads_of(chain: Receipts, heads: TextIO) -> list[dict[str, Any]]:
    """Those of a file of heads that are of these receipts."""
    others = parsed_heads(heads.read(), heads.name)
    return [head for head in others if head.get("storage") == str(chain.heads.root)]


@dataclass
class _Extent:
    """The receipts that were read: the first, the number and hash of the last, and by key the last
    number that it signed.
    """

    first: dict[str, Any] = field(default_factory=dict)
    last: int = 0
    hash: str = ""
    keys: dict[str, int] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """The number of the first."""
        return int(self.first.get("number", 1))

    @property
    def count(self) -> int:
        """How many they are."""
        return self.last - self.start + 1

    def counted(self, receipts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The receipts, each counted here as it passes."""
        for receipt in receipts:
            self.first = self.first or receipt
            self.last, self.hash = receipt["number"], receipt["hash"]
            self.keys[receipt["key"]] = self.last
            yield receipt

    def __str__(self) -> str:
        if not self.last:
            return "no receipts"
        numbers = f", {self.start} to {self.last}" if self.start > 1 else ""
        return f"{self.count} receipts{numbers}, unchanged; the last has the hash {self.hash}"


def _print_verified(read: _Extent, unknown: list[str], as_json: bool) -> None:
    if as_json:
        answer = {
            "receipts": read.count,
            "first": read.start,
            "hash": read.hash,
            "keys": read.keys,
            "unknown": unknown,
        }
        click.echo(json.dumps(answer))
        return
    for key, number in read.keys.items():
        click.echo(f"up to receipt {number} signed with {key}")
    for reason in unknown:
        click.echo(f"not known: {reason}")


def _shown(receipt: dict[str, Any]) -> str:
    masked = ", ".join(f"{count} {kind}" for kind, count in receipt["masked"].items())
    size = sum(passage["bytes"] for passage in receipt["passages"])
    extent = f"{len(receipt['passages'])} passages, {size:,} bytes"
    extent += f" to {receipt['asker']}" if "asker" in receipt else ""
    return f"{receipt['at'][:19]}Z  {receipt['tool']:<12}  {extent}; masked: {masked or 'nothing'}"
