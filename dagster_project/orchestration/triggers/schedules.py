"""What asks Dagster for runs: the schedule of every hour, and what follows a fetch or a publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC

import dagster as dg
from pydantic import BaseModel, ValidationError

from assets.fetch import fetched_key
from dagster_project.config.settings import Settings
from dagster_project.orchestration.names import COMMAND_TAG, FETCH_TAG, REFRESH, REFRESH_TAG, SCOPE_TAG, WHOLE
from dagster_project.orchestration.runs import FINISHED, refresh_of, under_way
from dagster_project.orchestration.triggers.asking import (
    embedded_requests,
    later_requests,
    publishing_request,
    refresh_requests,
)
from dagster_project.resources.system.locks import BUILD_LOCK, is_held

CRON = "0 * * * *"
INTERVAL_SECONDS = 60
"""Seconds between two looks at what Dagster's history says."""
Asked = Sequence[dg.RunRequest] | dg.SkipReason
Following = Callable[[Settings, dg.DagsterInstance, dg.DagsterRun], Asked]


def hourly_schedule(settings: Settings, asset_job: str) -> dg.ScheduleDefinition:
    """The schedule: at every full hour the runs that what changed needs, none when nothing changed.

    With remotes the run that fetches comes first, since only it can tell what changed there.
    """
    remotes = [fetched_key(source.name) for source in settings.sources if source.remote]

    @dg.schedule(
        cron_schedule=CRON,
        job_name=asset_job,
        name=f"{REFRESH}_every_hour",
        description="Asks at every full hour for runs of what changed; first for one that fetches, if anything is.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> Asked:
        refresh = f"{context.scheduled_execution_time.astimezone(UTC):%Y-%m-%dT%H:%M}"
        if is_held(settings.root / BUILD_LOCK):
            return dg.SkipReason(f"a build of {settings.root} from the command line is running")
        if not remotes:
            return refresh_requests(settings, context.instance, refresh)
        going = [run for run in under_way(context.instance) if FETCH_TAG in run.tags]
        if going:
            return dg.SkipReason(f"run {going[0].run_id[:8]} still fetches")
        tags = {REFRESH_TAG: refresh, FETCH_TAG: "all"}
        return [dg.RunRequest(run_key=refresh, asset_selection=remotes, tags=tags)]

    return schedule


class Seen(BaseModel):
    """What `refresh_goes_on` has seen last: the runs of a fetch, of partitions, of vectors and of a publish."""

    fetched: str | None = None
    made: str | None = None
    embedded: str | None = None
    published: str | None = None


def following_sensor(settings: Settings, asset_job: str) -> dg.SensorDefinition:
    """The sensor `refresh_goes_on`: changes after a fetch, the graph after vectors, context and long texts after a publish.

    What is over the whole lake follows by the conditions of its assets, but for the runs of a refresh beside a
    backfill, whose end the conditions wait for: these it publishes.
    """

    @dg.sensor(
        name=f"{REFRESH}_goes_on",
        job_name=asset_job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for runs of what changed after a fetch, and of what is made of the index after a publish.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> Asked:
        instance = context.instance
        before, now = _seen(context.cursor), _last(instance)
        context.update_cursor(now.model_dump_json())
        if before is None or before == now:
            return dg.SkipReason("nothing was fetched, made or published since the last look")
        skipped = dg.SkipReason("what follows runs in the process of the command")
        for ended, was, requests in (
            (now.fetched, before.fetched, _of_refresh(refresh_requests)),
            (now.embedded, before.embedded, embedded_requests),
            (now.published, before.published, _of_refresh(later_requests)),
            (now.made, before.made, _of_refresh(publishing_request)),
        ):
            if ended != was and (run := _run(instance, ended)):
                asked = requests(settings, instance, run)
                if not isinstance(asked, dg.SkipReason):
                    # Another run of the same refresh is followed by others, and Dagster makes one run of a key.
                    return [r.with_replaced_attrs(run_key=f"{r.run_key}/{run.run_id}") for r in asked]
                skipped = asked
        return skipped

    return sensor


def _of_refresh(requests: Callable[[Settings, dg.DagsterInstance, str], Asked]) -> Following:
    return lambda settings, instance, run: requests(settings, instance, refresh_of(run))


def _seen(cursor: str | None) -> Seen | None:
    try:
        return Seen.model_validate_json(cursor or "")
    except ValidationError:
        return None


def _last(instance: dg.DagsterInstance) -> Seen:
    fetches = dg.RunsFilter(tags={FETCH_TAG: "all"}, statuses=FINISHED)
    partitions = dg.RunsFilter(tags={SCOPE_TAG: "partition"}, statuses=FINISHED)
    embedded, published = (
        instance.get_latest_materialization_event(dg.AssetKey(name))
        for name in ("embeddings", "search_index")
    )
    return Seen(
        fetched=next(iter(instance.get_run_ids(filters=fetches, limit=1)), None),
        made=next(iter(instance.get_run_ids(filters=partitions, limit=1)), None),
        embedded=embedded.run_id if embedded else None,
        published=published.run_id if published else None,
    )


def _run(instance: dg.DagsterInstance, run_id: str | None) -> dg.DagsterRun | None:
    """A run that the process of a command does not go on with."""
    run = instance.get_run_by_id(run_id) if run_id else None
    return run if run and COMMAND_TAG not in run.tags else None


def whole_lake_sensor(assets: Sequence[dg.AssetKey]) -> dg.AutomationConditionSensorDefinition:
    """The sensor `whole_lake`, which asks for the assets over the whole lake when their conditions say so."""
    return dg.AutomationConditionSensorDefinition(
        "whole_lake",
        target=dg.AssetSelection.assets(*assets),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=INTERVAL_SECONDS,
        run_tags={SCOPE_TAG: WHOLE},
        description="Relates, embeds and publishes what the partitions hold when they changed and none is being made.",
    )
