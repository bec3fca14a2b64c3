"""`weft context`: what the index knows about a conversation, as a block of cited passages."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, LENS, NO_RESULTS, explained
from dagster_project.config.settings import Settings, known_zone, load_settings
from dagster_project.resources.context import conversation_context as work
from dagster_project.resources.search.opened_index import open_index
from transforms.context.block import difference


def _known_zone(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    try:
        return name and known_zone(name)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@CONFIG
@JSON
@click.option("--stdin", "from_stdin", is_flag=True, help="Read the conversation from standard input.")
@click.option("--window", metavar="ID", help="A window of an indexed conversation, as the build asks for it.")
@click.option("--where", metavar="CONDITIONS", help="Find only this, as 'source:notes OR kind:message'.")
@click.option("--later", is_flag=True, help="Also what is later than the conversation, or of the same chat.")
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
    "--manifest", type=click.Path(path_type=Path), help="Write the inputs of the block to this file."
)
@click.option(
    "--reproduce", type=click.Path(exists=True, path_type=Path), help="Make the block of this manifest again."
)
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(exists=True, path_type=Path),
    help="Say how the second of two manifests differs from the first.",
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
) -> None:
    """Print what the index knows about the conversation in FILE: a chat export, or any text.

    The block holds passages with citations, as many as the budget allows. The outcome is CONTEXT,
    NO_HITS (exit code 3) or SYSTEM_ERROR (any other).
    """
    if sum(map(bool, (file, from_stdin, window, reproduce, compare))) != 1:
        raise click.UsageError("name one of FILE, --stdin, --window, --reproduce and --compare")
    if reproduce and lens:
        raise click.UsageError("--reproduce shows the passages that a manifest names, under no lens")
    if compare:
        _print_difference(compare, as_json)
        return
    settings = load_settings(config)
    if reproduce:
        block = work.reproduced(settings, work.read_manifest(reproduce))
        click.echo(_json({"outcome": "CONTEXT", "block": block}) if as_json else block, nl=as_json)
        return
    settings = _changed(settings, budget_tokens=budget, where=where, include="later" if later else None)
    if window:
        conversation = work.read_window(settings, window)
    else:
        text = sys.stdin.buffer.read().decode("utf-8", "replace") if from_stdin else None
        conversation = work.read_conversation(settings, file, text, timezone)
    with closing(open_index(settings, lens=lens)) as index:
        result = work.context_of(settings, conversation, index)
    if manifest:
        manifest.write_text(json.dumps(result.manifest, sort_keys=True, indent=1, ensure_ascii=False) + "\n")
    if as_json:
        click.echo(_json(result.as_json()))
    else:
        click.echo(result.block, nl=False)
        answered = sum(bool(query["passages"]) for query in result.manifest["queries"])
        facts = f"{result.outcome}: {answered} of {result.queries} queries answered, {result.results} results"
        tokens = result.manifest["block_tokens"]
        click.echo(f"{facts}, {tokens} tokens, {result.seconds * 1000:.0f} ms", err=True)
    if result.outcome == "NO_HITS":
        sys.exit(NO_RESULTS)


def _print_difference(manifests: tuple[Path, Path], as_json: bool) -> None:
    changes = difference(*map(work.read_manifest, manifests))
    click.echo(_json(changes) if as_json else "\n".join(work.difference_lines(changes)))


def _changed(settings: Settings, **given: Any) -> Settings:
    """The settings with those of the context that are given."""
    context = {name: value for name, value in given.items() if value is not None}
    return settings.model_copy(update={"context": settings.context.model_copy(update=context)})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
