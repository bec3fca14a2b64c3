"""Dagster's daemon, one step at a time: looks of the sensors, and the runs that they request."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import dagster as dg

from dagster_project.definitions import build_definitions
from dagster_project.orchestration.names import REFRESH, REFRESH_NOW
from dagster_project.orchestration.runs import run_partitions
from dagster_project.orchestration.triggers.schedules import hourly_sensor
from dagster_project.system.dagster_internals import listed
from dagster_project.system.locks import RUNS
from tests.archives import Workspace

HOUR = datetime(2026, 3, 1, 2, tzinfo=UTC)
Answer = Sequence[dg.RunRequest] | dg.RunRequest | dg.SkipReason


@dataclass
class Daemon:
    """The daemon of a workspace; nothing happens unless a test says so."""

    work: Workspace
    instance: dg.DagsterInstance
    hours: int = 0
    queued: list[dg.DagsterRun] = field(default_factory=list)
    why: str = ""
    """Why the last tick or look asked for nothing."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin the process of the code anew, with nothing in its memory."""
        settings = self.work.settings
        self.definitions = build_definitions(settings)
        jobs = [job for job in self.definitions.jobs or () if not isinstance(job, str)]
        clock = lambda: (HOUR + timedelta(hours=self.hours)).timestamp()  # noqa: E731
        self.hourly = hourly_sensor(settings, jobs, clock)

    def hour(self) -> list[dg.DagsterRun]:
        """The first look in another hour: the runs that are queued by it."""
        self.hours += 1
        with dg.build_sensor_context(self.instance) as context:
            return self._queue(self.hourly(context))

    def look(self, *, is_lost: bool = False) -> list[dg.DagsterRun]:
        """A look of the sensor that goes on: the runs that are queued by it, unless its answer is
        lost.
        """
        sensor = self.definitions.resolve_sensor_def(f"{REFRESH}_goes_on")
        with dg.build_sensor_context(self.instance, cursor="of a version that kept one") as context:
            answer = sensor(context)
        return [] if is_lost else self._queue(answer)

    def begin_refresh(self) -> dg.DagsterRun:
        """What a person does who launches `refresh_now`."""
        (run,) = self._queue([dg.RunRequest(job_name=REFRESH_NOW)])
        return run

    def run(self, number: int = 0, *, checked: bool = True) -> dg.ExecuteInProcessResult:
        run = self.queued.pop(number)
        self.instance.delete_run(run.run_id)
        job = self.definitions.resolve_job_def(run.job_name)
        with listed(self.instance, job.name):
            return job.execute_in_process(
                instance=self.instance,
                asset_selection=sorted(run.asset_selection) if run.asset_selection else None,
                tags=run.tags,
                raise_on_error=checked,
            )

    def kill(self, number: int = 0) -> None:
        """Begin a queued run, and lose its process."""
        run = self.queued.pop(number)
        self.instance.report_dagster_event(
            dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name), run.run_id
        )
        (self.work.settings.root / RUNS).mkdir(exist_ok=True)
        (self.work.settings.root / RUNS / run.run_id).touch()

    def rest(self, most: int = 20) -> list[tuple[str, tuple[str, ...]]]:
        """Look and run until nothing is asked for any more: the jobs that ran, with their
        partitions.
        """
        made = []
        for _ in range(most):
            while self.queued:
                run = self.queued[0]
                made.append((run.job_name, tuple(sorted(run_partitions(self.instance, [run])))))
                self.run(checked=False)
            if not self.look():
                return made
        raise AssertionError(f"no end of runs: {made}")

    def _queue(self, answer: Answer) -> list[dg.DagsterRun]:
        self.why = (answer.skip_message or "") if isinstance(answer, dg.SkipReason) else ""
        found = (
            []
            if isinstance(answer, dg.SkipReason)
            else answer
            if isinstance(answer, list)
            else [answer]
        )
        assert not isinstance(found, dg.RunRequest)
        runs = []
        for request in found:
            asked = self.definitions.resolve_job_def(request.job_name or "")
            keys = frozenset(request.asset_selection) if request.asset_selection else None
            with listed(self.instance, asked.name):
                runs.append(
                    self.instance.create_run_for_job(
                        asked,
                        status=dg.DagsterRunStatus.QUEUED,
                        tags=request.tags,
                        asset_selection=keys,
                    )
                )
        self.queued += runs
        return runs
