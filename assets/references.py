"""References between mails: found in each partition, resolved over the whole lake."""

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import BACKFILL, UNITS, stage_partitions, table_metadata
from assets.protocols import Lake, Partitions, Progress
from transforms import references, schemas, threads


def message_references_asset() -> dg.AssetsDefinition:
    """The asset `message_references`."""

    @dg.asset(
        partitions_def=UNITS,
        backfill_policy=BACKFILL,
        group_name="mail",
        kinds={"parquet", "polars"},
        code_version=references.VERSION,
        description=schemas.MESSAGE_REFERENCES.comment,
        metadata=table_metadata(schemas.MESSAGE_REFERENCES),
    )
    def message_references(
        context: dg.AssetExecutionContext,
        messages: Partitions,
        lake: dg.ResourceParam[Lake],
        progress: dg.ResourceParam[Progress],
    ) -> object:
        (staged,) = stage_partitions(
            context,
            lake,
            progress,
            ["message_references"],
            [messages],
            lambda partition, mails: (references.message_references(mails),),
        )
        return staged

    return message_references


def message_links_asset() -> dg.AssetsDefinition:
    """The asset `message_links`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=references.VERSION,
        description=schemas.LINKS.comment,
        metadata=table_metadata(schemas.LINKS),
    )
    def message_links(
        message_references: ibis.Table, messages: ibis.Table, memberships: ibis.Table
    ) -> pa.Table:
        columns = ["source", "unit", "message_id", "subject", "effective_at"]
        mails = threads.canonical(messages.select(columns), memberships)
        named = threads.canonical(message_references, memberships)
        return references.message_links(named.to_pyarrow(), mails.to_pyarrow())

    return message_links
