"""The tables of the published file as DuckDB statements: what is taken over, what comes from the lake."""

from collections.abc import Iterable

import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.extras.registry import declared_tables, published_tables
from dagster_project.index.publish.view_sql import VIEW_COMMENTS
from transforms.retrieval import bm25
from transforms.schemas.chunks import CHUNKS, UNAUTHORED, UNEMBEDDED
from transforms.schemas.registry import REGISTRY, lake_names
from transforms.schemas.relations import LINKS
from transforms.schemas.table import PARTITION, Table
from transforms.text import terms

_CANONICAL = """
SELECT t.* REPLACE (c.message_id AS {id}) FROM {view} t JOIN (
  SELECT partition, stored_message_id, message_id FROM lake_memberships WHERE is_canonical
) c ON c.partition = t.partition AND c.stored_message_id = t.{id}
"""


def _canonical(view: str, id_column: str = "message_id") -> str:
    return _CANONICAL.format(view=view, id=id_column)


def key_of(chunk_id: str) -> str:
    """The expression of a chunk's number in the inverted index, the same in every version: the start of its id."""
    return f"('0x' || left({chunk_id}, 16))::UBIGINT"


ADDED = {name: table for name, table in declared_tables().items() if name in published_tables()}
"""The tables of extras."""


def _columns(table: str) -> str:
    """The declared columns: what a view of a table stored by partition adds stays in the lake."""
    schema = ADDED[table] if table in ADDED else REGISTRY[table].schema
    return ", ".join(f'"{name}"' for name in schema.names)


_LINKS = " UNION ALL BY NAME ".join(f"SELECT * FROM lake_{name}" for name in lake_names("links"))
WHOLE = {
    **{
        name: f"SELECT {_columns(name)}{', part AS bucket' if name in IN_PARTS else ''} FROM lake_{name}"
        for name in (
            "memberships",
            "threads",
            "thread_tree",
            "people",
            "patch_series",
            "corpus_measures",
            "inferred_quotes",
            "chunk_context",
            *published_tables(),
        )
    },
    "links": f"SELECT * FROM ({_LINKS}) ORDER BY from_id, byte_start",
}
"""The tables that the lake holds whole, or in parts: the rows of each."""
MADE_OF = {name: lake_names(name) or (name,) for name in WHOLE}
"""The tables of the lake that each is made of."""

PARTITIONED = {
    "messages": _canonical("new_messages"),
    "attachments": f"{_canonical('new_attachments')} UNION ALL BY NAME FROM new_conversation_attachments",
    "blocks": _canonical("new_message_blocks"),
    "trailers": _canonical("new_message_trailers"),
    "documents": "SELECT * FROM new_documents",
    "nodes": "SELECT * FROM new_document_nodes",
    "conversations": "SELECT * FROM new_conversations",
    "conversation_windows": "SELECT * FROM new_conversation_markdown",
    "exclusions": (
        f"{_canonical('new_message_exclusions', 'doc_id')} "
        "UNION ALL BY NAME FROM new_document_exclusions UNION ALL BY NAME FROM new_conversation_exclusions"
    ),
    "quarantine": (
        "FROM new_quarantine UNION ALL BY NAME FROM new_document_quarantine "
        "UNION ALL BY NAME FROM new_conversation_quarantine"
    ),
    "chunks": f"""
SELECT {key_of("chunk_id")} AS chunk_key, rows.* REPLACE (CASE
  WHEN chunk_id IN (SELECT chunk_id FROM lake_chunk_context WHERE context <> '') THEN 'parent'
  WHEN anchor_source = 'parent' THEN 'none' ELSE anchor_source END AS anchor_source)
FROM (
  {_canonical("new_message_chunks", "doc_id")} UNION ALL BY NAME FROM new_document_chunks
  UNION ALL BY NAME FROM new_conversation_chunks
) rows
""",
}
"""The tables that the lake holds by partition: the rows of the partitions that the views `new_...` show."""

COMPRESSED = {
    "chunks": ("text_display", "text_embed", *(c for c in terms.FIELDS.values() if c.endswith("_lex")))
}
"""Columns that few searches read, though they were half of a file: smaller is worth more there than sooner at hand. What is
shown of a hit stands in the arrays."""

MADE_HERE = {"chunks": "chunk_no INTEGER", "quarantine": "first_seen TIMESTAMPTZ"}
"""Columns that a publish makes when the rows are there."""

NUMBERS = """
CREATE TEMP TABLE numbers AS
SELECT rowid AS place, chunk_key, chunk_no AS old_no,
  (row_number() OVER (ORDER BY chunk_key) - 1)::INTEGER AS new_no
FROM chunks
"""
NUMBERED = """
UPDATE chunks SET chunk_no = new_no FROM numbers WHERE chunks.rowid = place AND old_no IS DISTINCT FROM new_no
"""

NUMBERED_AHEAD = f"""
CREATE TEMP TABLE numbered AS
SELECT chunk_id, chunk_key, partition, (row_number() OVER (ORDER BY chunk_key) - 1)::INTEGER AS chunk_no
FROM ({PARTITIONED["chunks"]})
"""
"""The numbers that chunks will have, of what the lake has of them: for who does not wait for their rows."""

# Text and quote of a chunk with inferred quotes are counted in context_terms, in place of its own.
_RESTATED = "SELECT chunk_id FROM lake_chunk_context WHERE context_kind NOT IN ('parent', 'sentence')"
RESTATED_NOW = f"{_RESTATED} ORDER BY chunk_id"
CHUNKS_OF_PARTITION = "SELECT chunk_id, chunk_no FROM numbered WHERE partition = ?"
CHUNKS_WITH_CONTEXT_TERMS = (
    "SELECT chunk_id, chunk_no FROM numbered WHERE chunk_id IN (SELECT chunk_id FROM lake_context_terms)"
)

_STATED_TERMS = f"""
CREATE TEMP VIEW stated_terms AS SELECT * FROM new_message_terms
WHERE field NOT IN ('text', 'quote') OR chunk_id NOT IN ({_RESTATED})
"""

_TF = {field: f"{field}_tf" for field in bm25.FIELDS}
TFS = ", ".join(_TF.values())
# What is added to a chunk does not say that it has words of its own.
_OWN = [tf for field, tf in _TF.items() if field not in ("context", "rest")]


def _each(form: str, names: Iterable[str] = tuple(_TF.values())) -> str:
    """One SQL expression per column of frequencies, separated by commas."""
    return ", ".join(form.format(tf=tf, field=tf.removesuffix("_tf")) for tf in names)


_ADDED = f"""
CREATE TEMP TABLE added AS
SELECT term, chunk_key, {_each("least(coalesce(sum(tf) FILTER (field = '{field}'), 0), 65535)::USMALLINT AS {tf}")}
FROM (
  SELECT chunk_id, field, term, tf FROM stated_terms SEMI JOIN counted USING (chunk_id, partition)
  UNION ALL SELECT chunk_id, field, term, tf FROM new_document_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM new_conversation_terms
  UNION ALL SELECT chunk_id, field, term, tf FROM lake_context_terms
) JOIN counted USING (chunk_id)
GROUP BY term, chunk_key
"""

COUNTED = (_STATED_TERMS, _ADDED)
"""What makes the relation `added`: the terms of the chunks that `counted` names (chunk_id, chunk_key, partition)."""

ADDED_LENGTHS = f"""
SELECT chunk_key, {_each("coalesce(sum({tf}), 0)::INTEGER AS {field}_length")}
FROM (SELECT chunk_key FROM counted) LEFT JOIN added USING (chunk_key) GROUP BY chunk_key ORDER BY chunk_key
"""

FIELDS = [
    f"array_to_string({c.name}, chr(10))" if pa.types.is_list(c.type) else c.name
    for c in CHUNKS.columns
    if c.name in terms.FIELDS.values()
]
"""The words of a chunk by field."""
TEXTS = f"SELECT concat_ws(chr(10), {', '.join(FIELDS)}) AS text FROM"
"""The words of each chunk, those of a relation with the columns of `chunks`."""

TERM_FORMS = """
CREATE TABLE term_forms AS
SELECT form, any_value(term) AS term, sum(texts)::INTEGER AS chunk_count FROM added_forms GROUP BY form ORDER BY form
"""

EMBEDDED_TEXTS = """
CREATE TEMP TABLE embedded_texts AS
SELECT c.chunk_no, c.chunk_id, coalesce(x.checksum, c.checksum) AS text_hash
FROM ({chunks}) c LEFT JOIN lake_chunk_context x USING (chunk_id)
"""
EMBEDDED = """
SELECT t.chunk_no, t.chunk_id, e.model, e.vector::FLOAT[{dimensions}] AS vector
FROM embedded_texts t JOIN {vectors} e USING (text_hash)
ORDER BY t.chunk_no
"""

# From the texts, of which there are few: all chunks with their context would be joined first.
REFUSED = """
SELECT c.chunk_no, c.chunk_id, c.doc_id, c.partition, model, reason FROM (
  SELECT chunk_id, model, reason FROM lake_embedding_refusals JOIN lake_chunk_context ON checksum = text_hash
  UNION ALL SELECT chunk_id, model, reason FROM lake_embedding_refusals JOIN chunks ON checksum = text_hash
  WHERE chunk_id NOT IN (SELECT chunk_id FROM lake_chunk_context)
) JOIN chunks c USING (chunk_id)
"""
REFUSALS = f"""
CREATE OR REPLACE TABLE embedding_refusals AS
SELECT chunk_no, chunk_id, doc_id, model, reason FROM ({REFUSED}) ORDER BY chunk_no
"""

TWIN_KEYS = """
SELECT min(chunk_id), max(chunk_id) FROM chunks GROUP BY chunk_key HAVING min(chunk_id) <> max(chunk_id) ORDER BY 1 LIMIT 1
"""
"""Two chunks with one number in the inverted index, where the words of one would be found for the other; asked for only if
"a chunk has one row" is broken, which they break."""

# Each statement counts the rows that break the rule.
RULES = {
    "a message has one row": "SELECT count(*) - count(DISTINCT message_id) FROM messages",
    "a chunk has one row": "SELECT count(*) - count(DISTINCT chunk_key) FROM chunks",
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
        f"USING (chunk_no) WHERE n IS DISTINCT FROM 1 AND checksum <> '{UNEMBEDDED}'"
    ),
    "a chunk has terms": (
        "SELECT count(*) FROM chunk_lengths JOIN chunks USING (chunk_key) "
        f"WHERE {' + '.join(tf.replace('_tf', '_length') for tf in _OWN)} = 0 AND chunk_kind <> '{UNAUTHORED}'"
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
    "rest": "what of a mail is in no chunk",
}

_ADDED_COLUMNS = {
    "quarantine": {"first_seen": "when a published version held the row for the first time"},
    "chunks": {
        "chunk_no": "number of the chunk in this file, from 0",
        "chunk_key": "number of the chunk in the inverted index, the same in every file: the start of its id",
    },
}


def _of_lake(table: Table, published: str) -> tuple[str, dict[str, str]]:
    """The comments of a published table that shows rows of a table of the lake."""
    columns = {c.name: c.comment for c in table.columns}
    if published in PARTITIONED:
        columns[PARTITION.name] = PARTITION.comment
    if published in IN_PARTS:
        columns["bucket"] = (
            "part of the lake that the row is of: a bucket of mails, or what was made as a whole"
        )
    return table.comment, columns | _ADDED_COLUMNS.get(published, {})


RANKED = ("embeddings", "postings")
"""The tables that are views in a file whose vectors a service has."""
COMMENTS: dict[str, tuple[str, dict[str, str]]] = {
    **{t.published: _of_lake(t.schema, t.published) for t in REGISTRY.values() if t.published},
    **{name: _of_lake(table, name) for name, table in ADDED.items()},
    "backlinks": (
        "The links that lead to a mail, document or node, its own to itself left out.",
        {
            "to_id": "Message-ID, document or node that is referred to",
            **{c.name: c.comment for c in LINKS.columns if c.name != "to_id"},
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
        "The inverted index: how often a term stands in each field of a chunk. Sorted by term, but for what came since "
        "the file was last made as a whole.",
        {
            "term_id": "the term",
            "chunk_key": "the chunk",
            **{tf: f"occurrences in {_FIELD_NAMES[field]}" for field, tf in _TF.items()},
        },
    ),
    "chunk_lengths": (
        "Terms per chunk and field, for length normalisation.",
        {
            "chunk_key": "the chunk",
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
    "parts": (
        "What the tables over the whole lake were made from: the content hash of each part of each.",
        {
            "table_name": "table of the lake",
            "part": "part of it; empty for a table that is stored in one file",
            "hash": "hash of its content",
        },
    ),
    "manifest": (
        "What this version is: one row per fact.",
        {"key": "name of the fact", "value": "the fact; settings and row counts as JSON"},
    ),
}
