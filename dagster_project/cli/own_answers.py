"""Output that only the process of a command makes: the stages of a search, blocks of earlier turns."""

import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.render.explanations import print_explanation
from dagster_project.config.settings import load_settings
from dagster_project.context.conversation_context import (
    difference_lines,
    read_manifest,
    reproduced,
)
from dagster_project.context.sessions import opened_session
from dagster_project.index.search.explain import explanation
from dagster_project.index.search.opened_index import open_index
from dagster_project.servers.readings import search_request
from transforms.context.block import difference


def print_stages(
    config: Path | None,
    question: Mapping[str, Any],
    ident: str | None,
    rows: int,
    as_json: bool,
) -> bool:
    """Print the stages of a search; False without a hit and the fate of an id."""
    (query,), filters, settings = search_request(load_settings(config), question)
    limit, plain = question["limit"], question["plain"]
    with closing(open_index(settings)) as index:
        result = explanation(index, query.used, ident, filters, limit, plain)
    if as_json:
        click.echo(json.dumps(result.as_json(rows), ensure_ascii=False))
    else:
        print_explanation(result, rows)
    has_hit = result.stages and result.stages[-1].steps["rank"].count()
    return bool(has_hit or result.fate is not None)


def print_difference(first: Path, second: Path, as_json: bool) -> None:
    """Print how the second of two manifests differs from the first."""
    changes = difference(read_manifest(first), read_manifest(second))
    text = json.dumps(changes, ensure_ascii=False) if as_json else ""
    click.echo(text or "\n".join(difference_lines(changes)))


def block_again(
    config: Path | None, source: Path | tuple[str, int, str | None], *, unmasked: bool
) -> str:
    """The block of a manifest, or of the turn of a session under a lens."""
    settings = load_settings(config)
    if isinstance(source, Path):
        return reproduced(settings, read_manifest(source), unmasked=unmasked)
    name, turn, lens = source
    with opened_session(settings.root, name) as session:
        session.require_lens(lens)
        return reproduced(settings, session.manifest(turn), unmasked=unmasked)
