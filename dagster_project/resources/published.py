"""The tables of the published file as DuckDB statements: what is taken over, what comes from the lake."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from assets import graph
from dagster_project.resources.published_macros import VIEW_COMMENTS
from transforms import lexical, schemas, terms

_SQL_TYPES = {
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.bool_(): "BOOLEAN",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.uint64(): "UBIGINT",
    schemas.TIME: "TIMESTAMPTZ",
    schemas.SPAN: "STRUCT(byte_start BIGINT, byte_end BIGINT, role VARCHAR)",
}


def sql_type(type_: pa.DataType) -> str:
    """The DuckDB type of a declared Arrow type."""
    if pa.types.is_list(type_):
        return f"{sql_type(type_.value_type)}[]"
    return _SQL_TYPES[type_]


# Partitions whose rows come from the lake: their files changed, which of their mails are canonical did, or a
# chunk of theirs is no longer restated.
CHANGED = """
CREATE TEMP TABLE changed AS
WITH canonical_now AS (
  SELECT source || '/' || unit AS partition, message_id, stored_message_id
  FROM lake_memberships WHERE is_canonical
), canonical_before AS (
  SELECT source || '/' || unit AS partition, message_id, stored_message_id
  FROM prev.memberships WHERE is_canonical
)
SELECT DISTINCT partition FROM (
  SELECT partition FROM (SELECT * FROM partitions EXCEPT SELECT * FROM prev.partitions)
  UNION ALL SELECT partition FROM (FROM canonical_now EXCEPT FROM canonical_before)
  UNION ALL SELECT partition FROM (FROM canonical_before EXCEPT FROM canonical_now)
  UNION ALL SELECT partition FROM prev.chunks WHERE chunk_id IN (
    SELECT chunk_id FROM prev.chunk_context WHERE context_kind NOT IN ('parent', 'sentence')
    EXCEPT SELECT chunk_id FROM lake_chunk_context WHERE context_kind NOT IN ('parent', 'sentence')
  )
) WHERE partition IN (SELECT partition FROM partitions)
"""

CHANGED_FROM_NOTHING = "CREATE TEMP TABLE changed AS SELECT DISTINCT partition FROM partitions"

# Appended to a statement of TABLES when there is a previous version.
KEPT = """
UNION ALL BY NAME SELECT {columns} FROM prev.{name}
WHERE partition IN (SELECT partition FROM partitions) AND partition NOT IN (SELECT partition FROM changed)
"""

_CANONICAL = """
SELECT t.* REPLACE (c.message_id AS {id}) FROM {view} t JOIN (
  SELECT source || '/' || unit AS partition, stored_message_id, message_id FROM lake_memberships WHERE is_canonical
) c ON c.partition = t.partition AND c.stored_message_id = t.{id}
"""


def _canonical(view: str, id_column: str = "message_id") -> str:
    return _CANONICAL.format(view=view, id=id_column)


# Columns that a publish makes itself and does not take over.
MADE_HERE = {"chunks": "chunk_no", "quarantine": "first_seen"}

NO_QUARANTINE = "(SELECT '' AS source, '' AS unit, '' AS place, '' AS bytes_sha256, NULL::TIMESTAMPTZ AS first_seen LIMIT 0)"

LINKS_FROM = ("message_links", "document_links")
"""The lake's tables of links, one per family of sources; `links` holds the rows of all."""

_LINKS = " UNION ALL BY NAME ".join(f"SELECT * EXCLUDE (partition) FROM lake_{name}" for name in LINKS_FROM)

_CHUNK_ROWS = f"""
{_canonical("new_message_chunks", "doc_id")} UNION ALL BY NAME FROM new_document_chunks
UNION ALL BY NAME FROM new_conversation_chunks {{kept}}
"""

# In the order in which they are made. `{kept}` is KEPT or nothing.
TABLES = {
    "memberships": "CREATE TABLE memberships AS SELECT * EXCLUDE (partition) FROM lake_memberships",
    "threads": "CREATE TABLE threads AS SELECT * EXCLUDE (partition) FROM lake_threads",
    "thread_tree": "CREATE TABLE thread_tree AS SELECT * EXCLUDE (partition) FROM lake_thread_tree",
    "families": "CREATE TABLE families AS SELECT * EXCLUDE (partition) FROM lake_families",
    "corpus_measures": "CREATE TABLE corpus_measures AS SELECT * EXCLUDE (partition) FROM lake_corpus_measures",
    "inferred_quotes": "CREATE TABLE inferred_quotes AS SELECT * EXCLUDE (partition) FROM lake_inferred_quotes",
    "links": f"CREATE TABLE links AS SELECT * FROM ({_LINKS}) ORDER BY from_id, byte_start",
    "chunk_context": "CREATE TABLE chunk_context AS SELECT * EXCLUDE (partition) FROM lake_chunk_context",
    **{
        name: f"CREATE TABLE {name} AS SELECT * EXCLUDE (partition) FROM lake_{name}" for name in graph.TABLES
    },
    "messages": f"CREATE TABLE messages AS {_canonical('new_messages')} {{kept}}",
    "attachments": f"CREATE TABLE attachments AS {_canonical('new_attachments')} {{kept}}",
    "blocks": f"CREATE TABLE blocks AS {_canonical('new_message_blocks')} {{kept}}",
    "documents": "CREATE TABLE documents AS SELECT * FROM new_documents {kept}",
    "nodes": "CREATE TABLE nodes AS SELECT * FROM new_document_nodes {kept}",
    "conversations": "CREATE TABLE conversations AS SELECT * FROM new_conversations {kept}",
    "conversation_windows": "CREATE TABLE conversation_windows AS SELECT * FROM new_conversation_markdown {kept}",
    "exclusions": (
        f"CREATE TABLE exclusions AS {_canonical('new_message_exclusions', 'doc_id')} "
        "UNION ALL BY NAME FROM new_document_exclusions UNION ALL BY NAME FROM new_conversation_exclusions {kept}"
    ),
    "quarantine": """
CREATE TABLE quarantine AS
WITH rows AS (
  SELECT * FROM new_quarantine UNION ALL BY NAME FROM new_document_quarantine
  UNION ALL BY NAME FROM new_conversation_quarantine {kept}
)
SELECT rows.*, coalesce(before.first_seen, now()) AS first_seen FROM rows
LEFT JOIN (SELECT DISTINCT ON (source, unit, place, bytes_sha256) * FROM {before}) before
  USING (source, unit, place, bytes_sha256)
ORDER BY source, unit, place
""",
    "chunks": f"""
CREATE TEMP TABLE numbered AS SELECT chunk_id, (row_number() OVER (ORDER BY chunk_id) - 1)::INTEGER AS chunk_no
FROM ({_CHUNK_ROWS});
CREATE TABLE chunks AS
SELECT chunk_no, rows.* REPLACE (CASE
  WHEN chunk_id IN (SELECT chunk_id FROM lake_chunk_context WHERE context <> '') THEN 'parent'
  WHEN anchor_source = 'parent' THEN 'none' ELSE anchor_source END AS anchor_source)
FROM ({_CHUNK_ROWS}) rows JOIN numbered USING (chunk_id);
DROP TABLE numbered
""",
}
# Text and quote of a chunk with inferred quotes are counted in context_terms, in place of its own.
_RESTATED = """
CREATE TEMP VIEW restated AS SELECT chunk_id FROM lake_chunk_context WHERE context_kind NOT IN ('parent', 'sentence')
"""

_STATED_TERMS = """
CREATE TEMP VIEW stated_terms AS SELECT * FROM new_message_terms
WHERE field NOT IN ('text', 'quote') OR chunk_id NOT IN (SELECT chunk_id FROM restated)
"""

_TF = {field: f"{field}_tf" for field in lexical.FIELDS}
_TFS = ", ".join(_TF.values())
# The context of a chunk is counted anew at each publish; the other fields of a kept chunk are taken over.
_OWN = [tf for field, tf in _TF.items() if field != "context"]


def _each(form: str, names: Iterable[str] = tuple(_TF.values())) -> str:
    """One SQL expression per column of frequencies, separated by commas."""
    return ", ".join(form.format(tf=tf, field=tf.removesuffix("_tf")) for tf in names)


_NEW_COUNTS = f"""
CREATE TEMP TABLE new_counts AS
SELECT term, chunk_no, {_each("least(coalesce(sum(tf) FILTER (field = '{field}'), 0), 65535)::USMALLINT AS {tf}")}
FROM (
  SELECT chunk_id, field, term, tf FROM stated_terms SEMI JOIN chunks USING (chunk_id, partition)
  UNION ALL SELECT chunk_id, field, term, tf FROM new_document_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM new_conversation_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM lake_context_terms
) JOIN chunks USING (chunk_id)
GROUP BY term, chunk_no
"""

# Chunks that are taken over, with both numbers. What has parent context now or had it before is counted anew.
_RENUMBERED = """
CREATE TEMP TABLE renumbered AS
SELECT b.chunk_no AS old_no, c.chunk_no AS new_no, x.chunk_id IS NULL AS is_same
FROM prev.chunks b JOIN chunks c USING (chunk_id)
LEFT JOIN (SELECT chunk_id FROM lake_chunk_context UNION SELECT chunk_id FROM prev.chunk_context) x USING (chunk_id)
WHERE c.partition NOT IN (SELECT partition FROM changed)
"""

_NOT_KEPT = """
CREATE TEMP TABLE not_kept AS
FROM prev.postings WHERE chunk_no NOT IN (SELECT old_no FROM renumbered WHERE is_same)
"""

# A chunk with parent context can have the same term among what it had before and what it gets: those are added up.
_ADDED = f"""
CREATE TEMP TABLE added AS
WITH own AS (
  SELECT t.term, n.new_no AS chunk_no, p.* EXCLUDE (term_id, chunk_no) REPLACE (
    if(r.chunk_id IS NULL, p.text_tf, 0) AS text_tf, if(r.chunk_id IS NULL, p.quote_tf, 0) AS quote_tf, 0 AS context_tf)
  FROM not_kept p JOIN renumbered n ON n.old_no = p.chunk_no JOIN prev.terms t USING (term_id)
  JOIN prev.chunks b ON b.chunk_no = p.chunk_no LEFT JOIN restated r ON r.chunk_id = b.chunk_id
)
SELECT term, chunk_no, {_each("least(sum({tf}), 65535)::USMALLINT AS {tf}")}
FROM (FROM own WHERE {" OR ".join(f"{tf} > 0" for tf in _OWN)} UNION ALL BY NAME FROM new_counts)
GROUP BY term, chunk_no
"""

_DFS_BEFORE = """
SELECT term, df FROM prev.terms UNION ALL
SELECT term, -count(*) FROM not_kept JOIN prev.terms USING (term_id) GROUP BY term UNION ALL
"""

_TERMS = f"""
CREATE TABLE terms AS
SELECT (row_number() OVER (ORDER BY term) - 1)::INTEGER AS term_id, term, sum(df)::INTEGER AS df
FROM ({_DFS_BEFORE} SELECT term, count(*) AS df FROM added GROUP BY term)
GROUP BY term HAVING sum(df) > 0 ORDER BY term_id
"""

ADDED_POSTINGS = f"""
SELECT term_id, chunk_no, {_TFS} FROM added JOIN terms USING (term) ORDER BY term_id, chunk_no
"""
"""The postings that the previous version does not hold, with the numbers of the new one."""

KEPT_POSTINGS = f"SELECT term_id, chunk_no, {_TFS} FROM prev.postings"
"""The postings of the previous version in their order, with its numbers."""

TERM_NUMBERS = "SELECT b.term_id AS old_no, t.term_id AS new_no FROM prev.terms b JOIN terms t USING (term)"
CHUNK_NUMBERS = "SELECT old_no, new_no FROM renumbered WHERE is_same"

_LENGTHS_ONTO = f"""
CREATE TABLE chunk_lengths AS
SELECT n.new_no AS chunk_no, l.* EXCLUDE (chunk_no)
FROM prev.chunk_lengths l JOIN renumbered n ON n.old_no = l.chunk_no WHERE n.is_same
UNION ALL SELECT chunk_no, {_each("coalesce(sum({tf}), 0)::INTEGER AS {field}_length")}
FROM (SELECT chunk_no FROM chunks WHERE chunk_no NOT IN (SELECT new_no FROM renumbered WHERE is_same))
LEFT JOIN added USING (chunk_no) GROUP BY chunk_no
ORDER BY chunk_no
"""

COUNTED_ONTO = (
    _RESTATED, _STATED_TERMS, _NEW_COUNTS, _RENUMBERED, _NOT_KEPT, _ADDED, _TERMS, _LENGTHS_ONTO,
)  # fmt: skip
"""What makes `terms`, `chunk_lengths` and the relation `added` onto the previous version."""

RESTATED_NOW = "FROM ({}) ORDER BY chunk_id".format(_RESTATED.partition(" AS ")[2])
CHUNKS_OF_PARTITION = "SELECT chunk_id, chunk_no FROM chunks WHERE partition = ?"
CHUNKS_WITH_CONTEXT_TERMS = (
    "SELECT chunk_id, chunk_no FROM chunks WHERE chunk_id IN (SELECT chunk_id FROM lake_context_terms)"
)

_TEXTS = ", ".join(
    f"array_to_string({c.name}, chr(10))" if pa.types.is_list(c.type) else c.name
    for c in schemas.CHUNKS.columns
    if c.name in terms.FIELDS.values()
)
ADDED_TEXTS = f"SELECT concat_ws(chr(10), {_TEXTS}) AS text FROM chunks WHERE partition IN (FROM changed)"
REMOVED_TEXTS = f"""
SELECT concat_ws(chr(10), {_TEXTS}) AS text FROM prev.chunks
WHERE partition IN (FROM changed) OR partition NOT IN (SELECT partition FROM partitions)
"""
"""The texts of chunks that the new file holds and the previous one does not, and the other way round."""

TERM_FORMS = """
CREATE TABLE term_forms AS
SELECT form, any_value(term) AS term, sum(texts)::INTEGER AS chunk_count
FROM ({kept} SELECT form, term, texts FROM added_forms UNION ALL SELECT form, term, -texts FROM removed_forms)
GROUP BY form HAVING sum(texts) > 0 ORDER BY form
"""
KEPT_FORMS = "SELECT form, term, chunk_count AS texts FROM prev.term_forms UNION ALL"

EMBEDDINGS = """
CREATE TABLE embeddings AS
SELECT c.chunk_no, c.chunk_id, e.model, e.vector::FLOAT[{dimensions}] AS vector
FROM chunks c LEFT JOIN lake_chunk_context x USING (chunk_id)
JOIN lake_embeddings e ON e.text_hash = coalesce(x.checksum, c.checksum)
ORDER BY c.chunk_no
"""

REFUSALS = """
CREATE TABLE embedding_refusals AS
SELECT c.chunk_no, c.chunk_id, c.doc_id, e.model, e.reason
FROM chunks c LEFT JOIN lake_chunk_context x USING (chunk_id)
JOIN lake_embedding_refusals e ON e.text_hash = coalesce(x.checksum, c.checksum)
ORDER BY c.chunk_no
"""

# Each statement counts the rows that break the rule.
RULES = {
    "a message has one row": "SELECT count(*) - count(DISTINCT message_id) FROM messages",
    "a chunk has one row": "SELECT count(*) - count(DISTINCT chunk_id) FROM chunks",
    "a document has one row": "SELECT count(*) - count(DISTINCT doc_id) FROM documents",
    "a node has one row": "SELECT count(*) - count(DISTINCT node_id) FROM nodes",
    "a window has one row": "SELECT count(*) - count(DISTINCT doc_id) FROM conversation_windows",
    "a chunk belongs to a message, a document or a window": (
        "SELECT count(*) FROM chunks WHERE doc_id NOT IN "
        "(SELECT message_id FROM messages UNION ALL SELECT doc_id FROM documents "
        "UNION ALL SELECT doc_id FROM conversation_windows)"
    ),
    "a chunk has one vector, or a reason why it has none": (
        "SELECT count(*) FROM chunks LEFT JOIN (SELECT chunk_no, count(*) AS n FROM "
        "(SELECT chunk_no FROM embeddings UNION ALL SELECT chunk_no FROM embedding_refusals) GROUP BY chunk_no) "
        "USING (chunk_no) WHERE n IS DISTINCT FROM 1"
    ),
    "a chunk has terms": (
        f"SELECT count(*) FROM chunk_lengths WHERE {' + '.join(tf.replace('_tf', '_length') for tf in _OWN)} = 0"
    ),
    "all vectors are of one model": "SELECT greatest(count(DISTINCT model) - 1, 0) FROM embeddings",
    "a message is in the thread tree": (
        "SELECT count(*) FROM messages WHERE message_id NOT IN (SELECT message_id FROM thread_tree)"
    ),
}

_FIELD_NAMES = {
    "title": "the title",
    "text": "the authored text",
    "quote": "the quoted text",
    "context": "the added context",
    "file": "the names of changed files",
    "function": "the functions of hunk headers",
    "added": "added lines",
    "removed": "removed lines",
}

_PARTITION = {"partition": "partition of the lake that the row comes from, as source/unit"}


def _of(table: schemas.Table, extra: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
    return table.comment, {**{c.name: c.comment for c in table.columns}, **(extra or {})}


COMMENTS: dict[str, tuple[str, dict[str, str]]] = {
    "messages": _of(schemas.MESSAGES, _PARTITION),
    "attachments": _of(schemas.ATTACHMENTS, _PARTITION),
    "blocks": _of(schemas.MESSAGE_BLOCKS, _PARTITION),
    "exclusions": _of(schemas.EXCLUSIONS, _PARTITION),
    "quarantine": _of(
        schemas.QUARANTINE,
        {**_PARTITION, "first_seen": "when a published version held the row for the first time"},
    ),
    "readiness": _of(schemas.READINESS),
    "chunks": _of(schemas.CHUNKS, {**_PARTITION, "chunk_no": "number of the chunk in this file, from 0"}),
    "chunk_context": _of(schemas.CHUNK_CONTEXT),
    "documents": _of(schemas.DOCUMENTS, _PARTITION),
    "nodes": _of(schemas.DOCUMENT_NODES, _PARTITION),
    "conversations": _of(schemas.CONVERSATION_MESSAGES, _PARTITION),
    "conversation_windows": _of(schemas.CONVERSATION_WINDOWS, _PARTITION),
    **{name: _of(table) for name, table in graph.TABLES.items()},
    "threads": _of(schemas.THREADS),
    "thread_tree": _of(schemas.THREAD_TREE),
    "memberships": _of(schemas.MEMBERSHIPS),
    "families": _of(schemas.FAMILIES),
    "corpus_measures": _of(schemas.CORPUS_MEASURES),
    "inferred_quotes": _of(schemas.INFERRED_QUOTES),
    "links": _of(schemas.LINKS),
    "backlinks": (
        "The links that lead to a mail, document or node, its own to itself left out.",
        {
            "to_id": "Message-ID, document or node that is referred to",
            **{c.name: c.comment for c in schemas.LINKS.columns if c.name != "to_id"},
        },
    ),
    "terms": (
        "The dictionary of the inverted index.",
        {"term_id": "number of the term in this file", "term": "the term", "df": "chunks that hold the term"},
    ),
    "term_forms": (
        "Words of the texts that stemming changes, with their terms; every other word is its own term.",
        {
            "form": "the word as it stands in a text, in lower case",
            "term": "its term",
            "chunk_count": "chunks that hold the word",
        },
    ),
    "postings": (
        "The inverted index, sorted by term: how often a term stands in each field of a chunk.",
        {
            "term_id": "the term",
            "chunk_no": "the chunk",
            **{tf: f"occurrences in {_FIELD_NAMES[field]}" for field, tf in _TF.items()},
        },
    ),
    "chunk_lengths": (
        "Terms per chunk and field, for length normalisation.",
        {
            "chunk_no": "the chunk",
            **{f"{field}_length": f"terms of {name}" for field, name in _FIELD_NAMES.items()},
        },
    ),
    "embeddings": (
        "The vector of each chunk.",
        {
            "chunk_no": "the chunk",
            "chunk_id": "the chunk",
            "model": "model that made the vector",
            "vector": "unit-length vector of the embedded text",
        },
    ),
    "embedding_refusals": (
        "A chunk without a vector, because the model refuses its text; it is found by its words alone.",
        {
            "chunk_no": "the chunk",
            "chunk_id": "the chunk",
            "doc_id": "its mail, document or window of a conversation",
            "model": "model that refuses it",
            "reason": "what the model's service says",
        },
    ),
    **VIEW_COMMENTS,
    "partitions": (
        "What this version was made from: the content hash of each table of each partition.",
        {
            "partition": "partition of the lake",
            "table_name": "table of the lake",
            "hash": "hash of its content",
        },
    ),
    "manifest": (
        "What this version is: one row per fact.",
        {"key": "name of the fact", "value": "the fact; settings and row counts as JSON"},
    ),
}
