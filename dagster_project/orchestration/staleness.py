"""The stale tables of the lake, and why: tables of partitions, context, long texts, and over the whole lake."""

from collections.abc import Iterable, Mapping, Sequence

import duckdb

from assets.partitions import CHUNKS_OF, CONTEXT, CONVERSATIONS, IN_PARTS, MAIL
from assets.protocols.sources import SourcePartition
from assets.stages.declaration import Stage
from assets.stages.stage import LAKE, lake_state
from dagster_project.composition.objects import make_publisher
from dagster_project.config.settings import Settings
from dagster_project.index.publish.versions import version_of
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import ParquetFooter
from dagster_project.orchestration.asset_graph import make_assets, partition_stages
from transforms.conversations.windows import last_windows

NEW, CHANGED_SOURCE, DAMAGED = "new", "source changed", "damaged"
CHANGED_INPUTS, FOLLOWS = "made from other tables than are there", "follows from another table"
CHANGED_CODE, CHANGED_SETTINGS = "{} is of another version of Weft", "other settings of {}"
CHANGED_MODEL, MISSING_TABLES = "other model or settings of it", "{} is missing"
LONG_TEXTS = "very long texts wait"


def stale_context(
    settings: Settings, partitions: Iterable[SourcePartition], lake: ParquetLake
) -> dict[str, tuple[str, ...]]:
    """By window of a conversation the tables of its context that are missing, of other code or of other queries.

    The last window of each conversation, which more messages may follow, asks each published version; the others stay
    with their first context. To be asked when something is published.
    """
    current = make_publisher(settings, lake).current()
    if current is None:
        return {}
    order = partition_stages(settings, CONTEXT)
    ids = None
    if Forgotten(lake.base).unfinished:
        with duckdb.connect(str(current), read_only=True) as connection:
            ids = {row[0] for row in connection.execute("SELECT chunk_id FROM chunks").fetchall()}
    windows = [u.key for u in partitions if u.source_type == CONVERSATIONS.name]
    open_windows = last_windows(windows)
    stale = {}
    for window in windows:
        queries, context = (
            lake.footer(t, window) for t in ("conversation_query_chunks", CONTEXT.tables[0])
        )
        if queries is None:
            continue
        stays = context and not (window in open_windows and queries.row_count)
        version = (
            context.inputs.get("search_index", "") if context and stays else version_of(current)
        )
        hashes = {"conversation_query_chunks": queries.content_hash, "search_index": version}
        cited = (
            lake.stored(CONTEXT.tables[0], ["chunk_id"], window)
            if ids is not None and context
            else None
        )
        if ids is not None and cited and set(cited.column("chunk_id").to_pylist()) - ids:
            stale[window] = CONTEXT.tables
        elif tables := stale_reasons(window, order, hashes, lake):
            stale[window] = tuple(tables)
    return stale


def waiting_bytes(lake: ParquetLake, partitions: Iterable[str]) -> int:
    """Bytes of very long texts of mail that some partitions leave out."""
    footers = (lake.footer(CHUNKS_OF[MAIL.name], partition) for partition in partitions)
    return sum(footer.waiting for footer in footers if footer)


def stale_reasons(
    partition: str, order: Sequence[Stage], source_hashes: Mapping[str, str], lake: ParquetLake
) -> dict[str, str]:
    """The reason for each stale table of a partition; `source_hashes` are of tables that the stages of `order` do not make.

    A table that leaves out very long texts, or follows from that alone, is stale for `LONG_TEXTS`.
    """
    stale: dict[str, str] = {}
    hashes = dict(source_hashes)
    for stage in order:
        footers = [lake.footer(table, partition) for table in stage.tables]
        inputs = stage.compared_inputs()
        due = {name: hashes.get(name) for name in inputs or ("partition",)}
        before = {stale[table] for table in inputs if table in stale}
        if before - {LONG_TEXTS}:
            stale |= dict.fromkeys(stage.tables, FOLLOWS)
        elif not all(
            f and (f.code_version, f.made_of) == (stage.declared_version, due) for f in footers
        ):
            stale |= dict.fromkeys(stage.tables, _reason(stage, partition, footers, lake))
        elif before or any(f and f.waiting for f in footers):
            stale |= dict.fromkeys(stage.tables, LONG_TEXTS)
        hashes |= {t: f.content_hash for t, f in zip(stage.tables, footers, strict=True) if f}
    return stale


def _reason(
    stage: Stage, partition: str, footers: Sequence[ParquetFooter | None], lake: ParquetLake
) -> str:
    """Why a stage has to run, by the files that it made."""
    there = [footer for footer in footers if footer]
    if not there and not any(lake.is_stored(table, partition) for table in stage.tables):
        return NEW if not stage.inputs else MISSING_TABLES.format(stage.tables[0])
    made_by = {lake.code_version(table, partition) for table in stage.tables} - {
        None,
        stage.declared_version,
    }
    if other := min(filter(None, made_by), default=None):
        return _of_version(other, stage.declared_version).format(stage.tables[0])
    if len(there) < len(footers):
        return DAMAGED
    return CHANGED_INPUTS if stage.inputs else CHANGED_SOURCE


def _of_version(before: str, now: str) -> str:
    """The reason of a change of code version: a version is that of the code, then hashes of settings."""
    return CHANGED_SETTINGS if before.partition("-")[0] == now.partition("-")[0] else CHANGED_CODE


def whole_reasons(settings: Settings, lake: ParquetLake) -> dict[str, str]:
    """By table without partitions why it has to be made, where that is more than that partitions changed."""
    reasons = {}
    for table, version in whole_tables(settings, lake).items():
        made_by = lake.code_version(table)
        if made_by is not None and made_by != version:
            model = table.startswith("embedding")
            reasons[table] = CHANGED_MODEL if model else _of_version(made_by, version).format(table)
        elif lake.footer(table) is None:
            reasons[table] = DAMAGED if lake.is_stored(table) else NEW
    return reasons


def whole_tables(settings: Settings, lake: ParquetLake) -> dict[str, str]:
    """The code version of every table without partitions, by its name."""
    return {
        key.path[-1]: version or ""
        for definition in make_assets(settings)
        if definition.partitions_def is None
        for key, version in definition.code_versions_by_key.items()
        if key.path[-1] in lake.tables
    }


def state_of(partitions: Iterable[SourcePartition], lake: ParquetLake) -> str:
    """The hash of the tables of `partitions` in the lake."""
    of_type: dict[str, list[str]] = {}
    for partition in partitions:
        of_type.setdefault(partition.source_type, []).append(partition.key)
    return lake_state(lake, of_type)


def whole_are_right(
    settings: Settings, names: Iterable[str], state: str, lake: ParquetLake
) -> bool:
    """True if tables over the whole lake are there, made by the code of now from the lake in this state.

    The parts of a table in parts name their inputs; tables made from it, or beside it, have the state.
    """
    versions = whole_tables(settings, lake)
    footers = {table: lake.footer(table) for table in set(names) & versions.keys()}
    return all(
        footer is not None
        and footer.code_version == versions[table]
        and (table in IN_PARTS or footer.inputs.get(LAKE) == state)
        for table, footer in footers.items()
    )
