"""The assets for the configured settings, in the order of the pipeline."""

from dataclasses import dataclass, field
from functools import lru_cache

import dagster as dg

from assets.evaluation import evaluation_report_asset, evaluation_stages
from assets.fetch import fetched_asset
from assets.partitions import CONTEXT, SOURCE_TYPES, SourceType
from assets.pipeline import index_stages, relation_stages
from assets.publish import embeddings_asset, search_index_asset, vector_index_asset
from assets.sources import partitions_spec, published_checks, published_spec, source_spec
from assets.stages.declaration import Stage
from assets.stages.stage import assets_of
from dagster_project.composition.stage_code import vectors_code, with_code
from dagster_project.composition.stores import stages_of_sources
from dagster_project.config.settings import Settings
from dagster_project.extensions import enabled, load, published_tables
from dagster_project.index.publish.table_sql import ADDED, COMMENTS
from dagster_project.models.static import PackagedTokenCounter
from transforms.operations import table_checks
from transforms.schemas.registry import lake_names


def make_fetch_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets that fetch the sources with a remote; they run before a build looks for changes."""
    return [
        fetched_asset(source.name, source.fetch_step, remote.kind, remote.max_lag_hours)
        for source in settings.sources
        if (remote := source.remote)
    ]


def make_source_assets(settings: Settings) -> list[dg.AssetSpec]:
    """The external assets of the configured sources, and of the partitions of each source type that
    has any.
    """
    sources = [
        source_spec(s.name, s.kind, str(settings.place(s)), fetched=bool(s.remote))
        for s in settings.sources
    ]
    names = {t: [s.name for s in settings.sources if s.source_type == t.name] for t in SOURCE_TYPES}
    return [*sources, *(partitions_spec(t, own) for t, own in names.items() if own)]


def used_partitions(settings: Settings) -> set[str]:
    """The names of the partitions of the source types that some source has."""
    types = {source.source_type for source in settings.sources}
    return {kind.partitions for kind in SOURCE_TYPES if kind.name in types}


def unused_tables(settings: Settings) -> set[str]:
    """The tables of the source types that no source has: nothing makes them."""
    used = used_partitions(settings)
    unused = (kind for kind in (*SOURCE_TYPES, CONTEXT) if kind.partitions not in used)
    return {table for kind in unused for table in kind.tables}


def make_published_assets(
    settings: Settings,
) -> tuple[list[dg.AssetSpec], dg.AssetChecksDefinition]:
    """The external assets of the tables of the published file, and the checks on them, which no
    build runs.
    """
    outputs = {table for stage in added_stages(settings) for table in stage.outputs}
    unused = unused_tables(settings)
    tables = {
        name: COMMENTS[name]
        for name in (*table_checks.KEYS, *(n for n in ADDED if n in outputs))
        if not lake_names(name) or not unused.issuperset(lake_names(name))
    }
    specs = [
        published_spec(table, comment, columns) for table, (comment, columns) in tables.items()
    ]
    return specs, published_checks({name: columns for name, (_, columns) in tables.items()}, ADDED)


def make_evaluation_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """The assets below the published index; no build makes them."""
    changes = {name: settings.profile_changes(name) for name in settings.evaluation.profiles}
    return [*assets_of(with_code(evaluation_stages())), evaluation_report_asset(changes)]


def added_stages(settings: Settings) -> list[Stage]:
    """The stages that extras add under these settings."""
    return [s for extra in enabled(settings) if extra.stages for s in load(extra.stages)(settings)]


def make_assets(settings: Settings) -> list[dg.AssetsDefinition]:
    """All assets that a build makes, in the order of the pipeline.

    They hold no state, and those of equal settings are the same objects: planning and running ask
    for them often.
    """
    return list(_assets_of(_AsWritten(settings.model_dump_json(), settings)))


def all_stages(settings: Settings) -> list[Stage]:
    """All stages that a build runs, in order, each with the fingerprint of its code."""
    before, after = _stages_of(_AsWritten(settings.model_dump_json(), settings))
    return [*before, *after]


def partition_stages(settings: Settings, kind: SourceType | None = None) -> list[Stage]:
    """The stages that make partitions, in order, or those of one kind."""
    return [s for s in all_stages(settings) if s.source_type and kind in (None, s.source_type)]


@dataclass(frozen=True)
class _AsWritten:
    """Settings as the key of a cache: those with the same JSON are equal."""

    text: str
    settings: Settings = field(compare=False)


@lru_cache(maxsize=4)
def _stages_of(key: _AsWritten) -> tuple[list[Stage], list[Stage]]:
    """The stages of published tables, and those after a publish."""
    settings = key.settings
    published = [*stages_of_sources(settings), *relation_stages(settings)]
    following = [*index_stages(settings, PackagedTokenCounter()), *added_stages(settings)]
    return with_code(published), with_code(following)


@lru_cache(maxsize=4)
def _assets_of(key: _AsWritten) -> tuple[dg.AssetsDefinition, ...]:
    settings, (published, following) = key.settings, _stages_of(key)
    outputs = {table for stage in following for table in stage.outputs}
    return (
        *assets_of(published),
        embeddings_asset(
            settings.embedding,
            settings.safety,
            vectors_code(is_remote=settings.embedding.is_remote),
        ),
        search_index_asset(sorted(published_tables().keys() & outputs)),
        vector_index_asset(),
        *assets_of(following),
    )


def whole_phases(settings: Settings) -> tuple[list[str], list[str]]:
    """The assets over the whole lake in order: those before the published index, and those that
    publish.

    Vectors are in both: the checks that may stop a publish are theirs.
    """
    before: list[str] = []
    after: list[str] = []
    for definition in make_assets(settings):
        needed = {key.path[-1] for key in definition.dependency_keys}
        own = [key.path[-1] for key in definition.keys]
        if definition.partitions_def is None:
            is_after = "search_index" in own or needed & {*after}
            (after if is_after else before).extend(own)
    return before, [name for name in before if name.startswith("embedding")] + after
