"""The Dagster instance that the command line shares with the UI."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import dagster as dg
import yaml
from sqlalchemy.exc import DBAPIError

from dagster_project.config.settings import Settings
from dagster_project.system.dagster_internals import LOCATION, MODULE, settings_fault
from dagster_project.system.disk_space import may_be_written, require_writable
from dagster_project.system.disk_watch import translate_disk_faults
from transforms.errors import HistoryError, SettingsError

MOVE_AWAY = "move that folder away, and the next build begins a new one; builds and the published index do not need it"
"""The remedy for a damaged history."""
_SHOWN_OF_FAULT = 300
_SQLITE = b"SQLite format 3\0"


def instance_place(settings: Settings) -> Path:
    """`DAGSTER_HOME` if it is set, else dagster/ below the storage root."""
    return Path(os.environ.get("DAGSTER_HOME") or settings.root / "dagster").resolve()


def instance_home(settings: Settings) -> Path:
    """`instance_place`, made where it is not there, with the shipped dagster.yaml."""
    home = instance_place(settings)
    shipped = home / "dagster.yaml"
    there = next(p for p in (home, *home.parents) if p.exists())
    if there.is_dir():
        require_writable(there, settings.root)
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not shipped.exists():
            shipped.write_text(
                resources.files("dagster_project").joinpath("dagster.yaml").read_text()
            )
    except OSError as error:
        raise SettingsError(
            f"{home} cannot be used as a folder ({error.strerror}); mend storage.root in the settings or DAGSTER_HOME"
        ) from error
    return home


def workspace(settings: Settings, packages: str) -> Path:
    """The file that says where Dagster finds Weft, whose packages lie in `packages`; beside the
    instance's dagster.yaml.
    """
    place = instance_home(settings) / "workspace.yaml"
    module = {"module_name": MODULE, "working_directory": packages, "location_name": LOCATION}
    place.write_text(yaml.safe_dump({"load_from": [{"python_module": module}]}))
    return place


def require_valid(settings: Settings) -> None:
    """HistoryError if Dagster does not understand the settings of the instance, which people may
    change.
    """
    file = instance_place(settings) / "dagster.yaml"
    if file.exists() and (reason := settings_fault(file.parent)):
        raise HistoryError(
            f"Dagster's settings in {file} cannot be used ({reason[:_SHOWN_OF_FAULT]}): mend that file, or "
            "delete it to get the one that Weft ships"
        )


def damages(settings: Settings) -> Iterator[str]:
    """The damages of the files of the instance; reads them and changes nothing."""
    home = instance_place(settings)
    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        place = home / name
        if place.exists() and place.stat().st_size and (fault := _damage(place)):
            yield f"{place} is damaged ({fault})"


def _damage(place: Path) -> str | None:
    """The damage of a file by SQLite; for one with changes beside it, perhaps in use, only its
    first bytes count.
    """
    log = place.with_name(f"{place.name}-wal")
    if log.exists() and log.stat().st_size:
        with place.open("rb") as file:
            return None if file.read(len(_SQLITE)) == _SQLITE else "file is not a database"
    try:
        with contextlib.closing(
            sqlite3.connect(f"{place.as_uri()}?mode=ro&immutable=1", uri=True)
        ) as db:
            (result,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if result == "ok" else str(result.splitlines()[0])


def open_history(settings: Settings) -> contextlib.AbstractContextManager[dg.DagsterInstance]:
    """The instance for a look at earlier runs: an empty one in memory where none is kept, or it may
    not be written.

    SQLite cannot read Dagster's files without writing beside them.
    """
    home = instance_place(settings)
    is_kept = home.exists() and may_be_written(home)
    return open_instance(settings) if is_kept else dg.DagsterInstance.ephemeral()


@contextlib.contextmanager
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance in `instance_home`, closed on leaving.

    DiskFullError where its files find no room, UnwritableError where they cannot be written,
    HistoryError where SQLite or Dagster cannot use them.
    """
    before = os.environ.get("DAGSTER_HOME")
    try:
        with translate_disk_faults(settings.root):
            os.environ["DAGSTER_HOME"] = str(instance_home(settings))
            require_valid(settings)
            with dg.DagsterInstance.get() as instance:
                yield instance
    except (DBAPIError, sqlite3.Error) as error:
        reason = str(getattr(error, "orig", None) or error)
        remedy = "wait for the process that has it locked" if "locked" in reason else MOVE_AWAY
        raise HistoryError(
            f"Dagster's history of runs in {instance_place(settings)} cannot be used ({reason}): {remedy}"
        ) from error
    finally:
        if before is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = before
