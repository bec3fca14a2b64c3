"""Whatever the order of edits, ticks, ends of runs, deaths, jumps of the clock: two ticks later the
index shows the sources.

Memories and answers of the sensor are lost, too. The first test has a lake in memory, under
`reconcile` and a real instance of Dagster; the second one has real sources, runs and publishes.
"""

import random
import secrets
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import freeze_time
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from assets.partitions import MAIL
from dagster_project.orchestration.names import REFRESH_TAG
from dagster_project.orchestration.plan import Plan
from dagster_project.orchestration.reconcile import reconcile, runs_of_dagster
from dagster_project.orchestration.runs import run_partitions
from dagster_project.orchestration.work import Phase, Work
from tests.archives import Mail, Workspace, differences, rebuilt
from tests.cases import examples
from tests.daemon import Daemon
from tests.fuzz.fuzzing import seeds
from tests.runs import run_of_dagster

KEYS = ("dev/a", "dev/b", "dev/c")
WHOLE = ("memberships", "embeddings", "search_index")
Status = dg.DagsterRunStatus


class World:
    """Sources, a lake and an index of which each knows the versions of partitions, and Dagster's
    runs.
    """

    def __init__(self, work: Workspace, instance: dg.DagsterInstance):
        self.settings, self.instance = work.settings, instance
        self.sources = dict.fromkeys(KEYS, 0)
        self.lake: dict[str, int] = {}
        self.related: dict[str, int] | None = None
        self.index: dict[str, int] | None = None
        self.refreshes = 0
        self.going: dict[str, Work] = {}
        instance.add_dynamic_partitions(MAIL.partitions, list(KEYS))

    def plan(self) -> Plan:
        """What does not show the sources."""
        stale = {key: MAIL.tables for key in KEYS if self.lake.get(key) != self.sources[key]}
        is_right = self.related == self.index == self.lake
        whole = (
            () if is_right or not self.lake else WHOLE if self.related != self.lake else WHOLE[1:]
        )
        return Plan(
            (), stale, (), bool(stale or whole), whole=whole, state=str(sorted(self.lake.items()))
        )

    def edit(self, number: int) -> None:
        self.sources[KEYS[number % len(KEYS)]] += 1

    def hour(self, _: int = 0) -> None:
        self.refreshes += 1
        self.look()

    def look(self, _: int = 0) -> None:
        """Ask what is next, and queue it."""
        plan, runs = self.plan(), runs_of_dagster(self.settings, self.instance, str(self.refreshes))
        under_way = {p for run in runs.going for p in run_partitions(self.instance, [run])}
        for work in reconcile(self.settings, self.instance, plan, runs)[0]:
            tags = {REFRESH_TAG: str(self.refreshes), **work.tags}
            run = dg.DagsterRun(
                work.job,
                secrets.token_hex(8),
                status=Status.STARTED,
                tags=tags,
                asset_selection=frozenset(work.keys),
            )
            made = run_partitions(self.instance, [run])
            assert not made & under_way, "two runs make one partition"
            assert made <= plan.stale.keys(), "a partition is made that is current"
            assert made or (plan.whole and not under_way), (
                "the whole lake is made of what is under way"
            )
            assert made or not any(w.first is None for w in self.going.values()), (
                "two runs over the whole lake"
            )
            self.instance.add_run(run)
            self.going[run.run_id] = work

    def end(self, number: int) -> None:
        """End a run that is under way: well, in the middle of its work, or before it."""
        if not self.going:
            return
        run_id = sorted(self.going)[number % len(self.going)]
        work, how = self.going.pop(run_id), ("well", "well", "half", "not")[number % 4]
        run = self.instance.get_run_by_id(run_id)
        assert run
        for key in sorted(run_partitions(self.instance, [run]))[: {"half": 1, "not": 0}.get(how)]:
            self.lake[key] = self.sources[key]
        if work.phase in (Phase.RELATIONS, Phase.PUBLISH) and how != "not":
            self.related = dict(self.lake)
            self.index = dict(self.lake) if how == "well" else self.index
        self.instance.delete_run(run_id)
        self.instance.add_run(run.with_status(Status.SUCCESS if how == "well" else Status.FAILURE))

    def rest(self) -> None:
        """Let runs end well and ask again until nothing is asked for."""
        for _ in range(20):
            while self.going:
                self.end(0)
            self.look()
            if not self.going:
                return
        raise AssertionError("runs without end")


EVENTS = st.lists(
    st.tuples(st.sampled_from(["edit", "hour", "look", "look", "end", "end"]), st.integers(0, 23)),
    max_size=25,
)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS)
def test_two_ticks_after_the_last_change_a_lake_in_memory_shows_the_sources(
    tmp_path: Path, events: list[tuple[str, int]]
):
    with dg.DagsterInstance.ephemeral() as instance:
        world = World(Workspace(tmp_path).configure(), instance)
        for name, number in events:
            getattr(world, name)(number)
        for _ in range(2):
            world.hour()
            world.rest()
        assert world.lake == world.sources == world.index


STEPS = (
    "edit",
    "add",
    "remove",
    "hour",
    "look",
    "run",
    "kill",
    "by hand",
    "clock",
    "restart",
    "lost",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "chance"), list(seeds(1)))
def test_two_ticks_after_the_last_change_the_index_shows_the_sources(
    built: Workspace, tmp_path: Path, seed: int, chance: random.Random
):
    work, steps = (
        built,
        ["clock", "edit", "hour", "rest", *chance.choices(STEPS, k=chance.randint(3, 8)), "edit"],
    )
    with work.instance() as instance, ExitStack() as clock:
        daemon, number = Daemon(work, instance), 900
        for step in steps:
            number += 1
            if step in ("edit", "add"):
                name = (
                    "dev/dev.2004-02.mbox"
                    if step == "edit"
                    else f"users/users.20{number % 90 + 10}-01.mbox"
                )
                work.write(name, [Mail(number, f"The news of {number}.", f"News {number}")])
            elif step == "remove":
                (work.folder / "mail" / "dev" / "dev.2004-01.mbox").unlink(missing_ok=True)
            elif step == "clock":
                clock.close()
                clock.enter_context(
                    freeze_time(datetime.now(UTC) + timedelta(days=(-30, 30)[number % 2]))
                )
            elif step == "lost":
                daemon.look(is_lost=True)
            elif step == "by hand":
                run_of_dagster(work, instance, MAIL.tables, "dev/2004-02")
            elif step in ("run", "kill"):
                if daemon.queued:
                    (daemon.run if step == "run" else daemon.kill)()
            else:
                getattr(daemon, step)()
        clock.close()
        for _ in range(2):
            daemon.hour()
            made = [partitions for _, partitions in daemon.rest() if partitions]
            assert len(made) == len(set(made)), "a run is asked for twice"
        assert daemon.hour() == [] and daemon.look() == []
    assert work.plan().is_empty
    assert differences(work.index, rebuilt(work, tmp_path / "full").index) == {}, (seed, steps)
