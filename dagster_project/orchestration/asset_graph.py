"""The assets for the configured settings, in the order of the pipeline."""

from __future__ import annotations

from functools import lru_cache

import dagster as dg

from assets.conversations import context_stages
from assets.evaluation import evaluation_queries_asset, evaluation_report_asset, evaluation_runs_asset
from assets.fetch import fetched_asset
from assets.graph import graph_stages
from assets.measures import measure_stages
from assets.partitions import GRAPH, SOURCE_TYPES
from assets.publish import embeddings_asset, embeddings_version, search_index_asset, vector_index_asset
from assets.published import published_check, published_spec
from assets.readiness import readiness_asset
from assets.relations import chunk_context_stage, relation_stages
from assets.sources import partitions_spec, source_spec
from assets.stages.stage import assets_of
from dagster_project.config.settings import Settings
from dagster_project.extras.registry import named
from dagster_project.resources.models.token_counter import PackagedTokenCounter
from dagster_project.resources.publish.table_sql import COMMENTS
from dagster_project.stores import source_stages
from transforms.operations import table_checks
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


def make_source_assets(settings: Settings) -> list[dg.AssetSpec]:
    """The external assets of the configured sources, and of the partitions of each source type that has any."""
    sources = [
        source_spec(s.name, s.kind, str(settings.place(s)), fetched=bool(s.remote)) for s in settings.sources
    ]
    names = {t: [s.name for s in settings.sources if s.source_type == t.name] for t in SOURCE_TYPES}
    return [*sources, *(partitions_spec(t, own) for t, own in names.items() if own)]


def make_published_assets(settings: Settings) -> tuple[list[dg.AssetSpec], list[dg.AssetChecksDefinition]]:
    """The external assets of the tables of the published file, and the checks on them, which no build runs."""
    tables = {
        table: COMMENTS[table]
        for table in table_checks.KEYS
        if settings.graph.enabled or table not in GRAPH_TABLES
    }
    specs = [published_spec(table, comment, columns) for table, (comment, columns) in tables.items()]
    return specs, [published_check(table, columns) for table, (_, columns) in tables.items()]


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
    stages = [
        *source_stages(settings),
        *relation_stages(settings.threads, settings.people),
        chunk_context_stage(settings.terms, settings.sentences, settings.safety, settings.sentence_kinds()),
        *measure_stages(),
    ]
    return (
        *assets_of(stages),
        embeddings_asset(settings.embedding, settings.safety),
        *(make_graph_assets(settings) if settings.graph.enabled else ()),
        search_index_asset(GRAPH_TABLES if settings.graph.enabled else ()),
        vector_index_asset(),
        readiness_asset(settings.operations),
        *assets_of(context_stages(settings.context, PackagedTokenCounter())),
        *assets_of([stage for stages in named("stages") for stage in stages(settings)]),
    )


def make_graph_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets of the document graph; a build makes them if the graph is enabled."""
    version = embeddings_version(settings.embedding, settings.safety)
    return assets_of(graph_stages(settings.graph, settings.terms, version))


def whole_phases(settings: Settings) -> tuple[list[str], list[str]]:
    """The assets over the whole lake in order: those up to the vectors, and those that publish.

    The document graph, if there is one, is made between. Vectors are in both: the checks that may stop a publish are theirs.
    """
    before: list[str] = []
    after: list[str] = []
    for definition in make_assets(settings):
        needed = {key.path[-1] for key in definition.dependency_keys}
        own = [key.path[-1] for key in definition.keys]
        if definition.partitions_def is None:
            is_after = "search_index" in own or needed & {*GRAPH.tables, *after}
            (after if is_after else before).extend(own)
    return before, [name for name in before if name.startswith("embedding")] + after
