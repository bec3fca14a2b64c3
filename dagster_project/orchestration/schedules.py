"""The jobs that do what people name as one thing, and what asks for them: every hour, and when something waits."""

import dagster as dg

from assets.partitions import SLOW
from dagster_project.composition import make_backlog, make_lake, make_sources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.backfill import backfill
from dagster_project.orchestration.build import BuildOptions, build, make_report, publish_slow_lane
from dagster_project.orchestration.freshness import note_unchanged
from dagster_project.orchestration.names import BACKFILL, LANE_TAG, LATER, REFRESH, SLOW_LANE, STORAGE_TAG
from dagster_project.orchestration.plan import make_plan, stale_slow
from dagster_project.orchestration.retention import prune_runs
from dagster_project.orchestration.run_status import at_work, run_under_way
from dagster_project.resources.system.locks import is_held, lane_lock, not_building
from transforms.errors import BusyError, WeftError

MAX_RUNTIME_SECONDS = 3 * 3600
"""What a run of `refresh` may take."""
MAX_SLOW_SECONDS = 24 * 3600
"""What a run of the slow lane may take."""


def refresh_all_job(settings: Settings) -> dg.JobDefinition:
    """The job `refresh`."""

    @dg.op(
        description="Fetch, discover, materialize what changed, publish.",
        config_schema={"fetch": dg.Field(bool, default_value=True, description="ask the remotes first")},
    )
    def refresh_changed(context: dg.OpExecutionContext) -> None:
        with at_work(settings.root, REFRESH):
            result = build(
                settings,
                context.instance,
                BuildOptions(fetch=context.op_config["fetch"], slow=False),
                tell=lambda *step: context.log.info("%s %s: %d rows", *step),
            )
            for warning in (*result.warnings(), *result.plan.warnings()):
                context.log.warning(warning)
            pruned = prune_runs(context.instance, settings.operations.keep_runs_days)
            context.add_output_metadata(
                {"partitions": len(result.plan.stale), "seconds": result.seconds, "pruned_runs": pruned}
            )
            if result.published:
                make_report(settings, context.instance)
        if faults := result.faults():
            # What was there is published; the run fails all the same, so that somebody hears of it.
            raise dg.Failure(faults, allow_retries=False)

    @dg.job(
        name=REFRESH,
        description="What `weft build` does but for the slow lane, history pruned, and the report made after a publish.",
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": MAX_RUNTIME_SECONDS, STORAGE_TAG: str(settings.root)},
    )
    def refresh() -> None:
        refresh_changed()

    return refresh


def slow_lane_job(settings: Settings) -> dg.JobDefinition:
    """The job `slow_lane`."""

    @dg.op(description="Make what waits for the slow lane, then publish it.")
    def make_what_waits(context: dg.OpExecutionContext) -> None:
        with at_work(settings.root, SLOW_LANE):
            result = publish_slow_lane(
                settings, context.instance, tell=lambda *step: context.log.info("%s %s: %d rows", *step)
            )
        for warning in result.warnings():
            context.log.warning(warning)
        context.add_output_metadata({"partitions": len(result.slow), "seconds": result.seconds})

    @dg.job(
        name=SLOW_LANE,
        description="Make chunks and terms of very long texts, and publish them; hourly runs go on meanwhile.",
        executor_def=dg.in_process_executor,
        tags={
            "dagster/max_runtime": MAX_SLOW_SECONDS,
            LANE_TAG: SLOW.name,
            STORAGE_TAG: str(settings.root),
            **LATER,
        },
    )
    def slow_lane() -> None:
        make_what_waits()

    return slow_lane


def backfill_job(settings: Settings) -> dg.JobDefinition:
    """The job `backfill`."""

    @dg.op(
        description="Make the stale partitions in batches, the newest first, then publish once.",
        config_schema={
            "sources": dg.Field(
                [str], default_value=[], description="names of sources; all where none is named"
            )
        },
    )
    def make_batches(context: dg.OpExecutionContext) -> None:
        done = backfill(
            settings,
            context.instance,
            context.op_config["sources"],
            tell=lambda *step: context.log.info("%s %s: %d", *step),
        )
        for warning in done.build.warnings():
            context.log.warning(warning)
        context.add_output_metadata(
            {"partitions": len(done.partitions), "batches": done.batches, "seconds": done.seconds}
        )

    @dg.job(
        name=BACKFILL,
        description="Make years of archives in batches; hourly runs go on meanwhile, and one publish ends it.",
        executor_def=dg.in_process_executor,
        tags={LANE_TAG: BACKFILL, STORAGE_TAG: str(settings.root), **LATER},
    )
    def backfill_all() -> None:
        make_batches()

    return backfill_all


def hourly_schedule(settings: Settings) -> dg.ScheduleDefinition:
    """The schedule: every full hour one run, none while one is going or when nothing changed.

    With remotes there is a run every time: only the run itself asks them.
    """

    @dg.schedule(
        cron_schedule="0 * * * *",
        job_name=REFRESH,
        name=f"{REFRESH}_every_hour",
        description="Asks for a run at every full hour, unless nothing changed or one is going.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if going := run_under_way(context.instance, settings.root, REFRESH):
            return dg.SkipReason(f"run {going.run_id} is still going")
        try:
            with not_building(settings.root):
                if any(source.remote for source in settings.sources):
                    return dg.RunRequest(tags={"weft/fetch": "true"})
                backlog = make_backlog(settings).remaining()
                plan = make_plan(settings, make_sources(settings), make_lake(settings), backlog)
        except BusyError as busy:
            return dg.SkipReason(str(busy))
        except WeftError as fault:
            return dg.RunRequest(tags={"weft/fault": str(fault)[:200]})
        if plan.broken:
            return dg.RunRequest(tags={"weft/fault": " ".join(plan.broken.values())[:200]})
        if plan.is_empty:
            note_unchanged(settings, context.instance)
            return dg.SkipReason("nothing changed")
        return dg.RunRequest(tags={"weft/changed_units": str(len(plan.stale) + len(plan.vanished))})

    return schedule


def slow_lane_sensor(
    settings: Settings, refresh: dg.JobDefinition, slow_lane: dg.JobDefinition
) -> dg.SensorDefinition:
    """The sensor `slow_lane_waits`: after a run of `refresh` that left something to the slow lane, one of that."""

    @dg.run_status_sensor(
        name=f"{SLOW_LANE}_waits",
        run_status=dg.DagsterRunStatus.SUCCESS,
        monitored_jobs=[refresh],
        request_job=slow_lane,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Asks for the slow lane after a refresh that left something to it.",
    )
    def sensor(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        if going := run_under_way(context.instance, settings.root, SLOW_LANE):
            return dg.SkipReason(f"run {going.run_id} is still going")
        if is_held(lane_lock(settings.root, SLOW.name)):
            return dg.SkipReason("another process makes what waits")
        waiting = stale_slow(settings, make_sources(settings).discover(), make_lake(settings))
        if not waiting:
            return dg.SkipReason("nothing waits for the slow lane")
        return dg.RunRequest(tags={"weft/waiting_units": str(len(waiting))})

    return sensor
