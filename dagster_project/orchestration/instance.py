"""The Dagster instance that the command line shares with the UI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.config.settings import Settings
from transforms.errors import SettingsError

if TYPE_CHECKING:
    import dagster as dg


def instance_home(settings: Settings) -> Path:
    """`DAGSTER_HOME` if it is set, else dagster/ below the storage root; with the shipped dagster.yaml."""
    home = Path(os.environ.get("DAGSTER_HOME") or settings.root / "dagster").resolve()
    shipped = home / "dagster.yaml"
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
def open_instance(settings: Settings) -> Iterator[dg.DagsterInstance]:
    """The instance in `instance_home`, closed on leaving; DiskFullError where its files find no room."""
    import dagster as dg

    from dagster_project.resources.system.disk_space import disk_watched

    before = os.environ.get("DAGSTER_HOME")
    try:
        with disk_watched(settings.root):
            os.environ["DAGSTER_HOME"] = str(instance_home(settings))
            with dg.DagsterInstance.get() as instance:
                yield instance
    finally:
        if before is None:
            os.environ.pop("DAGSTER_HOME", None)
        else:
            os.environ["DAGSTER_HOME"] = before
