"""`weft receipts`: what was disclosed to assistants."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.config.settings import load_settings
from dagster_project.resources.outgoing.receipts import Receipts


@click.command()
@CONFIG
@JSON
@click.option("--last", type=click.IntRange(1), help="Only this many, the newest.")
@explained
def receipts(config: Path | None, as_json: bool, last: int | None) -> None:
    """List what assistants were shown, and verify that no receipt was changed or taken out.

    A receipt has the hashes of the question and of each text, and how much was masked. Exit code 5 if the chain of
    hashes is broken.
    """
    kept = list(Receipts(load_settings(config).root).read())
    for receipt in kept[-last:] if last else kept:
        if as_json:
            click.echo(json.dumps(receipt, ensure_ascii=False))
            continue
        masked = ", ".join(f"{count} {kind}" for kind, count in receipt["masked"].items())
        size = sum(passage["bytes"] for passage in receipt["passages"])
        shown = f"{len(receipt['passages'])} passages, {size:,} bytes"
        click.echo(f"{receipt['at'][:19]}Z  {receipt['tool']:<12}  {shown}; masked: {masked or 'nothing'}")
    if not as_json:
        click.echo(
            f"{len(kept)} receipts, unchanged; the last has the hash {kept[-1]['hash']}"
            if kept
            else "no receipts"
        )
