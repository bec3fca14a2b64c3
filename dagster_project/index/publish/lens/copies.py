"""The copies of mails under a lens, and what relates its mails and documents, as an index of them alone has it."""

from collections import defaultdict

import duckdb
import ibis
import polars as pl
import pyarrow as pa

from dagster_project.index.publish.lake_views import LakeViews
from dagster_project.lake.lake import ParquetLake
from transforms.documents.links import document_links, document_references
from transforms.embedding.embedded_text import parent_context
from transforms.mail.threads.inferred_quotes import inferred_quotes
from transforms.mail.threads.patch_series import patch_series
from transforms.mail.threads.references import message_links, message_references, titled_mails
from transforms.mail.threads.threads import build_threads, memberships
from transforms.settings.mail import ThreadSettings
from transforms.settings.search import TermSettings
from transforms.text.terms import chunk_terms, context_terms

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


_MAILS = """
SELECT message_id, in_reply_to, refs, subject, from_addr, from_name, effective_at FROM messages ORDER BY message_id
"""
_LOST = "to_id NOT IN (SELECT id FROM shown_ids) OR to_id IN (SELECT message_id FROM others)"
# A reference that led to what is not shown may lead elsewhere, or be none that is recorded where nothing is.
_UNLED = f"""
SELECT from_id FROM src.links WHERE source_kind = 'message' AND ({_LOST}) UNION SELECT message_id FROM others
"""
_LINKED = f"SELECT message_id, source, partition, body FROM messages WHERE message_id IN ({_UNLED}) ORDER BY message_id"
_UNLINKED = f"DELETE FROM links WHERE source_kind = 'message' AND from_id IN ({_UNLED})"
_UNLED_DOCUMENTS = f"""
CREATE TEMP TABLE unled AS SELECT DISTINCT doc_id FROM src.links JOIN nodes ON node_id = from_id
WHERE source_kind = 'document' AND ({_LOST})
"""
_DOCUMENTS = """
SELECT doc_id, source, partition, format, text, body_start, path, title, aliases FROM documents
WHERE source IN (SELECT source FROM documents SEMI JOIN unled USING (doc_id)) ORDER BY doc_id
"""
_UNLINKED_DOCUMENTS = (
    "DELETE FROM links WHERE from_id IN (SELECT node_id FROM nodes SEMI JOIN unled USING (doc_id))"
)
# A parent that no archive holds is named by the same id as one that the lens hides.
_ANSWERING = """
CREATE TEMP TABLE answering AS SELECT t.message_id, t.parent_id FROM thread_tree t
LEFT JOIN src.thread_tree s USING (message_id)
WHERE t.message_id IN (SELECT message_id FROM messages) AND (
  t.message_id IN (SELECT message_id FROM others) OR t.parent_id IN (SELECT message_id FROM others)
  OR t.parent_id IS DISTINCT FROM s.parent_id
  OR t.parent_id IN (SELECT message_id FROM src.messages) AND t.parent_id NOT IN (SELECT message_id FROM messages))
"""
_COMPARED = """
SELECT message_id, subject, from_addr, body FROM messages
WHERE message_id IN (SELECT message_id FROM answering UNION SELECT parent_id FROM answering) ORDER BY message_id
"""
_COMPARED_CHUNKS = """
SELECT * FROM chunks WHERE doc_id IN (SELECT message_id FROM answering UNION SELECT parent_id FROM answering)
ORDER BY chunk_no
"""
_RESTATED = (
    "DELETE FROM inferred_quotes WHERE message_id IN (SELECT message_id FROM answering)",
    """CREATE TEMP TABLE recounted AS
SELECT chunk_key, chunk_id FROM chunks WHERE doc_id IN (SELECT message_id FROM answering)""",
    "DELETE FROM chunk_context WHERE chunk_id IN (SELECT chunk_id FROM recounted)",
)
_ANCHORED = """
UPDATE chunks SET anchor_source = CASE
  WHEN chunk_id IN (SELECT chunk_id FROM chunk_context WHERE context <> '') THEN 'parent'
  WHEN anchor_source = 'parent' THEN 'none' ELSE anchor_source END
WHERE chunk_id IN (SELECT chunk_id FROM recounted)
"""


def relate(connection: duckdb.DuckDBPyConnection, settings: ThreadSettings, terms: TermSettings) -> pa.Table:
    """Fill the tables of relations of what the others show, and make `recounted`, the chunks whose words are not those of
    `src` then; these words are returned (the table `terms`)."""
    run = connection.execute
    mails = run(_MAILS).to_arrow_table()
    named = message_references(run(_LINKED).to_arrow_table())
    links = message_links(*map(ibis.memtable, (named, titled_mails(mails)))).to_pyarrow()
    run(_UNLINKED)
    lists = run("SELECT DISTINCT message_id, list_id FROM memberships").to_arrow_table()
    threads, tree = build_threads(mails, lists, settings)
    _insert(connection, "links", links)
    own = run("FROM links WHERE source_kind = 'message'").to_arrow_table()
    _insert(connection, "threads", threads)
    _insert(connection, "thread_tree", tree)
    _insert(connection, "patch_series", patch_series(mails, tree, own))
    _link_documents(connection)
    return _quote(connection, terms)


def _link_documents(connection: duckdb.DuckDBPyConnection) -> None:
    """Look up again what the documents name that led to something else than the lens shows."""
    run = connection.execute
    run(_UNLED_DOCUMENTS)
    documents = run(_DOCUMENTS).to_arrow_table()
    if not documents.num_rows:
        return
    known = {name for (name,) in run("SELECT message_id FROM messages").fetchall()}
    nodes = run("FROM nodes").to_arrow_table()
    links = document_links(document_references(documents), documents, nodes, known)
    run(_UNLINKED_DOCUMENTS)
    connection.register("looked_up", links)
    run(
        "INSERT INTO links BY NAME SELECT * FROM looked_up WHERE from_id IN (SELECT node_id FROM nodes SEMI JOIN unled "
        "USING (doc_id)) ORDER BY from_id, byte_start"
    )
    connection.unregister("looked_up")


def _quote(connection: duckdb.DuckDBPyConnection, settings: TermSettings) -> pa.Table:
    """Renew quotes and context of mails that answer another mail, or a copy, than in `src`; the words of their chunks."""
    run = connection.execute
    run(_ANSWERING)
    tree = run("FROM answering ORDER BY message_id").to_arrow_table()
    mails, chunks = (run(rows).to_arrow_table() for rows in (_COMPARED, _COMPARED_CHUNKS))
    for statement in _RESTATED:
        run(statement)
    quotes = inferred_quotes(mails, chunks.filter(pa.compute.is_null(chunks["attachment_id"])), tree)
    context, restated = parent_context(*map(ibis.memtable, (chunks, mails, tree, quotes)))
    _insert(connection, "inferred_quotes", quotes)
    _insert(connection, "chunk_context", context)
    run(_ANCHORED)
    own = run("SELECT * FROM chunks SEMI JOIN recounted USING (chunk_id) ORDER BY chunk_no").to_arrow_table()
    stated = chunk_terms(own, settings)
    is_restated = pa.compute.and_(
        pa.compute.is_in(stated["chunk_id"], restated["chunk_id"].combine_chunks()),
        pa.compute.is_in(stated["field"], pa.array(["text", "quote"])),
    )
    stated = stated.filter(pa.compute.invert(is_restated))
    return pa.concat_tables([stated, context_terms(context, restated, settings)])


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Add rows to a table; the bucket of a mail, which depends on all that it hangs together with, is left empty."""
    columns = [column for column, *_ in connection.execute(f"DESCRIBE {table}").fetchall()]
    shown = ", ".join("'' AS bucket" if c not in rows.column_names else c for c in columns)
    connection.register("related", rows)
    connection.execute(f"INSERT INTO {table} SELECT {shown} FROM related ORDER BY ALL")
    connection.unregister("related")
