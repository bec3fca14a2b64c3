"""Settings put together with assets and resources; every place that needs one of them asks here."""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from typing import Any

import dagster as dg

from assets import graph
from assets.conversations import context_assets, conversation_assets
from assets.documents import document_assets
from assets.evaluation import evaluation_queries_asset, evaluation_report_asset, evaluation_runs_asset
from assets.fetch import FetchPolicy, fetched_asset
from assets.mail import mail_assets, slow_assets
from assets.protocols import LanguageModel
from assets.publish import embeddings_asset, embeddings_version, search_index_asset
from assets.readiness import readiness_asset
from assets.relations import (
    chunk_context_asset,
    corpus_measures_asset,
    document_links_asset,
    families_asset,
    inferred_quotes_asset,
    memberships_asset,
    message_links_asset,
    threads_asset,
)
from dagster_project.config.settings import Settings
from dagster_project.resources.evaluation.evaluate import make_evaluator, make_quality_guard
from dagster_project.resources.graph_export import FileGraphExporter
from dagster_project.resources.lake.io_manager import LakeIOManager
from dagster_project.resources.lake.lake import ParquetLake
from dagster_project.resources.models.answer_cache import SQLiteAnswerCache
from dagster_project.resources.models.embedders import make_embedder
from dagster_project.resources.models.embedding_cache import ParquetEmbeddingCache
from dagster_project.resources.models.language_models import make_language_model
from dagster_project.resources.models.token_budget import RunBudget
from dagster_project.resources.models.token_counter import PackagedTokenCounter
from dagster_project.resources.progress import LoggedProgress
from dagster_project.resources.publish.operations_history import DagsterHistory
from dagster_project.resources.publish.publisher import DuckDBPublisher, PartitionPublisher
from dagster_project.resources.remotes.source_remotes import SourceRemotes
from dagster_project.resources.search.context_index import PublishedVersions
from dagster_project.resources.search.opened_index import open_index
from dagster_project.resources.search.saved_searches import PublishedSearcher
from dagster_project.resources.sources.chats import ChatFiles
from dagster_project.resources.sources.file_sources import FileSources
from dagster_project.resources.sources.seen_units import SeenUnits
from dagster_project.resources.system.backlog import Backlog
from dagster_project.resources.system.locks import lane_lock
from transforms.retrieval import bm25
from transforms.schemas.chunks import (
    CHUNK_CONTEXT,
    CHUNKS,
    EMBEDDING_REFUSALS,
    EXCLUSIONS,
    SLOW_QUEUE,
    TERMS,
    embeddings_table,
)
from transforms.schemas.conversations import (
    CONVERSATION_CANDIDATES,
    CONVERSATION_CONTEXT,
    CONVERSATION_DOCUMENTS,
    CONVERSATION_MESSAGES,
    CONVERSATION_QUERY_CHUNKS,
    CONVERSATION_WINDOWS,
)
from transforms.schemas.documents import DOCUMENT_NODES, DOCUMENT_REFERENCES, DOCUMENTS
from transforms.schemas.evaluation import EVALUATION_QUERIES, EVALUATION_RELEVANCE, EVALUATION_RUNS
from transforms.schemas.graph import DOCUMENT_GRAPH
from transforms.schemas.mail import ATTACHMENTS, MESSAGE_BLOCKS, MESSAGE_REFERENCES, MESSAGES
from transforms.schemas.operations import CORPUS_MEASURES, QUARANTINE, READINESS
from transforms.schemas.relations import (
    COMPARED_REPLIES,
    FAMILIES,
    INFERRED_QUOTES,
    LINKS,
    MEMBERSHIPS,
    THREAD_TREE,
    THREADS,
)
from transforms.schemas.search import SEARCH_RESULTS
from transforms.schemas.table import Table


def lake_tables(settings: Settings) -> dict[str, Table]:
    """The declared table behind every asset that is kept in the lake."""
    return {
        "messages": MESSAGES,
        "attachments": ATTACHMENTS,
        "quarantine": QUARANTINE,
        "message_blocks": MESSAGE_BLOCKS,
        "message_chunks": CHUNKS,
        "message_exclusions": EXCLUSIONS,
        "slow_queue": SLOW_QUEUE,
        "slow_chunks": CHUNKS,
        "slow_exclusions": EXCLUSIONS,
        "slow_terms": TERMS,
        "message_terms": TERMS,
        "message_references": MESSAGE_REFERENCES,
        "documents": DOCUMENTS,
        "document_quarantine": QUARANTINE,
        "document_nodes": DOCUMENT_NODES,
        "document_references": DOCUMENT_REFERENCES,
        "document_chunks": CHUNKS,
        "document_exclusions": EXCLUSIONS,
        "document_terms": TERMS,
        "conversations": CONVERSATION_MESSAGES,
        "conversation_quarantine": QUARANTINE,
        "conversation_markdown": CONVERSATION_WINDOWS,
        "conversation_query_chunks": CONVERSATION_QUERY_CHUNKS,
        "conversation_chunks": CHUNKS,
        "conversation_exclusions": EXCLUSIONS,
        "conversation_terms": TERMS,
        "conversation_candidates": CONVERSATION_CANDIDATES,
        "conversation_documents": CONVERSATION_DOCUMENTS,
        "conversation_context": CONVERSATION_CONTEXT,
        "document_links": LINKS,
        "memberships": MEMBERSHIPS,
        "threads": THREADS,
        "thread_tree": THREAD_TREE,
        "message_links": LINKS,
        "families": FAMILIES,
        "inferred_quotes": INFERRED_QUOTES,
        "compared_replies": COMPARED_REPLIES,
        "chunk_context": CHUNK_CONTEXT,
        "corpus_measures": CORPUS_MEASURES,
        "context_terms": TERMS,
        "embeddings": embeddings_table(settings.embedding.dimensions),
        "embedding_refusals": EMBEDDING_REFUSALS,
        **graph.TABLES,
        "readiness": READINESS,
        "document_graph": DOCUMENT_GRAPH,
        "evaluation_queries": EVALUATION_QUERIES,
        "evaluation_relevance": EVALUATION_RELEVANCE,
        "evaluation_runs": EVALUATION_RUNS,
        "search_results": SEARCH_RESULTS,
    }


def make_lake(settings: Settings) -> ParquetLake:
    """The lake at the configured place."""
    return ParquetLake(settings.lake_uri, lake_tables(settings), settings.root / "cache" / "lake")


def make_sources(settings: Settings) -> FileSources:
    """The configured sources."""
    cache = settings.root / "cache"
    return FileSources(settings, cache / "files.json", ChatFiles(settings, cache / "chats.json"))


def make_seen_units(settings: Settings) -> SeenUnits:
    """Since when units have waited."""
    return SeenUnits(settings.root / "cache" / "seen.json")


def make_backlog(settings: Settings) -> Backlog:
    """What a backfill has taken on."""
    return Backlog(lane_lock(settings.root, "backfill"), settings.root / "cache" / "backlog.json")


def make_embedding_cache(settings: Settings) -> ParquetEmbeddingCache:
    """The cache of vectors."""
    return ParquetEmbeddingCache(settings.root / "cache" / "embeddings")


def make_answer_cache(settings: Settings) -> SQLiteAnswerCache:
    """The cache of what language models answered."""
    return SQLiteAnswerCache(settings.root / "cache" / "answers.sqlite")


def make_sentence_writer(settings: Settings, budget: RunBudget | None = None) -> LanguageModel:
    """The language model that writes sentences, if a source wants it."""
    return make_language_model(
        settings.sentences.name if "gemini" in settings.sentence_kinds().values() else None,
        settings.sentences.batch_chunks,
        settings.gemini,
        settings.safety,
        budget,
    )


def make_publisher(settings: Settings, lake: ParquetLake) -> DuckDBPublisher:
    """The publisher of the configured index."""
    sections: tuple[str, ...] = (
        "mail",
        "blocks",
        "chunks",
        "documents",
        "document_chunks",
        "conversations",
        "terms",
        "threads",
        "families",
        "inferred_quotes",
        "measures",
        "graph",
        "sentences",
    )
    sections += ("safety",) if settings.embedding.is_remote else ()
    recorded = settings.model_dump(
        mode="json", include={**dict.fromkeys(sections, True), "embedding": {"model"}}
    )
    recorded["search"] = json.loads(bm25.lexical_key(settings.search))
    return DuckDBPublisher(
        lake,
        settings.root / "index",
        settings.index,
        settings.embedding,
        settings.terms,
        settings.search,
        recorded,
        guard=make_quality_guard(settings),
        has_graph=settings.graph.enabled,
        seen=make_seen_units(settings),
    )


def make_graph_exporter(settings: Settings) -> FileGraphExporter:
    """The exporter of the graph of documents."""
    return FileGraphExporter(settings.root / "graph")


def make_published(settings: Settings) -> PublishedVersions:
    """What conversations ask."""
    return PublishedVersions(
        settings.root / "index",
        make_embedder(settings.embedding, settings.gemini, settings.safety),
        settings.terms,
        settings.search,
        PackagedTokenCounter.name,
        make_embedding_cache(settings),
    )


def make_resources(settings: Settings) -> dict[str, Any]:
    """Everything the assets need from the world."""
    lake = make_lake(settings)
    sources = make_sources(settings)
    budget = RunBudget(settings.gemini.budget_tokens)
    return {
        "io_manager": LakeIOManager(lake),
        "lake": lake,
        "sources": sources,
        "remotes": SourceRemotes(settings),
        "embedder": make_embedder(settings.embedding, settings.gemini, settings.safety, budget),
        "embedding_cache": make_embedding_cache(settings),
        "language_model": make_sentence_writer(settings, budget),
        "answer_cache": make_answer_cache(settings),
        "publisher": PartitionPublisher(make_publisher(settings, lake), sources, make_backlog(settings)),
        "graph_exporter": make_graph_exporter(settings),
        "published_index": make_published(settings),
        "operations_history": DagsterHistory(make_publisher(settings, lake), make_embedding_cache(settings)),
        "progress": LoggedProgress(),
        "evaluator": make_evaluator(settings),
        "searcher": PublishedSearcher(lambda: open_index(settings)),
    }


def make_fetch_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets that fetch the sources with a remote; they run before a build looks for changes."""
    return [
        fetched_asset(
            source.name,
            source.fetch_step,
            remote.kind,
            FetchPolicy(remote.attempts, remote.backoff_seconds, remote.max_lag_hours),
        )
        for source in settings.sources
        if (remote := source.remote)
    ]


def make_evaluation_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets below the published index; no build makes them."""
    changes = {name: settings.profile_changes(name) for name in settings.evaluation.profiles}
    return [
        evaluation_queries_asset(),
        evaluation_runs_asset(),
        evaluation_report_asset(settings.evaluation, changes),
    ]


def make_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """All assets that a build makes, in the order of the pipeline.

    They hold no state, and those of equal settings are the same objects: planning and running ask for them often.
    """
    return list(_assets_of(_AsWritten(settings)))


class _AsWritten:
    """Settings that are equal to others with the same JSON, as the key of a cache."""

    def __init__(self, settings: Settings):
        self.settings, self.written = settings, settings.model_dump_json()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AsWritten) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)


@lru_cache(maxsize=4)
def _assets_of(key: _AsWritten) -> tuple[dg.AssetsDefinition, ...]:
    settings = key.settings
    with warnings.catch_warnings():
        # Backfill policies are marked beta in Dagster 1.13; the pin keeps them as they are.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return (
            *mail_assets(settings.mail, settings.blocks, settings.chunks, settings.terms),
            *slow_assets(settings.chunks, settings.terms),
            *document_assets(settings.documents, settings.chunkers(), settings.terms),
            *conversation_assets(settings.conversations, settings.terms, PackagedTokenCounter()),
            memberships_asset(),
            threads_asset(settings.threads),
            message_links_asset(),
            document_links_asset(),
            families_asset(settings.families),
            inferred_quotes_asset(settings.inferred_quotes),
            chunk_context_asset(
                settings.chunks,
                settings.terms,
                settings.sentences,
                settings.safety,
                settings.sentence_kinds(),
            ),
            corpus_measures_asset(settings.measures),
            embeddings_asset(settings.embedding, settings.safety),
            *graph.graph_assets(
                settings.graph, settings.terms, embeddings_version(settings.embedding, settings.safety)
            ),
            search_index_asset(tuple(graph.TABLES) if settings.graph.enabled else ()),
            readiness_asset(settings.operations),
            *context_assets(settings.context, PackagedTokenCounter()),
        )
