"""The plan of a build: the sources, the lake and the published index compared."""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from assets.partitions import CONTEXT, IN_PARTS, SOURCE_TYPES
from assets.protocols.sources import SourcePartition
from assets.stages.stage import LAKE
from dagster_project.composition.objects import make_publisher
from dagster_project.config.settings import Settings
from dagster_project.extensions import enabled
from dagster_project.index.publish.publisher import DuckDBPublisher
from dagster_project.index.publish.version_inputs import TABLES_OF_TYPE
from dagster_project.index.publish.versions import CURRENT, version_of
from dagster_project.lake.forgotten import partitions_with
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import MISSING, OTHER_SCHEMA
from dagster_project.ledger.ledger import STATE, PlanStep
from dagster_project.orchestration.asset_graph import partition_stages, whole_phases
from dagster_project.orchestration.staleness import state_of, steps, whole_tables
from dagster_project.sources.remembered_sources import RememberedSources
from transforms.errors import SourceError

_SHORT = 12
"""Characters of the hash by which the runs of one state know each other: they are a tag of each."""
LONG_TEXTS = "very long texts wait"
CONTENT_REASONS = ("source changed", "made from other tables than are there")
"""Reasons that the plan gives if neither code nor settings are others."""
FULL = "The published version is of another layout, tokenizer or model: the index is made from the lake alone"


@dataclass(frozen=True)
class Plan:
    """The parts of the index that do not show the sources: stale tables of each partition, and
    those over the whole lake.

    `publish` says that a publish is due, `whole` which tables over the whole lake are next on the
    way there: all of them, or those that publish. `context` has the stale tables of windows that
    ask the index that is published now, and `slow` those of partitions that leave out very long
    texts. `vanished` partitions left the sources. `state` is a hash of the sources in the lake.
    `damaged` has the fault of each corrupt file, which is rebuilt; `reasons` why the first stale
    table of a partition is stale, `whole_reasons` why a table over the whole lake is, if that is more
    than other content. With `is_full` the published version has another layout,
    tokenizer or model, and a build reuses nothing of it. `broken` has the fault of each source that
    cannot be read; the lake keeps its tables of it. `left_out` names the sources that were
    forgotten, in whole or some chats. `lost` says what of the ledger was missing or damaged: it is
    recorded again from the footers of the lake and the files of the sources.
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
    whole_reasons: Mapping[str, str] = field(default_factory=dict)
    is_full: bool = False
    broken: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the index already shows the sources as they are."""
        return not (self.stale or self.vanished or self.publish or self.context or self.slow)

    def warnings(self) -> list[str]:
        """One line per source that cannot be read and per corrupt file, and one if the index is
        rebuilt.
        """
        damages = [f"damaged, made again: {path}: {what}" for path, what in self.damaged.items()]
        broken = [f"cannot be read, left as it is: {fault}" for fault in self.broken.values()]
        lost = [f"{STATE}: {fault}; all is looked at again" for fault in self.lost]
        return [*lost, *broken, *damages, *([FULL] if self.is_full else [])]


def make_plan(
    settings: Settings, sources: RememberedSources, lake: ParquetLake, busy: Collection[str] = ()
) -> Plan:
    """Compare the sources, the lake and the published index, without stale partitions `busy` in
    runs under way.

    A table of a partition is stale if it is missing, corrupt, of another code version, or made from
    other inputs than the current ones, and so is every table that depends on it.
    """
    is_recorded = lake.ledger.file.exists()
    with lake.one_look():
        partitions = sources.discover()
        broken = dict(sources.broken)
        state = state_of(partitions, lake)
        forgotten = sources.forgotten
        forgets = partitions_with(lake, forgotten) if forgotten.unfinished else ()
        reasons, vanished = _by_kind(
            steps(settings, partitions, state, set(forgets), lake), set(busy)
        )
        of_sources = {
            part: why for kind in SOURCE_TYPES for part, why in reasons.get(kind.name, {}).items()
        }
        _leave_broken(partitions, of_sources, broken, settings, lake)
        stale = {
            part: tuple(t for t, reason in why.items() if reason != LONG_TEXTS)
            for part, why in of_sources.items()
            if {*why.values()} - {LONG_TEXTS}
        }
        publisher = make_publisher(settings, lake)
        due = reasons.get(LAKE, {}).get("", {})
        whole = _whole(settings, partitions, publisher, due.keys(), is_smaller=bool(vanished))
        publish = bool(stale or whole)
        is_lost = not is_recorded and any(lake.partitions(k.tables[0]) for k in SOURCE_TYPES)
        return Plan(
            tuple(partitions),
            stale,
            vanished,
            publish,
            whole=whole,
            context={p: tuple(why) for p, why in reasons.get(CONTEXT.name, {}).items()},
            slow={p: tuple(why) for p, why in of_sources.items() if why and p not in stale},
            state=state[:_SHORT],
            damaged=_damages(settings, stale, publisher, lake) if publish else {},
            reasons={part: of_sources[part][tables[0]] for part, tables in stale.items()},
            whole_reasons={t: why for t, why in due.items() if why not in CONTENT_REASONS},
            is_full=publish and publisher.damage() is None and not publisher.fits_settings(),
            broken=broken,
            left_out=tuple(sorted(sources.left_out)),
            lost=(*lake.ledger.take_faults(), *(["it is missing"] if is_lost else [])),
        )


_Reasons = dict[str, dict[str, dict[str, str]]]
"""By kind and partition the reason for each table to make, in order."""


def _by_kind(changes: Iterable[PlanStep], busy: Set[str]) -> tuple[_Reasons, tuple[str, ...]]:
    """The reasons of steps, without partitions `busy`, and the partitions to delete."""
    reasons: _Reasons = {}
    vanished = []
    for step in changes:
        if step.action == "delete":
            vanished.append(step.part)
        elif step.part not in busy:
            reasons.setdefault(step.kind, {}).setdefault(step.part, {})[step.table] = step.reason
    return reasons, tuple(vanished)


def _whole(
    settings: Settings,
    partitions: Sequence[SourcePartition],
    publisher: DuckDBPublisher,
    due: Set[str],
    *,
    is_smaller: bool,
) -> tuple[str, ...]:
    """The tables over the whole lake that are next; none if the index is right.

    Content decides: `due` are those that the plan makes, and the name of the version has the
    published ones.
    """
    lake, (relations, publishing) = publisher.lake, whole_phases(settings)
    kinds = {partition.key: partition.source_type for partition in partitions}
    there = {key: kind for key, kind in kinds.items() if lake.has_tables(TABLES_OF_TYPE[kind], key)}
    if partitions and not there:
        return ()  # nothing is to be related, and no empty version published
    if not due.isdisjoint(relations):
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
        and due.isdisjoint(publishing)
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
    """Take partitions of broken sources out of `stale`; SourceError where the lake has not all of
    them.
    """
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
    whole = whole_tables(settings, lake)
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
