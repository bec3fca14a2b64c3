"""The sensor of edits in vaults and document trees: it requests one run when edits have settled, not one per edit.

Its cursor holds a fingerprint of names, sizes and times, and when the sensor saw the first and the last edit since
the last run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import dagster as dg
from pydantic import BaseModel, ValidationError

from dagster_project.config.settings import DocumentSourceSettings, Settings
from dagster_project.orchestration.runs import partitions_of, under_way
from dagster_project.orchestration.triggers.asking import Asked, refresh_requests
from dagster_project.resources.sources.trees import tree_files
from dagster_project.resources.system.locks import BUILD_LOCK, is_held
from transforms.errors import SourceError
from transforms.hashing import parts_hash

SENSOR = "vault_edits"
_INTERVAL_SECONDS = 10
"""Seconds between two looks; a look reads names, sizes and times."""
_QUIET_SECONDS = 10.0
"""Seconds without another edit before a run is asked for."""
_LONGEST_WAIT_SECONDS = 40.0
"""Seconds after the first edit at which a run is asked for though edits go on: with the build it stays under a minute."""


class EditCursor(BaseModel):
    """The fingerprint of the documents and the times of edits that no run has seen, in seconds since 1970."""

    fingerprint: str
    first_edit: float | None = None
    last_edit: float | None = None

    def observe(self, fingerprint: str, now: float) -> EditCursor:
        """The cursor after another look at the documents."""
        if fingerprint == self.fingerprint:
            return self
        first = now if self.first_edit is None else self.first_edit
        return EditCursor(fingerprint=fingerprint, first_edit=first, last_edit=now)

    def is_settled(self, now: float) -> bool:
        """True if edits wait and none came for a while, or if the first has waited long enough."""
        if self.first_edit is None or self.last_edit is None:
            return False
        is_quiet = now - self.last_edit >= _QUIET_SECONDS
        return is_quiet or now - self.first_edit >= _LONGEST_WAIT_SECONDS


def documents_fingerprint(settings: Settings) -> str:
    """A hash over names, sizes and times of all files of document sources; no file is read."""
    parts: list[str] = []
    for source in settings.sources:
        if not isinstance(source, DocumentSourceSettings):
            continue
        try:
            files = tree_files(source, settings.place(source), settings.root)
        except SourceError as error:  # a folder that is gone is an edit, too; the run tells of it
            parts += [source.name, str(error)]
            continue
        for file in files:
            try:
                stat = file.path.stat()
            except OSError as error:
                parts += [source.name, file.name, str(error.errno)]
                continue
            parts += [source.name, file.name, str(stat.st_size), str(stat.st_mtime_ns), str(stat.st_ino)]
    return parts_hash(parts)


def vault_sensor(
    settings: Settings, asset_job: str, clock: Callable[[], float] = time.time
) -> dg.SensorDefinition:
    """The sensor `vault_edits`, off until it is switched on; its runs leave the remotes alone."""

    @dg.sensor(
        name=SENSOR,
        job_name=asset_job,
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Asks for a run when files of vaults and document trees were edited and the edits have settled.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        now, fingerprint = clock(), documents_fingerprint(settings)
        # The first look cannot tell what changed before it, so it counts as an edit.
        cursor = (_cursor(context.cursor) or EditCursor(fingerprint="")).observe(fingerprint, now)
        context.update_cursor(cursor.model_dump_json())
        if cursor.first_edit is None:
            return dg.SkipReason("no document was edited")
        if not cursor.is_settled(now):
            return dg.SkipReason("edits are still coming in")
        if is_held(settings.root / BUILD_LOCK):
            return dg.SkipReason("edits wait for the end of a build from the command line")
        if run_id := _run_that_reads(settings, context.instance):
            return dg.SkipReason(f"edits wait for the end of run {run_id}, which may not have read them")
        context.update_cursor(EditCursor(fingerprint=fingerprint).model_dump_json())
        return refresh_requests(
            settings, context.instance, f"{datetime.fromtimestamp(now, UTC):%Y-%m-%dT%H:%M:%S}"
        )

    return sensor


def _run_that_reads(settings: Settings, instance: dg.DagsterInstance) -> str | None:
    """The id of a run under way that makes partitions of documents; what it makes is not asked for again."""
    watched = tuple(f"{s.name}/" for s in settings.sources if isinstance(s, DocumentSourceSettings))
    going = under_way(instance)
    return next(
        (r.run_id for r in going if any(p.startswith(watched) for p in partitions_of(instance, [r]))), None
    )


def _cursor(text: str | None) -> EditCursor | None:
    try:
        return EditCursor.model_validate_json(text or "")
    except ValidationError:
        return None
