"""What Dagster is told of the sources: which of their partitions changed since it last heard of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import dagster as dg

from assets.protocols.sources import SourcePartition
from assets.sources import source_key

_VERSION = "dagster/data_version"


def changed_sources(
    instance: dg.DagsterInstance, partitions: Sequence[SourcePartition]
) -> dict[str, list[str]]:
    """Report an observation of each of `partitions` with another fingerprint than last time.

    Returns the keys of the partitions that changed, by source; a source without a change is left out.
    """
    found: dict[str, list[str]] = {}
    by_source = sorted(partitions, key=lambda partition: partition.source)
    for source, own in groupby(by_source, key=lambda partition: partition.source):
        key = source_key(source)
        known = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_OBSERVATION, [_VERSION]
        )
        for partition in own:
            if known.get(partition.key, {}).get(_VERSION) != partition.fingerprint:
                tags = {_VERSION: partition.fingerprint}
                instance.report_runless_asset_event(
                    dg.AssetObservation(key, partition=partition.key, tags=tags)
                )
                found.setdefault(source, []).append(partition.key)
    return found
