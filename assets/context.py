"""Additions to chunks before they are embedded: the text of a parent, separate quotes, sentences."""

from collections.abc import Iterable
from dataclasses import dataclass

import ibis
import pyarrow as pa

from transforms.documents.chunks.pictures import PICTURE
from transforms.embedding import context_sentences, embedded_text
from transforms.mail.threads.threads import canonical
from transforms.schemas.chunks import CHUNK_CONTEXT


@dataclass(frozen=True)
class ContextTables:
    """The tables of the lake that it is made of; a field has the name of its table."""

    message_chunks: ibis.Table
    document_chunks: ibis.Table
    conversation_chunks: ibis.Table
    documents: ibis.Table
    memberships: ibis.Table
    messages: ibis.Table
    thread_tree: ibis.Table
    threads: ibis.Table
    inferred_quotes: ibis.Table

    def chunks(self) -> ibis.Table:
        """The chunks of all source types that are published."""
        return embedded_text.published_chunks(
            self.message_chunks, self.document_chunks, self.conversation_chunks, self.memberships
        )


def joined_context(tables: ContextTables) -> tuple[pa.Table, pa.Table]:
    """The `chunk_context` table without sentences, and the result of `context.quotes_moved`."""
    bodies = tables.messages.select("source", "partition", "message_id", "body")
    return embedded_text.parent_context(
        canonical(tables.message_chunks, tables.memberships, "doc_id"),
        canonical(bodies, tables.memberships),
        tables.thread_tree,
        tables.inferred_quotes,
    )


def placed_chunks(tables: ContextTables, sources: Iterable[str] | None = None) -> pa.Table:
    """The published chunks with where they stand (`sentences.chunk_facts`), of all sources or those named."""
    chunks = tables.chunks()
    chunks = chunks.filter((chunks.text_embed != "") & (chunks.chunk_kind != PICTURE))
    if sources is not None:
        chunks = chunks.filter(chunks.source.isin(list(sources)))
    mails = canonical(tables.messages, tables.memberships)
    facts = context_sentences.FactTables(mails, tables.thread_tree, tables.threads, tables.documents)
    return context_sentences.chunk_facts(chunks, facts).to_pyarrow()


def told_context(tables: ContextTables, joined: pa.Table, sentences: pa.Table) -> pa.Table:
    """`joined` with `sentences` (chunk_id, sentence, sentence_kind), the `chunk_context` table."""
    chunks = tables.chunks()
    rows = chunks.filter(chunks.chunk_id.isin(ibis.memtable(sentences.select(["chunk_id"])).chunk_id))
    texts = rows.select("chunk_id", "text_embed").to_pyarrow()
    return CHUNK_CONTEXT.conform(context_sentences.with_sentences(joined, texts, sentences))
