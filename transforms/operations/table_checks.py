"""Rules for each table of the published file, each as the rows that break it."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import ibis

from transforms.schemas.registry import REGISTRY
from transforms.schemas.table import Table

UNIQUE, RESOLVED, NOT_LOST = "keys_are_unique", "references_resolve", "nothing_is_lost"
DECLARED = "columns_are_declared"
RULES = {
    DECLARED: "The table has the declared columns and no others.",
    UNIQUE: "No two rows have the same key.",
    RESOLVED: "Every row that a row refers to is there.",
    NOT_LOST: "Every line that somebody wrote is in a chunk, or has a reason why not.",
}

_TEXTS = ("messages.message_id", "documents.doc_id", "conversation_windows.doc_id")
_CHUNK, _MAIL = {"chunk_id": ("chunks.chunk_id",)}, {"message_id": ("messages.message_id",)}
REFERENCES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "attachments": {"message_id": ("messages.message_id", "conversation_windows.doc_id")},
    **dict.fromkeys(
        ("chunks", "exclusions"),
        {"doc_id": _TEXTS, "attachment_id": ("attachments.attachment_id",)},
    ),
    "nodes": {"doc_id": ("documents.doc_id",), "parent_id": ("nodes.node_id",)},
    "readiness": {"doc_id": _TEXTS},
    "conversations": {"doc_id": ("conversation_windows.doc_id",)},
    **dict.fromkeys(("blocks", "memberships", "patch_series"), _MAIL),
    "threads": {"root_id": ("thread_tree.message_id",)},
    "thread_tree": {"thread_id": ("threads.thread_id",), "parent_id": ("thread_tree.message_id",)},
    "inferred_quotes": _MAIL | {"parent_id": ("messages.message_id",)},
    "links": {"from_id": (*_TEXTS, "nodes.node_id"), "to_id": (*_TEXTS, "nodes.node_id")},
    "postings": {"term_id": ("terms.term_id",), "chunk_key": ("chunks.chunk_key",)},
    "chunk_lengths": {"chunk_key": ("chunks.chunk_key",)},
    **dict.fromkeys(("chunk_context", "embeddings", "embedding_refusals"), _CHUNK),
}
"""The columns of other tables that hold the values of a column, where these are not null."""

KEYS: Mapping[str, tuple[str, ...]] = {
    **{t.published: t.schema.key for t in REGISTRY.values() if t.published},
    "messages": ("message_id",),
    "terms": ("term_id",),
    "term_forms": ("form", "term"),
    "postings": ("term_id", "chunk_key"),
    "chunk_lengths": ("chunk_key",),
    **dict.fromkeys(("embeddings", "embedding_refusals"), ("chunk_no",)),
    "manifest": ("key",),
    "partitions": ("partition", "table_name"),
}
"""The columns of the key of each published table."""

AUTHORED = ("author", "patch_or_code")
"""Kinds of block that somebody wrote."""


def _references(name: str, schema: Table | None) -> Mapping[str, tuple[str, ...]]:
    """The references of a table; of one that an extra adds, those to chunks."""
    return REFERENCES.get(name, _CHUNK if schema and "chunk_id" in schema.names else {})


def rules_of(name: str, schema: Table | None = None) -> tuple[str, ...]:
    """The names of the rules of a published table; `schema` is that of the table, if an extra
    declares it.
    """
    references = (RESOLVED,) if _references(name, schema) else ()
    return (DECLARED, UNIQUE, *references, *((NOT_LOST,) if name == "blocks" else ()))


def violations(
    rule: str, name: str, tables: Mapping[str, ibis.Table], schema: Table | None = None
) -> ibis.Table:
    """The rows of the table `name` that break a rule, in a column `id`; `tables` are those of the
    published file.

    `schema` is that of the table, if an extra declares it. That columns are declared is not a rule
    over rows: KeyError.
    """
    by_rule: dict[str, Callable[[], ibis.Table]] = {
        UNIQUE: lambda: _repeated(tables[name], schema.key if schema else KEYS[name]),
        RESOLVED: lambda: ibis.union(*_unresolved(tables[name], _references(name, schema), tables)),
        NOT_LOST: lambda: _lost(name, tables),
    }
    return by_rule[rule]()


def _repeated(rows: ibis.Table, key: Sequence[str]) -> ibis.Table:
    counts = rows.group_by(list(key)).agg(rows=lambda t: t.count())
    repeated = counts.filter(counts.rows > 1)
    return repeated.select(id=ibis.literal(" ").join([_text(repeated[column]) for column in key]))


def _unresolved(
    rows: ibis.Table, references: Mapping[str, tuple[str, ...]], tables: Mapping[str, ibis.Table]
) -> Iterator[ibis.Table]:
    """By column the values that are in none of the columns they refer to."""
    for column, targets in references.items():
        own = rows.select(id=rows[column]).filter(lambda t: t.id.notnull())
        for target in targets:
            other, _, other_column = target.partition(".")
            there = tables[other].select(there=tables[other][other_column]).distinct()
            own = own.anti_join(there, own.id == there.there)
        yield own.select(id=_text(own.id))


def _lost(name: str, tables: Mapping[str, ibis.Table]) -> ibis.Table:
    """The blocks that somebody wrote whose first or last byte is in no chunk and in no exclusion."""
    chunks, exclusions = tables["chunks"], tables["exclusions"]
    span = chunks.filter(chunks.attachment_id.isnull()).select("doc_id", span=chunks.spans.unnest())
    of_body = exclusions.filter(exclusions.attachment_id.isnull())
    covered = ibis.union(
        span.select("doc_id", start=span.span["byte_start"], end=span.span["byte_end"]),
        of_body.select("doc_id", start=of_body.byte_start, end=of_body.byte_end),
    )
    blocks = tables[name]
    wrote = blocks.filter(blocks.kind.isin(AUTHORED))
    ends = ibis.union(
        wrote.select("message_id", "block_index", byte=wrote.byte_start),
        wrote.select("message_id", "block_index", byte=wrote.byte_end - 1),
    )
    lost = ends.anti_join(
        covered,
        [ends.message_id == covered.doc_id, ends.byte >= covered.start, ends.byte < covered.end],
    )
    return lost.select(id=lost.message_id).distinct()


def _text(value: ibis.Value) -> ibis.Value:
    return value.cast("string").fill_null("")
