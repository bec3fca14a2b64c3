"""The Dagster instance that the command line shares with the UI."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.config.settings import Settings
from dagster_project.resources.system.disk_space import disk_watched, may_be_written, require_writable
from transforms.errors import HistoryError, SettingsError

if TYPE_CHECKING:
    import dagster as dg


def instance_place(settings: Settings) -> Path:
    """`DAGSTER_HOME` if it is set, else dagster/ below the storage root."""
    return Path(os.environ.get("DAGSTER_HOME") or settings.root / "dagster").resolve()


def instance_home(settings: Settings) -> Path:
    """`instance_place`, made where it is not there, with the shipped dagster.yaml."""
    home = instance_place(settings)
    shipped = home / "dagster.yaml"
    require_writable(next(p for p in (home, *home.parents) if p.exists()), settings.root)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not shipped.exists():
            shipped.write_text(resources.files("dagster_project").joinpath("dagster.yaml").read_text())
    except OSError as error:
        raise SettingsError(
            f"{home} cannot be used as a folder ({error.strerror}); mend storage.root in the settings or DAGSTER_HOME"
        ) from error
    return home


@contextlib.contextmanager
def open_history(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance for a look at earlier runs: an empty one in memory where none is kept, or it may not be written.

    SQLite cannot read Dagster's files without writing beside them.
    """
    import dagster as dg

    home = instance_place(settings)
    if home.exists() and may_be_written(home):
        with open_instance(settings) as instance:
            yield instance
    else:
        with dg.DagsterInstance.ephemeral() as instance:
            yield instance


@contextlib.contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance in `instance_home`, closed on leaving.

    DiskFullError where its files find no room, UnwritableError where they cannot be written, HistoryError where SQLite
    cannot use them.
    """
    import dagster as dg
    from sqlalchemy.exc import DBAPIError

    before = os.environ.get("DAGSTER_HOME")
    try:
        with disk_watched(settings.root):
            os.environ["DAGSTER_HOME"] = str(instance_home(settings))
            with dg.DagsterInstance.get() as instance:
                yield instance
    except (DBAPIError, sqlite3.Error) as error:
        place, reason = instance_place(settings), str(getattr(error, "orig", None) or error)
        remedy = "wait for the process that has it locked" if "locked" in reason else "move that folder away"
        raise HistoryError(
            f"Dagster's history of runs in {place} cannot be used ({reason}): {remedy}, then begin again; what is built "
            "and published does not need it"
        ) from error
    finally:
        if before is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = before
