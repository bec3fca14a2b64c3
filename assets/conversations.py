"""Conversations: chats to windows, query chunks and chunks, one partition per window; then their
context.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from assets.partitions import CONTEXT, CONVERSATIONS
from assets.protocols.models import TokenCounter
from assets.protocols.search import Asker, ContextIndex
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.declaration import Display, Made, Needs, Stage
from transforms.context import selection
from transforms.conversations import chunks as conversation_chunks
from transforms.conversations import query_chunks
from transforms.conversations import windows as conversations
from transforms.settings.conversations import ContextSettings, ConversationSettings

_stage = partial(Stage, source_type=CONVERSATIONS)


def consolidate_conversations_stage() -> Stage:
    """The stage that writes windows as Markdown."""
    return _stage(
        "consolidate_conversations",
        conversations.conversation_markdown,
        Display(
            "Writes a window as one Markdown text, entry by entry.",
            kinds=("python",),
            lineage={
                "markdown": (
                    "conversations.text",
                    "conversations.author",
                    "conversations.sent_at",
                )
            },
        ),
        inputs=("conversations",),
        outputs=("conversation_markdown",),
    )


def cut_query_chunks_stage(settings: ConversationSettings, tokens: TokenCounter) -> Stage:
    """The stage that cuts windows into the queries of their context."""
    return _stage(
        "cut_query_chunks",
        partial(query_chunks.conversation_query_chunks, count=tokens.counts),
        Display(
            "Cuts the Markdown of a window into the queries with which its context is searched.",
            kinds=("python",),
            lineage={"text": ("conversation_markdown.markdown",)},
        ),
        inputs=("conversation_markdown",),
        outputs=("conversation_query_chunks",),
        settings=settings,
        digest=ConversationSettings.cutting_digest,
    )


def chunk_conversations_stage(settings: ConversationSettings, tokens: TokenCounter) -> Stage:
    """The stage that makes chunks of turns, segments and files."""
    return _stage(
        "chunk_conversations",
        partial(conversation_chunks.conversation_chunks, count=tokens.counts),
        Display(
            "Makes a chunk of each turn of a window, of its segments and of its files, or gives the reason for none.",
            kinds=("python",),
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
        inputs=("conversations", "conversation_attachments"),
        outputs=("conversation_chunks", "conversation_exclusions"),
        settings=settings,
        digest=ConversationSettings.cutting_digest,
    )


def read_conversations_stage(settings: ConversationSettings, pictures: str = "") -> Stage:
    """The stage that reads chats; `pictures` says how attached pictures are read."""
    return _stage(
        "read_conversations",
        _conversation,
        Display(
            "Reads the entries of a window of a chat and the documents attached to them; all else goes to "
            "quarantine.",
            kinds=("python",),
        ),
        outputs=("conversations", "conversation_attachments", "conversation_quarantine"),
        settings=settings,
        digest=ConversationSettings.reading_digest,
        variant=pictures,
    )


def _conversation(
    sources: Sources, partition: SourcePartition, settings: ConversationSettings
) -> Sequence[pa.Table]:
    return sources.conversation(partition)


_WINDOWS = ("conversation_markdown", "conversation_query_chunks")
_over_index = partial(Stage, source_type=CONTEXT, needs=Needs(resources=("index",)))


def candidates_stage(settings: ContextSettings) -> Stage:
    """The stage that asks the published index for each window."""
    return _over_index(
        "conversation_candidates",
        _candidates,
        Display("Asks the published index with the queries of a window."),
        inputs=_WINDOWS,
        settings=settings,
    )


def documents_stage(settings: ContextSettings) -> Stage:
    """The stage that takes the best candidates of each document."""
    return _over_index(
        "conversation_documents",
        _documents,
        Display(
            "Keeps the best candidates of each document, in the order in which the context takes them."
        ),
        inputs=("conversation_candidates",),
        settings=settings,
    )


def context_stage(settings: ContextSettings, tokens: TokenCounter) -> Stage:
    """The stage that writes the context of each window."""
    return _over_index(
        "conversation_context",
        partial(_context, count=tokens.counts),
        Display(
            "Writes the context of a window as blocks of Markdown, with citations and a manifest.",
            code=selection.window_context,
        ),
        inputs=(*_WINDOWS, "conversation_candidates", "conversation_documents"),
        settings=settings,
    )


def _candidates(
    windows: pa.Table, chunks: pa.Table, settings: ContextSettings, index: ContextIndex
) -> Made:
    queries = selection.window_queries(pl.DataFrame(windows), pl.DataFrame(chunks), settings)
    askers = {
        window["doc_id"]: Asker((window["doc_id"],), window["conversation_id"], window["last_at"])
        for window in windows.select(["doc_id", "conversation_id", "last_at"]).to_pylist()
    }
    candidates = index.candidates(queries, settings, askers)
    figures = {"queries": len(queries), "results_per_query": len(candidates) / max(1, len(queries))}
    return Made([candidates.to_arrow()], figures)


def _documents(candidates: pa.Table, settings: ContextSettings, index: ContextIndex) -> Made:
    documents = selection.window_documents(pl.DataFrame(candidates), settings, index.chunk_vectors)
    return Made([documents.to_arrow()], {"before": candidates.num_rows, "after": len(documents)})


def _context(*args: Any, index: ContextIndex, count: selection.CountTokens) -> Made:
    *tables, chosen = args
    settings = index.suited(chosen)
    windows, chunks, candidates, documents = map(pl.DataFrame, tables)
    queries = selection.window_queries(windows, chunks, settings)
    passages = index.passages(documents["chunk_id"].to_list())
    retrieval = selection.Retrieval(queries, candidates, documents, passages)
    context = selection.window_context(
        windows["doc_id"].to_list(), retrieval, index.facts, count, settings
    )
    figures = {
        "without_hits": context.column("outcome").to_pylist().count(selection.NO_HITS),
        "final": sum(context.column("final_count").to_pylist()),
        # As text: Dagster's page would fetch the images of Markdown, and so tell their owner who
        # reads.
        "latest_context": "".join(context.column("block").to_pylist()[-1:]),
    }
    return Made([context], figures)


def contexts(
    windows: pa.Table,
    chunks: pa.Table,
    settings: ContextSettings,
    index: ContextIndex,
    count: selection.CountTokens,
) -> dict[str, pa.Table]:
    """The tables of the context of some windows and their query chunks, by name, as the stages over
    the index make them.
    """
    (candidates,) = _candidates(windows, chunks, settings, index).tables
    (documents,) = _documents(candidates, settings, index).tables
    blocks = _context(windows, chunks, candidates, documents, settings, index=index, count=count)
    return {
        "conversation_candidates": candidates,
        "conversation_documents": documents,
        "conversation_context": blocks.tables[0],
    }
