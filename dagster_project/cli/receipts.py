"""`weft receipts`: what was disclosed to assistants."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.config.settings import load_settings
from dagster_project.outgoing.receipts import Receipts


@click.command()
@CONFIG
@JSON
@click.option("--last", type=click.IntRange(1), help="Only this many, the newest.")
@explained
def receipts(config: Path | None, as_json: bool, last: int | None) -> None:
    """List what assistants were shown, and verify that no receipt was changed, put in or taken out between others.

    A receipt has the hashes of the question and of each text, and how much was masked. Exit code 5 if the chain of
    hashes is broken. Receipts that were cut off at the end leave no trace: compare the count and the last hash with those
    that you noted elsewhere.
    """
    count, hashed = 0, ""

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count, hashed
        for receipt in Receipts(load_settings(config).root).read():
            count, hashed = count + 1, receipt["hash"]
            yield receipt

    for receipt in deque(counted(), last) if last else counted():
        if as_json:
            click.echo(json.dumps(receipt, ensure_ascii=False))
            continue
        masked = ", ".join(f"{count} {kind}" for kind, count in receipt["masked"].items())
        size = sum(passage["bytes"] for passage in receipt["passages"])
        shown = f"{len(receipt['passages'])} passages, {size:,} bytes"
        click.echo(f"{receipt['at'][:19]}Z  {receipt['tool']:<12}  {shown}; masked: {masked or 'nothing'}")
    if not as_json:
        click.echo(f"{count} receipts, unchanged; the last has the hash {hashed}" if count else "no receipts")
