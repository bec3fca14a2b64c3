"""Names that Dagster shows: of jobs and of the tags of runs and assets."""

REFRESH_NOW = "refresh_now"
"""The job that begins a refresh: it fetches from the sources' remotes, and does nothing if no
source has one.
"""
WHOLE_LAKE = "whole_lake"
"""The job of relations, vectors, the index and assets behind it; the jobs of partitions are
`mail_partitions` and so on.
"""
SCOPE_TAG = "weft/scope"
"""Tag of every asset: `partition` or `whole`; of a run that makes tables over the whole lake:
`whole`.
"""
WHOLE = "whole"
FOLLOWED = "followed"
"""The job whose runs record the tables that `weft follow` made."""
REPORT = "report"
"""The job of the report on how the system does."""
EVALUATE = "evaluate"
"""The job that measures the published index; no refresh runs it."""
SEARCH = "search"
"""The job that sends the queries of its configuration to the published index; schedules of one's
own run it.
"""
REFRESH = "refresh"
"""The work of the schedule, the sensors and `weft build`: fetch, partitions, the whole lake,
publish, context.
"""
REFRESH_TAG = "weft/refresh"
"""Tag of all runs that belong to one refresh: its id."""
PHASE_TAG, STATE_TAG = "weft/phase", "weft/state"
"""Tags of the runs of a refresh: the phase, and a hash of its inputs: no refresh requests the same
twice.
"""
COMMAND_TAG = "weft/command"
"""Tag of runs in the process of a command: the storage whose lock it has. Runs that follow them run
there, too.
"""
ENDED_TAG, APART_TAG = "weft/ended", "weft/apart"
"""Tags of a run whose process ended before it, and of one that looked first which files of its
partitions end a process.
"""
LATER = {"dagster/priority": "-1"}
"""Tags of runs that wait in the queue behind others."""
WAITS = "lake"
"""The name in progress of the time in which a run waits for others that have the lake."""


def partitions_job(partitions: str) -> str:
    """The name of the job of all assets with partitions of that name; Dagster refuses one job over
    several kinds.
    """
    return f"{partitions}_partitions"
