"""DuckDB statements that turn a copy of an earlier version of the published file into the next version."""

from collections.abc import Mapping

from dagster_project.index.publish import table_sql
from dagster_project.index.publish.table_sql import key_of

KEYS = {
    "memberships": "message_id",
    "threads": "thread_id",
    "thread_tree": "message_id",
    "people": "addr",
    "patch_series": "message_id",
    "corpus_measures": "list_id",
    "inferred_quotes": "message_id",
    "chunk_context": "chunk_id",
    "links": "from_id",
    **{name: table.key[0] for name, table in table_sql.ADDED.items()},
    "messages": "message_id",
    "attachments": "message_id",
    "blocks": "message_id",
    "trailers": "message_id",
    "documents": "doc_id",
    "nodes": "doc_id",
    "conversations": "conversation_id",
    "conversation_windows": "doc_id",
    "exclusions": "doc_id",
    "quarantine": "place",
    "chunks": "chunk_id",
    "readiness": "doc_id",
}
"""The column, without nulls, by which rows are compared: all rows of a table with the same value are replaced together."""

# Rows are compared by their hashes, so that no text is in memory: equal rows of a key cancel out.
DIFFERING = """
CREATE TEMP TABLE differing_{table} AS
SELECT key FROM (
  SELECT {key} AS key, hash({columns})::HUGEINT AS print, 1 AS side FROM {table} WHERE {scope}
  UNION ALL SELECT {key}, hash({columns})::HUGEINT, -1 FROM rows_of_{table}
) GROUP BY key HAVING sum(print * side) <> 0 OR sum(side) <> 0
"""
REMOVED = "DELETE FROM {table} WHERE {scope} AND {key} IN (FROM differing_{table})"
INSERTED = "INSERT INTO {table} BY NAME SELECT {columns} FROM rows_of_{table} WHERE {key} IN (FROM differing_{table})"

CHANGED_PARTS = """
CREATE TEMP TABLE changed_parts AS
SELECT DISTINCT table_name, part FROM (
  (FROM parts_now EXCEPT FROM parts) UNION ALL (FROM parts EXCEPT FROM parts_now)
)
"""
OF_CHANGED_PARTS = "bucket IN (SELECT part FROM changed_parts WHERE table_name = '{table}')"
"""The rows of a table in parts that can differ."""
OF_TOUCHED = "partition IN (FROM touched)"
"""The rows of a table that can differ: those of changed or removed partitions."""

_OWN_TEXTS = {
    "messages": "concat_ws(chr(10), subject, body)",
    "attachments": "concat_ws(chr(10), filename, text)",
    "documents": "concat_ws(chr(10), path, text)",
    "conversation_windows": "markdown",
}
"""The column of each table that holds what people wrote; all other tables come from these."""
_LOST_TEXT = """
SELECT 1 FROM (
  SELECT rowid AS place, {key} AS key, {text} AS text FROM {table}
  WHERE rowid IN (SELECT rowid FROM {table} WHERE {key} IN (FROM differing_{table}))
) b LEFT JOIN (
  SELECT {key} AS key, {text} AS text FROM rows_of_{table} WHERE {key} IN (FROM differing_{table})
) n USING (key)
GROUP BY place HAVING NOT coalesce(bool_or(contains(n.text, b.text)), false)
"""
_OWN_NAMES = {"messages": "subject", "attachments": "filename", "documents": "concat_ws(chr(10), path, frontmatter)",
              "nodes": "title"}  # fmt: skip
"""What people wrote in a file that refers to its texts, beside the words of chunks."""
_FIELDS = [f"coalesce({field}, '')" for field in table_sql.FIELDS]
_DIFFERING_CHUNKS = (
    "chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE chunk_id IN (FROM differing_chunks))"
)
_LOST_WORDS = f"""
SELECT 1 FROM (SELECT doc_id, [{", ".join(_FIELDS)}] AS words FROM {_DIFFERING_CHUNKS}) b LEFT JOIN (
  SELECT doc_id, [{", ".join(f"string_agg({f}, chr(10) ORDER BY chunk_index)" for f in _FIELDS)}] AS words
  FROM rows_of_chunks WHERE doc_id IN (SELECT doc_id FROM {_DIFFERING_CHUNKS}) GROUP BY doc_id
) n USING (doc_id)
WHERE NOT coalesce(list_bool_and([contains(n.words[i], b.words[i]) FOR i IN range(1, {len(_FIELDS) + 1})]), false)
"""


def _lost(texts: Mapping[str, str]) -> str:
    return " UNION ALL ".join(
        _LOST_TEXT.format(table=table, key=KEYS[table], text=text) for table, text in texts.items()
    )


LOST_TEXT = _lost(_OWN_TEXTS)
"""A row for each mail, attachment, document and window that lost text."""
LOST_WORDS = f"{_lost(_OWN_NAMES)} UNION ALL {_LOST_WORDS}"
"""As `LOST_TEXT`, for a file that refers to its texts."""

# Partitions are read from the lake if their files changed, if other mails of them are canonical now, or if the
# relations of one of their chunks changed, or whether a model refuses it.
CHANGED = f"""
CREATE TEMP TABLE changed AS
WITH canonical_now AS (
  SELECT partition, message_id, stored_message_id FROM rows_of_memberships
  WHERE is_canonical AND message_id IN (FROM differing_memberships)
), canonical_before AS (
  SELECT partition, message_id, stored_message_id FROM memberships
  WHERE is_canonical AND message_id IN (FROM differing_memberships)
), refused_now AS (
  SELECT chunk_id, partition FROM ({table_sql.REFUSED})
), refused_before AS (
  SELECT chunk_id, partition FROM chunks SEMI JOIN embedding_refusals USING (chunk_id)
)
SELECT DISTINCT partition FROM (
  SELECT partition FROM (FROM partitions_now EXCEPT FROM partitions)
  UNION ALL SELECT partition FROM (FROM canonical_now EXCEPT FROM canonical_before)
  UNION ALL SELECT partition FROM (FROM canonical_before EXCEPT FROM canonical_now)
  UNION ALL SELECT partition FROM chunks WHERE chunk_id IN (FROM differing_chunk_context)
  UNION ALL SELECT partition FROM chunks WHERE doc_id IN (FROM differing_inferred_quotes)
  UNION ALL SELECT partition FROM (FROM refused_now EXCEPT FROM refused_before)
  UNION ALL SELECT partition FROM (FROM refused_before EXCEPT FROM refused_now)
) WHERE partition IN (SELECT partition FROM partitions_now)
"""

TOUCHED = """
CREATE TEMP TABLE touched AS
FROM changed UNION SELECT partition FROM partitions WHERE partition NOT IN (SELECT partition FROM partitions_now)
"""

# Selecting by rowid: otherwise DuckDB reads the texts of all chunks before it filters.
TEXTS_NOW = f"""
{table_sql.TEXTS} chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE chunk_id IN (FROM differing_chunks))
"""
TEXTS_BEFORE = f"CREATE TEMP TABLE texts_before AS {TEXTS_NOW}"

REFUSED_BEFORE = "CREATE TEMP TABLE refused_before AS SELECT chunk_id FROM embedding_refusals"
# Inferred quotes count as quotes: another one in a mail changes the counts of its chunks. What a model refuses, or takes
# at last, is counted with them, so that a chunk with another vector is one with other terms.
RECOUNTED = f"""
CREATE TEMP TABLE recounted AS
SELECT chunk_id, {key_of("chunk_id")} AS chunk_key FROM (
  SELECT key AS chunk_id FROM differing_chunks UNION SELECT key FROM differing_chunk_context
  UNION SELECT chunk_id FROM chunks WHERE doc_id IN (FROM differing_inferred_quotes)
  UNION (FROM refused_before EXCEPT SELECT chunk_id FROM embedding_refusals)
  UNION (SELECT chunk_id FROM embedding_refusals EXCEPT FROM refused_before)
)
"""
COUNTED = """
CREATE TEMP TABLE counted AS
SELECT chunk_id, chunk_key, partition FROM chunks WHERE chunk_id IN (SELECT chunk_id FROM recounted)
"""

# A delete reads the keys of all postings, unless there are none to look for.
UNCOUNTED = (
    "CREATE TEMP TABLE uncounted AS SELECT chunk_key FROM recounted SEMI JOIN chunk_lengths USING (chunk_key)"
)
_GONE = "chunk_key IN (FROM uncounted)"
# To delete and return the rows in one statement takes ten microseconds for each of them.
GONE_POSTINGS = (
    f"CREATE TEMP TABLE gone_postings AS SELECT rowid AS place, term_id FROM postings WHERE {_GONE}",
    "DELETE FROM postings WHERE rowid IN (SELECT place FROM gone_postings)",
)
INVERTED = (
    """
CREATE TEMP TABLE gone_from_terms AS
SELECT term_id, any_value(term) AS term, count(*)::INTEGER AS df FROM gone_postings JOIN terms USING (term_id)
GROUP BY term_id
""",
    "UPDATE terms SET df = terms.df - g.df FROM gone_from_terms g WHERE g.term_id = terms.term_id",
    """
CREATE TEMP TABLE came_to_terms AS
WITH came AS (SELECT term, count(*)::INTEGER AS df FROM added GROUP BY term),
highest AS (SELECT coalesce(max(term_id), -1) AS term_id FROM terms)
SELECT coalesce(t.term_id, highest.term_id + row_number() OVER (PARTITION BY t.term_id IS NULL ORDER BY came.term))::INTEGER
  AS term_id, came.term, came.df, t.term_id IS NULL AS is_new
FROM came LEFT JOIN terms t USING (term) CROSS JOIN highest
""",
    "UPDATE terms SET df = terms.df + c.df FROM came_to_terms c WHERE c.term_id = terms.term_id",
    "INSERT INTO terms SELECT term_id, term, df FROM came_to_terms WHERE is_new ORDER BY term_id",
    "DELETE FROM terms WHERE df = 0",
    f"DELETE FROM chunk_lengths WHERE {_GONE}",
    f"INSERT INTO chunk_lengths {table_sql.ADDED_LENGTHS}",
)
"""The statements that update what is told of the recounted chunks and their terms."""
ADDED_POSTINGS = f"""
INSERT INTO postings SELECT term_id, chunk_key, {table_sql.TFS} FROM added JOIN came_to_terms USING (term)
ORDER BY term_id, chunk_key
"""
MOVED_POSTINGS = "SELECT (SELECT count(*) FROM added) + (SELECT coalesce(sum(df), 0) FROM gone_from_terms)"

CHANGED_DOCUMENTS = (
    """
CREATE TEMP TABLE changed_texts AS
SELECT key AS doc_id FROM differing_messages UNION FROM differing_documents UNION FROM differing_conversation_windows
UNION FROM differing_attachments UNION SELECT doc_id FROM chunks WHERE chunk_id IN (FROM differing_chunks)
""",
    """
CREATE TEMP TABLE changed_facts AS
FROM changed_texts UNION FROM differing_blocks UNION FROM differing_nodes UNION FROM differing_thread_tree
UNION SELECT message_id FROM thread_tree WHERE thread_id IN (FROM differing_threads)
UNION FROM differing_inferred_quotes
UNION SELECT doc_id FROM chunks WHERE chunk_id IN (FROM differing_chunk_context)
""",
)
"""The documents whose texts in the arrays change, and those of which any fact about a hit changes."""

FORMS = (
    """
CREATE TEMP TABLE form_changes AS
SELECT form, any_value(term) AS term, sum(texts)::INTEGER AS change
FROM (SELECT form, term, texts FROM added_forms UNION ALL SELECT form, term, -texts FROM removed_forms) GROUP BY form
""",
    "UPDATE term_forms SET chunk_count = chunk_count + change FROM form_changes c WHERE c.form = term_forms.form",
    "INSERT INTO term_forms SELECT form, term, change FROM form_changes ANTI JOIN term_forms USING (form)",
    "DELETE FROM term_forms WHERE chunk_count <= 0",
)

RENUMBERED = (
    "DELETE FROM embeddings WHERE chunk_id IN (SELECT chunk_id FROM recounted)",
    "UPDATE embeddings SET chunk_no = new_no FROM numbers WHERE old_no = embeddings.chunk_no AND old_no <> new_no",
)
PARTS_WITH_TEXTS = """
SELECT DISTINCT part FROM lake_embeddings SEMI JOIN embedded_texts USING (text_hash) ORDER BY part
"""
CHUNKS_REEMBEDDED = "FROM chunks WHERE chunk_id IN (SELECT chunk_id FROM recounted)"
