"""Names that Dagster shows: of jobs and of the tags of runs and assets."""

from __future__ import annotations

REFRESH_NOW = "refresh_now"
"""The job that begins a refresh: it fetches what the sources' remotes have, and does nothing if no source has one."""
WHOLE_LAKE = "whole_lake"
"""The job of relations, vectors, the index and what follows it; the jobs of partitions are `mail_partitions` and so on."""
SCOPE_TAG = "weft/scope"
"""Tag of every asset: `partition` or `whole`; of a run that makes what is over the whole lake: `whole`."""
WHOLE = "whole"
REPORT = "report"
"""The job of the report on how the system does."""
EVALUATE = "evaluate"
"""The job that measures what is published; nothing else runs it."""
SEARCH = "search"
"""The job that asks the published index what its configuration says; schedules of one's own run it."""
REFRESH = "refresh"
"""What the schedule, the sensors and `weft build` do: fetch, partitions, the whole lake, publish, context."""
REFRESH_TAG = "weft/refresh"
"""Tag of all runs that belong to one refresh: its id."""
PHASE_TAG, STATE_TAG = "weft/phase", "weft/state"
"""Tags of the runs of a refresh: the phase, and a hash of what it is made from: no refresh requests the same twice."""
COMMAND_TAG = "weft/command"
"""Tag of runs in the process of a command: the storage of which it has the lock. What follows them runs there, too."""
LATER = {"dagster/priority": "-1"}
"""Tags of runs that wait in the queue behind others."""
WAITS = "lake"
"""What progress calls the time in which a run waits for others that have the lake."""


def partitions_job(partitions: str) -> str:
    """The name of the job of all assets with partitions of that name; Dagster refuses one job over several kinds."""
    return f"{partitions}_partitions"
