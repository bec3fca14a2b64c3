"""Names that Dagster shows: of jobs and of the tags of runs and assets."""

from __future__ import annotations

FETCH = "fetch"
"""The job that brings what the sources' remotes have; there if a source has one."""

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

COMMAND_TAG = "weft/command"
"""Tag of runs in the process of a command: the storage of which it has the lock. What follows them runs there, too."""

LATER = {"dagster/priority": "-1"}
"""Tags of runs that wait in the queue behind others."""

FETCH_TAG = "weft/fetch"
"""Tag of runs that fetch; what changed is asked for when they end."""

WAITS = "lake"
"""What progress calls the time in which a run waits for others that have the lake."""

REPORT_ASSET = "operations_report"
"""The asset of the report on how the system does."""
