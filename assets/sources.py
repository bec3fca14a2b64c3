"""The sources at the left edge of the graph: what is read there, and what Dagster hears of its changes."""

from collections.abc import Sequence
from itertools import groupby

import dagster as dg

from assets.fetch import fetched_key
from assets.partitions import SourceType
from assets.protocols.sources import SourcePartition

GROUP = "sources"
_VERSION = "dagster/data_version"


def source_key(source: str) -> dg.AssetKey:
    """Key of the asset of a source."""
    return dg.AssetKey(["source", source])


def source_spec(
    source: str, kind: str, place: str, source_type: SourceType, *, fetched: bool
) -> dg.AssetSpec:
    """The external asset of a source, below the asset that fetches it if there is one.

    It has the partitions of its source type; only those of the source itself are ever observed.
    """
    return dg.AssetSpec(
        source_key(source),
        group_name=GROUP,
        kinds={kind},
        partitions_def=source_type.partitions,
        deps=[fetched_key(source)] if fetched else [],
        description=f"The {source_type.name} at {place}. An observation is a partition whose files changed; its data "
        "version is the fingerprint of these files.",
        metadata={"place": place},
    )


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
