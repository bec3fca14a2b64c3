"""The schedules that measure the index every day, and the sensors: one begins a refresh in every
hour, one goes on when a run ends.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import dagster as dg

from dagster_project.composition.objects import make_lake, make_publisher
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_interrupted
from dagster_project.orchestration.freshness import report_freshness
from dagster_project.orchestration.names import (
    COMMAND_TAG,
    EVALUATE,
    REFRESH,
    REFRESH_NOW,
    REFRESH_TAG,
    REPORT,
)
from dagster_project.orchestration.reconcile import Runs, next_requests
from dagster_project.orchestration.runs import (
    FINISHED,
    close_dead_runs,
    prune_runs,
    refresh_of,
    run_partitions,
    under_way,
)
from dagster_project.system.locks import BUILD_LOCK, is_held

PERIOD_SECONDS = 3600
"""Seconds from one refresh to the next."""
HAS_BEGUN = "the refresh of this hour has begun"
INTERVAL_SECONDS = 30
"""Seconds between two looks at which runs ended."""
_PRUNED_AT_ONCE = 20
"""Runs that one look deletes at most: it has a minute."""
_LOOKED_BACK = 50
"""Runs that ended, the newest: earlier ones are not looked at to find how a refresh began."""
Asked = Sequence[dg.RunRequest] | dg.SkipReason


def hourly_sensor(
    settings: Settings, jobs: Sequence[Any], clock: Callable[[], float] = time.time
) -> dg.SensorDefinition:
    """The sensor `refresh_every_hour`, off until it is switched on: begins a refresh once in each
    hour.

    It requests the fetch if a source has a remote, else the first runs of the plan. It keeps no
    cursor: the hour for which Dagster has a run, or nothing was left to do, is in the memory of its
    process, and a new process asks once in vain.
    """
    remotes = any(source.remote for source in settings.sources)
    begun = ""

    @dg.sensor(
        name=f"{REFRESH}_every_hour",
        jobs=list(jobs),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description="Begins a refresh in every hour, if anything changed or can be fetched.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        nonlocal begun
        instance = context.instance
        period = clock() // PERIOD_SECONDS * PERIOD_SECONDS
        refresh = f"{datetime.fromtimestamp(period, UTC):%Y-%m-%dT%H:%M}"
        of_refresh = dg.RunsFilter(tags={REFRESH_TAG: refresh})
        if refresh == begun or instance.get_run_ids(of_refresh, limit=1):
            begun = refresh
            return dg.SkipReason(HAS_BEGUN)
        if is_held(settings.root / BUILD_LOCK):
            return dg.SkipReason(f"a build of {settings.root} from the command line is running")
        alert_interrupted(settings.alerts, settings.root, close_dead_runs(instance, settings.root))
        prune_runs(instance, _PRUNED_AT_ONCE)
        if awaited := Runs(tuple(under_way(instance))).awaited:
            return dg.SkipReason(f"run {awaited.run_id[:8]} is under way")
        if remotes:
            return [dg.RunRequest(job_name=REFRESH_NOW, tags={REFRESH_TAG: refresh})]
        report = partial(report_freshness, settings, instance)
        answer, is_settled = next_requests(settings, instance, refresh, on_plan=report)
        begun = refresh if is_settled else begun
        return answer

    return sensor


def following_sensor(settings: Settings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """The sensor `refresh_goes_on`: whenever a run ended it asks for the next ones.

    It keeps no cursor. The runs that had ended when nothing was left to ask for are in the memory
    of its process, not the last of them, since a clock may be set back; a new process looks once in
    vain. After a run that a person launched, other partitions wait for the next refresh; those of
    that run are completed and published.
    """
    old_ids: set[str] = set()

    @dg.sensor(
        name=f"{REFRESH}_goes_on",
        jobs=list(jobs),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for the next runs when a run ended: partitions, then the whole lake, context and long texts.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        instance = context.instance
        alert_interrupted(settings.alerts, settings.root, close_dead_runs(instance, settings.root))
        newest = instance.get_runs(dg.RunsFilter(statuses=FINISHED), limit=_LOOKED_BACK)
        ended = [
            run for run in newest if COMMAND_TAG not in run.tags
        ]  # commands go on with their own
        since = [run for run in ended if run.run_id not in old_ids]
        if not since:
            return dg.SkipReason("no run has ended since nothing was left to do")
        if awaited := Runs(tuple(under_way(instance))).awaited:
            return dg.SkipReason(f"run {awaited.run_id[:8]} and what follows it is under way")
        first = next((run for run in since if run.job_name == REFRESH_NOW), None)
        refresh = refresh_of(first or since[0])
        partitions = (
            None if first else run_partitions(instance, [run for run in since if run.is_success])
        )
        answer, is_settled = next_requests(settings, instance, refresh, partitions)
        if is_settled:
            old_ids.clear()
            old_ids.update(run.run_id for run in ended)
        return answer

    return sensor


def daily_schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    """The schedules of the report on how the system does, and of the evaluation if queries are
    configured.
    """
    days = [
        (REPORT, 3, "operations_report", "Draws each day how fast, late and large everything is.")
    ]
    if settings.evaluation.queries:
        days.append(
            (EVALUATE, 4, "evaluation_report", "Measures each day the version published then.")
        )
    return [_every_day(settings, *day) for day in days]


def _every_day(
    settings: Settings, job: str, hour: int, asset: str, does: str
) -> dg.ScheduleDefinition:
    """The schedule that makes `asset` at an hour of the day, unless it is of the version that is
    published.
    """

    @dg.schedule(
        cron_schedule=f"0 {hour} * * *",
        job_name=job,
        name=f"{job}_every_day",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=does,
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        current = make_publisher(settings, make_lake(settings)).current()
        if current is None:
            return dg.SkipReason("nothing is published")
        last = context.instance.get_latest_materialization_event(dg.AssetKey(asset))
        if last and last.timestamp > current.stat().st_mtime:
            return dg.SkipReason(f"{asset} is of the version that is published")
        return dg.RunRequest()

    return schedule
