"""Backfills: years of archives in batches, newest first, while builds go on; one publish at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg
import ibis

from assets.embedding import PAID_TWICE, embed_missing
from assets.partitions import CHUNKS_OF, SOURCE_TYPES
from assets.protocols.sources import SourcePartition
from dagster_project.composition import (
    make_backlog,
    make_embedding_cache,
    make_lake,
    make_publisher,
    make_sources,
)
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_checks, alerting
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.build import publish_all
from dagster_project.orchestration.names import BACKFILL, LANE_TAG, ROOT_TAG
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.orchestration.plan import add_partitions, is_made, make_plan
from dagster_project.orchestration.recovery import lane_in_progress
from dagster_project.orchestration.workers import Workers, make_partitions, workers_for
from dagster_project.resources.lake.io_manager import LakeIOManager
from dagster_project.resources.models.embedders import make_embedder
from dagster_project.resources.progress import CountedProgress
from dagster_project.resources.system.disk_watch import translate_disk_faults
from dagster_project.resources.system.locks import only_lane, turn
from transforms.errors import SettingsError


@dataclass(frozen=True)
class BackfillResult:
    """What a backfill did: partitions, their bytes in the sources, batches, seconds, and the publish at its end."""

    partitions: tuple[str, ...]
    bytes: int
    batches: int
    seconds: float
    build: BuildResult

    def as_json(self) -> dict[str, Any]:
        """What `weft backfill --json` prints."""
        return {
            **self.build.as_json(),
            "backfilled": len(self.partitions),
            "bytes": self.bytes,
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
        }


def backfill(
    settings: Settings,
    instance: dg.DagsterInstance,
    names: Sequence[str] = (),
    *,
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
) -> BackfillResult:
    """Make the stale partitions of all sources, or of those named, and publish once; those of others are left stale.

    The newest come first, in batches of `operations.batch_bytes`, each under a turn at the lake: a build that comes
    meanwhile waits for one batch, leaves what is not made yet alone, and publishes what is. Texts are embedded
    between the turns. Begun again after it was ended, it goes on with what is still stale. BusyError while another
    backfill of the storage runs, SettingsError for a name that is no source; else it raises as `build` does.
    """
    if unknown := sorted(set(names) - {s.name for s in settings.sources}):
        raise SettingsError(f"no source is called {unknown[0]!r}")
    start, progress = time.monotonic(), CountedProgress(tell)
    with (
        alerting(settings.alerts, settings.root),
        translate_disk_faults(settings.root),
        only_lane(settings.root, BACKFILL),
        lane_in_progress(settings, instance, BACKFILL) as interrupted,
    ):
        work = _Backfill(settings, instance, names, progress)
        work.run()
        result = publish_all(settings, instance, progress)
        result = replace(result, interrupted=(*interrupted, *result.interrupted))
        if twice := work.paid_twice + result.embedding.get(PAID_TWICE, 0):
            result = replace(result, embedding={**result.embedding, PAID_TWICE: twice})
        work.backlog.clear()
    alert_checks(settings.alerts, settings.root, result.failed_checks)
    made = tuple(u.key for u in work.partitions)
    return BackfillResult(made, work.bytes, work.batches, time.monotonic() - start, result)


class _Backfill:
    """The batches of one backfill."""

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        names: Sequence[str],
        progress: CountedProgress,
    ):
        self.settings, self.instance, self.progress = settings, instance, progress
        self.lake, self.backlog = make_lake(settings), make_backlog(settings)
        sources = make_sources(settings)
        plan = make_plan(settings, sources, self.lake)
        self.stale = plan.stale
        wanted = [u for u in plan.partitions if not names or u.source in names]
        self.is_other = not make_publisher(settings, self.lake).fits_settings()
        self.partitions = _newest_first(
            [u for u in wanted if self.is_other or u.key in plan.stale], self.lake
        )
        self.sizes = {u.key: sources.bytes_of(u) for u in self.partitions}
        self.bytes, self.batches = sum(self.sizes.values()), 0
        self.paid_twice = 0

    def run(self) -> None:
        """Make and embed all batches; what is under way is known to builds from the first on."""
        add_partitions(self.instance, self.partitions)
        definitions = asset_definitions(self.settings, {"progress": self.progress})
        tags = {ROOT_TAG: str(self.settings.root), LANE_TAG: BACKFILL}
        left = {u.key for u in self.partitions if u.key in self.stale}
        self.backlog.note(left)
        self.progress.expect(BACKFILL, self.bytes)
        with workers_for(self.settings, self.instance, self.progress, self.partitions) as workers:
            self._make_batches(definitions, tags, left, workers)
        self._leave_others()

    def _make_batches(
        self, definitions: dg.Definitions, tags: dict[str, str], left: set[str], workers: Workers | None
    ) -> None:
        for batch in self._in_batches():
            stale = {u.key: self.stale[u.key] for u in batch if u.key in self.stale}
            if stale:
                with turn(self.settings.root):
                    make_partitions(definitions, self.instance, stale, SOURCE_TYPES, tags, workers)
                    left -= set(stale)
                    self.backlog.note(left)
            self._embed(batch)
            self.batches += 1
            self.progress.step(BACKFILL, None, sum(self.sizes[u.key] for u in batch))

    def _leave_others(self) -> None:
        """Publish without the stale partitions of sources that are not named, unless all have to be made anew."""
        others = set(self.stale) - {u.key for u in self.partitions}
        if others and not self.is_other:
            self.backlog.note(others)
        else:
            self.backlog.clear()

    def _in_batches(self) -> Iterator[list[SourcePartition]]:
        limits = self.settings.operations
        batch: list[SourcePartition] = []
        size = 0
        for partition in self.partitions:
            more = self.sizes[partition.key]
            if batch and (size + more > limits.batch_bytes or len(batch) == limits.batch_partitions):
                yield batch
                batch, size = [], 0
            batch.append(partition)
            size += more
        if batch:
            yield batch

    def _embed(self, partitions: Sequence[SourcePartition]) -> None:
        """Give the texts of some partitions their vectors, but for those that a join over the lake completes."""
        settings = self.settings
        told = {source for source, kind in settings.sentence_kinds().items() if kind != "off"}
        manager = LakeIOManager(self.lake)
        tables = [
            manager.table(
                table, [u.key for u in partitions if u.source_type == source_type and u.source not in told]
            )
            for source_type, table in CHUNKS_OF.items()
        ]
        texts = ibis.union(
            *(t.filter(~t.needs_parent).select(text_hash="checksum", text="text_embed") for t in tables)
        )
        embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
        report = embed_missing(texts, embedder, make_embedding_cache(settings), self.progress)
        self.paid_twice += len(report.unfinished)


def _newest_first(partitions: Sequence[SourcePartition], lake: Any) -> list[SourcePartition]:
    """What an ended backfill left half made, then the others by the names of their partitions, the latest first."""
    ordered = sorted(partitions, key=lambda u: (u.name, u.source), reverse=True)
    return sorted(ordered, key=lambda u: is_made(u, lake) or not lake.path(_first(u), u.key).exists())


def _first(partition: SourcePartition) -> str:
    return next(f.tables[0] for f in SOURCE_TYPES if f.name == partition.source_type)
