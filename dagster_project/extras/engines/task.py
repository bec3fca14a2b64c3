"""A task: one partition, whose tables it makes and writes to the lake. Imports no Dagster.

A file of the lake has the contents of the tasks. So an engine gets only the place of this file and
a number, and returns names, hashes and counts; a machine that does not see the lake finds no file.
"""

import contextlib
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from upath import UPath

from assets.protocols.engine import MadeTable, Outcome
from assets.stages.declaration import Stage
from assets.stages.stage_run import made_of_partition
from dagster_project.composition.stage_code import with_code
from dagster_project.composition.stores import make_lake, make_sources, stages_of_sources
from dagster_project.config.settings import Settings
from dagster_project.lake.parquet_files import is_local
from dagster_project.sources.remembered_sources import RememberedSources
from transforms.errors import (
    DiskFullError,
    EngineError,
    LakeDamageError,
    SchemaError,
    SourceError,
    WeftError,
)

_UNSEEN = (
    "{host} does not see the lake at {lake}: set storage.lake to a place that all machines of the engine see, an address "
    "such as s3://bucket/lake or a folder that all of them mount at this path"
)

_KINDS = (SourceError, LakeDamageError, SchemaError, DiskFullError)
"""Faults that mean something to whoever asked for the build."""


@dataclass(frozen=True)
class _World:
    """The objects that a process opens once for the tasks of a run; `stages` make tables of the
    run, in order.
    """

    tables: frozenset[str]
    partitions: Sequence[str]
    lake: Any
    sources: RememberedSources
    stages: Sequence[Stage] = field(repr=False)


@contextlib.contextmanager
def written_tasks(
    settings: Settings, tables: Sequence[str], partitions: Sequence[str]
) -> Iterator[str]:
    """The place of a file in the lake that has the tasks of `partitions`, as long as they are made."""
    place = make_lake(settings).base / f".tmp-{os.getpid()}-{secrets.token_hex(6)}.tasks"
    if is_local(place):
        Path(str(place.parent)).mkdir(parents=True, exist_ok=True)
    content = {
        "settings": settings.model_dump(mode="json"),
        "base": str(settings.base.resolve()),
        "tables": list(tables),
        "partitions": list(partitions),
    }
    place.write_text(json.dumps(content))
    try:
        yield str(place)
    finally:
        place.unlink(missing_ok=True)


def run_task(place: str, number: int) -> Outcome:
    """Make the stale tables of a partition, stage by stage, and commit each; a repetition writes
    the same bytes.

    `place` is that of the file of the tasks. A failure is the fault of the outcome, with partition,
    stage, reason and machine, so that the engine repeats only lost tasks; EngineError where the
    machine does not see the lake.
    """
    world = _world(place)
    partition = world.partitions[number]
    tables: dict[str, MadeTable] = {}
    for stage in world.stages:
        if not world.tables.isdisjoint(stage.outputs):
            try:
                tables |= made_of_partition(stage, world.lake, world.sources, partition)
            except Exception as reason:  # noqa: BLE001 - a stage may raise anything, which is not a reason to repeat it
                return Outcome(partition, tables, _fault(partition, stage, reason))
    return Outcome(partition, tables)


def _fault(partition: str, stage: Stage, reason: Exception) -> WeftError:
    """The fault of a stage, of the kind of its reason if that is one of ours."""
    place = f"partition {partition}, stage {stage.name}, on {socket.gethostname()}"
    if isinstance(reason, _KINDS):
        return type(reason)(f"{place}: {reason}")
    return WeftError(f"{place}: {type(reason).__name__}: {reason}")


@lru_cache(maxsize=1)
def _world(place: str) -> _World:
    """The objects for the tasks of the file at `place`; EngineError if it is not there."""
    file = UPath(place)
    try:
        content = json.loads(file.read_text())
    except OSError as error:
        raise EngineError(_UNSEEN.format(host=socket.gethostname(), lake=file.parent)) from error
    settings = Settings.model_validate({**content["settings"], "base": content["base"]})
    # The folder of a build need not be on the machine of a task.
    cache = (
        settings.root / "cache" if settings.root.is_dir() else Path(tempfile.gettempdir()) / "weft"
    )
    return _World(
        frozenset(content["tables"]),
        content["partitions"],
        make_lake(settings, cache),
        make_sources(settings, cache),
        with_code(stages_of_sources(settings)),
    )
