"""What crosses partitions: memberships, threads, links, the context of short replies, over the whole lake."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import ibis
import pyarrow as pa

from assets.context import ContextTables, joined_context, placed_chunks, told_context
from assets.partitions import described, outs
from assets.protocols.lake import Lake
from assets.protocols.models import AnswerCache, LanguageModel
from assets.sentences import chunk_sentences
from transforms.documents import links
from transforms.embedding import context_sentences
from transforms.embedding import embedded_text as context_transforms
from transforms.mail.threads import corpus_measures as measures
from transforms.mail.threads import inferred_quotes as quotes
from transforms.mail.threads import patch_series as patch_series_transforms
from transforms.mail.threads import references
from transforms.mail.threads import threads as threads_transforms
from transforms.schemas.chunks import CHUNK_CONTEXT, TERMS
from transforms.schemas.operations import CORPUS_MEASURES
from transforms.schemas.relations import (
    COMPARED_REPLIES,
    INFERRED_QUOTES,
    LINKS,
    MEMBERSHIPS,
    PATCH_SERIES,
    THREAD_TREE,
    THREADS,
)
from transforms.settings.mail import ThreadSettings
from transforms.settings.models import SafetySettings, SentenceSettings
from transforms.settings.search import TermSettings
from transforms.text import terms

GROUP = "relations"


def memberships_asset() -> dg.AssetsDefinition:
    """The asset `memberships`."""

    @dg.asset(group_name=GROUP, **described(MEMBERSHIPS, threads_transforms.VERSION, "ibis"))
    def memberships(messages: ibis.Table) -> ibis.Table:
        return threads_transforms.memberships(messages)

    return memberships


def threads_asset(settings: ThreadSettings) -> dg.AssetsDefinition:
    """The multi-asset `threads`, `thread_tree`."""
    tables = {"threads": THREADS, "thread_tree": THREAD_TREE}
    version = f"{threads_transforms.VERSION}-{settings.digest()}"

    @dg.multi_asset(name="build_threads", group_name=GROUP, outs=outs(tables, version))
    def build_threads(messages: ibis.Table, memberships: ibis.Table) -> tuple[Any, Any]:
        columns = [
            "source",
            "partition",
            "message_id",
            "in_reply_to",
            "refs",
            "subject",
            "from_addr",
            "effective_at",
        ]
        mails = threads_transforms.canonical(messages.select(columns), memberships)
        lists = memberships.select("message_id", "list_id")
        return threads_transforms.build_threads(mails.to_pyarrow(), lists.to_pyarrow(), settings)

    return build_threads


def patch_series_asset() -> dg.AssetsDefinition:
    """The asset `patch_series`."""

    @dg.asset(group_name=GROUP, **described(PATCH_SERIES, patch_series_transforms.VERSION, "polars"))
    def patch_series(
        messages: ibis.Table, memberships: ibis.Table, thread_tree: ibis.Table, message_links: ibis.Table
    ) -> pa.Table:
        columns = ["source", "partition", "message_id", "subject", "from_addr", "from_name", "effective_at"]
        mails = threads_transforms.canonical(messages.select(columns), memberships)
        return patch_series_transforms.patch_series(
            mails.to_pyarrow(), thread_tree.to_pyarrow(), message_links.to_pyarrow()
        )

    return patch_series


def inferred_quotes_asset() -> dg.AssetsDefinition:
    """The multi-asset `inferred_quotes`, `compared_replies`: only what the lake did not compare yet is compared."""
    tables = {"inferred_quotes": INFERRED_QUOTES, "compared_replies": COMPARED_REPLIES}

    @dg.multi_asset(
        name="inferred_quotes",
        group_name=GROUP,
        deps=["slow_chunks"],
        outs=outs(tables, quotes.VERSION, "polars"),
    )
    def inferred_quotes(
        messages: ibis.Table,
        memberships: ibis.Table,
        message_chunks: ibis.Table,
        thread_tree: ibis.Table,
        lake: dg.ResourceParam[Lake],
    ) -> tuple[Any, Any]:
        mails = threads_transforms.canonical(messages.select(quotes.COMPARED), memberships)
        chunks = message_chunks.filter(message_chunks.attachment_id.isnull())
        named = chunks.select("source", "partition", "doc_id", "chunk_id")
        pairs = quotes.compared_replies(
            mails.to_pyarrow(),
            threads_transforms.canonical(named, memberships, "doc_id").to_pyarrow(),
            thread_tree.to_pyarrow(),
        )
        before = lake.stored("inferred_quotes", INFERRED_QUOTES.names)
        known = lake.stored("compared_replies", COMPARED_REPLIES.names)
        again = quotes.pairs_to_compare(pairs, None if before is None else known)
        found = quoted_in(again, messages, memberships, chunks)
        if before is None:
            return found, pairs
        return quotes.merged_quotes(before, pairs, again, found), pairs

    return inferred_quotes


def quoted_in(
    pairs: pa.Table,
    messages: ibis.Table,
    memberships: ibis.Table,
    chunks: ibis.Table,
) -> pa.Table:
    """The table `inferred_quotes` of `pairs` (message_id, parent_id); only the mails of these are read."""
    if not pairs.num_rows:
        return INFERRED_QUOTES.empty()
    named = pa.concat_tables(
        [pairs.select(["message_id"]), pairs.select(["parent_id"]).rename_columns(["message_id"])]
    )
    wanted = ibis.memtable(named)
    there = memberships.filter(memberships.is_canonical).semi_join(wanted, "message_id")
    partitions = there.select("partition").distinct().to_pyarrow()["partition"].to_pylist()
    columns = ["source", "partition", "message_id", "subject", "from_addr", "body"]
    mails = threads_transforms.canonical(
        messages.filter(messages.partition.isin(partitions)).select(columns), memberships
    )
    columns = ["source", "partition", "doc_id", "attachment_id", "spans", "has_patch_markers"]
    own = threads_transforms.canonical(
        chunks.filter(chunks.partition.isin(partitions)).select(columns), memberships, "doc_id"
    )
    return quotes.inferred_quotes(
        mails.semi_join(wanted, "message_id").to_pyarrow(),
        own.semi_join(wanted, own.doc_id == wanted.message_id).to_pyarrow(),
        pairs,
    )


def message_links_asset() -> dg.AssetsDefinition:
    """The asset `message_links`."""

    @dg.asset(group_name=GROUP, **described(LINKS, references.VERSION, "polars"))
    def message_links(
        message_references: ibis.Table, messages: ibis.Table, memberships: ibis.Table
    ) -> pa.Table:
        columns = ["source", "partition", "message_id", "subject", "effective_at"]
        mails = threads_transforms.canonical(messages.select(columns), memberships)
        named = threads_transforms.canonical(message_references, memberships)
        return references.message_links(named.to_pyarrow(), mails.to_pyarrow())

    return message_links


def document_links_asset() -> dg.AssetsDefinition:
    """The asset `document_links`."""

    @dg.asset(group_name=GROUP, **described(LINKS, links.VERSION, "polars"))
    def document_links(
        context: dg.AssetExecutionContext,
        document_references: ibis.Table,
        documents: ibis.Table,
        document_nodes: ibis.Table,
        memberships: ibis.Table,
    ) -> pa.Table:
        named = documents.select("doc_id", "source", "path", "title", "aliases")
        mails = memberships.select("message_id").distinct().to_pyarrow()
        resolved = links.document_links(
            document_references.to_pyarrow(),
            named.to_pyarrow(),
            document_nodes.to_pyarrow(),
            set(mails.column("message_id").to_pylist()),
        )
        context.add_output_metadata({"broken": resolved.column("to_id").null_count})
        return resolved

    return document_links


def chunk_context_asset(
    term_settings: TermSettings,
    sentence_settings: SentenceSettings,
    safety: SafetySettings,
    kinds: Mapping[str, str],
) -> dg.AssetsDefinition:
    """The multi-asset `chunk_context`, `context_terms`; `kinds` says by source which sentence its chunks get."""
    version = f"{context_transforms.VERSION}-{term_settings.digest()}"
    told = {source: kind for source, kind in sorted(kinds.items()) if kind != "off"}
    if told:
        used = safety.digest() if "gemini" in told.values() else ""
        versions = f"{context_sentences.VERSION}{context_sentences.PROMPT_VERSION}"
        version += f"-{versions}-{sentence_settings.digest()}-{used}-{told}"
    tables = {"chunk_context": CHUNK_CONTEXT, "context_terms": TERMS}

    @dg.multi_asset(
        name="build_chunk_context",
        group_name=GROUP,
        deps=["slow_chunks"],
        outs=outs(tables, version, "ibis"),
    )
    def build_chunk_context(
        context: dg.AssetExecutionContext,
        message_chunks: ibis.Table,
        document_chunks: ibis.Table,
        conversation_chunks: ibis.Table,
        documents: ibis.Table,
        memberships: ibis.Table,
        messages: ibis.Table,
        thread_tree: ibis.Table,
        threads: ibis.Table,
        inferred_quotes: ibis.Table,
        language_model: dg.ResourceParam[LanguageModel],
        answer_cache: dg.ResourceParam[AnswerCache],
    ) -> tuple[Any, Any]:
        tables = ContextTables(
            message_chunks=message_chunks,
            document_chunks=document_chunks,
            conversation_chunks=conversation_chunks,
            documents=documents,
            memberships=memberships,
            messages=messages,
            thread_tree=thread_tree,
            threads=threads,
            inferred_quotes=inferred_quotes,
        )
        added, restated = joined_context(tables)
        if told:
            placed = placed_chunks(tables, told)
            made, report = chunk_sentences(placed, told, safety, language_model, answer_cache)
            context.add_output_metadata(report.metadata(), output_name="chunk_context")
            added = told_context(tables, added, made)
        return added, terms.context_terms(added, restated, term_settings, sentence_settings.lexical)

    return build_chunk_context


def corpus_measures_asset() -> dg.AssetsDefinition:
    """The asset `corpus_measures`, its values also as metadata."""

    @dg.asset(
        group_name=GROUP, deps=["slow_chunks"], **described(CORPUS_MEASURES, measures.VERSION, "polars")
    )
    def corpus_measures(
        context: dg.AssetExecutionContext,
        messages: ibis.Table,
        memberships: ibis.Table,
        message_blocks: ibis.Table,
        message_chunks: ibis.Table,
        attachments: ibis.Table,
        thread_tree: ibis.Table,
        chunk_context: ibis.Table,
    ) -> pa.Table:
        measured = measures.measures_of_lake(
            measures.LakeTables(
                messages, memberships, message_blocks, message_chunks, attachments, thread_tree, chunk_context
            )
        )
        context.add_output_metadata(measures.as_metadata(measured))
        return measured

    return corpus_measures
