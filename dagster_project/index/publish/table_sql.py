"""The tables of the published file: retained rows, rows from the lake, and the meaning of each
column.
"""

import pyarrow as pa

from assets.partitions import IN_PARTS
from dagster_project.extensions import declared_tables, published_tables
from dagster_project.index.files.posting_arrays import FREQUENCIES
from dagster_project.system.sql_files import SqlFile, identifiers, literal
from transforms.documents.links import URL_PATTERN
from transforms.languages import UNSPACED
from transforms.operations.reason_codes import CODE, CODED
from transforms.retrieval import bm25
from transforms.schemas.chunks import CHUNKS, UNEMBEDDED
from transforms.schemas.kinds import UNAUTHORED
from transforms.schemas.registry import REGISTRY, lake_names
from transforms.schemas.relations import LINKS
from transforms.schemas.table import PARTITION, Table
from transforms.text import terms
from transforms.toml_file import toml_file

ADDED = {name: table for name, table in declared_tables().items() if name in published_tables()}
"""The tables of extras."""


def _columns(table: str) -> str:
    """The declared columns: the columns that a view of a table stored by partition adds stay in the
    lake.
    """
    return identifiers((ADDED[table] if table in ADDED else REGISTRY[table].schema).names)


_LINKS = " UNION ALL BY NAME ".join(f"SELECT * FROM lake_{name}" for name in lake_names("links"))
WHOLE_SQL = {
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
MADE_OF = {name: lake_names(name) or (name,) for name in WHOLE_SQL}
"""The tables of the lake that each is made of."""

PARTITIONED = (
    "messages",
    "attachments",
    "blocks",
    "trailers",
    "documents",
    "nodes",
    "conversations",
    "conversation_windows",
    "exclusions",
    "quarantine",
    "chunks",
)
"""The tables that the lake holds by partition."""

PRIMARY_KEYS = {
    "people": "addr",
    "threads": "thread_id",
    "documents": "doc_id",
    "conversation_windows": "doc_id",
}
"""The declared keys: of tables that have far fewer rows than mails, since DuckDB keeps an index for
each.
"""

COMPRESSED_COLUMNS = {
    "chunks": (
        "text_display",
        "text_embed",
        *(c for c in terms.COLUMN_OF.values() if c.endswith("_lex")),
    )
}
"""Columns that few searches read, though they were half of a file: smaller is worth more there than
sooner at hand. The arrays have the texts that a hit shows.
"""

MADE_HERE = {
    "messages": "person_id VARCHAR",
    "trailers": "person_id VARCHAR",
    "threads": "participant_count BIGINT",
    "chunks": "chunk_no INTEGER",
    "quarantine": "first_seen TIMESTAMPTZ",
}
"""Columns that a publish makes when the rows are there."""
GENERATED = dict.fromkeys(
    CODED,
    f"reason_code VARCHAR GENERATED ALWAYS AS (regexp_extract(reason, '{CODE.pattern}')) VIRTUAL",
)
"""Columns that DuckDB makes of others whenever they are read; they take no room."""


def own_columns(table: str) -> list[str]:
    """The columns of a published table that the rows of the lake lack."""
    return [columns[table].split()[0] for columns in (MADE_HERE, GENERATED) if table in columns]


def _each(form: str) -> str:
    """One SQL expression per field of postings, separated by commas."""
    return ", ".join(form.format(field=field) for field in bm25.FIELDS)


TEXT_PARTS = [
    f"array_to_string({c.name}, chr(10))" if pa.types.is_list(c.type) else c.name
    for c in CHUNKS.columns
    if c.name in terms.COLUMN_OF.values()
]
"""The words of a chunk by field."""
TEXT_SQL = f"SELECT concat_ws(chr(10), {', '.join(TEXT_PARTS)}) AS text FROM"
"""The words of each chunk, those of a relation with the columns of `chunks`."""

BUILD = SqlFile(
    __file__,
    "build.sql",
    frequencies=FREQUENCIES,
    sums=_each(
        "least(coalesce(sum(tf) FILTER (field = '{field}'), 0), 65535)::USMALLINT AS {field}_tf"
    ),
    lengths=_each("coalesce(sum({field}_tf), 0)::INTEGER AS {field}_length"),
)
# Text that is added to a chunk does not make it one with words of its own.
_OWN = " + ".join(f"{field}_length" for field in bm25.FIELDS if field not in ("context", "rest"))
RULES_SQL = SqlFile(
    __file__, "rules.sql", unembedded=UNEMBEDDED, unauthored=UNAUTHORED, own_length=_OWN
)


def token_estimate(text: str) -> str:
    """SQL for about how many tokens a text has for the packaged tokenizer."""
    parts = rf"[{UNSPACED}]|[\p{{L}}\p{{M}}\p{{N}}_]+|[^\s\p{{L}}\p{{M}}\p{{N}}_]"
    return f"ceil(1.25 * len(regexp_extract_all({text}, {literal(parts)})))::BIGINT"


VIEWS = SqlFile(__file__, "views.sql", url=URL_PATTERN, tokens=token_estimate("c.text_display"))

_ADDED_COLUMNS = {
    "messages": {
        "person_id": "who wrote it, as in `people`; of an address that many share the name; null without an author"
    },
    "trailers": {"person_id": "whom it names, as in `messages`; null if it names a commit"},
    "threads": {
        "participant_count": "persons who wrote in it, each once (`person_id` in `messages`)"
    },
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
            "part of the lake that holds the row: a bucket of mails, or a whole table"
        )
    if published in CODED:
        columns["reason_code"] = (
            "code at the start of `reason`, to group by; docs/tables.md explains it"
        )
    return table.comment, columns | _ADDED_COLUMNS.get(published, {})


_OF_CHUNKS = (
    "chunk_kind",
    "chunk_index",
    "chunk_count",
    "text_display",
    "char_count",
    "quote_anchor_chars",
    "quote_depth_max",
    "has_patch_markers",
    "is_quote_heavy",
)
_MEANINGS = {column.name: column.comment for column in CHUNKS.columns}
RANKING_TABLES = ("embeddings", "postings")
"""The tables that are views in a file whose vectors a service has."""
COMMENTS: dict[str, tuple[str, dict[str, str]]] = {
    **{t.published: _of_lake(t.schema, t.published) for t in REGISTRY.values() if t.published},
    **{name: _of_lake(table, name) for name, table in ADDED.items()},
    **{
        name: (row["meaning"], row["columns"])
        for name, row in toml_file(__name__, "published_tables.toml").items()
    },
    "backlinks": (
        "The links that lead to a mail, document or node, without those of a mail or document to itself.",
        {
            "to_id": "Message-ID, document or node that is referred to",
            **{c.name: c.comment for c in LINKS.columns if c.name != "to_id"},
        },
    ),
    "semantic_chunks": (
        "The chunks of mails and attachments with the columns of the pginbox design.",
        {
            "id": "the chunk",
            "source_kind": "message or attachment",
            "source_id": "attachment, else Message-ID",
            "message_id": "the mail",
            "attachment_id": "the attachment; null for the body",
            "thread_id": "thread of the mail",
            "list_id": "mailing list it was found in first",
            **{name: meaning for name, meaning in _MEANINGS.items() if name in _OF_CHUNKS},
            "text_embed": "the text that is embedded, context included",
            "embedding": "vector of text_embed; null if the model refuses it",
            "embedding_model": "model that made it",
            "embedding_created_at": "when the table of all vectors was written",
        },
    ),
    "note_chunks": (
        "The chunks of documents with the columns of the SecondBrain design.",
        {
            "chunk_id": "the chunk",
            "note_path": "path of the document below the root of its source",
            "note_title": "title of the document",
            **{name: _MEANINGS[name] for name in ("heading_path", "chunk_index", "checksum")},
            "chunk_text": _MEANINGS["text_display"],
            "chunk_text_contextualized": "the text that is embedded, context included",
            "context_sentence": "the sentence put before it; empty if none",
            "token_count": "about how many tokens chunk_text has, as `token_estimate` counts",
            "created_at": "time of creation that the document states",
            "updated_at": "time of change that it states",
        },
    ),
}
PUBLISHED_COLUMNS = (
    [[(c.name, str(c.type)) for c in t.schema.columns] for t in REGISTRY.values() if t.published],
    [(name, *columns) for name, (_, columns) in COMMENTS.items() if name not in VIEWS],
    MADE_HERE,
    GENERATED,
    COMPRESSED_COLUMNS,
    PRIMARY_KEYS,
)
"""The columns of the tables: a file with others is built as a whole."""
