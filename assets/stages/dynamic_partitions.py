"""The partitions of source types as Dagster knows them."""

from __future__ import annotations

import dagster as dg

from assets.partitions import PARTITIONS_OF_RUN, SourceType

BACKFILL = dg.BackfillPolicy.multi_run(PARTITIONS_OF_RUN)


def partitions_of(source_type: SourceType) -> dg.DynamicPartitionsDefinition:
    """The dynamic partitions of a source type; source types with the same name of partitions share them."""
    return dg.DynamicPartitionsDefinition(name=source_type.partitions)
