"""The hourly run: what changed is materialized and published, and nothing runs when nothing changed."""

from collections.abc import Sequence

import dagster as dg

from dagster_project.composition import make_lake, make_sources
from dagster_project.freshness import note_unchanged
from dagster_project.locks import not_building
from dagster_project.plan import make_plan
from dagster_project.retention import prune_runs
from dagster_project.settings import Settings
from transforms.errors import BusyError, WeftError

HOURLY = "hourly_refresh"
MAX_RUNTIME_SECONDS = 3 * 3600
_UNDER_WAY = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


def hourly_job(settings: Settings) -> dg.JobDefinition:
    """The job `hourly_refresh`: one step that does what `weft build` does, in its own process."""

    @dg.op(
        description="Fetch, discover, materialize what changed, publish.",
        config_schema={"fetch": dg.Field(bool, default_value=True, description="ask the remotes first")},
    )
    def refresh_changed(context: dg.OpExecutionContext) -> None:
        from dagster_project.build import build, make_report
        from dagster_project.fetching import fetch_faults

        result = build(
            settings,
            context.instance,
            tell=lambda *step: context.log.info("%s %s: %d rows", *step),
            fetch=context.op_config["fetch"],
        )
        if result.interrupted:
            context.log.warning(str(result.interrupted))
        for path, damage in result.plan.damaged.items():
            context.log.warning("damaged, made again: %s: %s", path, damage)
        pruned = prune_runs(context.instance, settings.operations.keep_runs_days)
        context.add_output_metadata(
            {"units": len(result.plan.stale), "seconds": result.seconds, "pruned_runs": pruned}
        )
        if result.published:
            make_report(settings, context.instance)
        if faults := fetch_faults(result.fetched):
            # What was there is published; the run fails all the same, so that somebody hears of it.
            raise dg.Failure(faults, allow_retries=False)

    @dg.job(
        name=HOURLY,
        description="What `weft build` does, history pruned, and the report made after a publish.",
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": MAX_RUNTIME_SECONDS},
    )
    def hourly() -> None:
        refresh_changed()

    return hourly


def runs_under_way(instance: dg.DagsterInstance) -> Sequence[dg.DagsterRun]:
    """The run of the job that waits or is going, if there is one."""
    return instance.get_runs(filters=dg.RunsFilter(job_name=HOURLY, statuses=_UNDER_WAY), limit=1)


def hourly_schedule(settings: Settings) -> dg.ScheduleDefinition:
    """The schedule: every full hour one run, none while one is going or when nothing changed.

    With remotes there is a run every time: only the run itself asks them.
    """

    @dg.schedule(cron_schedule="0 * * * *", job_name=HOURLY, name=f"{HOURLY}_schedule")
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if going := runs_under_way(context.instance):
            return dg.SkipReason(f"run {going[0].run_id} is still going")
        try:
            with not_building(settings.root):
                if any(source.remote for source in settings.sources):
                    return dg.RunRequest(tags={"weft/fetch": "true"})
                plan = make_plan(settings, make_sources(settings), make_lake(settings))
        except BusyError as busy:
            return dg.SkipReason(str(busy))
        except WeftError as fault:
            return dg.RunRequest(tags={"weft/fault": str(fault)[:200]})
        if plan.is_empty:
            note_unchanged(settings, context.instance)
            return dg.SkipReason("nothing changed")
        return dg.RunRequest(tags={"weft/changed_units": str(len(plan.stale) + len(plan.vanished))})

    return schedule
