"""Fetches, and runs of changed tables, in this process: the work behind `weft build`."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any

import dagster as dg
import duckdb

from assets.embedding import PAID_TWICE
from assets.fetch import GROUP, fetched_key
from dagster_project.composition import objects
from dagster_project.composition.stores import BuildEngine, make_engine
from dagster_project.config.settings import Settings
from dagster_project.extensions import declared_tables
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.set_aside import SetAside
from dagster_project.orchestration import isolation, runs
from dagster_project.orchestration.alerts import (
    alert_checks,
    alert_interrupted,
    alert_sources,
    alerting,
)
from dagster_project.orchestration.asset_graph import make_assets, whole_phases
from dagster_project.orchestration.asset_jobs import asset_definitions, whole_assets
from dagster_project.orchestration.direct_runs import DirectRuns
from dagster_project.orchestration.names import COMMAND_TAG, REFRESH_TAG
from dagster_project.orchestration.outcomes import (
    BuildResult,
    FailedCheck,
    FetchOutcome,
    Interrupted,
    numbers,
)
from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.plan import Plan, make_plan
from dagster_project.orchestration.reconcile import Runs, Tried, reconcile, tried_by
from dagster_project.orchestration.upkeep import erasure
from dagster_project.orchestration.work import Phase, Work
from dagster_project.orchestration.workers import (
    EndedProcessError,
    Workers,
    most_of_run,
    workers_for,
)
from dagster_project.system.disk_space import is_of_full_disk, may_be_written, require_writable
from dagster_project.system.disk_watch import translate_disk_faults
from dagster_project.system.locks import only_build
from dagster_project.system.long_work import CountedProgress
from transforms.errors import LakeDamageError, SetAsideError, SettingsError, WeftError

_ADDED_UP = ("embedded", "calls", "tokens", "truncated_texts", "estimated_cost_usd", PAID_TWICE)
_FEW = 8
"""Stale partitions that a process that stays makes itself: others would have to start."""
_CLOCKS_DIFFER = timedelta(minutes=1)
"""Between this machine and that of a network disk."""
_UNREAD = """
SELECT source, min(place), arg_min(reason, place) FROM quarantine
WHERE source NOT IN (SELECT source FROM readiness UNION SELECT source FROM memberships)
GROUP BY source ORDER BY source
"""
Tell = Callable[[str, str | None, int], None]


def build(
    settings: Settings,
    instance: dg.DagsterInstance,
    *,
    fetch: bool = True,
    verify: bool = False,
    tell: Tell = lambda stage, partition, rows: None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> BuildResult:
    """Bring the published index up to date: fetch, discover, materialize changed tables, publish.

    Makes the runs that the schedule would ask
    for, one after the other in this process, and none if nothing changed. Very long texts are made
    and published last. Texts to forget that are still somewhere are erased. If a remote fails, the
    build uses files fetched earlier, and `fetched` of the result has the fault. If a source cannot
    be read, the index keeps its texts of it, and `broken` of the plan has the fault; SourceError if
    none can be read. Files of the lake that are corrupt inside are found by `verify`, or when a
    step fails for no reason of its own, and rebuilt. Raises BusyError while another build of the
    same storage runs, and WeftError when a run fails, with the step and the reason. Runs of Dagster
    that work on the same lake are waited for before anything over all of it is made; work that
    others wait to begin is done here, since nobody knows whether a daemon lives that would start
    them. Failures and warning checks are sent to `[alerts]`.
    """
    work = _Build(settings, instance, CountedProgress(tell))
    names = tuple(source.name for source in settings.sources if source.remote) if fetch else ()
    return _built(work, names, verify, on_plan)


def build_batch(direct: DirectRuns, fetch: Collection[str]) -> BuildResult:
    """As `build`, by direct runs, after a fetch of some sources; raises as that does."""
    progress = CountedProgress(lambda stage, partition, rows: None)
    work = _Build(direct.settings, direct.instance, progress, direct)
    return _built(work, tuple(fetch), verify=False, on_plan=lambda plan: None)


def _built(
    work: "_Build", names: Sequence[str], verify: bool, on_plan: Callable[[Plan], None]
) -> BuildResult:
    """The result of a build that fetches the sources of `names` first."""
    settings, instance = work.settings, work.instance
    start = time.monotonic()
    behind = clock_behind(settings)
    with (
        alerting(settings.alerts, settings.root),
        translate_disk_faults(settings.root),
        only_build(settings.root, settings.lake_uri),
    ):
        objects.temporary_sweep(settings)
        interrupted = runs.close_dead_runs(instance, settings.root, only_command=True)
        alert_interrupted(settings.alerts, settings.root, interrupted)
        work.suspect(interrupted)
        with contextlib.closing(work.engine):
            fetched = (
                fetch_sources(settings, instance, names, work.progress.tell, work.tags)
                if names
                else {}
            )
            lake = objects.make_lake(settings)
            damaged = objects.make_publisher(settings, lake).discard_damaged() if verify else {}
            spoiled = {**lake.discard_corrupt(), **damaged} if verify else {}
            erasure.begin(settings)
            result = work.of_whole_files(on_plan, spoiled)
            erased = erasure.finish(settings, instance)
        runs.prune_runs(instance)
    result = replace(
        result,
        fetched=fetched,
        stages=_stages(work.progress),
        seconds=time.monotonic() - start,
        interrupted=interrupted,
        clock_behind=behind,
        erased=erased,
        unread=unread_sources(settings),
        left_out={**dict.fromkeys(result.plan.left_out, 0), **erasure.left_out(settings)},
    )
    _alert(settings, result)
    return result


def _stages(progress: CountedProgress) -> dict[str, dict[str, float]]:
    """The rows, the seconds and the processor time of each stage that ran."""
    return {
        name: {
            "rows": rows,
            "seconds": progress.seconds[name],
            "processor": progress.processor[name],
        }
        for name, rows in progress.rows.items()
    }


def _alert(settings: Settings, result: BuildResult) -> None:
    """Send the warnings of checks and the faults of sources to those who are to know."""
    alert_checks(settings.alerts, settings.root, result.failed_checks)
    faulty = [name for name, outcome in result.fetched.items() if outcome.fault]
    alert_sources(settings.alerts, settings.root, faulty, "fetch_failed")
    alert_sources(settings.alerts, settings.root, result.plan.broken)


def unread_sources(settings: Settings) -> dict[str, str]:
    """The first fault of each source that has faults and no text in the current version."""
    current = objects.make_publisher(settings, objects.make_lake(settings)).current()
    if current is None:
        return {}
    with contextlib.closing(duckdb.connect(str(current), read_only=True)) as connection:
        rows = connection.execute(_UNREAD).fetchall()
    names = {source.name for source in settings.sources}
    return {source: f"{place}: {reason}" for source, place, reason in rows if source in names}


def fetch_only(
    settings: Settings, instance: dg.DagsterInstance, names: Sequence[str] = ()
) -> dict[str, FetchOutcome]:
    """Fetch all sources that have a remote, or those named; BusyError while a build runs."""
    with translate_disk_faults(settings.root), only_build(settings.root, settings.lake_uri):
        runs.close_dead_runs(instance, settings.root, only_command=True)
        return fetch_sources(settings, instance, names)


def make_texts(
    settings: Settings,
    instance: dg.DagsterInstance,
    *,
    tell: Tell = lambda stage, partition, rows: None,
    on_plan: Callable[[Plan], None] = lambda plan: None,
) -> None:
    """Bring the lake up to date as far as it costs nothing: all that the texts are made of is
    there.

    On a storage that may not be written, UnwritableError unless all is made. Raises as `build`
    does.
    """
    if not may_be_written(settings.root):
        if make_plan(settings, objects.make_sources(settings), objects.make_lake(settings)).publish:
            require_writable(settings.root, settings.root)
        return
    with translate_disk_faults(settings.root), only_build(settings.root, settings.lake_uri):
        runs.close_dead_runs(instance, settings.root, only_command=True)
        work = _Build(settings, instance, CountedProgress(tell))
        plan = planned(settings, instance)
        on_plan(plan)
        if plan.publish:
            with contextlib.closing(work.engine):
                for part in partition_runs(instance, plan.stale, limit=work.engine.run_partitions):
                    work.do([part])
            before, _ = whole_phases(settings)
            assets = make_assets(settings)
            needed = (
                dg.AssetSelection.assets("chunk_context")
                .upstream(include_self=False)
                .resolve(assets)
            )
            names = {key.path[-1] for asset in assets if asset.keys & needed for key in asset.keys}
            work.do([Work(tuple(table for table in before if table in names))])


def clock_behind(settings: Settings) -> timedelta | None:
    """How far the clock is behind the last publish; None if it is not, give or take a minute."""
    current = objects.make_publisher(settings, objects.make_lake(settings)).current()
    if current is None:
        return None
    behind = timedelta(seconds=round(current.stat().st_mtime - time.time()))
    return behind if behind > _CLOCKS_DIFFER else None


class _Build:
    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        progress: CountedProgress,
        direct: DirectRuns | None = None,
    ):
        self.settings, self.instance, self.progress = settings, instance, progress
        self.direct = direct
        start = datetime.now(UTC).isoformat(timespec="seconds")
        self.tags = {COMMAND_TAG: str(settings.root), REFRESH_TAG: start}
        self.failed: dict[tuple[str, str], FailedCheck] = {}
        self.published: Mapping[str, Any] | None = None
        self.figures: dict[str, Any] = {}
        self.failed_files: dict[str, dict[str, str]] = {}
        self.suspects: set[str] = set()

    @cached_property
    def engine(self) -> BuildEngine:
        """The engine of the settings, which `close` ends."""
        return make_engine(self.settings)

    @cached_property
    def definitions(self) -> dg.Definitions:
        """The assets that it makes: not put together where nothing is to do."""
        return asset_definitions(self.settings, {"progress": self.progress, "engine": self.engine})

    def of_whole_files(
        self, on_plan: Callable[[Plan], None], spoiled: Mapping[str, str]
    ) -> BuildResult:
        """`run`, and once more if it fails for no reason of its own and files of the lake are
        damaged inside.
        """
        try:
            return self.run(on_plan, spoiled)
        except WeftError as fault:
            if type(fault) not in (WeftError, LakeDamageError) or is_of_full_disk(fault):
                raise
            damage = objects.make_lake(self.settings).discard_corrupt()
            if not damage:
                raise
        return self.run(on_plan, {**spoiled, **damage})

    def run(self, on_plan: Callable[[Plan], None], spoiled: Mapping[str, str]) -> BuildResult:
        """Do what `reconcile` says until nothing is left; `spoiled` are files of the lake that were
        damaged and are gone.
        """
        plan = planned(self.settings, self.instance)
        first = replace(plan, damaged={**plan.damaged, **spoiled})
        on_plan(first)
        if plan.publish:
            objects.require_served_models(self.settings)
        tried: set[Tried] = set()
        set_aside = SetAside(objects.make_lake(self.settings).base)
        with contextlib.ExitStack() as beside:
            plan = self.make_apart(plan)
            workers, most = self.beside(beside, plan)
            # Work that others began counts for nothing: perhaps no daemon lives to go on with it.
            while works := reconcile(self.settings, self.instance, plan, Runs(tried=tried), most)[
                0
            ]:
                if works[0].phase not in (Phase.PARTITIONS, Phase.SLOW):
                    beside.close()  # their memory is needed
                    workers = None
                before, done = set_aside.all(), works
                try:
                    self.do(works, workers)
                except SetAsideError:
                    if set_aside.all() == before:
                        raise
                    done = []  # made again without what it failed on
                except EndedProcessError:
                    beside.close()
                    ended = runs.close_dead_runs(self.instance, self.settings.root)
                    if not self.suspect(ended):
                        raise
                    plan = self.make_apart(planned(self.settings, self.instance))
                    workers, most = self.beside(beside, plan)
                    continue
                for work in done:
                    of_run = runs.partitions_within(self.instance, work.tags)
                    tried |= tried_by(work.tags, work.tables, of_run)
                aside = set_aside.all()
                self.failed_files |= {p: aside[p] for p in aside if aside[p] != before.get(p)}
                plan = planned(self.settings, self.instance)
        slow = {partition for phase, partition, _ in tried if phase == Phase.SLOW and partition}
        return BuildResult(
            first,
            self.published,
            embedding=self.figures,
            failed_checks=tuple(self.failed.values()),
            slow=tuple(sorted(slow)),
            failed_files=tuple(
                f"{partition}: {place}: {reason}"
                for partition, own in sorted(self.failed_files.items())
                for place, reason in sorted(own.items())
            ),
            after=plan,
        )

    def beside(self, stack: contextlib.ExitStack, plan: Plan) -> tuple[Workers | None, int]:
        """Processes for the stale partitions of a plan, if they are worth it, and the partitions of
        a run at most.
        """
        stale = [partition for partition in plan.partitions if partition.key in plan.stale]
        if self.direct and len(stale) <= _FEW:
            return None, self.engine.run_partitions
        workers = stack.enter_context(
            workers_for(self.settings, self.instance, self.progress, stale)
        )
        most = most_of_run(workers, len(stale)) if workers else self.engine.run_partitions
        return workers, most

    def suspect(self, interrupted: Sequence[Interrupted]) -> bool:
        """Suspect the partitions of runs whose process was ended; True if one was not suspected
        before.
        """
        known = self.suspects
        ended = [self.instance.get_run_by_id(one.run) for one in interrupted]
        self.suspects = known | runs.run_partitions(self.instance, filter(None, ended))
        return self.suspects > known

    def make_apart(self, plan: Plan) -> Plan:
        """Make the suspected partitions in a process of their own, without the files over which one
        ends; the plan behind them.
        """
        stale = {p: t for p, t in {**plan.slow, **plan.stale}.items() if p in self.suspects}
        if not stale or not self.instance.is_persistent:
            return plan
        self.failed_files |= isolation.set_ending_aside(self.settings, stale)
        works = partition_runs(self.instance, stale, limit=1)
        with contextlib.closing(Workers(self.settings, self.instance, self.progress, 1)) as lone:
            lone.run(works, self.tags)
        return planned(self.settings, self.instance)

    def do(self, works: Sequence[Work], workers: Workers | None = None) -> None:
        """Make the work of runs: that of partitions in the processes of `workers`, if there are
        any.
        """
        if workers:
            workers.run(works, self.tags)
            return
        for work in works:
            if work.first is None:
                self.make_whole(work)
            elif work.phase is Phase.CONTEXT:
                self.make_context(work)
            else:
                self.make_partitions(work)

    def make_partitions(self, work: Work) -> None:
        """Make tables of partitions."""
        if not (self.direct and self.direct.do(work, self.progress)):
            runs.run_here(self.definitions, self.instance, work, self.tags)

    def make_context(self, work: Work) -> None:
        """Make the context of windows, of each by itself if a stage fails on one of them: that one
        stays without, and is said.
        """
        try:
            self.make_partitions(work)
        except WeftError as fault:
            if type(fault) is not WeftError:
                raise
            windows = runs.partitions_within(self.instance, work.tags)
            if len(windows) == 1:
                reason = str(fault).partition(" (run ")[0]
                self.failed_files |= {window: {"context": reason} for window in windows}
                return
            for window in sorted(windows):
                self.make_context(replace(work, first=window, last=window))

    def make_whole(self, work: Work) -> None:
        """Make tables over the whole lake, and keep their metadata."""
        for table in declared_tables().keys() - whole_assets(self.settings):
            objects.make_lake(self.settings).discard(
                table
            )  # nothing makes it again under these settings
        result = self.direct.do(work, self.progress) if self.direct else None
        if result:
            checks, events = result.checks, result.events
        else:
            run = runs.run_here(self.definitions, self.instance, work, self.tags)
            checks = run.get_asset_check_evaluations()
            events = [e.materialization for e in run.get_asset_materialization_events()]
        for c in (c for c in checks if not c.passed):
            asset, check = c.asset_key.path[-1] if c.asset_key else "", str(c.check_name)
            self.failed[asset, check] = FailedCheck(asset, check, numbers(c.metadata))
        facts = {m.asset_key.path[-1]: {k: v.value for k, v in m.metadata.items()} for m in events}
        self.published = facts.get("search_index", self.published)
        if "embeddings" in facts:
            # Names with a slash are Dagster's own.
            named = facts["embeddings"].items()
            own = {k: v for k, v in named if "/" not in k and isinstance(v, int | float)}
            self.figures = own | {
                k: v + own.get(k, 0) for k, v in self.figures.items() if k in _ADDED_UP
            }


def fetch_sources(
    settings: Settings,
    instance: dg.DagsterInstance,
    names: Sequence[str] = (),
    tell: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, FetchOutcome]:
    """Run the assets of all sources with `fetch`, or of those named; returns the outcome of each.

    A source that cannot be fetched keeps no other from it, and one that was forgotten is not
    fetched. The caller holds the build lock. SettingsError for a name that is not a fetched source.
    """
    remote = {s.name: s for s in settings.sources if s.remote}
    if unknown := sorted(set(names) - set(remote)):
        choices = ", ".join(sorted(remote)) or "none"
        raise SettingsError(f"no source with fetch is called {unknown[0]!r}; there are: {choices}")
    forgotten = Forgotten(objects.make_lake(settings).base)
    sources = [n for n in remote if (not names or n in names) and not forgotten.has("source", n)]
    if not sources:
        return {}
    keys = [fetched_key(name) for name in sources]
    tags = {COMMAND_TAG: str(settings.root), **tags}
    result = runs.run_here(
        asset_definitions(settings), instance, Work(()), tags, keys=keys, checked=False
    )
    outcomes = {name: _fetch_outcome(result, name, remote[name].fetch_step) for name in sources}
    for name, outcome in outcomes.items():
        tell(GROUP, name, outcome.added + outcome.changed)
    return outcomes


def _fetch_outcome(result: dg.ExecuteInProcessResult, source: str, step: str) -> FetchOutcome:
    for event in result.all_events:
        if event.step_key != step:
            continue
        if event.is_step_materialization:
            metadata = event.step_materialization_data.materialization.metadata
            facts: dict[str, Any] = {k: v.value for k, v in metadata.items()}
            return FetchOutcome(
                **{k: facts[k] for k in FetchOutcome.__dataclass_fields__ if k in facts}
            )
        if event.is_step_failure:
            data = event.step_failure_data
            if failure := data.user_failure_data:
                facts = {k: v.value for k, v in failure.metadata.items()}
                return FetchOutcome(failure.description, lag_seconds=facts.get("lag_seconds"))
            error = runs.root_cause(data.error)
            return FetchOutcome(error.message.strip() if error else "unknown")
    return FetchOutcome(f"run {result.run_id} ended before it was fetched")
