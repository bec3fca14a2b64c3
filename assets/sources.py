"""The sources at the left edge of the graph: what is read there, and what Dagster hears of its changes."""

from collections.abc import Sequence

import dagster as dg

from assets.fetch import fetched_key
from assets.partitions import SourceType
from assets.protocols.sources import SourcePartition
from assets.stages.stage import partitions_of
from transforms.hashing import parts_hash

GROUP = "sources"
_VERSION = "dagster/data_version"


def source_key(source: str) -> dg.AssetKey:
    """Key of the asset of a source."""
    return dg.AssetKey(["source", source])


def partitions_key(source_type: str) -> dg.AssetKey:
    """Key of the asset of all partitions of a source type."""
    return dg.AssetKey(["partitions", source_type])


def source_spec(source: str, kind: str, place: str, *, fetched: bool) -> dg.AssetSpec:
    """The external asset of a source, below the asset that fetches it if there is one."""
    return dg.AssetSpec(
        source_key(source),
        group_name=GROUP,
        kinds={kind},
        deps=[fetched_key(source)] if fetched else [],
        description=f"The source {source}, read from {place}. An observation says that its files changed.",
        metadata={"place": place},
    )


def partitions_spec(source_type: SourceType, sources: Sequence[str]) -> dg.AssetSpec:
    """The external asset of the partitions of a source type, below its sources.

    What reads a partition is below this one asset: a source that comes or goes makes nothing of others stale.
    """
    return dg.AssetSpec(
        partitions_key(source_type.name),
        group_name=GROUP,
        kinds={"file"},
        partitions_def=partitions_of(source_type),
        deps=[source_key(source) for source in sources],
        description=f"The files of all sources of {source_type.name}, by partition. An observation says that those of a "
        "partition changed; its data version is their fingerprint.",
    )


def changed_sources(
    instance: dg.DagsterInstance, partitions: Sequence[SourcePartition]
) -> dict[str, list[str]]:
    """Report an observation of each of `partitions` with another fingerprint than last time, and of their sources.

    The data version of a source is a hash of the fingerprints of its partitions. Returns the keys of the partitions that
    changed, by source.
    """
    found: dict[str, list[str]] = {}
    smaller: set[str] = set()
    for source_type in sorted({partition.source_type for partition in partitions}):
        key = partitions_key(source_type)
        known = instance.event_log_storage.get_latest_tags_by_partition(
            key, dg.DagsterEventType.ASSET_OBSERVATION, [_VERSION]
        )
        own = {p.key: p for p in partitions if p.source_type == source_type}
        for partition in own.values():
            if known.get(partition.key, {}).get(_VERSION) != partition.fingerprint:
                _observe(instance, key, partition.fingerprint, partition.key)
                found.setdefault(partition.source, []).append(partition.key)
        smaller |= {gone.partition("/")[0] for gone in known.keys() - own.keys()}
    for source in (found.keys() | smaller) & {partition.source for partition in partitions}:
        version = parts_hash(
            text for p in partitions if p.source == source for text in (p.key, p.fingerprint)
        )
        last = instance.fetch_observations(source_key(source), limit=1).records
        if not last or (last[0].event_log_entry.tags or {}).get(_VERSION) != version:
            _observe(instance, source_key(source), version)
    return found


def _observe(
    instance: dg.DagsterInstance, key: dg.AssetKey, version: str, partition: str | None = None
) -> None:
    observation = dg.AssetObservation(key, partition=partition, tags={_VERSION: version})
    instance.report_runless_asset_event(observation)
