"""The command `weft`, also as `python -m dagster_project.cli`.

This module loads little beside modules of Python.
"""

import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from dagster_project.config.places import chosen_config
from transforms.errors import WeftError


def run() -> None:
    """The command `weft`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # An interrupt ends the process without a traceback, until the command handles it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        Path.cwd()
    except OSError as fault:
        sys.exit(f"error: this folder is gone ({fault.strerror}): change into one that is there")
    if sys.argv[1:2] == ["build"]:
        from dagster_project.ledger.last_look import is_done

        if is_done(sys.argv[1:], _config(sys.argv[1:])):
            return
    # To look for plugins, pydantic reads the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from dagster_project.cli.command import run_command
    except WeftError as fault:
        sys.exit(f"error: {fault}")
    run_command()


def _config(arguments: Sequence[str]) -> Path:
    """The settings file of a command line."""
    for option, following in pairwise([*arguments, ""]):
        name, mark, value = option.partition("=")
        if name == "--config":
            return chosen_config(value if mark else following)
    return chosen_config()


# A process that multiprocessing spawns imports this module again, under another name.
if __name__ == "__main__":
    run()
