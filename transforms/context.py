"""What a join over the lake adds to chunks that cannot be understood alone."""

from __future__ import annotations

import ibis
import pyarrow as pa

from transforms import schemas, threads
from transforms.hashing import text_hash
from transforms.settings import ChunkSettings

VERSION = "1"


def parent_texts(chunks: ibis.Table, settings: ChunkSettings) -> ibis.Table:
    """For each chunk that needs its parent and has it in the lake: the start of what the parent says.

    Columns chunk_id, title, text_lex and context (at most `parent_chars` characters of the
    authored text of the answered mail's first chunk). Seed 000, rule 5.
    """
    body = chunks.filter(chunks.attachment_id.isnull())
    needing = body.filter(body.needs_parent)
    openings = body.filter((body.chunk_index == 0) & (body.text_lex.strip() != "")).select(
        answered="doc_id", said="text_lex", said_source="source", said_unit="unit"
    )
    joined = needing.join(openings, needing.parent_id == openings.answered)
    first = ibis.window(group_by="chunk_id", order_by=["said_source", "said_unit"])
    return (
        joined.mutate(nth=ibis.row_number().over(first))
        .filter(lambda t: t.nth == 0)
        .select("chunk_id", "title", "text_lex", context=lambda t: t.said.left(settings.parent_chars))
        .order_by("chunk_id")
    )


def chunk_context(parents: pa.Table, settings: ChunkSettings) -> pa.Table:
    """The `chunk_context` table from the result of `parent_texts`."""
    rows = [
        _embedded(title, context, reply, settings)
        for title, context, reply in zip(
            *(parents.column(n).to_pylist() for n in ("title", "context", "text_lex")), strict=True
        )
    ]
    table = pa.table(
        {
            "chunk_id": parents.column("chunk_id"),
            "context": parents.column("context"),
            "context_kind": pa.array(["parent"] * len(rows), pa.string()),
            "text_embed": pa.array(rows, schemas.TEXT),
            "checksum": pa.array([text_hash(r) for r in rows], pa.string()),
        }
    )
    return schemas.CHUNK_CONTEXT.conform(table)


def _embedded(title: str, context: str, reply: str, settings: ChunkSettings) -> str:
    subject = f"Subject: {title}\n\n" if settings.embed_subject and title else ""
    return f"{subject}In reply to:\n{context.strip()}\n\nReply:\n{reply.strip()}"


def published_chunks(
    message_chunks: ibis.Table, document_chunks: ibis.Table, memberships: ibis.Table
) -> ibis.Table:
    """The chunks of all families that are published: of mail those of the canonical copies."""
    return threads.canonical(message_chunks, memberships, "doc_id").union(
        document_chunks.select(schemas.CHUNKS.names)
    )


def texts_to_embed(chunks: ibis.Table, context: ibis.Table) -> ibis.Table:
    """Columns text_hash and text, one row per chunk: the text it is embedded by."""
    added = context.select("chunk_id", context_hash="checksum", context_text="text_embed")
    plain = chunks.select("chunk_id", "checksum", "text_embed")
    return plain.left_join(added, plain.chunk_id == added.chunk_id).select(
        text_hash=lambda t: ibis.coalesce(t.context_hash, t.checksum),
        text=lambda t: ibis.coalesce(t.context_text, t.text_embed),
    )
