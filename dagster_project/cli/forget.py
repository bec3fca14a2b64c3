"""`weft forget`: a mail, a person's mails, a document, a chat or a source, gone from all that Weft
keeps.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, TEXT_TYPE, explained
from dagster_project.cli.render.builds import BuildView
from dagster_project.config.settings import load_settings
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.orchestration.upkeep.erasure import STAYS
from dagster_project.orchestration.upkeep.forget import Target, find
from dagster_project.orchestration.upkeep.forget import forget as erase_all
from dagster_project.system.open_files import programs_with_deleted

_SHOWN_IDS = 10
_PATIENCE = 20.0
"""Seconds in which programs that follow the index have opened the new version."""


@click.command()
@click.argument("names", nargs=-1, type=TEXT_TYPE, metavar="[ID|ADDRESS|SOURCE]...")
@CONFIG
@JSON
@click.option(
    "--yes", is_flag=True, help="Do not ask before; needed where standard input is not a terminal."
)
@click.option("--dry-run", is_flag=True, help="Say what would be forgotten, and change nothing.")
@explained
def forget(
    names: tuple[str, ...], config: Path | None, as_json: bool, yes: bool, dry_run: bool
) -> None:
    """Erase mails, an author's mails, documents, chats or sources from all that Weft keeps, and
    build without them.

    It deletes them from lake, published versions, arrays, caches, lenses and Dagster's previews;
    later builds leave out what a source still holds, and say so. Without a name, it deletes from
    older versions what no source holds.
    """
    settings = load_settings(config)
    target = find(settings, names)
    if not as_json:
        _print_target(target)
    if dry_run:
        if as_json:
            click.echo(json.dumps(target.as_json()))
        return
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("nobody can answer a question here: to erase this, add --yes")
    if not yes:
        click.confirm("Erase this? It cannot be taken back", abort=True, err=True)
    with open_instance(settings) as instance, BuildView(show=not as_json) as view:
        result = erase_all(settings, instance, target, tell=view.step)
    holding = programs_with_deleted(settings.root, _PATIENCE) if result.erased else []
    if as_json:
        facts = {
            "erased": dict(result.erased),
            "left_out": dict(result.left_out),
            "stays": STAYS,
            "held_by": holding,
        }
        version = {"version": (result.published or {}).get("version")}
        click.echo(json.dumps(target.as_json() | facts | version))
    else:
        _print_result(result)
        if result.erased:
            _print_readers(holding)


def _print_target(target: Target) -> None:
    counts = {
        "mails": target.mails,
        "documents": target.documents,
        "windows of chats": target.windows,
    }
    what = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    click.echo(
        f"{what or 'Texts gone from sources'} in {len(target.partitions)} partitions of the lake"
    )
    if addresses := [name for kind, name in target.names if kind == "address"]:
        click.echo(f"  written by {', '.join(addresses)}")
    if target.quoted_by:
        ids = ", ".join(target.quoted_by[:_SHOWN_IDS])
        more = "" if len(target.quoted_by) <= _SHOWN_IDS else ", …"
        click.echo(
            f"  {len(target.quoted_by):,} mails of others quote lines of it, and stay unless they are named: {ids}{more}"
        )


def _print_result(result: BuildResult) -> None:
    for line in result.warnings():
        click.echo(line)
    if not result.erased:
        click.echo(
            "Not finished: texts of a source that cannot be read stay until a build can read it."
        )
        return
    erased = ", ".join(f"{count:,} {what}" for what, count in result.erased.items())
    version = (result.published or {}).get("version")
    click.echo(f"Forgotten. Version {version} is the only one; also erased: {erased}.")
    click.echo(f"Names stay in {STAYS}.")


def _print_readers(holding: Sequence[str] | None) -> None:
    """Which programs hold deleted files, in which the text still is."""
    if holding is None:
        click.echo("This system does not say who holds deleted files: restart programs that read.")
    elif holding:
        click.echo("Deleted files with the text are held by these programs, until each ends:")
        for program in holding:
            click.echo(f"  {program}")
    else:
        click.echo("No program of this user holds the text any more.")
