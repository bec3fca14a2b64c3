"""The work of one run, and the request to Dagster for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import dagster as dg

from assets.fetch import GROUP as FETCH_GROUP
from assets.partitions import CONTEXT, SOURCE_TYPES
from dagster_project.orchestration import names

PARTITION, RANGE_START, RANGE_END = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)
_PARTITIONS_OF = {
    table: kind.partitions for kind in (*SOURCE_TYPES, CONTEXT) for table in kind.tables
}


class Phase(StrEnum):
    """The phases of a refresh, in their order."""

    PARTITIONS = "partitions"
    RELATIONS = "relations"
    PUBLISH = "publish"
    CONTEXT = "context"
    SLOW = "slow"


@dataclass(frozen=True)
class Work:
    """The work of one run: tables, of a partition or of neighbouring ones, or over the whole lake.

    `state` is a hash of its inputs, where a phase may come twice in a refresh. Work that may wait
    is `later`.
    """

    tables: tuple[str, ...]
    first: str | None = None
    last: str | None = None
    phase: Phase | None = None
    state: str = ""
    later: bool = False

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which Dagster knows the partitions, and people the phase."""
        own = {names.PHASE_TAG: self.phase.value if self.phase else "", names.STATE_TAG: self.state}
        tags = {tag: value for tag, value in own.items() if value} | (
            names.LATER if self.later else {}
        )
        if self.first is None or self.last is None:
            return tags
        if self.first == self.last:
            return tags | {PARTITION: self.first}
        return tags | {RANGE_START: self.first, RANGE_END: self.last}

    @property
    def keys(self) -> list[dg.AssetKey]:
        """The keys of the assets of the tables."""
        return [dg.AssetKey(table) for table in self.tables]

    @property
    def job(self) -> str:
        """The name of the job whose run makes it."""
        return job_of(self.keys)

    def request(self, refresh: str) -> dg.RunRequest:
        """The request for a run of it, one of the refresh of that id."""
        tags = {names.REFRESH_TAG: refresh, **self.tags}
        return dg.RunRequest(job_name=self.job, asset_selection=self.keys, tags=tags)


def job_of(keys: Sequence[dg.AssetKey]) -> str:
    """The name of the job that has all of some assets."""
    if keys and keys[0].path[0] == FETCH_GROUP:
        return names.REFRESH_NOW
    partitions = _PARTITIONS_OF.get(keys[0].path[-1]) if keys else None
    return names.partitions_job(partitions) if partitions else names.WHOLE_LAKE
