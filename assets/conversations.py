"""Conversations: chats to windows, query chunks and chunks, one partition per window; then their context."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from assets.partitions import CONTEXT, CONVERSATIONS
from assets.protocols.models import TokenCounter
from assets.protocols.search import Asker, ContextIndex
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.declaration import Made, Stage, terms_stage
from transforms.context import selection
from transforms.conversations import chunks as conversation_chunks
from transforms.conversations import query_chunks
from transforms.conversations import windows as conversations
from transforms.schemas.chunks import CHUNKS, EXCLUSIONS
from transforms.schemas.conversations import (
    CONVERSATION_CANDIDATES,
    CONVERSATION_CONTEXT,
    CONVERSATION_DOCUMENTS,
    CONVERSATION_MESSAGES,
    CONVERSATION_QUERY_CHUNKS,
    CONVERSATION_WINDOWS,
)
from transforms.schemas.mail import ATTACHMENTS
from transforms.schemas.operations import QUARANTINE
from transforms.settings.conversations import ContextSettings, ConversationSettings
from transforms.settings.search import TermSettings


def conversation_stages(
    settings: ConversationSettings, term_settings: TermSettings, tokens: TokenCounter, ocr: str | None = None
) -> list[Stage]:
    """The partitioned stages of conversations, in order; `ocr` names the languages by which attached scans are read."""
    return [
        _reading_stage(settings, ocr),
        Stage(
            "consolidate_conversations",
            {"conversation_markdown": CONVERSATION_WINDOWS},
            conversations.conversation_markdown,
            conversations.VERSION,
            "Writes a window as one Markdown text, entry by entry.",
            inputs=("conversations",),
            source_type=CONVERSATIONS,
            lineage={"markdown": ("conversations.text", "conversations.author", "conversations.sent_at")},
        ),
        Stage(
            "cut_query_chunks",
            {"conversation_query_chunks": CONVERSATION_QUERY_CHUNKS},
            partial(query_chunks.conversation_query_chunks, count=tokens.counts),
            query_chunks.VERSION,
            "Cuts the Markdown of a window into the queries with which its context is searched.",
            inputs=("conversation_markdown",),
            settings=settings,
            digest=ConversationSettings.cutting_digest,
            source_type=CONVERSATIONS,
            lineage={"text": ("conversation_markdown.markdown",)},
        ),
        Stage(
            "chunk_conversations",
            {"conversation_chunks": CHUNKS, "conversation_exclusions": EXCLUSIONS},
            partial(conversation_chunks.conversation_chunks, count=tokens.counts),
            f"{conversation_chunks.VERSION}.{query_chunks.VERSION}",
            "Makes a chunk of each turn of a window, of its segments and of its files; what has none gets a reason.",
            inputs=("conversations", "conversation_attachments"),
            settings=settings,
            digest=ConversationSettings.cutting_digest,
            source_type=CONVERSATIONS,
            lineage={
                "doc_id": ("conversations.doc_id",),
                "title": ("conversations.title", "conversation_attachments.filename"),
                "text_display": ("conversations.text", "conversation_attachments.text"),
                "text_embed": (
                    *("conversations.text", "conversations.author", "conversations.sent_at"),
                    "conversation_attachments.text",
                ),
                "text_lex": ("conversations.text", "conversation_attachments.text"),
            },
        ),
        terms_stage(CONVERSATIONS, "conversation_terms", "conversation_chunks", term_settings),
    ]


def _reading_stage(settings: ConversationSettings, ocr: str | None) -> Stage:
    """What reads the entries of a window."""
    return Stage(
        "read_conversations",
        {
            "conversations": CONVERSATION_MESSAGES,
            "conversation_attachments": ATTACHMENTS,
            "conversation_quarantine": QUARANTINE,
        },
        _read_conversation,
        f"{conversations.VERSION}.{ocr}" if ocr else conversations.VERSION,
        "Reads the entries of a window of a chat and the documents attached to them; what is no entry goes to "
        "quarantine.",
        settings=settings,
        digest=ConversationSettings.reading_digest,
        source_type=CONVERSATIONS,
        kinds=("python",),
    )


def _read_conversation(
    sources: Sources, partition: SourcePartition, settings: ConversationSettings
) -> Sequence[pa.Table]:
    """The tables of one window, which the sources read under `settings`."""
    return sources.conversation(partition)


def context_stages(settings: ContextSettings, tokens: TokenCounter) -> list[Stage]:
    """The stages over the published index: candidates, documents and the context of each window."""
    windows = ("conversation_markdown", "conversation_query_chunks")
    return [
        Stage(
            "conversation_candidates",
            {"conversation_candidates": CONVERSATION_CANDIDATES},
            _candidates,
            selection.VERSION,
            "Asks the published index with the queries of a window.",
            inputs=windows,
            settings=settings,
            source_type=CONTEXT,
            asks_index=True,
        ),
        Stage(
            "conversation_documents",
            {"conversation_documents": CONVERSATION_DOCUMENTS},
            _documents,
            selection.VERSION,
            "Keeps the best candidates of each document, in the order in which the context takes them.",
            inputs=("conversation_candidates",),
            settings=settings,
            source_type=CONTEXT,
            asks_index=True,
        ),
        Stage(
            "conversation_context",
            {"conversation_context": CONVERSATION_CONTEXT},
            partial(_context, count=tokens.counts),
            selection.VERSION,
            "Writes what a window found as blocks of Markdown, with citations and a manifest.",
            inputs=(*windows, "conversation_candidates", "conversation_documents"),
            settings=settings,
            source_type=CONTEXT,
            asks_index=True,
            code=selection.window_context,
        ),
    ]


def _candidates(windows: pa.Table, chunks: pa.Table, settings: ContextSettings, index: ContextIndex) -> Made:
    """The table `conversation_candidates` of a window."""
    queries = selection.window_queries(_frame(windows), _frame(chunks), settings)
    askers = {
        window["doc_id"]: Asker((window["doc_id"],), window["conversation_id"], window["last_at"])
        for window in windows.select(["doc_id", "conversation_id", "last_at"]).to_pylist()
    }
    found = index.candidates(queries, settings, askers)
    figures = {"queries": len(queries), "results_per_query": len(found) / max(1, len(queries))}
    return Made([found.to_arrow()], figures)


def _documents(candidates: pa.Table, settings: ContextSettings, index: ContextIndex) -> Made:
    """The table `conversation_documents` of a window."""
    kept = selection.window_documents(_frame(candidates), settings, index.chunk_vectors)
    return Made([kept.to_arrow()], {"before": candidates.num_rows, "after": len(kept)})


def _context(*args: Any, index: ContextIndex, count: selection.TokenCounter) -> Made:
    """The table `conversation_context` of a window, of its inputs and the settings."""
    *tables, chosen = args
    settings = index.suited(chosen)
    windows, chunks, candidates, documents = map(_frame, tables)
    queries = selection.window_queries(windows, chunks, settings)
    passages = index.passages(documents["chunk_id"].to_list())
    retrieval = selection.Retrieval(queries, candidates, documents, passages)
    made = selection.window_context(windows["doc_id"].to_list(), retrieval, index.facts, count, settings)
    figures = {
        "without_hits": made.column("outcome").to_pylist().count(selection.NO_HITS),
        "final": sum(made.column("final_count").to_pylist()),
        # As text: Dagster's page would fetch the images of Markdown, and so tell their owner who reads.
        "latest_context": "".join(made.column("block").to_pylist()[-1:]),
    }
    return Made([made], figures)


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame
