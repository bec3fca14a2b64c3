"""`weft backup`: what no build can make again, stored, verified and restored."""

import json
import sys
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.cli.render.tables import print_facts, print_records
from dagster_project.config.settings import config_path, load_settings
from dagster_project.extras.backup.restoring import ON_REQUEST, Restoration, restoration
from dagster_project.extras.backup.snapshots import Backups, back_up
from dagster_project.outgoing.receipts import Receipts


@click.command()
@click.argument("place")
@CONFIG
@JSON
@click.option(
    "--keep",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Snapshots that stay, the newest.",
)
@click.option(
    "--verify", is_flag=True, help="Read all of the backup and list its snapshots; store nothing."
)
@click.option(
    "--restore",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a snapshot to this new folder.",
)
@click.option("--snapshot", help="Restore this one; default: the newest.")
@click.option(
    "--signed-by",
    metavar="KEY",
    help="Restore only what this key signed; needed for a key that this user here has not.",
)
@click.option(
    "--with",
    "parts",
    type=click.Choice(ON_REQUEST),
    multiple=True,
    help="Restore also the tokens of persons, or [alerts], whose command is run.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="Do not ask about places outside of the folder; needed where standard input is not a terminal.",
)
@click.option("--new-key", is_flag=True, help="First change the key that signs; a receipt says so.")
@explained
def backup(
    place: str,
    config: Path | None,
    as_json: bool,
    keep: int,
    verify: bool,
    folder: Path | None,
    snapshot: str | None,
    signed_by: str | None,
    parts: tuple[str, ...],
    yes: bool,
    new_key: bool,
) -> None:
    """Store what no build can make again at PLACE, a folder or an object store; verify it, or
    restore it.

    That is the settings with synonyms.txt, labels.tsv and saved searches, the key of pseudonyms,
    answers and vectors of models, receipts with their key, sessions, tokens, reports, recorded keys
    of senders, and the list of forgotten texts, not your sources. A file is stored once for all
    snapshots. The key of receipts signs each snapshot. Exit code 7 if a file of the backup is
    missing or damaged.
    """
    if (verify and folder) or ((snapshot or signed_by or parts or yes) and not folder):
        raise click.UsageError(
            "--verify and --restore exclude each other; --snapshot, --signed-by, --with and --yes go with --restore"
        )
    if new_key and (verify or folder):
        raise click.UsageError("--new-key goes with a new backup")
    if verify:
        rows = Backups(place).verified()
        click.echo(json.dumps(rows)) if as_json else print_records(rows, "")
        return
    if folder:
        plan = restoration(place, folder, snapshot, signed_by=signed_by, parts=parts)
        _ask(plan, folder, yes=yes)
        _report(plan, folder, plan.write(), as_json=as_json)
        return
    settings = load_settings(config)
    if new_key:
        Receipts(settings.root).renew_key()
    facts = back_up(settings, config_path(config), place, keep)
    click.echo(json.dumps(facts)) if as_json else print_facts(facts)


def _ask(plan: Restoration, folder: Path, *, yes: bool) -> None:
    """Go on only if a person agrees to what is outside of the folder."""
    if not plan.outside:
        return
    click.echo(f"Outside of {folder} it writes, or its settings name:", err=True)
    for line in plan.outside:
        click.echo(f"  {line}", err=True)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("nobody can answer a question here: if these are yours, add --yes")
    if not yes:
        click.confirm("Are these yours, and shall it be restored", abort=True, err=True)


def _report(plan: Restoration, folder: Path, count: int, *, as_json: bool) -> None:
    if as_json:
        facts = {"files": count, "outside": plan.outside, "left_out": plan.left_out}
        click.echo(json.dumps(facts))
        return
    for name in plan.left_out:
        click.echo(f"left out: {name}")
    click.echo(
        f"{count} files written to {folder}: put your sources back, then weft build --config {folder}/weft.toml"
    )
