"""`weft context`: context for a conversation from the index, as a block of cited passages."""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, LENS, NO_RESULTS, explained
from dagster_project.cli.render.hits import print_plan
from dagster_project.config.settings import Settings, load_settings
from dagster_project.config.source_settings import known_zone
from dagster_project.context import conversation_context as work
from dagster_project.context.sessions import Account, Session, opened_session
from dagster_project.index.search.opened_index import open_index
from dagster_project.outgoing.screen import Disclosure
from transforms.context.block import ENDED, FULL, difference
from transforms.errors import shortened

_STOPPED = {FULL: "fits", ENDED: "bears it out"}


def _known_zone(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return name and known_zone(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


class _TextFile(click.Path):
    """The path of a file or folder; a question in its place is refused with the way to ask it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if not os.path.exists(value):  # noqa: PTH110  # Path raises for a long text
            what = f"there is no file {shortened(value)!r}" if value else "the text is empty"
            self.fail(f"{what}: name a file, or give a question or a text with --stdin", param, ctx)
        return super().convert(value, param, ctx)


@click.command()
@click.argument("file", required=False, type=_TextFile(exists=True, path_type=Path))
@CONFIG
@JSON
@click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read the conversation from standard input."
)
@click.option(
    "--window", metavar="ID", help="In place of FILE: a window of an indexed conversation."
)
@click.option(
    "--where", metavar="CONDITIONS", help="Find only this, as 'source:notes OR kind:message'."
)
@click.option("--later", is_flag=True, help="Take later texts, too, and texts of the same chat.")
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
@click.option(
    "--manifest",
    type=click.Path(path_type=Path),
    help="Write the inputs of the block to this file.",
)
@click.option(
    "--reproduce",
    type=click.Path(exists=True, path_type=Path),
    help="Make the block of this manifest again.",
)
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(exists=True, path_type=Path),
    help="Say how the second of two manifests differs from the first.",
)
@click.option(
    "--session",
    "session_name",
    metavar="NAME",
    help="Continue this session: leave out passages that it has shown.",
)
@click.option("--again", is_flag=True, help="With --session: show those passages again, too.")
@click.option(
    "--turn", type=click.IntRange(1), help="With --session: print the block of this turn again."
)
@click.option(
    "--explain",
    "explains",
    is_flag=True,
    help="Print stages, queries and omissions in place of the block.",
)
@click.option(
    "--unmasked",
    is_flag=True,
    help="Show secrets and addresses, if `safety.outputs` lets people see them.",
)
@LENS
@partial(explained, outcome="SYSTEM_ERROR")
def context(
    file: Path | None,
    config: Path | None,
    as_json: bool,
    from_stdin: bool,
    window: str | None,
    where: str | None,
    later: bool,
    budget: int | None,
    timezone: str | None,
    manifest: Path | None,
    reproduce: Path | None,
    compare: tuple[Path, Path] | None,
    lens: str | None,
    session_name: str | None,
    again: bool,
    turn: int | None,
    explains: bool,
    unmasked: bool,
) -> None:
    """Print context from the index for the conversation in FILE: a chat export, a mail, or any text.

    Secrets and addresses are masked, because the block is for a model.

    The block holds passages with citations, as many as the budget allows. The outcome is CONTEXT,
    NO_HITS (exit code 3) or SYSTEM_ERROR (any other).
    """
    if sum(map(bool, (file, from_stdin, window, reproduce, compare, turn))) != 1:
        raise click.UsageError(
            "name one of FILE, --stdin, --window, --reproduce, --compare and --turn"
        )
    if (again or turn) and not session_name:
        raise click.UsageError("--again and --turn go with --session NAME")
    if reproduce and lens:
        raise click.UsageError(
            "--reproduce shows the passages that a manifest names, under no lens"
        )
    if compare:
        changes = difference(*map(work.read_manifest, compare))
        click.echo(_json(changes) if as_json else "\n".join(work.difference_lines(changes)))
        return
    settings = load_settings(config)
    with opened_session(settings.root, session_name) if session_name else nullcontext() as session:
        if session:
            session.require_lens(lens)
        recorded = work.read_manifest(reproduce) if reproduce else None
        if session and turn:
            recorded = session.manifest(turn)
        if recorded is not None:
            block = work.reproduced(settings, recorded, unmasked=unmasked)
            click.echo(
                _json({"outcome": "CONTEXT", "block": block}) if as_json else block, nl=as_json
            )
            return
        settings = _changed(
            settings, budget_tokens=budget, where=where, include="later" if later else None
        )
        if window:
            conversation = work.read_window(settings, window)
        else:
            text = sys.stdin.buffer.read().decode("utf-8", "replace") if from_stdin else None
            conversation = work.read_conversation(settings, file, text, timezone)
        result = _result(settings, lens, conversation, session, again=again, unmasked=unmasked)
    if manifest:
        manifest.write_text(
            json.dumps(result.manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
        )
    _print(result, as_json, explains)
    if result.outcome == "NO_HITS":
        sys.exit(NO_RESULTS)


def _print(result: work.ContextResult, as_json: bool, explains: bool) -> None:
    if as_json:
        click.echo(_json(result.as_json() | ({"plan": result.explained()} if explains else {})))
        return
    if explains:
        print_plan(result.explained())
    else:
        click.echo(result.block, nl=False)
    answered = sum(bool(query["passages"]) for query in result.manifest["queries"])
    facts = f"{result.outcome}: {answered} of {result.queries} queries answered, {result.results} results"
    click.echo(result.completeness.line(), err=True)
    tokens, budget, stopped = (
        result.manifest[n] for n in ("block_tokens", "budget_tokens", "stopped")
    )
    used = f"{tokens:,} of {budget:,} tokens, then no more {_STOPPED[stopped]}"
    click.echo(f"{facts}, {used}, {result.seconds * 1000:.0f} ms", err=True)


def _result(
    settings: Settings,
    lens: str | None,
    conversation: work.ConversationText,
    session: Session | None,
    *,
    again: bool,
    unmasked: bool,
) -> work.ContextResult:
    """The context under a lens, within its bounds, and noted in the session; under a lens with a receipt."""
    with closing(open_index(settings, for_assistant=not unmasked, lens=lens)) as index:
        earlier = session.manifests if session and not again else ()
        result = work.context_of(settings, conversation, index, earlier)
        entries: Sequence[Disclosure] = ()
        if lens:
            account = Account(settings, lens, index, session.entries if session else ())
            entries = account.note(
                "weft context", conversation.markdown, result.disclosed(), index.screen.finds
            )
    if session:
        session.add(lens, result.manifest, entries)
    return result


def _changed(settings: Settings, **options: Any) -> Settings:
    """The settings with those of the context that are given."""
    context = {name: value for name, value in options.items() if value is not None}
    return settings.model_copy(update={"context": settings.context.model_copy(update=context)})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
