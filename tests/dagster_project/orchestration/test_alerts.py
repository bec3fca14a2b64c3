"""Alerts: what they say, where they go, and that they never fail a build."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dagster_project.cli.main import main
from dagster_project.config.allowed_commands import allow
from dagster_project.orchestration.alerts import alert_checks, alerting, send
from dagster_project.orchestration.outcomes import FailedCheck
from tests.archives import Mail, Workspace
from tests.http_loopback import WholeAnswers
from tests.timing import HUNG, has_left
from transforms.errors import BusyError, SourceError
from transforms.settings.operations import AlertSettings

KEEP = "import sys, pathlib; pathlib.Path(sys.argv[1]).open('ab').write(sys.stdin.buffer.read() + b'\\n')"


class Receiver(ThreadingHTTPServer):
    """A loopback server that keeps what is posted to it; /slow answers when the client has left,
    /broken with 500.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[dict[str, Any]] = []

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class _Handler(WholeAnswers):
    def do_POST(self) -> None:  # noqa: N802
        body = self.form()
        if self.path == "/slow":
            has_left(self.connection)
        assert isinstance(self.server, Receiver)
        self.server.received.append(json.loads(body))
        self.send({"/broken": 500, "/moved": 302}.get(self.path, 204), b"")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def kept(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def to_file(file: Path) -> AlertSettings:
    """The settings with a command that keeps alerts in a file, allowed for a storage beside it."""
    command = (sys.executable, "-c", KEEP, str(file))
    allow(command, file.parent)
    return AlertSettings(command=command)


@pytest.mark.exhaustive
def test_a_fault_reaches_the_command_without_its_message(tmp_path: Path):
    with pytest.raises(SourceError), alerting(to_file(tmp_path / "told"), tmp_path):
        raise SourceError("mail of ada@example.org: my password is hunter2")
    (told,) = kept(tmp_path / "told")
    assert (told["event"], told["kind"], told["exit_code"]) == ("build_failed", "SourceError", 4)
    assert not any(word in json.dumps(told) for word in ("ada", "hunter2"))


def test_a_fault_that_weft_does_not_know_is_told_too(tmp_path: Path):
    with pytest.raises(ZeroDivisionError), alerting(to_file(tmp_path / "told"), tmp_path):
        _ = 1 / 0
    assert [t["kind"] for t in kept(tmp_path / "told")] == ["ZeroDivisionError"]


def test_a_busy_storage_is_no_fault(tmp_path: Path):
    with pytest.raises(BusyError), alerting(to_file(tmp_path / "told"), tmp_path):
        raise BusyError("another build runs")
    assert kept(tmp_path / "told") == []


def test_a_check_reaches_the_url_with_its_figures(receiver: Receiver, tmp_path: Path):
    late = FailedCheck("readiness", "in_time", {"late_sources": {"dev": 12.5}})
    alert_checks(AlertSettings(url=receiver.url()), tmp_path, [late])
    (told,) = receiver.received
    assert (told["event"], told["asset"], told["figures"]) == (
        "check_failed",
        "readiness",
        {"late_sources": {"dev": 12.5}},
    )


def test_the_url_may_stand_in_the_environment(receiver: Receiver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ALERT_URL", receiver.url())
    payload = {"event": "x", "storage": "/srv/weft"}
    assert send(AlertSettings(url="$ALERT_URL"), payload) == []
    assert receiver.received == [payload]


@pytest.mark.parametrize(
    ("settings", "seconds", "fault"),
    [
        ({"command": (sys.executable, "-c", "raise SystemExit(3)")}, HUNG, "ended with 3"),
        (
            {"command": (sys.executable, "-c", "import signal; signal.pause()")},
            0.2,
            "took more than",
        ),
        ({"command": ("/no/such/program",)}, HUNG, "cannot be run"),
        ({"url": "URL/slow"}, 0.2, "cannot be reached: TimeoutError"),
        ({"url": "URL/broken"}, HUNG, "answered 500"),
        ({"url": "URL/moved"}, HUNG, "answered 302"),
        ({"url": "$NOT_SET"}, HUNG, "NOT_SET) is not set"),
    ],
    ids=["fails", "hangs", "is missing", "is slow", "is broken", "has moved", "has no variable"],
)
def test_what_cannot_be_delivered_is_said_in_time_and_fails_nothing(
    receiver: Receiver, settings: dict[str, Any], seconds: float, fault: str, tmp_path: Path
):
    allow(settings.get("command", ()), tmp_path)
    if "url" in settings:
        settings["url"] = (
            settings["url"].replace("URL", receiver.url("")).replace("//slow", "/slow")
        )
    payload = {"event": "x", "storage": str(tmp_path)}
    faults = send(AlertSettings(**settings), payload, seconds)
    assert [fault in found for found in faults] == [True], faults
    assert receiver.url() not in "".join(faults)


@pytest.mark.exhaustive
def test_a_build_that_fails_and_one_that_is_late_are_told(workspace: Workspace):
    told = workspace.folder / "told"
    command = [sys.executable, "-c", KEEP, str(told)]
    workspace.configure(alerts={"command": command}, operations={"max_lag_minutes": 1e-6})
    allow(command, workspace.settings.root)
    run = ["build", "--quiet", "--config", str(workspace.config)]
    assert CliRunner().invoke(main, run).exit_code == 4
    assert [(t["event"], t["kind"]) for t in kept(told)] == [("build_failed", "SourceError")]
    workspace.write("dev.2004-01.mbox", [Mail(1)])
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 0, done.output
    late = kept(told)[1]
    assert (late["event"], late["asset"]) == ("check_failed", "readiness")
    assert list(late["figures"]["late_sources"]) == ["dev"]


def test_a_command_in_the_settings_of_a_folder_runs_once_its_user_allowed_it(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    """A build without sources fails, which is an alert; another command needs it anew."""
    nothing = workspace.weft("build", "--allow-command")
    assert nothing.exit_code == 2 and "no alerts.command" in nothing.stderr
    told = workspace.folder / "told"
    command = [sys.executable, "-c", KEEP, str(told)]
    workspace.configure(alerts={"command": command})
    refused = workspace.weft("build", "--quiet")
    assert refused.exit_code == 4 and "--allow-command" in refused.stderr
    assert kept(told) == []
    allowed = workspace.weft("build", "--quiet", "--allow-command")
    assert "--allow-command" not in allowed.stderr and len(kept(told)) == 1
    assert "--allow-command" not in workspace.weft("build", "--quiet").stderr
    assert len(kept(told)) == 2
    workspace.configure(alerts={"command": [*command, "more"]})
    assert "--allow-command" in workspace.weft("build", "--quiet").stderr
    assert len(kept(told)) == 2
    monkeypatch.setenv("WEFT_ALERTS__COMMAND", json.dumps(command))
    assert "--allow-command" not in workspace.weft("build", "--quiet").stderr
    assert len(kept(told)) == 3
