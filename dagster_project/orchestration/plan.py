"""What changed: the sources, the lake and the published index compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import ibis

from assets.graph import FINGERPRINTS
from assets.partitions import (
    CONTEXT,
    CONVERSATIONS,
    DOCUMENTS,
    GRAPH,
    IN_PARTS,
    MAIL,
    SLOW,
    SOURCE_TYPES,
)
from assets.protocols.sources import SourcePartition
from dagster_project.composition import make_graph_exporter, make_publisher
from dagster_project.config.settings import Settings
from dagster_project.orchestration.asset_graph import make_assets
from dagster_project.resources.lake.forgotten import Forgotten, partitions_with
from dagster_project.resources.lake.lake import ParquetLake
from dagster_project.resources.lake.oversize import QUEUE
from dagster_project.resources.lake.parquet_files import MISSING, OTHER_SCHEMA, Footer
from dagster_project.resources.publish.publisher import DuckDBPublisher
from dagster_project.resources.publish.versions import CURRENT, version_of
from dagster_project.resources.sources.remembered_sources import RememberedSources
from transforms.conversations.windows import last_windows
from transforms.errors import SourceError

NEW, CHANGED_SOURCE, DAMAGED = "new", "source changed", "damaged"
CHANGED_INPUTS, FOLLOWS = "made from other tables than are there", "follows from another table"
CHANGED_CODE, CHANGED_SETTINGS = "{} is of another version of Weft", "other settings of {}"
FORGETS = "holds what is to be forgotten"
CHANGED_MODEL, MISSING_TABLES = "other model or settings of it", "{} is missing"
ANEW = "The published version is of another layout, tokenizer or model: the index is made from the lake alone"


@dataclass(frozen=True)
class Stage:
    """One partitioned asset definition: its source type, tables, code version, and the tables it reads."""

    source_type: str
    tables: tuple[str, ...]
    code_version: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """The work of a build: the stale tables of each partition, partitions to remove, and whether to publish.

    `context` has the stale tables of windows that ask the published index, `slow` those that wait for the slow lane.
    `damaged` has the fault of each corrupt file, which is rebuilt; `reasons` why the first stale table of a partition is
    stale. With `anew` the published version has another layout, tokenizer or model and nothing of it is reused. `broken`
    has the fault of each source that cannot be read; the lake keeps what it has of that source. `left_out` names the
    sources that were forgotten, and those of which chats were.
    """

    partitions: tuple[SourcePartition, ...]
    stale: Mapping[str, tuple[str, ...]]
    vanished: tuple[str, ...]
    publish: bool
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    anew: bool = False
    broken: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the index already shows what the sources hold."""
        return not (self.stale or self.vanished or self.publish or self.context or self.slow)

    def warnings(self) -> list[str]:
        """One line per source that cannot be read and per corrupt file, and one if the index is rebuilt."""
        damages = [f"damaged, made again: {path}: {what}" for path, what in self.damaged.items()]
        broken = [f"cannot be read, left as it is: {fault}" for fault in self.broken.values()]
        return [*broken, *damages, *([ANEW] if self.anew else [])]


def stages(settings: Settings) -> list[Stage]:
    """The partitioned stages in order, read off the asset definitions."""
    found = []
    for definition in make_assets(settings):
        if definition.partitions_def is None:
            continue
        tables = tuple(sorted(k.path[-1] for k in definition.keys))
        (source_type,) = (f for f in (*SOURCE_TYPES, GRAPH, SLOW, CONTEXT) if set(tables) <= set(f.tables))
        inputs = tuple(
            sorted(source_type.compared_inputs(k.path[-1] for k in definition.keys_by_input_name.values()))
        )
        versions = set(definition.code_versions_by_key.values())
        assert len(versions) == 1, f"{tables} must share one code version"
        found.append(Stage(source_type.name, tables, versions.pop() or "", inputs))
    return found


def reading_tables(settings: Settings, source_type: str) -> tuple[str, ...]:
    """The tables that are read from the sources of a type."""
    return next(s.tables for s in stages(settings) if s.source_type == source_type and not s.inputs)


def make_plan(
    settings: Settings, sources: RememberedSources, lake: ParquetLake, taken: Collection[str] = ()
) -> Plan:
    """Compare the sources, the lake and the published index, without the partitions `taken` by runs under way.

    A table of a partition is stale if it is missing, corrupt, of another code version, or made from other inputs
    than the current ones, and so is every table that depends on it.
    """
    with lake.one_look():
        return _compared(settings, sources, lake, taken)


def _compared(
    settings: Settings, sources: RememberedSources, lake: ParquetLake, taken: Collection[str]
) -> Plan:
    """The plan of `make_plan`."""
    partitions = sources.discover()
    broken = dict(sources.broken)
    order = stages(settings)
    found = {
        u.key: _stale_reasons(u.key, _of(u.source_type, order), {"partition": u.fingerprint}, lake)
        for u in partitions
        if u.key not in taken
    }
    if sources.forgotten.unfinished:
        for key in set(partitions_with(lake, sources.forgotten)) & found.keys():
            (source_type,) = (u.source_type for u in partitions if u.key == key)
            found[key] = {t: FORGETS for stage in _of(source_type, order) for t in stage.tables}
    _leave_broken(partitions, found, broken, order, lake)
    stale = {partition: tuple(why) for partition, why in found.items() if why}
    reasons = {partition: next(iter(found[partition].values())) for partition in stale}
    present = {u.key for u in partitions}
    kept = sorted({p for source_type in SOURCE_TYPES for p in lake.partitions(source_type.tables[0])})
    vanished = tuple(p for p in kept if p not in present)
    publisher = make_publisher(settings, lake)
    publish = (
        bool(stale or vanished)
        or not _whole_tables_are_right(settings, lake)
        or not publisher.is_current(
            {u.key: u.source_type for u in partitions if u.key not in taken or is_made(u, lake)}
        )
        or not _readiness_is_right(publisher, lake)
        or (settings.graph.enabled and not make_graph_exporter(settings).is_there())
        or bool(stale_graph(settings, partitions, lake))
    )
    context = {} if publish else stale_context(settings, partitions, lake)
    slow = {
        p: t for p, t in stale_slow(settings, partitions, lake).items() if p not in stale and p not in taken
    }
    damaged = _damages(settings, stale, slow, publisher, lake) if publish or slow else {}
    anew = publish and publisher.damage() is None and not publisher.fits_settings()
    return Plan(
        tuple(partitions),
        stale,
        vanished,
        publish,
        context,
        slow,
        damaged,
        reasons,
        anew,
        broken,
        tuple(sorted(sources.left_out)),
    )


def _leave_broken(
    partitions: Sequence[SourcePartition],
    stale: dict[str, dict[str, str]],
    broken: Mapping[str, str],
    order: Sequence[Stage],
    lake: ParquetLake,
) -> None:
    """Take out of `stale` what would be read from broken sources; SourceError where the lake has not all of it."""
    reading = {table for stage in order if not stage.inputs for table in stage.tables}
    for partition in partitions:
        if partition.source in broken and reading & stale.get(partition.key, {}).keys():
            if not is_made(partition, lake):
                raise SourceError(broken[partition.source])
            stale[partition.key] = {}


def _damages(
    settings: Settings,
    stale: Mapping[str, Sequence[str]],
    slow: Mapping[str, Sequence[str]],
    publisher: DuckDBPublisher,
    lake: ParquetLake,
) -> dict[str, str]:
    """By path, what is wrong with files of the lake and with the published one, beside those not made yet.

    Files with the columns of another version of Weft are none of them.
    """
    published = publisher.published_partitions()
    # A file that was never made is no damage: of those of the fast lane, what is published was there once.
    places = [(table, p, p in published) for p in sorted(stale) for table in stale[p]]
    places += [(table, p, False) for p in sorted(slow) for table in slow[p]]
    whole = _whole_tables(settings, lake)
    versions = whole | {table: stage.code_version for stage in stages(settings) for table in stage.tables}
    found: dict[str, str] = {}
    listed = [table for table in IN_PARTS if lake.damage(table) is None]
    places += [(table, p, bool(published)) for table in listed for p in lake.parts(table)]
    for table, partition, was_there in [*places, *((t, None, bool(published)) for t in whole)]:
        damage = lake.damage(table, partition)
        if damage == OTHER_SCHEMA and lake.code_version(table, partition) != versions[table]:
            continue
        if damage and (was_there or damage != MISSING):
            found[str(lake.path(table, partition))] = damage
    if damage := publisher.damage():
        found[str(publisher.folder / CURRENT)] = damage
    return found


def is_made(partition: SourcePartition, lake: ParquetLake) -> bool:
    """True if all tables of a partition are in the lake, whatever they were made of."""
    (tables,) = (
        source_type.tables for source_type in SOURCE_TYPES if source_type.name == partition.source_type
    )
    return lake.has_tables(tables, partition.key)


def _readiness_is_right(publisher: DuckDBPublisher, lake: ParquetLake) -> bool:
    """True if the readiness that the lake keeps is that of the published version."""
    footer, current = lake.footer("readiness"), publisher.current()
    return footer is not None and current is not None and footer.inputs == {"index": version_of(current)}


def stale_context(
    settings: Settings, partitions: Iterable[SourcePartition], lake: ParquetLake
) -> dict[str, tuple[str, ...]]:
    """By window of a conversation the tables of its context that are missing, of other code or of other queries.

    The last window of each conversation, which more messages may follow, asks each published version; the others stay
    with what they found once. To be asked when something is published.
    """
    current = make_publisher(settings, lake).current()
    if current is None:
        return {}
    order = _of(CONTEXT.name, stages(settings))
    shown = _shown_by(current) if Forgotten(lake.base).unfinished else None
    windows = [u.key for u in partitions if u.source_type == CONVERSATIONS.name]
    open_windows = last_windows(windows)
    found = {}
    for window in windows:
        queries, asked = (lake.footer(t, window) for t in ("conversation_query_chunks", CONTEXT.tables[0]))
        if queries is None:
            continue
        stays = asked and not (window in open_windows and queries.row_count)
        version = asked.inputs.get("search_index", "") if asked and stays else version_of(current)
        hashes = {"conversation_query_chunks": queries.content_hash, "search_index": version}
        cited = lake.stored(CONTEXT.tables[0], ["chunk_id"], window) if shown is not None and asked else None
        if shown is not None and cited and set(cited.column("chunk_id").to_pylist()) - shown:
            found[window] = CONTEXT.tables
        elif tables := _stale_tables(window, order, hashes, lake):
            found[window] = tables
    return found


def _shown_by(index: Path) -> set[str]:
    """The ids of the chunks in a published file."""
    with duckdb.connect(str(index), read_only=True) as connection:
        return {row[0] for row in connection.execute("SELECT chunk_id FROM chunks").fetchall()}


def stale_slow(
    settings: Settings, partitions: Iterable[SourcePartition], lake: ParquetLake
) -> dict[str, tuple[str, ...]]:
    """By partition the tables of the slow lane that are not of the queue that is there now, or of other code.

    To be asked when the tables of mail are right: the queue is one of them. Partitions without slow texts have none.
    """
    order = _of(SLOW.name, stages(settings))
    found = {}
    for partition in (u.key for u in partitions if u.source_type == MAIL.name):
        queue = lake.footer(QUEUE, partition)
        if queue and queue.row_count:
            found[partition] = _stale_tables(partition, order, {QUEUE: queue.content_hash}, lake)
    return {partition: tables for partition, tables in found.items() if tables}


def stale_graph(
    settings: Settings, partitions: Sequence[SourcePartition], lake: ParquetLake
) -> dict[str, tuple[str, ...]]:
    """By partition the tables of the graph that were made from others than the lake holds now.

    To be asked when the tables without partitions are right: the graph is made after them.
    """
    order = _of(GRAPH.name, stages(settings))
    if not order:
        return {}
    vectors, words = lake.footer("embeddings"), lake.read("keywords").table
    context = ibis.memtable(lake.stored("chunk_context", ["chunk_id", "checksum"]))
    found = {}
    for partition in (u.key for u in partitions if u.source_type == DOCUMENTS.name and is_made(u, lake)):
        chunks = lake.stored("document_chunks", ["chunk_id", "checksum"], partition)
        footers = {table: lake.footer(table, partition) for table in ("documents", "document_chunks")}
        hashes = {table: footer.content_hash for table, footer in footers.items() if footer}
        hashes |= {
            "embeddings": vectors.code_version if vectors else "",
            "chunk_context": FINGERPRINTS["chunk_context"](context, partition, chunks),
            "keywords": FINGERPRINTS["keywords"](ibis.memtable(words), partition),
        }
        if tables := _stale_tables(partition, order, hashes, lake):
            found[partition] = tables
    return found


def _of(source_type: str, order: Sequence[Stage]) -> list[Stage]:
    return [stage for stage in order if stage.source_type == source_type]


def _stale_tables(
    partition: str, order: Sequence[Stage], given: Mapping[str, str], lake: ParquetLake
) -> tuple[str, ...]:
    """The stale tables of a partition; `given` are hashes of what the stages of `order` do not make."""
    return tuple(_stale_reasons(partition, order, given, lake))


def _stale_reasons(
    partition: str, order: Sequence[Stage], given: Mapping[str, str], lake: ParquetLake
) -> dict[str, str]:
    """By stale table of a partition why it is that; `given` are hashes of what the stages of `order` do not make."""
    stale: dict[str, str] = {}
    hashes = dict(given)
    for stage in order:
        footers = [lake.footer(table, partition) for table in stage.tables]
        expected = {name: hashes.get(name) for name in stage.inputs or ("partition",)}
        if set(stage.inputs) & set(stale):
            stale |= dict.fromkeys(stage.tables, FOLLOWS)
        elif not all(_is_right(f, stage, expected) for f in footers):
            stale |= dict.fromkeys(stage.tables, _reason(stage, partition, footers, lake))
        hashes |= {t: f.content_hash for t, f in zip(stage.tables, footers, strict=True) if f}
    return stale


def _reason(stage: Stage, partition: str, footers: Sequence[Footer | None], lake: ParquetLake) -> str:
    """Why a stage has to run, of what stands in the files that it made."""
    there = [footer for footer in footers if footer]
    if not there and not any(lake.is_stored(table, partition) for table in stage.tables):
        return NEW if not stage.inputs else MISSING_TABLES.format(stage.tables[0])
    made_by = {lake.code_version(table, partition) for table in stage.tables} - {None, stage.code_version}
    if other := min(filter(None, made_by), default=None):
        return _of_version(other, stage.code_version).format(stage.tables[0])
    if len(there) < len(footers):
        return DAMAGED
    return CHANGED_INPUTS if stage.inputs else CHANGED_SOURCE


def _of_version(before: str, now: str) -> str:
    """What a change of code version means: a version is that of the code, then hashes of settings."""
    return CHANGED_SETTINGS if before.partition("-")[0] == now.partition("-")[0] else CHANGED_CODE


def whole_reasons(settings: Settings, lake: ParquetLake) -> dict[str, str]:
    """By table without partitions why it has to be made, where that is more than that partitions changed."""
    found = {}
    for table, version in _whole_tables(settings, lake).items():
        made_by = lake.code_version(table)
        if made_by is not None and made_by != version:
            model = table.startswith("embedding")
            found[table] = CHANGED_MODEL if model else _of_version(made_by, version).format(table)
        elif lake.footer(table) is None:
            found[table] = DAMAGED if lake.is_stored(table) else NEW
    return found


def _whole_tables(settings: Settings, lake: ParquetLake) -> dict[str, str]:
    """The code version of every unpartitioned table, by its name."""
    return {
        key.path[-1]: version or ""
        for definition in make_assets(settings)
        if definition.partitions_def is None
        for key, version in definition.code_versions_by_key.items()
        if key.path[-1] in lake.tables
    }


def _whole_tables_are_right(settings: Settings, lake: ParquetLake) -> bool:
    """True if every unpartitioned table is there and was made by the code and settings of now."""
    versions = _whole_tables(settings, lake)
    footers = {table: lake.footer(table) for table in versions}
    return all(f is not None and f.code_version == versions[t] for t, f in footers.items())


def _is_right(footer: Footer | None, stage: Stage, expected: Mapping[str, str | None]) -> bool:
    return footer is not None and footer.code_version == stage.code_version and footer.inputs == expected
