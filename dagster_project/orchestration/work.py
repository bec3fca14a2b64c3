"""What one run makes, and how Dagster is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from dagster_project.orchestration.names import REFRESH_TAG

PARTITION, RANGE_START, RANGE_END = (
    "dagster/partition",
    "dagster/asset_partition_range_start",
    "dagster/asset_partition_range_end",
)


@dataclass(frozen=True)
class Work:
    """What one run makes: tables, of a partition or of neighbouring ones, or over the whole lake."""

    tables: tuple[str, ...]
    first: str | None = None
    last: str | None = None

    @property
    def tags(self) -> dict[str, str]:
        """The tags by which Dagster knows the partitions."""
        if self.first is None or self.last is None:
            return {}
        if self.first == self.last:
            return {PARTITION: self.first}
        return {RANGE_START: self.first, RANGE_END: self.last}

    @property
    def keys(self) -> list[dg.AssetKey]:
        """The keys of the assets of the tables."""
        return [dg.AssetKey(table) for table in self.tables]

    def request(self, refresh: str, tags: Mapping[str, str]) -> dg.RunRequest:
        """The request for a run of it, one of the refresh of that id."""
        key = "/".join(filter(None, [refresh, self.tables[0], self.first]))
        return dg.RunRequest(
            run_key=key, asset_selection=self.keys, tags={REFRESH_TAG: refresh, **self.tags, **tags}
        )
