"""`weft context`: context for a conversation from the index, as a block of cited passages."""

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, LENS, NO_RESULTS, explained
from dagster_project.index.search.completeness_line import completeness_line
from dagster_project.servers.local import answer
from transforms.context.stops import ENDED, FULL
from transforms.errors import shortened

_STOPPED = {FULL: "fits", ENDED: "bears it out"}


def _known_zone(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is None:
        return None
    from dagster_project.config.source_settings import known_zone

    try:
        return known_zone(name)
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
@click.option(
    "--later",
    "include",
    flag_value="later",
    help="Take later texts, too, and texts of the same chat.",
)
@click.option(
    "--budget",
    "budget_tokens",
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
    "session",
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
    manifest: Path | None,
    reproduce: Path | None,
    compare: tuple[Path, Path] | None,
    turn: int | None,
    **question: Any,
) -> None:
    """Print context from the index for the conversation in FILE: a chat export, a mail, or any
    text.

    Secrets and addresses are masked, because the block is for a model.

    The block holds passages with citations, as many as the budget allows. The outcome is CONTEXT,
    NO_HITS (exit code 3) or SYSTEM_ERROR (any other).
    """
    window, session, lens = (question[name] for name in ("window", "session", "lens"))
    if sum(map(bool, (file, from_stdin, window, reproduce, compare, turn))) != 1:
        raise click.UsageError(
            "name one of FILE, --stdin, --window, --reproduce, --compare and --turn"
        )
    if (question["again"] or turn) and not session:
        raise click.UsageError("--again and --turn go with --session NAME")
    if reproduce and lens:
        raise click.UsageError(
            "--reproduce shows the passages that a manifest names, under no lens"
        )
    if compare or reproduce or turn:
        from dagster_project.cli.own_answers import block_again, print_difference

        if compare:
            print_difference(*compare, as_json)
            return
        source = reproduce or (session, turn or 1, lens)
        block = block_again(config, source, unmasked=question["unmasked"])
        click.echo(_json({"outcome": "CONTEXT", "block": block}) if as_json else block, nl=as_json)
        return
    question |= {"command": "context", **_conversation(file, from_stdin=from_stdin)}
    result = answer(config, question)
    if manifest:
        manifest.write_text(
            json.dumps(result["manifest"], sort_keys=True, indent=1, ensure_ascii=False) + "\n"
        )
    _print(result, as_json, question["explains"])
    if result["outcome"] == "NO_HITS":
        sys.exit(NO_RESULTS)


def _conversation(file: Path | None, *, from_stdin: bool) -> dict[str, Any]:
    """The place of a file, with device and inode, by which another process knows that it reads the
    same; or the text of a pipe, which only this process can read.
    """
    if file is None or not (file.is_file() or file.is_dir()):
        data = sys.stdin.buffer.read() if from_stdin else file.read_bytes() if file else None
        text = None if data is None else data.decode(errors="surrogateescape")
        return {"file": None, "text": text}
    state = file.stat()
    place = os.path.abspath(file)  # noqa: PTH100  # links in it stay: names of files say their kind
    return {"file": place, "file_id": [state.st_dev, state.st_ino], "text": None}


def _print(result: Mapping[str, Any], as_json: bool, explains: bool) -> None:
    if as_json:
        click.echo(_json(result))
        return
    if explains:
        from dagster_project.cli.render.explanations import print_plan

        print_plan(result["plan"])
    else:
        click.echo(result["block"], nl=False)
    answered = sum(bool(query["passages"]) for query in result["manifest"]["queries"])
    facts = f"{result['outcome']}: {answered} of {result['queries']} queries answered, {result['results']} results"
    click.echo(completeness_line(result["completeness"]), err=True)
    tokens, budget = result["tokens"], result["budget_tokens"]
    used = f"{tokens:,} of {budget:,} tokens, then no more {_STOPPED[result['stopped']]}"
    click.echo(f"{facts}, {used}, {result['seconds'] * 1000:.0f} ms", err=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
