"""Asking Dagster's daemon for a backfill: years of archives in runs of their own, behind those of every hour."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import dagster as dg

from dagster_project.config.settings import Settings
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import LATER
from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.runs import close_dead_runs, partitions_of, under_way
from dagster_project.system.dagster_internals import request_backfill
from transforms.errors import SettingsError, WeftError

_DAEMON, _ALIVE_SECONDS = "BACKFILL", 120
"""The daemon that works backfills off, and how long ago it may have shown that it lives."""


@dataclass(frozen=True)
class BackfillRequest:
    """What was asked for: the backfill's id, None if nothing is stale, its partitions, and sources that cannot be read."""

    backfill: str | None
    partitions: tuple[str, ...]
    broken: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """What `weft backfill --json` prints."""
        return {"outcome": "REQUESTED" if self.backfill else "UNCHANGED", **asdict(self)}


def backfill(settings: Settings, instance: dg.DagsterInstance, names: Sequence[str] = ()) -> BackfillRequest:
    """Ask for a backfill of the stale partitions of all sources, or of those named.

    Runs of every hour go on meanwhile; when it ends, one publish follows.
    SettingsError for a name that is no source, WeftError where no daemon runs that would work it off.
    """
    if unknown := sorted(set(names) - {s.name for s in settings.sources}):
        raise SettingsError(f"no source is called {unknown[0]!r}")
    beat = instance.get_daemon_heartbeats().get(_DAEMON)
    if beat is None or time.time() - beat.timestamp > _ALIVE_SECONDS:
        raise WeftError(
            "no Dagster daemon runs that would work a backfill off: start `weft ui` (or `dagster-daemon run`), or let "
            "`weft build` make everything here"
        )
    close_dead_runs(instance, settings.root)
    plan = planned(settings, instance, partitions_of(instance, under_way(instance)))
    source_of = {partition.key: partition.source for partition in plan.partitions}
    stale = {p: t for p, t in plan.stale.items() if not names or source_of[p] in names}
    broken = {source: fault for source, fault in plan.broken.items() if not names or source in names}
    if not stale:
        return BackfillRequest(None, (), broken)
    ranges: dict[dg.AssetKey, list[tuple[str, str]]] = {}
    for work in partition_runs(instance, stale):
        for key in work.keys:
            ranges.setdefault(key, []).append((str(work.first), str(work.last)))
    asked = request_backfill(instance, asset_definitions(settings), ranges, LATER)
    return BackfillRequest(asked, tuple(sorted(stale)), broken)
