"""What a build that was ended before it was done left behind: noticed, cleared away and told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from dagster_project.composition import make_embedding_cache, make_lake, make_publisher, make_sources
from dagster_project.fetching import ROOT_TAG
from dagster_project.schedules import LANE_TAG
from dagster_project.settings import Settings

MARK = ".build.going"
"""The file that is there while a build goes on; it says since when."""


@dataclass(frozen=True)
class Interrupted:
    """A build that was ended before it was done: when it began, its runs that were closed, its unfinished files."""

    begun: str
    runs: tuple[str, ...]
    files: int

    def __str__(self) -> str:
        """One sentence for people."""
        closed = f"; closed run {', '.join(self.runs)}" if self.runs else ""
        return (
            f"the build of {self.begun or 'an unknown time'} was ended before it was done: what it had made is kept, "
            f"{self.files} unfinished files are removed{closed}"
        )


@contextlib.contextmanager
def going(settings: Settings, instance: dg.DagsterInstance) -> Iterator[Interrupted | None]:
    """Clear away what a killed build left and tell of it; while the context lasts a build is known to go on.

    To be entered by the holder of the build lock.
    """
    mark = settings.root / MARK
    begun = mark.read_text() if mark.exists() else None
    lake = make_lake(settings)
    files = lake.sweep() + make_sources(settings).sweep() + make_embedding_cache(settings).sweep()
    files += make_publisher(settings, lake).sweep()
    runs = close_dead_runs(instance, settings.root)
    mark.write_text(datetime.now(UTC).isoformat(timespec="seconds"))
    try:
        yield None if begun is None else Interrupted(begun, runs, files)
    finally:
        mark.unlink(missing_ok=True)


def close_dead_runs(instance: dg.DagsterInstance, root: Path, lane: str | None = None) -> tuple[str, ...]:
    """Report runs of killed builds, or of a lane's killed work, as failed and free their places in pools; their ids.

    Nothing else ever would. They hold the lock of builds or of the lane as long as they live, and this process has
    it now.
    """
    begun = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
    left = instance.get_runs(filters=dg.RunsFilter(statuses=begun, tags={ROOT_TAG: str(root)}))
    dead = [run for run in left if run.tags.get(LANE_TAG) == lane]
    for run in dead:
        instance.report_run_failed(run, "its process ended before the run did")
    # A killed run keeps its place in a pool, and the next step of that pool would wait for ever.
    for run_id in instance.event_log_storage.get_concurrency_run_ids():
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)
    return tuple(run.run_id for run in dead)
