"""`weft backup`: what no build can make again, stored, verified and restored."""

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.cli.render.hits import print_facts, print_records
from dagster_project.config.settings import config_path, load_settings
from dagster_project.extras.backup.snapshots import Backups, back_up, restore


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
@explained
def backup(
    place: str,
    config: Path | None,
    as_json: bool,
    keep: int,
    verify: bool,
    folder: Path | None,
    snapshot: str | None,
) -> None:
    """Store what no build can make again at PLACE, a folder or an object store; verify it, or restore it.

    That is the settings with synonyms.txt, labels.tsv and saved searches, the key of pseudonyms, answers and vectors of
    models, receipts with their key, sessions, tokens, reports, recorded keys of senders, and the list of forgotten texts,
    not your sources. A file is stored once for all snapshots. Exit code 7 if a file of the backup is missing or damaged.
    """
    if (verify and folder) or (snapshot and not folder):
        raise click.UsageError(
            "--verify and --restore exclude each other; --snapshot goes with --restore"
        )
    if verify:
        rows = Backups(place).verified()
        click.echo(json.dumps(rows)) if as_json else print_records(rows, "")
        return
    if folder:
        count = restore(place, folder, snapshot)
        line = f"{count} files written to {folder}: put your sources back, then weft build --config {folder}/weft.toml"
        click.echo(json.dumps({"files": count}) if as_json else line)
        return
    facts = back_up(load_settings(config), config_path(config), place, keep)
    click.echo(json.dumps(facts)) if as_json else print_facts(facts)
