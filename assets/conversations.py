"""Conversations: chats to windows, query chunks and chunks, one partition per window; then their context."""

from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from assets.partitions import CONTEXT, CONVERSATIONS
from assets.protocols.models import TokenCounter
from assets.protocols.search import Asker, ContextIndex
from assets.stages.declaration import Display, Made, Needs, Stage, terms_stage
from transforms.context import selection
from transforms.conversations import chunks as conversation_chunks
from transforms.conversations import query_chunks
from transforms.conversations import windows as conversations
from transforms.settings.conversations import ContextSettings, ConversationSettings
from transforms.settings.search import TermSettings


def conversation_stages(
    settings: ConversationSettings,
    term_settings: TermSettings,
    tokens: TokenCounter,
    pictures: str = "",
) -> list[Stage]:
    """The partitioned stages of conversations, in order; `pictures` says how attached pictures are read."""
    stage = partial(Stage, source_type=CONVERSATIONS)
    return [
        _reading_stage(settings, pictures),
        stage(
            "consolidate_conversations",
            conversations.conversation_markdown,
            conversations.VERSION,
            Display(
                "Writes a window as one Markdown text, entry by entry.",
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
        ),
        stage(
            "cut_query_chunks",
            partial(query_chunks.conversation_query_chunks, count=tokens.counts),
            query_chunks.VERSION,
            Display(
                "Cuts the Markdown of a window into the queries with which its context is searched.",
                lineage={"text": ("conversation_markdown.markdown",)},
            ),
            inputs=("conversation_markdown",),
            outputs=("conversation_query_chunks",),
            settings=settings,
            digest=ConversationSettings.cutting_digest,
        ),
        stage(
            "chunk_conversations",
            partial(conversation_chunks.conversation_chunks, count=tokens.counts),
            f"{conversation_chunks.VERSION}.{query_chunks.VERSION}",
            Display(
                "Makes a chunk of each turn of a window, of its segments and of its files, or gives the reason for none.",
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
        ),
        terms_stage(CONVERSATIONS, "conversation_terms", "conversation_chunks", term_settings),
    ]


def _reading_stage(settings: ConversationSettings, pictures: str) -> Stage:
    return Stage(
        "read_conversations",
        lambda sources, partition, settings: sources.conversation(partition),
        f"{conversations.VERSION}.{pictures}" if pictures else conversations.VERSION,
        Display(
            "Reads the entries of a window of a chat and the documents attached to them; all else goes to "
            "quarantine.",
            kinds=("python",),
        ),
        outputs=("conversations", "conversation_attachments", "conversation_quarantine"),
        settings=settings,
        digest=ConversationSettings.reading_digest,
        source_type=CONVERSATIONS,
    )


def context_stages(settings: ContextSettings, tokens: TokenCounter) -> list[Stage]:
    """The stages over the published index: candidates, documents and the context of each window."""
    windows = ("conversation_markdown", "conversation_query_chunks")
    stage = partial(
        Stage, settings=settings, source_type=CONTEXT, needs=Needs(resources=("index",))
    )
    return [
        stage(
            "conversation_candidates",
            _candidates,
            selection.VERSION,
            Display("Asks the published index with the queries of a window."),
            inputs=windows,
        ),
        stage(
            "conversation_documents",
            _documents,
            selection.VERSION,
            Display(
                "Keeps the best candidates of each document, in the order in which the context takes them."
            ),
            inputs=("conversation_candidates",),
        ),
        stage(
            "conversation_context",
            partial(_context, count=tokens.counts),
            selection.VERSION,
            Display(
                "Writes the context of a window as blocks of Markdown, with citations and a manifest.",
                code=selection.window_context,
            ),
            inputs=(*windows, "conversation_candidates", "conversation_documents"),
        ),
    ]


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
        # As text: Dagster's page would fetch the images of Markdown, and so tell their owner who reads.
        "latest_context": "".join(context.column("block").to_pylist()[-1:]),
    }
    return Made([context], figures)
