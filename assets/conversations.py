"""Conversations: chats to windows, query chunks and chunks, one partition per window; then their context."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import dagster as dg
import ibis
import polars as pl
import pyarrow as pa

from assets.partitions import CONVERSATIONS, described
from assets.protocols.lake import Lake
from assets.protocols.models import TokenCounter
from assets.protocols.search import PublishedIndex
from assets.protocols.sources import SourcePartition, Sources
from assets.stages.stage import Stage, terms_stage
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
from transforms.schemas.operations import QUARANTINE
from transforms.schemas.table import Table
from transforms.settings.conversations import ContextSettings, ConversationSettings
from transforms.settings.search import TermSettings
from transforms.text.markdown_tables import table

_PREVIEW_ROWS = 10


def conversation_stages(
    settings: ConversationSettings, term_settings: TermSettings, tokens: TokenCounter
) -> list[Stage]:
    """The partitioned stages of conversations, in order."""
    return [
        Stage(
            "read_conversations",
            {"conversations": CONVERSATION_MESSAGES, "conversation_quarantine": QUARANTINE},
            _read_conversation,
            conversations.VERSION,
            "Reads the entries of a window of a chat; what is no entry goes to quarantine.",
            settings=settings,
            digest=ConversationSettings.reading_digest,
            source_type=CONVERSATIONS,
            kinds=("python",),
        ),
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
            "Makes a chunk of each turn of a window, and of its segments; what has none gets a reason.",
            inputs=("conversations",),
            settings=settings,
            digest=ConversationSettings.cutting_digest,
            source_type=CONVERSATIONS,
            lineage={
                "doc_id": ("conversations.doc_id",),
                "title": ("conversations.title",),
                "text_display": ("conversations.text",),
                "text_embed": ("conversations.text", "conversations.author", "conversations.sent_at"),
                "text_lex": ("conversations.text",),
            },
        ),
        terms_stage(CONVERSATIONS, "conversation_terms", "conversation_chunks", term_settings),
    ]


def _read_conversation(
    sources: Sources, partition: SourcePartition, settings: ConversationSettings
) -> Sequence[pa.Table]:
    """The tables of one window, which the sources read under `settings`."""
    return sources.conversation(partition)


def context_assets(settings: ContextSettings, tokens: TokenCounter) -> list[dg.AssetsDefinition]:
    """The assets over the published index: candidates, documents and the context of every window."""
    return [_candidates_asset(settings), _documents_asset(settings), _context_asset(settings, tokens)]


def _version(settings: ContextSettings) -> str:
    return f"{selection.VERSION}-{settings.digest()}"


def _described(table: Table, settings: ContextSettings) -> dict[str, Any]:
    return {"group_name": "context", **described(table, _version(settings), "polars")}


def _candidates_asset(settings: ContextSettings) -> dg.AssetsDefinition:
    @dg.asset(deps=["search_index"], **_described(CONVERSATION_CANDIDATES, settings))
    def conversation_candidates(
        context: dg.AssetExecutionContext,
        conversation_markdown: ibis.Table,
        conversation_query_chunks: ibis.Table,
        published_index: dg.ResourceParam[PublishedIndex],
        lake: dg.ResourceParam[Lake],
    ) -> Any:
        queries = _queries(conversation_markdown, conversation_query_chunks, settings)
        with published_index.open() as index:
            found = index.candidates(queries, settings)
            version = index.facts["index_version"]
        context.add_output_metadata(
            {
                "windows": queries["window_id"].n_unique(),
                "queries": len(queries),
                "results": len(found),
                "results_per_query": len(found) / max(1, len(queries)),
                "preview": _preview(found),
            }
        )
        return _staged(lake, "conversation_candidates", found.to_arrow(), _version(settings), version)

    return conversation_candidates


def _documents_asset(settings: ContextSettings) -> dg.AssetsDefinition:
    @dg.asset(**_described(CONVERSATION_DOCUMENTS, settings))
    def conversation_documents(
        context: dg.AssetExecutionContext,
        conversation_candidates: ibis.Table,
        published_index: dg.ResourceParam[PublishedIndex],
        lake: dg.ResourceParam[Lake],
    ) -> Any:
        candidates = _frame(conversation_candidates)
        with published_index.open() as index:
            kept = selection.window_documents(candidates, settings, index.chunk_vectors)
            version = index.facts["index_version"]
        context.add_output_metadata(
            {"before": len(candidates), "after": len(kept), "preview": _preview(kept)}
        )
        return _staged(lake, "conversation_documents", kept.to_arrow(), _version(settings), version)

    return conversation_documents


def _context_asset(settings: ContextSettings, tokens: TokenCounter) -> dg.AssetsDefinition:
    @dg.asset(name="conversation_context", **_described(CONVERSATION_CONTEXT, settings))
    def context_of_windows(
        context: dg.AssetExecutionContext,
        conversation_markdown: ibis.Table,
        conversation_query_chunks: ibis.Table,
        conversation_candidates: ibis.Table,
        conversation_documents: ibis.Table,
        published_index: dg.ResourceParam[PublishedIndex],
        lake: dg.ResourceParam[Lake],
    ) -> Any:
        queries = _queries(conversation_markdown, conversation_query_chunks, settings)
        kept = _frame(conversation_documents)
        with published_index.open() as index:
            facts = dict(index.facts)
            made = selection.window_context(
                _frame(conversation_markdown)["doc_id"].to_list(),
                selection.Retrieval(
                    queries,
                    _frame(conversation_candidates),
                    kept,
                    index.passages(kept["chunk_id"].to_list()),
                ),
                facts,
                tokens.counts,
                settings,
            )
        outcomes = made.column("outcome").to_pylist()
        shown = made.column("block").to_pylist()
        context.add_output_metadata(
            {
                "windows": made.num_rows,
                "without_hits": outcomes.count(selection.NO_HITS),
                "final": sum(made.column("final_count").to_pylist()),
                "preview": _preview(
                    _frame(made).select(pl.exclude("records", "compiled", "manifest", "block"))
                ),
                # As text: Dagster's page would fetch the images of Markdown, and so tell their owner who reads.
                "latest_context": dg.MetadataValue.text(shown[-1] if shown else ""),
            }
        )
        return _staged(lake, "conversation_context", made, _version(settings), facts["index_version"])

    return context_of_windows


def _queries(windows: ibis.Table, chunks: ibis.Table, settings: ContextSettings) -> pl.DataFrame:
    return selection.window_queries(_frame(windows), _frame(chunks), settings)


def _frame(table: ibis.Table | pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table if isinstance(table, pa.Table) else table.to_pyarrow())
    assert isinstance(frame, pl.DataFrame)
    return frame


def _staged(lake: Lake, table: str, data: pa.Table, code_version: str, index_version: str) -> Any:
    return lake.stage(table, None, data, code_version=code_version, inputs={"index": index_version})


def _preview(rows: pl.DataFrame) -> dg.MarkdownMetadataValue:
    """The first rows as a Markdown table."""
    shown = (
        [f"{v:.4f}" if isinstance(v, float) else v for v in row]
        for row in rows.head(_PREVIEW_ROWS).iter_rows()
    )
    return dg.MetadataValue.md(table(rows.columns, shown))
