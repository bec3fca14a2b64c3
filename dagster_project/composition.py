"""Settings put together with assets and resources; every place that needs one of them asks here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assets.protocols.models import LanguageModel
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
from dagster_project.resources.progress import LoggedProgress
from dagster_project.resources.publish.operations_history import DagsterHistory
from dagster_project.resources.publish.published_tables import PublishedFile
from dagster_project.resources.publish.publisher import DuckDBPublisher, PartitionPublisher
from dagster_project.resources.publish.version_inputs import PublishSettings
from dagster_project.resources.remotes.source_remotes import SourceRemotes
from dagster_project.resources.search.context_index import open_versions
from dagster_project.resources.search.opened_index import open_index
from dagster_project.resources.search.saved_searches import PublishedSearcher
from dagster_project.resources.sources.chats import ChatFiles
from dagster_project.resources.sources.file_sources import FileSources
from dagster_project.resources.sources.seen_partitions import SeenPartitions, partitions_in_lake
from dagster_project.resources.system.backlog import Backlog
from dagster_project.resources.system.locks import lane_lock
from transforms.embedding import context_sentences
from transforms.retrieval import bm25
from transforms.schemas.registry import lake_tables


def make_lake(settings: Settings, cache: Path | None = None) -> ParquetLake:
    """The lake at the configured place; what is copied of it goes to `cache`, if that is given."""
    cache = cache or settings.root / "cache"
    return ParquetLake(settings.lake_uri, lake_tables(settings.embedding.dimensions), cache / "lake")


def make_sources(settings: Settings, cache: Path | None = None) -> FileSources:
    """The configured sources; what was found of them is remembered in `cache`, if that is given."""
    lake = make_lake(settings, cache)
    cache = cache or settings.root / "cache"
    return FileSources(
        settings,
        cache / "files.json",
        ChatFiles(settings, cache / "chats.json"),
        lambda source, source_type: partitions_in_lake(lake, source, source_type),
    )


def make_seen_partitions(settings: Settings) -> SeenPartitions:
    """Since when partitions have waited."""
    return SeenPartitions(settings.root / "cache" / "seen.json")


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
        context_sentences.BATCH_CHUNKS,
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
        PublishSettings(
            settings.index,
            settings.embedding,
            settings.terms,
            settings.search,
            recorded,
            has_graph=settings.graph.enabled,
        ),
        guard=make_quality_guard(settings),
        seen=make_seen_partitions(settings),
    )


def make_graph_exporter(settings: Settings) -> FileGraphExporter:
    """The exporter of the graph of documents."""
    return FileGraphExporter(settings.graph_folder)


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
        "published_tables": PublishedFile(make_publisher(settings, lake)),
        "graph_exporter": make_graph_exporter(settings),
        "published_index": open_versions(settings),
        "operations_history": DagsterHistory(make_publisher(settings, lake), make_embedding_cache(settings)),
        "progress": LoggedProgress(),
        "evaluator": make_evaluator(settings),
        "searcher": PublishedSearcher(lambda: open_index(settings)),
    }
