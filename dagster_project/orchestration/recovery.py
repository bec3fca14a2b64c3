"""Recovery after interrupted work: its unfinished files are removed, its runs closed, and people are told of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from assets.partitions import SLOW
from dagster_project.composition import make_embedding_cache, make_lake, make_publisher, make_sources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_interrupted
from dagster_project.orchestration.names import BACKFILL, LANE_TAG, ROOT_TAG
from dagster_project.orchestration.outcomes import BUILD, Interrupted
from dagster_project.orchestration.run_status import close_dead_job_runs
from dagster_project.resources.system.locks import only_lane
from transforms.errors import BusyError

_CLOCKS_DIFFER = timedelta(minutes=1)
"""Between this machine and that of a network disk."""


def clock_behind(settings: Settings) -> timedelta | None:
    """How far the clock is behind the last publish; None if it is not, give or take a minute."""
    current = make_publisher(settings, make_lake(settings)).current()
    if current is None:
        return None
    behind = timedelta(seconds=round(current.stat().st_mtime - time.time()))
    return behind if behind > _CLOCKS_DIFFER else None


def mark(root: Path, work: str) -> Path:
    """The file that is there while a build, or the work of a lane, goes on; it says since when."""
    return root / f".{work}.going"


def started_at(place: Path) -> str:
    """The time that a mark says; nothing where a power cut left anything else in it."""
    said = place.read_text(errors="replace")
    try:
        return said if datetime.fromisoformat(said).tzinfo else ""
    except ValueError:
        return ""


@contextlib.contextmanager
def build_in_progress(settings: Settings, instance: dg.DagsterInstance) -> Iterator[tuple[Interrupted, ...]]:
    """Remove what killed work left behind and report it; while the context lasts, a mark says that a build runs.

    Only the holder of the build lock may enter it.
    """
    lake = make_lake(settings)
    files = lake.sweep() + make_sources(settings).sweep() + make_embedding_cache(settings).sweep()
    files += make_publisher(settings, lake).sweep()
    lanes = [found for lane in (SLOW.name, BACKFILL) for found in _left_by_lane(settings, instance, lane)]
    runs = (*close_dead_runs(instance, settings.root), *close_dead_job_runs(instance, settings.root))
    with _marked(settings, BUILD, runs, files) as found:
        alert_interrupted(settings.alerts, settings.root, lanes)
        yield (*found, *lanes)


@contextlib.contextmanager
def lane_in_progress(
    settings: Settings, instance: dg.DagsterInstance, lane: str
) -> Iterator[tuple[Interrupted, ...]]:
    """`build_in_progress` for the work of a lane. Only the holder of its lock may enter it."""
    with _marked(settings, lane, close_dead_runs(instance, settings.root, lane), 0) as found:
        yield found


@contextlib.contextmanager
def _marked(
    settings: Settings, work: str, runs: tuple[str, ...], files: int
) -> Iterator[tuple[Interrupted, ...]]:
    """Tell of work that left its mark, which left `runs` and `files` too, and leave one while the context lasts."""
    place = mark(settings.root, work)
    found = (Interrupted(work, started_at(place), runs, files),) if place.exists() else ()
    place.write_text(datetime.now(UTC).isoformat(timespec="seconds"))
    try:
        alert_interrupted(settings.alerts, settings.root, found)
        yield found
    finally:
        place.unlink(missing_ok=True)


def _left_by_lane(settings: Settings, instance: dg.DagsterInstance, lane: str) -> list[Interrupted]:
    """What was left by a lane whose process is gone."""
    place = mark(settings.root, lane)
    if not place.exists():
        return []
    with contextlib.suppress(BusyError), only_lane(settings.root, lane):
        found = Interrupted(lane, started_at(place), close_dead_runs(instance, settings.root, lane), 0)
        place.unlink()
        return [found]
    return []


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
