"""What crosses partitions: memberships, threads and the context of short replies, over the whole lake."""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import ibis
import pyarrow as pa

from assets.partitions import table_metadata
from assets.protocols import AnswerCache, LanguageModel
from assets.sentences import chunk_sentences
from transforms import context as context_transforms
from transforms import families as families_transforms
from transforms import inferred_quotes as quotes
from transforms import links, measures, schemas, sentences, terms, threads
from transforms.settings import (
    ChunkSettings,
    FamilySettings,
    InferredQuoteSettings,
    MeasureSettings,
    SafetySettings,
    SentenceSettings,
    TermSettings,
    ThreadSettings,
)
from transforms.threads import canonical


def memberships_asset() -> dg.AssetsDefinition:
    """The asset `memberships`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "ibis"},
        code_version=threads.VERSION,
        description=schemas.MEMBERSHIPS.comment,
        metadata=table_metadata(schemas.MEMBERSHIPS),
    )
    def memberships(messages: ibis.Table) -> ibis.Table:
        return threads.memberships(messages)

    return memberships


def threads_asset(settings: ThreadSettings) -> dg.AssetsDefinition:
    """The multi-asset `threads`, `thread_tree`."""
    tables = {"threads": schemas.THREADS, "thread_tree": schemas.THREAD_TREE}

    @dg.multi_asset(
        name="build_threads",
        group_name="relations",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=f"{threads.VERSION}-{settings.digest()}",
                metadata=table_metadata(table),
                kinds={"parquet"},
            )
            for name, table in tables.items()
        },
    )
    def build_threads(messages: ibis.Table, memberships: ibis.Table) -> tuple[Any, Any]:
        columns = [
            "source",
            "unit",
            "message_id",
            "in_reply_to",
            "refs",
            "subject",
            "from_addr",
            "effective_at",
        ]
        mails = threads.canonical(messages.select(columns), memberships)
        lists = memberships.select("message_id", "list_id")
        return threads.build_threads(mails.to_pyarrow(), lists.to_pyarrow(), settings)

    return build_threads


def families_asset(settings: FamilySettings) -> dg.AssetsDefinition:
    """The asset `families`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=f"{families_transforms.VERSION}-{settings.digest()}",
        description=schemas.FAMILIES.comment,
        metadata=table_metadata(schemas.FAMILIES),
    )
    def families(
        messages: ibis.Table, memberships: ibis.Table, thread_tree: ibis.Table, message_links: ibis.Table
    ) -> pa.Table:
        columns = ["source", "unit", "message_id", "subject", "from_addr", "from_name", "effective_at"]
        mails = threads.canonical(messages.select(columns), memberships)
        return families_transforms.families(
            mails.to_pyarrow(), thread_tree.to_pyarrow(), message_links.to_pyarrow(), settings
        )

    return families


def inferred_quotes_asset(settings: InferredQuoteSettings) -> dg.AssetsDefinition:
    """The asset `inferred_quotes`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=f"{quotes.VERSION}-{settings.digest()}",
        description=schemas.INFERRED_QUOTES.comment,
        metadata=table_metadata(schemas.INFERRED_QUOTES),
    )
    def inferred_quotes(
        messages: ibis.Table, memberships: ibis.Table, message_chunks: ibis.Table, thread_tree: ibis.Table
    ) -> pa.Table:
        columns = ["source", "unit", "message_id", "subject", "from_addr", "body"]
        mails = threads.canonical(messages.select(columns), memberships)
        columns = ["source", "unit", "doc_id", "attachment_id", "spans", "has_patch_markers"]
        chunks = threads.canonical(message_chunks.select(columns), memberships, "doc_id")
        of_bodies = chunks.filter(chunks.attachment_id.isnull())
        return quotes.inferred_quotes(
            mails.to_pyarrow(), of_bodies.to_pyarrow(), thread_tree.to_pyarrow(), settings
        )

    return inferred_quotes


def document_links_asset() -> dg.AssetsDefinition:
    """The asset `document_links`."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=links.VERSION,
        description=schemas.LINKS.comment,
        metadata=table_metadata(schemas.LINKS),
    )
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
    settings: ChunkSettings,
    term_settings: TermSettings,
    sentence_settings: SentenceSettings,
    safety: SafetySettings,
    kinds: Mapping[str, str],
) -> dg.AssetsDefinition:
    """The multi-asset `chunk_context`, `context_terms`; `kinds` says by source which sentence its chunks get."""
    version = f"{context_transforms.VERSION}-{settings.digest()}-{term_settings.digest()}"
    told = {source: kind for source, kind in sorted(kinds.items()) if kind != "off"}
    if told:
        used = safety.digest() if "gemini" in told.values() else ""
        version += (
            f"-{sentences.VERSION}{sentences.PROMPT_VERSION}-{sentence_settings.digest()}-{used}-{told}"
        )
    tables = {"chunk_context": schemas.CHUNK_CONTEXT, "context_terms": schemas.TERMS}

    @dg.multi_asset(
        name="build_chunk_context",
        group_name="relations",
        outs={
            name: dg.AssetOut(
                description=table.comment,
                code_version=version,
                metadata=table_metadata(table),
                kinds={"parquet", "ibis"},
            )
            for name, table in tables.items()
        },
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
        published = canonical(message_chunks, memberships, "doc_id")
        parents = context_transforms.parent_texts(published, thread_tree, settings).to_pyarrow()
        requoted = context_transforms.requoted(published, inferred_quotes)
        bodies = canonical(messages.select("source", "unit", "message_id", "body"), memberships)
        needed = bodies.semi_join(inferred_quotes, "message_id").to_pyarrow()
        restated = context_transforms.restated(requoted.to_pyarrow(), needed)
        added = context_transforms.chunk_context(parents, restated, settings)
        if told:
            chunks = context_transforms.published_chunks(
                message_chunks, document_chunks, conversation_chunks, memberships
            )
            chosen = chunks.filter(chunks.source.isin(list(told)))
            mails = canonical(messages, memberships)
            known = sentences.Known(mails, thread_tree, threads, documents)
            placed = sentences.placed(chosen, known).to_pyarrow()
            made, report = chunk_sentences(
                placed, told, sentence_settings, safety, language_model, answer_cache
            )
            context.add_output_metadata(report.metadata(), output_name="chunk_context")
            texts = chosen.select("chunk_id", "text_embed").to_pyarrow()
            added = schemas.CHUNK_CONTEXT.conform(sentences.with_sentences(added, texts, made))
        return added, terms.context_terms(added, restated, term_settings, sentence_settings.lexical)

    return build_chunk_context


def corpus_measures_asset(settings: MeasureSettings) -> dg.AssetsDefinition:
    """The asset `corpus_measures`, its values also as metadata."""

    @dg.asset(
        group_name="relations",
        kinds={"parquet", "polars"},
        code_version=f"{measures.VERSION}-{settings.digest()}",
        description=schemas.CORPUS_MEASURES.comment,
        metadata=table_metadata(schemas.CORPUS_MEASURES),
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
        def published(table: ibis.Table, columns: Sequence[str], key: str = "message_id") -> ibis.Table:
            return threads.canonical(table.select("source", "unit", *columns), memberships, key)

        tree = thread_tree.to_pyarrow()
        blocks = measures.quote_blocks(message_blocks)
        pairs = measures.quoted_sample(blocks, tree, settings)
        bodies = measures.compared_bodies(published(messages, ("message_id", "body")), pairs).to_pyarrow()
        chunks = published(message_chunks, measures.CHUNK_COLUMNS, "doc_id").to_pyarrow()
        measured = measures.corpus_measures(
            measures.MailTables(
                published(messages, measures.MESSAGE_COLUMNS).to_pyarrow(),
                chunks,
                tree,
                chunk_context.select("chunk_id", "context_kind").to_pyarrow(),
                published(attachments, ("message_id",)).to_pyarrow(),
            ),
            measures.quoted_lines(pairs, bodies, blocks, settings),
            measures.anchors_found(pairs, bodies, chunks, settings),
            settings,
        )
        context.add_output_metadata(measures.as_metadata(measured))
        return measured

    return corpus_measures
