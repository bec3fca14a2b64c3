"""What all commands have in common: options, and how faults reach their user."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from transforms.errors import QuerySyntaxError, WeftError

CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Settings file; default: $WEFT_CONFIG, else ./weft.toml.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")


def explained(command: Callable[..., None], outcome: str = "ERROR") -> Callable[..., None]:
    """Turn faults that Weft knows into a message on stderr and their exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except WeftError as fault:
            if kwargs.get("as_json"):
                place = {"position": fault.position} if isinstance(fault, QuerySyntaxError) else {}
                kind = type(fault).__name__
                click.echo(json.dumps({"outcome": outcome, "error": str(fault), "kind": kind, **place}))
            click.echo(f"error: {fault}", err=True)
            sys.exit(fault.exit_code)

    return run
