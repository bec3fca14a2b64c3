"""Sensors that send alerts of what Dagster's own runs come to; a command sends those of its runs itself."""

from __future__ import annotations

import dagster as dg

from dagster_project.config.settings import Settings
from dagster_project.orchestration.alerts import alert_checks, alert_run
from dagster_project.orchestration.names import COMMAND_TAG
from dagster_project.orchestration.outcomes import FailedCheck, numbers
from dagster_project.system.dagster_internals import failed_by_itself


def failed_runs_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor `failed_runs`: an alert for a run that failed, was killed, or was ended because it took too long."""

    @dg.run_failure_sensor(
        name="failed_runs",
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert for a run that failed, was killed, or was ended because it took too long.",
    )
    def sensor(context: dg.RunFailureSensorContext) -> dg.SkipReason:
        run = context.dagster_run
        if COMMAND_TAG in run.tags:
            return dg.SkipReason("the command tells of its runs itself")
        failures = [event for event in context.get_step_failure_events() if failed_by_itself(event)]
        alert_run(settings.alerts, settings.root, run, failures[0].step_key if failures else None)
        return dg.SkipReason(f"the alert for run {run.run_id[:8]} was sent")

    return sensor


def warnings_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor `failed_checks`: an alert for each check of a run that did not pass and stopped nothing."""

    @dg.run_status_sensor(
        name="failed_checks",
        run_status=dg.DagsterRunStatus.SUCCESS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Sends an alert for each check of a run that did not pass, though the run went on.",
    )
    def sensor(context: dg.RunStatusSensorContext) -> dg.SkipReason:
        run = context.dagster_run
        if COMMAND_TAG in run.tags:
            return dg.SkipReason("the command tells of its runs itself")
        evaluated = context.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        found = (e.dagster_event.asset_check_evaluation_data for e in evaluated if e.dagster_event)
        failed = [
            FailedCheck(c.asset_key.path[-1], c.check_name, numbers(c.metadata))
            for c in found
            if not c.passed
        ]
        alert_checks(settings.alerts, settings.root, failed)
        return dg.SkipReason(f"{len(failed)} alerts were sent" if failed else "all its checks passed")

    return sensor
