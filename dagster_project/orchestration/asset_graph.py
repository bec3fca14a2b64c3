"""The assets for the configured settings, in the order of the pipeline."""

from __future__ import annotations

import warnings
from functools import lru_cache

import dagster as dg

from assets import graph
from assets.conversations import context_assets, conversation_assets
from assets.documents import document_assets
from assets.evaluation import evaluation_queries_asset, evaluation_report_asset, evaluation_runs_asset
from assets.fetch import fetched_asset
from assets.mail import mail_assets, slow_assets
from assets.partitions import CONTEXT_TABLES, GRAPH
from assets.publish import embeddings_asset, embeddings_version, search_index_asset
from assets.readiness import readiness_asset
from assets.relations import (
    chunk_context_asset,
    corpus_measures_asset,
    document_links_asset,
    inferred_quotes_asset,
    memberships_asset,
    message_links_asset,
    patch_series_asset,
    threads_asset,
)
from dagster_project.config.settings import Settings
from dagster_project.orchestration.names import REPORT_ASSET
from dagster_project.resources.models.token_counter import PackagedTokenCounter
from transforms.schemas.registry import GRAPH_TABLES


def make_fetch_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets that fetch the sources with a remote; they run before a build looks for changes."""
    return [
        fetched_asset(
            source.name,
            source.fetch_step,
            remote.kind,
            remote.max_lag_hours,
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
        evaluation_report_asset(changes),
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
            patch_series_asset(),
            inferred_quotes_asset(),
            chunk_context_asset(
                settings.terms,
                settings.sentences,
                settings.safety,
                settings.sentence_kinds(),
            ),
            corpus_measures_asset(),
            embeddings_asset(settings.embedding, settings.safety),
            *graph.graph_assets(
                settings.graph, settings.terms, embeddings_version(settings.embedding, settings.safety)
            ),
            search_index_asset(GRAPH_TABLES if settings.graph.enabled else ()),
            readiness_asset(settings.operations),
            *context_assets(settings.context, PackagedTokenCounter()),
        )


def around_graph(settings: Settings) -> tuple[list[str], list[str]]:
    """The assets over the whole lake in order: those before the graph's partitions, and those made of these.

    Without a graph all come before. The report on how the system does is the last of all.
    """
    before: list[str] = []
    after: list[str] = []
    for definition in make_assets(settings):
        needed = {key.path[-1] for key in definition.dependency_keys}
        own = [key.path[-1] for key in definition.keys]
        if definition.partitions_def is None and not set(own) & set(CONTEXT_TABLES):
            (after if needed & {*GRAPH.tables, *after} else before).extend(own)
    (after or before).append(REPORT_ASSET)
    return before, after
