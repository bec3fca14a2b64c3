"""Names that Dagster shows: of jobs and of the tags of runs and assets."""

from __future__ import annotations

FETCH = "fetch"
"""The job that brings what the sources' remotes have; there if a source has one."""

PUBLISH = "publish"
"""The job of everything over the whole lake: relations, vectors, checks and the published file."""

SCOPE_TAG = "weft/scope"
"""Tag of every asset: `partition` or `whole`."""

REPORT = "report"
"""The job of the report on how the system does; the hourly run runs it after a publish."""

CONTEXT = "find_context"
"""The job of what conversations find in the published file; it runs after it."""

EVALUATE = "evaluate"
"""The job that measures what is published; nothing else runs it."""

SEARCH = "search"
"""The job that asks the published index what its configuration says; schedules of one's own run it."""

REFRESH = "refresh"
"""The job that does what `weft build` does, but for the slow lane."""

SLOW_LANE = "slow_lane"
"""The job that makes what waits for the slow lane, and publishes it."""

BACKFILL = "backfill"
"""The job, and the lane, that makes years of archives in batches beside the hourly runs."""

LANE_TAG = "weft/lane"
"""Tag of runs beside which builds go on; the run queue of the shipped instance lets one of them run at a time."""

STORAGE_TAG = "weft/storage"
"""Tag of the runs of these jobs: the storage root that they work on."""

ROOT_TAG = "weft/root"
"""Tag of the runs of a build: the storage root, whose build lock they ran under."""

LATER = {"dagster/priority": "-1"}
"""Tags of runs that wait in the queue behind others."""


def refresh_job(source_type: str) -> str:
    """Name of the job that makes the partitions of a source type."""
    return f"refresh_{source_type}"
