"""References between mails, resolved over the whole lake."""

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import table_metadata
from transforms import references, schemas, threads


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
