"""The sources at the left edge of the graph: what is read there, of which kind, from where."""

import dagster as dg

from assets.fetch import fetched_key
from assets.partitions import SourceType

GROUP = "sources"


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
