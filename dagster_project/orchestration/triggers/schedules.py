"""What begins a refresh at every hour, what goes on with it when a run ends, and the report of every day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from itertools import takewhile
from typing import Any

import dagster as dg

from assets.partitions import SOURCE_TYPES
from dagster_project.composition.objects import make_lake, make_publisher, require_served_models
from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_interrupted
from dagster_project.orchestration.freshness import report_freshness
from dagster_project.orchestration.names import COMMAND_TAG, REFRESH, REFRESH_NOW, REFRESH_TAG, REPORT
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.reconcile import NOTHING, Runs, requests
from dagster_project.orchestration.retention import prune_runs
from dagster_project.orchestration.runs import FINISHED, close_dead_runs, partitions_of, refresh_of, under_way
from dagster_project.system.locks import BUILD_LOCK, is_held
from transforms.errors import SourceError

CRON = "0 * * * *"
INTERVAL_SECONDS = 30
"""Seconds between two looks at which run ended last."""
_PRUNED_AT_ONCE = 20
"""Runs that one look deletes at most: it has a minute."""
_LOOKED_BACK = 50
"""Runs, the last that ended: what was before them is not looked at to find how a refresh began."""
Asked = Sequence[dg.RunRequest] | dg.SkipReason


def hourly_schedule(settings: Settings) -> dg.ScheduleDefinition:
    """The schedule: at every full hour it begins a refresh, unless nothing changed and no source has a remote."""
    remotes = any(source.remote for source in settings.sources)

    @dg.schedule(
        cron_schedule=CRON,
        job_name=REFRESH_NOW,
        name=f"{REFRESH}_every_hour",
        description="Begins a refresh at every full hour, if anything changed or can be fetched.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        instance = context.instance
        if is_held(settings.root / BUILD_LOCK):
            return dg.SkipReason(f"a build of {settings.root} from the command line is running")
        _close_dead(settings, instance)
        prune_runs(instance, settings.operations.keep_runs_days, _PRUNED_AT_ONCE)
        if begun := [run for run in under_way(instance) if run.job_name == REFRESH_NOW]:
            return dg.SkipReason(f"run {begun[0].run_id[:8]} is under way")
        if not remotes and not _is_due(settings, instance):
            return dg.SkipReason(NOTHING)
        refresh = f"{context.scheduled_execution_time.astimezone(UTC):%Y-%m-%dT%H:%M}"
        return dg.RunRequest(run_key=refresh, tags={REFRESH_TAG: refresh})

    return schedule


def _is_due(settings: Settings, instance: dg.DagsterInstance) -> bool:
    """True if the index does not show what the sources hold, or a source cannot be read.

    SourceError if there is no partition whose run could say so, ServiceError if a model of the settings is not served.
    """
    try:
        plan = planned(settings, instance)
    except SourceError:
        if any(instance.get_dynamic_partitions(source_type.partitions) for source_type in SOURCE_TYPES):
            return True
        raise
    report_freshness(settings, instance, plan)
    if plan.is_empty and not plan.broken:
        return False
    require_served_models(settings)
    return True


def _close_dead(settings: Settings, instance: dg.DagsterInstance) -> None:
    alert_interrupted(settings.alerts, settings.root, close_dead_runs(instance, settings.root))


def following_sensor(settings: Settings, jobs: Sequence[Any]) -> dg.SensorDefinition:
    """The sensor `refresh_goes_on`: whenever a run ended it asks what is next.

    Its cursor is the run that ended last when nothing was left to ask for. Without it one look is made in vain. After a
    run that a person launched, other partitions wait for the next refresh; those of that run are completed and published.
    """

    @dg.sensor(
        name=f"{REFRESH}_goes_on",
        jobs=list(jobs),
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for what is next when a run ended: partitions, then the whole lake, context and long texts.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        instance = context.instance
        _close_dead(settings, instance)
        ended = _ended(instance)
        if not ended or ended[0].run_id == context.cursor:
            return dg.SkipReason("no run has ended since nothing was left to do")
        if awaited := Runs(tuple(under_way(instance))).awaited:
            return dg.SkipReason(f"run {awaited.run_id[:8]} and what follows it is under way")
        since = list(takewhile(lambda run: run.run_id != context.cursor, ended))
        begun = next((run for run in since if run.job_name == REFRESH_NOW), None)
        refresh = refresh_of(begun or since[0])
        made = None if begun else partitions_of(instance, [run for run in since if run.is_success])
        answer, runs = requests(settings, instance, refresh, made)
        is_held_up = is_held(settings.root / BUILD_LOCK) or runs.going or runs.backfilled
        if isinstance(answer, dg.SkipReason) and not is_held_up:
            context.update_cursor(ended[0].run_id)
        return answer

    return sensor


def _ended(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs that ended last, the last first, without those of commands, which go on with their own."""
    records = instance.get_run_records(
        dg.RunsFilter(statuses=FINISHED), limit=_LOOKED_BACK, order_by="update_timestamp"
    )
    return [r.dagster_run for r in records if COMMAND_TAG not in r.dagster_run.tags]


def daily_report(settings: Settings) -> dg.ScheduleDefinition:
    """The schedule of the report on how the system does: once a day, if anything is published."""

    @dg.schedule(
        cron_schedule="0 3 * * *",
        job_name=REPORT,
        name=f"{REPORT}_every_day",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Draws once a day how fast, how late and how large everything is.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if make_publisher(settings, make_lake(settings)).current() is None:
            return dg.SkipReason("nothing is published")
        return dg.RunRequest()

    return schedule
