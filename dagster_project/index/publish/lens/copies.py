"""The copies of mails under a lens: which there are, which of each mail is shown, and the rows of those not yet published.

A published version has one copy of each mail. If a lens hides it and shows another, or hides the mail that has the
Message-ID to itself, the rows of the copy that an index of the lens alone would publish come from the lake.
"""

from __future__ import annotations

from collections import defaultdict

import duckdb
import ibis
import polars as pl
import pyarrow as pa

from dagster_project.index.publish.lake_views import LakeViews
from dagster_project.lake.lake import ParquetLake
from transforms.mail.threads.threads import memberships

OTHER = {
    "messages": ("messages", "message_id"),
    "blocks": ("message_blocks", "message_id"),
    "trailers": ("message_trailers", "message_id"),
    "attachments": ("attachments", "message_id"),
    "exclusions": ("message_exclusions", "doc_id"),
    "chunks": ("message_chunks", "doc_id"),
}
"""By published table the table of the lake, and its column with the id of a mail."""

_JUDGED = (
    # A mail whose Message-ID another mail has, too, has a part of its hash behind its id.
    r"""CREATE TEMP TABLE of_mails AS SELECT *, regexp_replace(message_id, '(\+[0-9a-f]{8})+$', '') AS plain_id,
  (message_id, source, partition) IN (SELECT (message_id, source, partition) FROM shown_copies) AS is_shown
FROM src.memberships""",
    """CREATE TEMP TABLE partly_hidden AS SELECT plain_id FROM of_mails GROUP BY plain_id
HAVING bool_or(is_shown) AND NOT bool_and(is_shown)""",
    """CREATE TEMP TABLE lens_memberships AS SELECT * EXCLUDE (plain_id, is_shown) FROM of_mails
WHERE is_shown AND plain_id NOT IN (FROM partly_hidden)""",
)
_REJOINED = """
SELECT DISTINCT partition, stored_message_id AS message_id FROM of_mails
WHERE is_shown AND plain_id IN (FROM partly_hidden) ORDER BY ALL
"""
_OTHERS = (
    "INSERT INTO lens_memberships BY NAME FROM rejoined",
    """CREATE TEMP TABLE others AS
SELECT r.message_id, r.stored_message_id, r.source, r.partition, c.is_whole FROM rejoined r
JOIN shown_copies c ON c.partition = r.partition AND c.source = r.source AND c.message_id IN (
  SELECT o.message_id FROM of_mails o WHERE o.partition = r.partition AND o.stored_message_id = r.stored_message_id)
WHERE r.is_canonical AND NOT EXISTS (FROM src.memberships p WHERE p.is_canonical AND p.message_id = r.message_id
  AND p.partition = r.partition AND p.stored_message_id = r.stored_message_id)""",
    """CREATE TEMP TABLE unshown AS SELECT DISTINCT message_id FROM of_mails WHERE plain_id IN (FROM partly_hidden)
EXCEPT SELECT message_id FROM rejoined WHERE is_canonical AND message_id NOT IN (SELECT message_id FROM others)""",
)
_ROWS = """
CREATE TEMP TABLE other_{name} AS
SELECT t.* REPLACE (o.message_id AS {id}) FROM lake_{name} t JOIN others o
  ON o.partition = t.partition AND o.stored_message_id = t.{id}{whole}
"""


def judge(connection: duckdb.DuckDBPyConnection, copies: pl.DataFrame, lake: ParquetLake) -> None:
    """Make `lens_memberships`; `others`, the copies whose rows are not those of `src`, and their rows, `other_<table>`;
    and `unshown`, the mails of `src` whose rows are not those of the lens.

    `copies` are those that the lens shows (`ShownCopies`). LakeDamageError if the lake lacks a copy.
    """
    run = connection.execute
    connection.register("shown_copies", copies.to_arrow())
    for statement in _JUDGED:
        run(statement)
    stored = pl.DataFrame(run(_REJOINED).to_arrow_table())
    hashes: dict[str, dict[str, str]] = defaultdict(dict)
    for partition, table, digest in run("SELECT partition, table_name, hash FROM src.partitions").fetchall():
        hashes[partition][table] = digest
    views = LakeViews(lake, hashes)
    for name, (table, _) in OTHER.items():
        partitions = stored.get_column("partition").unique(maintain_order=True).to_list()
        try:
            views.of_partitions(connection, f"lake_{name}", table, partitions)
        except FileNotFoundError as error:
            raise lake.unusable(table, None) from error
    connection.register("rejoined", _joined_again(connection, stored))
    for statement in _OTHERS:
        run(statement)
    for name, (_, id_) in OTHER.items():
        has_attachments = name in ("attachments", "exclusions", "chunks")
        whole = " AND (o.is_whole OR t.attachment_id IS NULL)" if has_attachments else ""
        run(_ROWS.format(name=name, id=id_, whole=whole))
    connection.unregister("rejoined")


def _joined_again(connection: duckdb.DuckDBPyConnection, stored: pl.DataFrame) -> pa.Table:
    """The `memberships` of stored mails, as if there were no others."""
    connection.register("stored", stored.to_arrow())
    columns = (
        "source, partition, list_id, labels, message_id, header_message_id, text_hash, content_hash, part_hashes, "
        "effective_at"
    )
    statement = f"SELECT {columns} FROM lake_messages SEMI JOIN stored USING (partition, message_id)"
    mails = connection.execute(statement).to_arrow_table()
    connection.unregister("stored")
    return memberships(ibis.memtable(mails)).to_pyarrow()
