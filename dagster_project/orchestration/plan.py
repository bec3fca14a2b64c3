"""The plan of a build: the sources, the lake and the published index compared."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from assets.partitions import IN_PARTS, SOURCE_TYPES
from assets.protocols.sources import SourcePartition
from dagster_project.composition.objects import make_publisher
from dagster_project.config.settings import Settings
from dagster_project.extras.registry import enabled
from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.publish.version_inputs import TABLES_OF_TYPE
from dagster_project.index.publish.versions import CURRENT, version_of
from dagster_project.lake.forgotten import partitions_with
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import MISSING, OTHER_SCHEMA
from dagster_project.orchestration import staleness
from dagster_project.orchestration.asset_graph import partition_stages, whole_phases
from dagster_project.sources.remembered_sources import RememberedSources
from transforms.errors import SourceError

FORGETS = "holds texts to forget"
FULL = "The published version is of another layout, tokenizer or model: the index is made from the lake alone"


@dataclass(frozen=True)
class Plan:
    """The parts of the index that do not show the sources: stale tables of each partition, and those over the whole lake.

    `publish` says that a publish is due, `whole` which tables over the whole lake are next on the way there: all of them, or
    those that publish. `context` has the stale tables of windows that ask the index that is published now, and `slow` those
    of partitions that leave out very long texts. `vanished` partitions left the sources. `state` is a hash of
    the sources in the lake. `damaged` has the fault of each corrupt file, which is rebuilt; `reasons` why the first
    stale table of a partition is stale. With `is_full` the published version has another layout, tokenizer or model, and a
    build reuses nothing of it. `broken` has the fault of each source that cannot be read; the lake keeps its tables of it.
    `left_out` names the sources that were forgotten, in whole or some chats.
    """

    partitions: tuple[SourcePartition, ...]
    stale: Mapping[str, tuple[str, ...]]
    vanished: tuple[str, ...]
    publish: bool
    whole: tuple[str, ...] = ()
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    slow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    state: str = ""
    damaged: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_full: bool = False
    broken: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the index already shows the sources as they are."""
        return not (self.stale or self.vanished or self.publish or self.context or self.slow)

    def warnings(self) -> list[str]:
        """One line per source that cannot be read and per corrupt file, and one if the index is rebuilt."""
        damages = [f"damaged, made again: {path}: {what}" for path, what in self.damaged.items()]
        broken = [f"cannot be read, left as it is: {fault}" for fault in self.broken.values()]
        return [*broken, *damages, *([FULL] if self.is_full else [])]


def make_plan(
    settings: Settings, sources: RememberedSources, lake: ParquetLake, busy: Collection[str] = ()
) -> Plan:
    """Compare the sources, the lake and the published index, without stale partitions `busy` in runs under way.

    A table of a partition is stale if it is missing, corrupt, of another code version, or made from other inputs
    than the current ones, and so is every table that depends on it.
    """
    with lake.one_look():
        partitions = sources.discover()
        broken = dict(sources.broken)
        reasons = _stale_partitions(settings, sources, partitions, lake, busy)
        _leave_broken(partitions, reasons, broken, settings, lake)
        stale = {
            p: tables for p, why in reasons.items() if (tables := _stale_for(why, long_texts=False))
        }
        slow = {
            p: _stale_for(why, long_texts=True)
            for p, why in reasons.items()
            if why and p not in stale
        }
        stored = sorted(
            {p for source_type in SOURCE_TYPES for p in lake.partitions(source_type.tables[0])}
        )
        vanished = tuple(p for p in stored if p not in {u.key for u in partitions})
        publisher = make_publisher(settings, lake)
        state = staleness.state_of(partitions, lake)
        whole = _whole(settings, partitions, publisher, state, is_smaller=bool(vanished))
        publish = bool(stale or whole)
        return Plan(
            tuple(partitions),
            stale,
            vanished,
            publish,
            whole=whole,
            context=staleness.stale_context(settings, partitions, lake),
            slow=slow,
            state=state,
            damaged=_damages(settings, stale, publisher, lake) if publish else {},
            reasons={
                partition: reasons[partition][tables[0]] for partition, tables in stale.items()
            },
            is_full=publish and publisher.damage() is None and not publisher.fits_settings(),
            broken=broken,
            left_out=tuple(sorted(sources.left_out)),
        )


def _stale_for(reasons: Mapping[str, str], *, long_texts: bool) -> tuple[str, ...]:
    """The tables that are stale because of very long texts alone, or the others."""
    return tuple(
        table for table, why in reasons.items() if (why == staleness.LONG_TEXTS) == long_texts
    )


def _stale_partitions(
    settings: Settings,
    sources: RememberedSources,
    partitions: Sequence[SourcePartition],
    lake: ParquetLake,
    busy: Collection[str],
) -> dict[str, dict[str, str]]:
    """By partition that is not `busy` its stale tables, and why each is that."""
    orders = {kind.name: partition_stages(settings, kind) for kind in SOURCE_TYPES}
    types = {u.key: orders[u.source_type] for u in partitions if u.key not in busy}
    reasons = {
        u.key: staleness.stale_reasons(u.key, types[u.key], {"partition": u.fingerprint}, lake)
        for u in partitions
        if u.key in types
    }
    if sources.forgotten.unfinished:
        for key in set(partitions_with(lake, sources.forgotten)) & reasons.keys():
            reasons[key] = {t: FORGETS for stage in types[key] for t in stage.tables}
    return reasons


def _whole(
    settings: Settings,
    partitions: Sequence[SourcePartition],
    publisher: DuckDBPublisher,
    state: str,
    *,
    is_smaller: bool,
) -> tuple[str, ...]:
    """The tables over the whole lake that are next; none if the index is right.

    Content decides: their footers have their inputs, the name of the version the published ones.
    """
    lake, (relations, publishing) = publisher.lake, whole_phases(settings)
    kinds = {partition.key: partition.source_type for partition in partitions}
    there = {key: kind for key, kind in kinds.items() if lake.has_tables(TABLES_OF_TYPE[kind], key)}
    if partitions and not there:
        return ()  # nothing is to be related, and no empty version published
    if not staleness.whole_are_right(settings, relations, state, lake):
        return tuple(dict.fromkeys([*relations, *publishing]))
    if len(there) < len(partitions):
        published = publisher.published_partitions()
        there |= {key: kind for key, kind in kinds.items() if key in published}
    readiness, current = lake.footer("readiness"), publisher.current()
    is_right = (
        not is_smaller
        and publisher.is_current(there)
        and readiness is not None
        and current is not None
        and readiness.inputs.get("index") == version_of(current)
        and staleness.whole_are_right(settings, publishing, state, lake)
        and all((settings.root / extra.folder).is_dir() for extra in enabled(settings))
    )
    return () if is_right else tuple(publishing)


def _leave_broken(
    partitions: Sequence[SourcePartition],
    stale: dict[str, dict[str, str]],
    broken: Mapping[str, str],
    settings: Settings,
    lake: ParquetLake,
) -> None:
    """Take partitions of broken sources out of `stale`; SourceError where the lake has not all of them."""
    reading = {
        table
        for stage in partition_stages(settings)
        if stage.reads_sources
        for table in stage.tables
    }
    for partition in partitions:
        if partition.source in broken and reading & stale.get(partition.key, {}).keys():
            if not lake.has_tables(TABLES_OF_TYPE[partition.source_type], partition.key):
                raise SourceError(broken[partition.source])
            stale[partition.key] = {}


def _damages(
    settings: Settings,
    stale: Mapping[str, Sequence[str]],
    publisher: DuckDBPublisher,
    lake: ParquetLake,
) -> dict[str, str]:
    """By path, the faults of files of the lake and of the published one, beside those not made yet.

    Files with the columns of another version of Weft are none of them.
    """
    published = publisher.published_partitions()
    # A file that was never made is not damage: a published one was there once.
    places = [(table, p, p in published) for p in sorted(stale) for table in stale[p]]
    whole = staleness.whole_tables(settings, lake)
    versions = whole | {t: s.declared_version for s in partition_stages(settings) for t in s.tables}
    damages: dict[str, str] = {}
    listed = [table for table in IN_PARTS if lake.damage(table) is None]
    places += [(table, p, bool(published)) for table in listed for p in lake.parts(table)]
    for table, partition, was_there in [*places, *((t, None, bool(published)) for t in whole)]:
        damage = lake.damage(table, partition)
        if damage == OTHER_SCHEMA and lake.code_version(table, partition) != versions[table]:
            continue
        if damage and (was_there or damage != MISSING):
            damages[str(lake.path(table, partition))] = damage
    if damage := publisher.damage():
        damages[str(publisher.folder / CURRENT)] = damage
    return damages
