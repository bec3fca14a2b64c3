"""Whether a deployment of several containers or machines is as docs/deploy says: state, runs, lake,
secrets, index.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml
from upath import UPath

from dagster_project.composition.objects import make_mirror
from dagster_project.composition.stores import make_engine, make_lake
from dagster_project.config.settings import Settings
from dagster_project.lake.parquet_files import is_local
from dagster_project.orchestration.instance import instance_place, open_instance
from dagster_project.orchestration.outcomes import Finding
from transforms.errors import WeftError

_AREA = "deployment"
_ONE_MACHINE = "DefaultRunLauncher"
_PROBE = "doctor/doctor"
"""Stands for a partition in a task that makes no table."""


def deployment(settings: Settings) -> Iterator[Finding]:
    """Every finding, in order; writes and deletes an object of the lake, and has the engine, if
    there is one, run a task.
    """
    home = instance_place(settings)
    try:
        configured = yaml.safe_load((home / "dagster.yaml").read_text())
    except (OSError, yaml.YAMLError) as error:
        remedy = "put docs/deploy/dagster-postgres.yaml there as dagster.yaml, or set DAGSTER_HOME"
        yield _fault(f"{home / 'dagster.yaml'} cannot be read ({error})", remedy)
        configured = None
    missing = list(_secrets(settings, configured or {}))
    yield from missing
    if configured is not None and not any(finding.state == "fault" for finding in missing):
        yield from _instance(settings, home)
    yield from _lake(settings)
    yield from _tasks(settings)
    yield from _index(settings)


def _fault(problem: str, remedy: str) -> Finding:
    return Finding(_AREA, "fault", problem, remedy)


def _secrets(settings: Settings, configured: dict[str, Any]) -> Iterator[Finding]:
    """Whether the variables that the settings and Dagster's name are set, and no password is in a
    file.
    """
    parts = list(_parts(configured))
    names = dict.fromkeys(part for name, part in parts if name == "env" and isinstance(part, str))
    for remote in filter(None, (source.remote for source in settings.sources)):
        names |= dict.fromkeys(remote.variables(os.environ).values())
    names |= dict.fromkeys(filter(None, [settings.alerts.variable]))
    if unset := [name for name in names if not os.environ.get(name, "").strip()]:
        remedy = "set them in the environment of every container: a file of Compose, a secret of Kubernetes"
        yield _fault(f"these variables are not set: {', '.join(unset)}", remedy)
    elif names:
        yield Finding(_AREA, "ok", f"secrets come from the environment: {', '.join(names)}")
    if any(name in ("password", "postgres_url") and isinstance(part, str) for name, part in parts):
        yield _fault(
            "dagster.yaml holds a password", "name a variable: password: { env: WEFT_PG_PASSWORD }"
        )


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a configuration with its key, or its place in a list."""
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, part in entries:
        yield name, part
        yield from _parts(part)


def _instance(settings: Settings, home: Path) -> Iterator[Finding]:
    """Where Dagster keeps its state, and who runs its runs."""
    try:
        with open_instance(settings) as instance:
            storages = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
            kinds = sorted({type(storage).__name__ for storage in storages})
            launcher, runs = type(instance.run_launcher).__name__, instance.get_runs_count()
    except WeftError as fault:
        yield _fault(
            str(fault),
            f"see that the database of {home / 'dagster.yaml'} runs and lets this machine in",
        )
        return
    if all(kind.startswith("Postgres") for kind in kinds):
        yield Finding(_AREA, "ok", f"Dagster keeps its state in PostgreSQL, which has {runs} runs")
    else:
        remedy = "several machines need one database: docs/deploy/dagster-postgres.yaml"
        yield _fault(
            f"Dagster keeps its state in files of this machine ({', '.join(kinds)})", remedy
        )
    if launcher == _ONE_MACHINE:
        text = "every run is a process beside the code server"
        remedy = "a run launcher for containers, as in docs/deploy/helm-values.yaml"
        yield Finding(_AREA, "warning", text, remedy)
    else:
        yield Finding(_AREA, "ok", f"runs are launched by {launcher}")


def _lake(settings: Settings) -> Iterator[Finding]:
    """Whether the lake can be written, read and locked from here."""
    base = make_lake(settings).base
    probe = base / f".tmp-{os.getpid()}-{secrets.token_hex(6)}"
    try:
        if is_local(base):
            Path(str(base)).mkdir(parents=True, exist_ok=True)
        probe.fs.pipe_file(probe.path, b"weft", mode="create")
        is_whole, is_refused = probe.read_bytes() == b"weft", _is_refused(probe)
        probe.unlink()
    except Exception as error:  # noqa: BLE001 - each store has faults of its own
        yield _fault(
            f"the lake at {base} cannot be used: {error}",
            "mend storage.lake, its rights or its credentials",
        )
        return
    if not is_whole:
        yield _fault(
            f"the lake at {base} gives back other bytes than were written", "mend the store"
        )
    elif not is_refused:
        yield _fault(
            f"the store of {base} ignores If-None-Match",
            "update it, or let one machine alone build",
        )
    elif is_local(base):
        text = f"the lake is a folder, {base}"
        yield Finding(
            _AREA,
            "warning",
            text,
            "mount it on all machines at this path, or set storage.lake to s3://…",
        )
    else:
        yield Finding(_AREA, "ok", f"the lake at {base} can be written, read and locked")


def _is_refused(place: UPath) -> bool:
    """True if an object that exists cannot be created a second time, by which builds on several
    machines lock the lake.
    """
    try:
        place.fs.pipe_file(place.path, b"weft", mode="create")
    except FileExistsError:
        return True
    return False


def _tasks(settings: Settings) -> Iterator[Finding]:
    """Whether a machine of the engine sees the lake: one task that makes nothing says so."""
    try:
        with closing(make_engine(settings)) as engine:
            if engine.outcomes("doctor", [], [_PROBE]) is None:
                return
    except WeftError as fault:
        yield _fault(str(fault), "mend [engine], or what the message names")
    else:
        yield Finding(_AREA, "ok", f"tasks of {settings.engine.kind} see the lake")


def _index(settings: Settings) -> Iterator[Finding]:
    """Whether the service that ranks answers, and everybody sees the published file."""
    folder = settings.root / "index"
    text = f"versions are published in {folder}, which whoever searches has to mount"
    try:
        if mirror := make_mirror(settings):
            text += f"; {mirror.require_answer()} answers"
        yield Finding(_AREA, "ok", text)
    except WeftError as fault:
        yield _fault(str(fault), "mend index.target, or see that its service runs")
