"""Settings put together with assets and the resources that Dagster's UI shows; every place that
needs one asks here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import dagster as dg
from pydantic import Field

from assets.protocols.models import LanguageModel
from dagster_project.composition.stores import (
    make_engine,
    make_lake,
    make_ledger,
    make_sources,
    on_engine,
)
from dagster_project.config.remote_settings import RemoteSettings
from dagster_project.config.settings import Settings
from dagster_project.context.context_index import PublishedVersions
from dagster_project.evaluation.evaluate import make_evaluator, require_quality
from dagster_project.extensions import (
    enabled,
    extra_parts,
    load,
    model_service,
    ranking_at,
    sections,
)
from dagster_project.index.publish.operations_history import DagsterHistory
from dagster_project.index.publish.partition_publisher import PartitionPublisher, PublishedFile
from dagster_project.index.publish.publisher import DuckDBPublisher, Mirror
from dagster_project.index.publish.version_inputs import PublishSettings
from dagster_project.index.search.opened_index import PublishedSearcher
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import is_local
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.models.embedders import make_embedder
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.models.language_models import make_language_model, service_of
from dagster_project.remotes.source_remotes import SourceRemotes
from dagster_project.sources.seen_partitions import SeenPartitions
from dagster_project.system.durable import remove
from dagster_project.system.long_work import LoggedProgress
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding import context_sentences
from transforms.errors import SettingsError
from transforms.retrieval import bm25
from transforms.settings.models import WRITTEN_KINDS

_FORMER = (
    "files.json",
    "chats.json",
    "seen.json",
    "looked.json",
    "unchanged.json",
    "lake/footers.sqlite",
)
"""The files below `cache` that the ledger replaced."""


def make_seen_partitions(settings: Settings) -> SeenPartitions:
    """Since when partitions have waited."""
    return SeenPartitions(make_ledger(settings))


def make_embedding_cache(settings: Settings) -> SQLiteEmbeddingCache:
    """The cache of vectors; with a lake on an object store all machines share that store's."""
    lake = make_lake(settings).base
    shared = None if is_local(lake) else lake / ".embeddings"
    return SQLiteEmbeddingCache(settings.root / "cache" / "embeddings", shared)


def jobs_folder(settings: Settings) -> Path:
    """The folder of the notes on jobs of the Batch API."""
    return settings.root / "cache"


def make_answer_cache(settings: Settings) -> SQLiteAnswerCache:
    """The cache of answers of language models."""
    return SQLiteAnswerCache(settings.root / "cache" / "answers.sqlite")


def writes_sentences(settings: Settings) -> bool:
    """True if a language model writes sentences about the chunks of a source."""
    return bool(set(WRITTEN_KINDS) & set(settings.sentence_kinds().values()))


def make_sentence_writer(settings: Settings, budget: RunBudget | None = None) -> LanguageModel:
    """The language model that writes sentences, if a source wants it."""
    return make_language_model(
        settings.sentences.name if writes_sentences(settings) else None,
        context_sentences.BATCH_CHUNKS,
        settings.gemini,
        settings.safety,
        budget,
        jobs_folder(settings),
    )


def require_served_models(settings: Settings) -> None:
    """ServiceError with the successor of a model of the settings that Google does not serve;
    without one nobody is asked.
    """
    embedding = {str(settings.embedding.name)} if settings.embedding.model == "gemini" else set()
    writes = writes_sentences(settings) or settings.queries.rewrite == "gemini"
    language = {settings.sentences.name} if writes else set()
    language |= {settings.rerank.language_model} if settings.rerank.method == "gemini" else set()
    language = {name for name in language if service_of(name) == "gemini"}
    if embedding or language:
        load(model_service("gemini").require_served)(settings.gemini, embedding, language)


def make_publisher(settings: Settings, lake: ParquetLake) -> DuckDBPublisher:
    """The publisher of the configured index."""
    recorded_sections: tuple[str, ...] = (
        "mail",
        "blocks",
        "chunks",
        "documents",
        "document_chunks",
        "conversations",
        "terms",
        "threads",
        *sections(),
        "sentences",
    )
    recorded_sections += ("safety",) if settings.embedding.is_remote else ()
    recorded = settings.model_dump(
        mode="json", include={**dict.fromkeys(recorded_sections, True), "embedding": {"model"}}
    )
    recorded["search"] = json.loads(bm25.lexical_key(settings.search))
    guards = [require_quality, *extra_parts("guard")] if settings.evaluation.publish_check else []
    return DuckDBPublisher(
        lake,
        settings.root / "index",
        PublishSettings(
            settings.index,
            settings.embedding,
            settings.terms,
            settings.search,
            recorded,
            tuple(
                table
                for extra in enabled(settings)
                if extra.published
                for table in load(extra.published)
            ),
        ),
        guards=[partial(guard, settings) for guard in guards],
        sightings=make_seen_partitions(settings),
        mirror=make_mirror(settings),
    )


def make_mirror(settings: Settings) -> Mirror | None:
    """The mirror that sends each publish to the service that ranks; None if the published file
    ranks itself.
    """
    offer = ranking_at(settings.index.target)
    return load(offer.mirror)(settings.index, settings.search) if offer else None


def temporary_sweep(settings: Settings) -> int:
    """Delete the unfinished files of processes that are gone, and the notes of former versions;
    the number of the first.
    """
    remove(settings.root / "cache" / name for name in _FORMER)
    lake = make_lake(settings)
    others = (make_sources(settings), make_publisher(settings, lake))
    return lake.sweep() + sum(other.sweep() for other in others)


def make_resources(settings: Settings) -> dict[str, Any]:
    """Everything the assets need from the world; resources that people ask about show their
    settings.
    """
    lake = make_lake(settings)
    sources = make_sources(settings)
    budget = RunBudget(settings.gemini.budget_tokens)
    jobs = jobs_folder(settings)
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety, budget, jobs)
    embedder = on_engine(settings, embedder)
    writer = make_sentence_writer(settings, budget)
    publisher = PartitionPublisher(make_publisher(settings, lake), sources)
    return {
        "io_manager": LakeIOManager(lake),
        "lake": Lake.around(lake, uri=settings.lake_uri),
        "engine": make_engine(settings),
        "sources": sources,
        "remotes": Remotes.around(
            SourceRemotes(settings),
            sources={s.name: _remote_in_words(s.remote) for s in settings.sources if s.remote},
        ),
        "embedder": EmbeddingModel.around(
            embedder,
            model=embedder.model,
            dimensions=embedder.dimensions,
            api_key=_key(settings.embedding.model) if settings.embedding.is_remote else None,
        ),
        "embedding_cache": make_embedding_cache(settings),
        "language_model": SentenceModel.around(
            writer,
            model=writer.model,
            api_key=_key(service_of(settings.sentences.name))
            if writes_sentences(settings)
            else None,
        ),
        "answer_cache": make_answer_cache(settings),
        "publisher": Index.around(
            publisher,
            folder=str(settings.root / "index"),
            keep_versions=settings.index.keep_versions,
        ),
        "published_tables": PublishedFile(make_publisher(settings, lake)),
        "published_index": PublishedVersions(settings),
        "operations_history": DagsterHistory(
            make_publisher(settings, lake), make_embedding_cache(settings)
        ),
        "progress": LoggedProgress(),
        "evaluator": make_evaluator(settings),
        "searcher": PublishedSearcher(settings),
        **{
            name: resource
            for make in extra_parts("resources")
            for name, resource in make(settings).items()
        },
    }


def _remote_in_words(remote: RemoteSettings) -> str:
    """The kind of a remote, and the names of the variables with its credentials; never an address,
    which may hold a key.
    """
    return f"{remote.kind}, credentials in {' and '.join(remote.variables({}).values()) or 'no variable'}"


def _key(service: str) -> dict[str, str]:
    """The environment variable with the key of a service of models, as Dagster shows variables."""
    return {"env": load(model_service(service).key)()}


@dataclass(frozen=True)
class WorkingObject:
    """An object for assets, and the values under which the settings made it."""

    instance: Any
    values: Mapping[str, Any]


class ConfiguredResource(dg.ConfigurableResource[Any]):
    """A resource whose values a run cannot change: plan, searches and other runs go by the
    settings.

    A secret is shown as `{"env": NAME}`, which Dagster takes for a variable of the environment. It
    is not a `dg.EnvVar`: that puts the value into the run, and ends a run that would have sent
    nothing where the variable is not set.
    """

    # Dagster knows this annotation only where it is not a string, so this module does not import
    # `annotations`.
    working: dg.ResourceDependency[WorkingObject]

    @classmethod
    def around(cls, instance: object, **values: Any) -> Self:
        """The resource that hands out `instance` and shows `values`."""
        return cls(working=WorkingObject(instance, values), **values)

    def create_resource(self, context: dg.InitResourceContext) -> Any:
        """The working object; SettingsError where the configuration of the run says other than the
        settings.
        """
        if other := [
            name for name, value in self.working.values.items() if getattr(self, name) != value
        ]:
            raise SettingsError(
                f"the run's configuration changes {', '.join(other)} of {type(self).__name__}, which other runs and "
                "searches would not know of: take it out and change the settings file"
            )
        return self.working.instance


class Lake(ConfiguredResource):
    """The Parquet files of every table; storage.lake and storage.root in the settings say where."""

    uri: str = Field(description="folder or address of the files")


class Index(ConfiguredResource):
    """The published DuckDB file; storage.root and [index] in the settings say where and how."""

    folder: str = Field(
        description="folder of the versions; CURRENT in it names the one that is searched"
    )
    keep_versions: int = Field(description="versions that stay when a new one is published")


class EmbeddingModel(ConfiguredResource):
    """The model that makes vectors of texts; see [embedding] in the settings."""

    model: str = Field(description="name that vectors, cache and index carry")
    dimensions: int = Field(description="width of the vectors")
    api_key: dict[str, str] | None = Field(
        description="variable with the key; none: nothing is sent"
    )


class SentenceModel(ConfiguredResource):
    """The language model that writes sentences about chunks; see [sentences] in the settings."""

    model: str = Field(description="name of the model; none: no source asks for sentences")
    api_key: dict[str, str] | None = Field(
        description="variable with the key; none: nothing is sent"
    )


class Remotes(ConfiguredResource):
    """Where sources are fetched from; see [sources.fetch] in the settings."""

    sources: dict[str, str] = Field(
        description="each source's kind of remote and the variables with its credentials"
    )
