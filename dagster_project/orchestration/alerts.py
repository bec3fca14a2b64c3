"""Alerts: a failed build, run or check is reported to the command or URL of the settings."""

import asyncio
import json
import logging
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.config.allowed_commands import is_allowed
from dagster_project.config.settings import Settings
from dagster_project.orchestration.names import COMMAND_TAG
from dagster_project.orchestration.outcomes import FailedCheck, Interrupted, numbers
from dagster_project.system.dagster_internals import failed_by_itself
from dagster_project.system.masking import quiet_wire_logs
from transforms.errors import BusyError, WeftError
from transforms.settings.operations import AlertSettings

_TIMEOUT_SECONDS = 30.0
"""Time that the command, or the post, may take."""
_LOG = logging.getLogger("weft.alerts")


@contextmanager
def alerting(settings: AlertSettings, root: Path) -> Iterator[None]:
    """Send an alert for a fault that leaves the block, and raise it again; BusyError sends none."""
    try:
        yield
    except BusyError:
        raise
    except Exception as fault:  # whatever ends a build is reported, and goes on
        send(settings, _payload("build_failed", root, **_fault(fault)))
        raise


def alert_checks(settings: AlertSettings, root: Path, failed: Iterable[FailedCheck]) -> None:
    """Send an alert for each check that did not pass."""
    for check in failed:
        facts = {"asset": check.asset, "check": check.check, "figures": dict(check.figures)}
        send(settings, _payload("check_failed", root, **facts))


def alert_sources(
    settings: AlertSettings, root: Path, sources: Iterable[str], event: str = "source_failed"
) -> None:
    """Send one alert that names the sources that could not be read, or fetched, while others were,
    if there are any.
    """
    if names := sorted(sources):
        send(settings, _payload(event, root, sources=names))


def alert_interrupted(settings: AlertSettings, root: Path, runs: Iterable[Interrupted]) -> None:
    """Send an alert for each piece of work that was killed before it was done, as its successor
    finds it.
    """
    for run in runs:
        send(
            settings,
            _payload("run_interrupted", root, run_id=run.run, begun=run.begun, tables=run.tables),
        )


def send(
    settings: AlertSettings, payload: Mapping[str, Any], seconds: float = _TIMEOUT_SECONDS
) -> list[str]:
    """Hand the payload to the command and to the URL, each for some `seconds`; returns the faults.

    An alert that cannot be delivered never fails the build or run that it reports.
    """
    body = json.dumps(payload, sort_keys=True).encode()
    storage = Path(str(payload["storage"]))
    by_command = _run(settings.command, storage, body, seconds) if settings.command else None
    by_url = _post(settings, body, seconds) if settings.url else None
    reasons = [fault for fault in (by_command, by_url) if fault]
    for fault in reasons:
        _LOG.warning("an alert was not delivered: %s", fault)
    return reasons


def _payload(event: str, root: Path, **facts: object) -> dict[str, object]:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return {"event": event, "at": at, "host": socket.gethostname(), "storage": str(root), **facts}


def _fault(fault: Exception) -> dict[str, object]:
    """The facts of a fault without its message, which may hold a line of somebody's mail."""
    kind = type(fault).__name__
    if not isinstance(fault, WeftError):
        return {
            "kind": kind,
            "exit_code": 1,
            "step": None,
            "run_id": None,
            "see": "the output of the build",
        }
    see = "the run in Dagster, or the output of the build; `weft help exit-codes` lists them"
    codes = {"exit_code": fault.exit_code, "step": fault.step, "run_id": fault.run_id}
    return {"kind": kind, **codes, "see": see}


def _run(command: tuple[str, ...], storage: Path, body: bytes, seconds: float) -> str | None:
    """Why the command did not take the payload; None if it did."""
    if not is_allowed(command, storage):
        return f"alerts.command {command[0]} is not allowed: `weft build --allow-command` allows it"
    try:
        done = subprocess.run(
            command,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return f"alerts.command {command[0]} took more than {seconds:g} s"
    except OSError as error:
        return f"alerts.command {command[0]} cannot be run: {error.strerror}"
    return f"alerts.command {command[0]} ended with {done.returncode}" if done.returncode else None


def _post(settings: AlertSettings, body: bytes, seconds: float) -> str | None:
    """Why the URL did not take the payload; None if it did. It does not name the URL, which may be
    a secret.
    """
    url = os.environ.get(settings.variable, "") if settings.variable else settings.url or ""
    if not url.startswith(("http://", "https://")):
        return f"the URL of alerts ({settings.variable or 'alerts.url'}) is not set, or none of http or https"
    fault = post(url, body, seconds)
    return f"the URL of alerts {fault}" if fault else None


def post(url: str, body: bytes, seconds: float) -> str | None:
    """Why an address did not take a JSON body; None if it did. It does not name the address, which
    may be a secret.
    """
    import httpx2

    quiet_wire_logs()
    try:
        status = asyncio.run(_posted(url, body, seconds))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return f"cannot be reached: {type(error).__name__}"
    return None if 200 <= status < 300 else f"answered {status}"


async def _posted(url: str, body: bytes, seconds: float) -> int:
    """The status of the answer; its body is not read, and a redirect is not followed: it could lead
    to any host.
    """
    import httpx2

    headers = {"Content-Type": "application/json", "User-Agent": "weft"}
    async with (
        asyncio.timeout(seconds),
        httpx2.AsyncClient(timeout=seconds) as client,
        client.stream("POST", url, content=body, headers=headers) as response,
    ):
        return response.status_code


def failed_runs_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor `failed_runs`: an alert for a run that failed, was killed, or was ended because it
    took too long.
    """

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
        step = failures[0].step_key if failures else None
        facts = {"job": run.job_name, "run_id": run.run_id, "step": step}
        send(
            settings.alerts, _payload("run_failed" if step else "run_lost", settings.root, **facts)
        )
        return dg.SkipReason(f"the alert for run {run.run_id[:8]} was sent")

    return sensor


def warnings_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor `failed_checks`: an alert for each check of a run that did not pass and stopped
    nothing.
    """

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
        evaluated = context.instance.all_logs(
            run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
        )
        results = (
            e.dagster_event.asset_check_evaluation_data for e in evaluated if e.dagster_event
        )
        failed = [
            FailedCheck(c.asset_key.path[-1], c.check_name, numbers(c.metadata))
            for c in results
            if not c.passed
        ]
        alert_checks(settings.alerts, settings.root, failed)
        return dg.SkipReason(
            f"{len(failed)} alerts were sent" if failed else "all its checks passed"
        )

    return sensor
