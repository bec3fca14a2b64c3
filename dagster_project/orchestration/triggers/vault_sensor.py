"""The sensor of edits in vaults and document trees: it requests one run when edits have settled, not one per edit.

It keeps no cursor. Its process remembers a fingerprint of names, sizes and times for which Dagster has a run, or nothing
was left to do; one that it does not know is an edit. A new process asks once in vain.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from dagster_project.config.settings import DocumentSourceSettings, Settings
from dagster_project.orchestration.names import REFRESH_TAG
from dagster_project.orchestration.reconcile import next_requests
from dagster_project.orchestration.triggers.schedules import Asked
from dagster_project.sources.trees import tree_files
from transforms.errors import SourceError
from transforms.hashing import parts_hash

SENSOR = "vault_edits"
_INTERVAL_SECONDS = 10
"""Seconds between two looks; a look reads names, sizes and times."""
_QUIET_SECONDS = 10.0
"""Seconds without another edit before a run is asked for."""
_LONGEST_WAIT_SECONDS = 40.0
"""Seconds after the first edit at which a run is asked for though edits go on: with the build it stays under a minute."""


def documents_fingerprint(settings: Settings) -> str:
    """A hash over names, sizes and times of all files of document sources; no file is read."""
    parts: list[str] = []
    for source in settings.sources:
        if not isinstance(source, DocumentSourceSettings):
            continue
        try:
            for file in tree_files(source, settings.place(source), settings.root):
                stat = file.path.stat()
                parts += [source.name, file.name, str(stat.st_size), str(stat.st_mtime_ns), str(stat.st_ino)]
        except (SourceError, OSError) as error:
            # A folder or file that is gone is an edit, too; the run says so.
            parts += [source.name, str(error)]
    return parts_hash(parts)


def vault_sensor(
    settings: Settings, jobs: Sequence[Any], clock: Callable[[], float] = time.time
) -> dg.SensorDefinition:
    """The sensor `vault_edits`, off until it is switched on; its runs leave the remotes alone."""

    is_shown, state, first, last = False, "", 0.0, 0.0

    @dg.sensor(
        name=SENSOR,
        jobs=list(jobs),
        minimum_interval_seconds=_INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Asks for a run when files of vaults and document trees were edited and the edits have settled.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        nonlocal is_shown, state, first, last
        now, fingerprint = clock(), documents_fingerprint(settings)
        if fingerprint != state:
            is_shown, state, first, last = False, fingerprint, first or now, now
        refresh = f"{datetime.fromtimestamp(last, UTC):%Y-%m-%dT%H:%M:%S}"
        of_refresh = dg.RunsFilter(tags={REFRESH_TAG: refresh})
        if is_shown or context.instance.get_run_ids(of_refresh, limit=1):
            is_shown, first = True, 0.0
            return dg.SkipReason("no document was edited")
        if now - last < _QUIET_SECONDS and now - first < _LONGEST_WAIT_SECONDS:
            return dg.SkipReason("edits are still coming in")
        first = 0.0
        answer, is_shown = next_requests(settings, context.instance, refresh)
        return answer

    return sensor
