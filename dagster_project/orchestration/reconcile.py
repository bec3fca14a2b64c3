"""The one function that decides the next runs. It compares the plan with Dagster's runs, and
remembers nothing.

Its callers are the sensors, which request the work from Dagster's daemon, and `weft build`, which
does it itself. A caller that asks late, twice or after a crash gets the right answer, because no
event is stored.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import dagster as dg

from assets.partitions import CONTEXT, PARTITIONS_OF_RUN, SOURCE_TYPES
from dagster_project.composition.objects import make_lake, make_publisher, require_served_models
from dagster_project.config.settings import Settings
from dagster_project.index.publish.version_inputs import TABLES_OF_TYPE
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.set_aside import SetAside
from dagster_project.orchestration.alerts import alert_sources
from dagster_project.orchestration.asset_graph import partition_stages, whole_phases
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.names import LATER, PHASE_TAG, REFRESH_TAG, STATE_TAG
from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.plan import CONTENT_REASONS, Plan
from dagster_project.orchestration.runs import run_partitions, run_tables, under_way
from dagster_project.orchestration.work import Phase, Work
from dagster_project.system.dagster_internals import partitions_of_backfills
from dagster_project.system.locks import BUILD_LOCK, is_held
from transforms.conversations.windows import windows_behind
from transforms.errors import ServiceError, SourceError

QUERIES_OF_CONTEXT = 200
"""Queries of windows that a refresh asks the index by itself: nobody waits for them, and a query of a chat with
an assistant (5,700 characters) takes 90 ms of the processor.
"""
UNCHANGED = "nothing changed: the index shows the sources as they are"
_SOURCE_TABLES = {table for source_type in SOURCE_TYPES for table in source_type.tables}
Tried = tuple[str, str | None, str]
"""Phase, partition and state of work that a refresh did, or tried to do."""


@dataclass(frozen=True)
class Runs:
    """The state of Dagster's own runs: those under way, the partitions of backfills, and the
    attempts of a refresh.
    """

    going: tuple[dg.DagsterRun, ...] = ()
    making: Set[tuple[str, str]] = frozenset()
    """The tables and partitions that runs under way make."""
    backfilled: Set[str] = frozenset()
    tried: Set[Tried] = frozenset()

    def taken(self, tables: Collection[str]) -> set[str]:
        """The partitions where runs or backfills under way make some of `tables`."""
        return {partition for table, partition in self.making if table in tables} | {
            *self.backfilled
        }

    @property
    def awaited(self) -> dg.DagsterRun | None:
        """A run under way that a publish waits for: one of no backfill, and not of very long texts."""
        own = (run for run in self.going if "dagster/backfill" not in run.tags)
        return next((run for run in own if not LATER.items() <= run.tags.items()), None)

    @property
    def later(self) -> dg.DagsterRun | None:
        """A run under way of very long texts, or of a backfill that may wait like them."""
        return next((run for run in self.going if LATER.items() <= run.tags.items()), None)


def runs_of_dagster(settings: Settings, instance: dg.DagsterInstance, refresh: str) -> Runs:
    """The state of the runs of an instance, for a refresh to go on by."""
    going = under_way(instance)
    making = {
        (t, p) for run in going for p in run_partitions(instance, [run]) for t in run_tables(run)
    }
    tried: set[Tried] = set()
    for run in instance.get_runs(dg.RunsFilter(tags={REFRESH_TAG: refresh})):
        tried |= tried_by(run.tags, run_tables(run), run_partitions(instance, [run]))
    backfilled = partitions_of_backfills(instance, lambda: asset_definitions(settings))
    return Runs(tuple(going), making, backfilled, tried)


def tried_by(
    tags: Mapping[str, str], tables: Collection[str], partitions: Iterable[str]
) -> set[Tried]:
    """The attempts of a run with those tags; one that relates and publishes has both."""
    phase, state = tags.get(PHASE_TAG), tags.get(STATE_TAG, "")
    if phase is None:
        return set()
    attempts: set[Tried] = {(phase, partition, state) for partition in partitions} or {
        (phase, None, state)
    }
    return attempts | ({(Phase.PUBLISH.value, None, state)} if "search_index" in tables else set())


def reconcile(
    settings: Settings,
    instance: dg.DagsterInstance,
    plan: Plan,
    runs: Runs,
    limit: int = PARTITIONS_OF_RUN,
    broken: Sequence[Work] = (),
) -> tuple[list[Work], str]:
    """The next work, in runs of at most `limit` partitions, all of it independent; or why none is
    next.

    That is the first phase with work left in the plan. It begins when nothing before it is stale or
    under way; a refresh does not repeat its attempts, so that a partition that cannot be made keeps
    no other from the index. `broken` are runs that report the fault of a source.
    """
    steps = _Steps(settings, instance, plan, runs, limit)
    fresh = [work for work in broken if (Phase.PARTITIONS, work.first, "") not in runs.tried]
    if works := [*steps.partitions(plan.stale, Phase.PARTITIONS), *fresh]:
        return works, ""
    if runs.awaited:
        return [], f"run {runs.awaited.run_id[:8]} and what follows it is under way"
    if plan.whole:
        if steps.is_of_backfill():
            return [], "the end of a backfill is published"
        if works := steps.whole():
            return works, ""
    works = steps.partitions(steps.context_at_once(), Phase.CONTEXT)
    if slow := steps.partitions(plan.slow, Phase.SLOW):
        if runs.later:
            return works, f"run {runs.later.run_id[:8]} comes before other very long texts"
        works += slow
    is_left = plan.stale or plan.publish or plan.slow or plan.broken
    return (
        works,
        "all that is left was tried: the next refresh tries again" if is_left else UNCHANGED,
    )


_TABLES = {
    Phase.PARTITIONS: (SOURCE_TYPES, _SOURCE_TABLES),
    Phase.CONTEXT: ([CONTEXT], {*CONTEXT.tables}),
    Phase.SLOW: (SOURCE_TYPES, _SOURCE_TABLES),
}
"""By phase the kinds of partitions that it makes, and the tables that nobody else may be making."""


@dataclass(frozen=True)
class _Steps:
    settings: Settings
    instance: dg.DagsterInstance
    plan: Plan
    runs: Runs
    limit: int

    def partitions(self, stale: Mapping[str, tuple[str, ...]], phase: Phase) -> list[Work]:
        """The runs of stale partitions that nobody makes and that were not tried.

        They are tried again when a stage, also one over the whole lake, failed on files and mails:
        these are left out then.
        """
        types, tables = _TABLES[phase]
        busy = self.runs.taken(tables)
        aside = SetAside(make_lake(self.settings).base)
        state = self.plan.state if phase is Phase.CONTEXT else aside.state()
        untried = {
            p: t
            for p, t in stale.items()
            if not (p in busy or (phase, p, state) in self.runs.tried)
        }
        works = partition_runs(self.instance, untried, types, self.limit)
        return [
            replace(work, phase=phase, state=state, later=phase is Phase.SLOW) for work in works
        ]

    def context_at_once(self) -> dict[str, tuple[str, ...]]:
        """The stale windows that come next in this refresh: those without context first, of these
        the newest of each conversation.

        The refresh asks `QUERIES_OF_CONTEXT` in all, but makes one window at least.
        """
        lake, stale = make_lake(self.settings), self.plan.context
        tried = [(p, state) for phase, p, state in self.runs.tried if phase == Phase.CONTEXT and p]
        queries = sum(_queries(lake, window) for window, _ in tried)
        done = {window for window, state in tried if state == self.plan.state}
        has_context = {p for p in stale if lake.footer(CONTEXT.tables[0], p)}
        behind = windows_behind(stale)
        chosen: dict[str, tuple[str, ...]] = {}
        for window in sorted(stale, key=lambda p: (p in has_context, behind[p], p)):
            if window not in done:
                queries += _queries(lake, window)
                if queries > QUERIES_OF_CONTEXT and (tried or chosen):
                    break
                chosen[window] = stale[window]
        return chosen

    def whole(self) -> list[Work]:
        """The run over the whole lake."""
        _, publishing = whole_phases(self.settings)
        phase = Phase.RELATIONS if set(self.plan.whole) - set(publishing) else Phase.PUBLISH
        if (phase.value, None, self.plan.state) in self.runs.tried:
            return []
        return [Work(self.plan.whole, phase=phase, state=self.plan.state)]

    def is_of_backfill(self) -> bool:
        """True if a backfill is under way, and made all that the index does not show yet: its end
        is published.
        """
        lake = make_lake(self.settings)
        if not self.runs.backfilled or self.plan.vanished:
            return False
        published = make_publisher(self.settings, lake).published_partitions()
        with lake.one_look():
            return not any(
                (footer := lake.footer(table, p.key))
                and footer.content_hash != published.get(p.key, {}).get(table)
                for p in self.plan.partitions
                if p.key not in self.runs.backfilled
                for table in TABLES_OF_TYPE[p.source_type]
            )


def _queries(lake: ParquetLake, window: str) -> int:
    """How many queries ask for the context of a window."""
    footer = lake.footer("conversation_query_chunks", window)
    return footer.row_count if footer else 0


def _planned(
    settings: Settings,
    instance: dg.DagsterInstance,
    runs: Runs,
    on_plan: Callable[[Plan], None],
) -> Plan:
    """The plan of now, which `on_plan` hears; if no source can be read, one that says so."""
    try:
        plan = planned(settings, instance, runs.taken(_SOURCE_TABLES))
    except SourceError as fault:
        broken = {source.name: str(fault) for source in settings.sources}
        return Plan((), {}, (), publish=False, broken=broken)
    on_plan(plan)
    return plan


def next_requests(
    settings: Settings,
    instance: dg.DagsterInstance,
    refresh: str,
    partitions: Collection[str] | None = None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> tuple[Sequence[dg.RunRequest] | dg.SkipReason, bool]:
    """The runs that Dagster's daemon is to begin next for a refresh, or why none; and if nothing is
    left or under way.

    Dagster knows the partitions of now afterwards. A source that cannot be read gets a run, which
    fails with the remedy, and keeps no other from its own. After `partitions` that people made
    these are completed and published, unless their code or settings are others, and those in which
    a stage failed on files and mails; other stale tables
    wait for the next refresh. Runs of very long texts begin one at a time, so that a publish waits
    for no more than that.
    """
    runs = runs_of_dagster(settings, instance, refresh)
    if is_held(settings.root / BUILD_LOCK):
        return dg.SkipReason(f"a build of {settings.root} from the command line is running"), False
    plan = _planned(settings, instance, runs, on_plan)
    broken = _of_broken(settings, instance, plan.broken)
    is_settled = not (runs.going or runs.backfilled)
    if plan.broken and not plan.partitions and not broken:
        return dg.SkipReason("; ".join(set(plan.broken.values()))), is_settled
    if partitions is not None:
        completed = {*partitions, *SetAside(make_lake(settings).base).all()}
        own = {
            p: t
            for p, t in plan.stale.items()
            if p in completed and plan.reasons[p] in CONTENT_REASONS
        }
        plan, broken = replace(plan, stale=own), []
    works, reason = reconcile(settings, instance, plan, runs, broken=broken)
    works = [work for work in works if not work.later] + [work for work in works if work.later][:1]
    if not works:
        return dg.SkipReason(reason), is_settled
    if set(works) & set(broken):
        alert_sources(settings.alerts, settings.root, plan.broken)
    if any(work.phase in (Phase.PARTITIONS, Phase.RELATIONS) for work in works):
        try:
            require_served_models(settings)
        except ServiceError as fault:
            return dg.SkipReason(str(fault)), is_settled
    return [work.request(refresh) for work in works], False


def _of_broken(
    settings: Settings, instance: dg.DagsterInstance, names: Collection[str]
) -> list[Work]:
    """A run of the first partition that Dagster knows of each source of `names`; it fails, with the
    remedy.
    """
    works = []
    for source in (source for source in settings.sources if source.name in names):
        partitions = instance.get_dynamic_partitions(source.source_type)
        kind = next(kind for kind in SOURCE_TYPES if kind.name == source.source_type)
        tables = partition_stages(settings, kind)[0].tables
        own = [partition for partition in partitions if partition.startswith(f"{source.name}/")]
        works += [Work(tables, partition, partition, Phase.PARTITIONS) for partition in own[:1]]
    return works
