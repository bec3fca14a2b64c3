"""One run of a job in this process: what came of it, or its fault."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import dagster as dg
from dagster._utils.error import SerializableErrorInfo

from dagster_project.resources.system.disk_space import IN_THE_WAY
from transforms.errors import CheckFailedError, WeftError


def run_job(
    job: dg.JobDefinition, instance: dg.DagsterInstance, tables: Sequence[str], tags: Mapping[str, str]
) -> dg.ExecuteInProcessResult:
    """Make some tables by a job in this process; the fault of the first failed step as the WeftError that it is."""
    result = job.execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(t) for t in tables],
        tags=dict(tags),
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )
    if not result.success:
        raise _failure(result)
    return result


def root_cause(error: SerializableErrorInfo | None) -> SerializableErrorInfo | None:
    """The fault itself, out of what Dagster says about the step and its attempts."""
    while error and error.cause:
        error = error.cause
    return error


def _failure(result: dg.ExecuteInProcessResult) -> WeftError:
    """Why a run failed, as the kind of fault it is: a check, or the first failed step with the root of its error."""
    blocking = dg.AssetCheckSeverity.ERROR
    if failed := [c for c in result.get_asset_check_evaluations() if not c.passed and c.severity == blocking]:
        rules = "; ".join(
            f"check {c.check_name} failed for {c.metadata['rows'].value} rows, such as {c.metadata['examples'].value}"
            for c in failed
        )
        return _of_run(CheckFailedError(f"nothing was published: {rules} (run {result.run_id})"), result)
    kinds = {kind.__name__: kind for kind in WeftError.__subclasses__()}
    for event in result.all_events:
        if event.is_step_failure:
            error = root_cause(event.step_failure_data.error)
            kind = kinds.get(error.cls_name or "", WeftError) if error else WeftError
            reason = _in_words(error.message, error.cls_name or "") if error else "unknown"
            fault = kind(f"step {event.step_key} failed: {reason} (run {result.run_id})")
            return _of_run(fault, result, event.step_key)
    return _of_run(WeftError(f"run {result.run_id} failed"), result)


def _in_words(message: str, kind: str) -> str:
    """What an error says, without Python's name for it; what to do where something stands in the way of a file."""
    said = re.sub(rf"^[\w.]*\b{re.escape(kind)}: ", "", message.strip())
    if kind in {error.__name__ for error in IN_THE_WAY}:
        said += ": move away what stands there, and build again"
    return re.sub(r"^\[Errno \d+\] ", "", said)


def _of_run(fault: WeftError, result: dg.ExecuteInProcessResult, step: str | None = None) -> WeftError:
    """`fault` with the run and the step that it is of."""
    fault.run_id, fault.step = result.run_id, step
    return fault
