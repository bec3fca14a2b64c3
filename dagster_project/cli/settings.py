"""`weft config`: the settings in force, and the layer that each comes from."""

import json
from pathlib import Path
from typing import Any

import click

from dagster_project.cli.options import CONFIG, JSON, explained
from dagster_project.config.file_faults import dotted_keys
from dagster_project.config.layers import values_of
from dagster_project.config.settings import Settings, layered_file, load_settings


@click.command("config")
@CONFIG
@JSON
@click.option("--effective", is_flag=True, help="The defaults, too.")
@explained
def config_(config: Path | None, as_json: bool, effective: bool) -> None:
    """Print the settings in force, each with where it comes from: a variable, the file, or a design.

    A variable as `WEFT_SEARCH__LIMIT=5` wins over the file, a key of the file over the design.
    """
    rows = _rows(config, effective)
    if as_json:
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    for row in rows:
        value = json.dumps(row["value"], ensure_ascii=False)
        click.echo(f"{row['key']} = {value}  # {row['origin']}")


def _rows(config: Path | None, effective: bool) -> list[dict[str, Any]]:
    """The key, value and origin of each key that a layer sets, or of all keys."""
    settings, layers = load_settings(config), layered_file(config)
    hidden = dotted_keys(Settings, internal=True) - layers.of_design
    rows = [
        {"key": key, "value": value, "origin": layers.origin(key)}
        for key, value in values_of(settings)
        if key not in hidden
    ]
    return rows if effective else [row for row in rows if row["origin"] != "default"]
