"""Dagster's own servers for one workspace, started by `weft ui` and asked as its pages ask them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.orchestration.instance import instance_home
from tests.archives import Workspace
from tests.processes import free_port
from tests.timing import HUNG, until

START = (
    "from dagster_project.orchestration import instance;"
    "instance.MODULE = 'tests.every_minute';"
    "from dagster_project.cli.command import run_command;"
    "run_command()"
)
"""`weft`, whose refreshes begin every minute."""
QUICK = "\nrun_queue:\n  dequeue_interval_seconds: 1\n"
"""What dagster.yaml says for tests besides: no run waits for long in the queue."""
REPOSITORY = {"repositoryLocationName": "weft", "repositoryName": "__repository__"}
JOB = {**REPOSITORY, "pipelineName": "__ASSET_JOB"}


def answered(look: Callable[[], Any], name: str) -> Any:
    """The first true answer of `look`, which asks a server that may not be there yet."""

    def answer() -> Any:
        try:
            return look()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    return until(answer, name, pause=0.2)


class Server:
    """GraphQL against the server of one workspace, in the words of the pages."""

    def __init__(self, port: int, log: Path, pid: int):
        self.port, self.log, self.pid = port, log, pid
        self._followed = -1

    def ask(self, query: str, **variables: object) -> Any:
        """The data of an answer; AssertionError if the server says that it went wrong."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=HUNG) as answer:
            said = json.load(answer)
        assert "errors" not in said, said["errors"]
        return said["data"]

    def change(
        self, mutation: str, declared: str, given: str, **variables: object
    ) -> dict[str, Any]:
        """What a mutation answers; AssertionError if that is a fault."""
        query = f"mutation({declared}){{{mutation}({given}){{__typename ... on Error{{message}} {self.ANSWERS[mutation]}}}}}"
        (found,) = self.ask(query, **variables).values()
        assert "message" not in found, found["message"]
        return dict(found)

    ANSWERS: Mapping[str, str] = {
        "launchPipelineExecution": "... on LaunchRunSuccess{run{runId}}",
        "launchPartitionBackfill": "... on LaunchBackfillSuccess{backfillId}",
        "sensorDryRun": "... on DryRunInstigationTick{evaluationResult{skipReason runRequests{runKey}}}",
        "terminateRun": "... on TerminateRunSuccess{run{runId}}",
        "startSensor": "... on Sensor{sensorState{id status}}",
        "stopSensor": "... on StopSensorMutationResult{instigationState{status}}",
    }

    def is_loaded(self) -> bool:
        nodes = self.ask("{repositoriesOrError{... on RepositoryConnection{nodes{name}}}}")
        return bool(nodes["repositoriesOrError"].get("nodes"))

    def materialize(self, assets: Sequence[str], tags: Mapping[str, str]) -> str:
        """Launch a run as the button does; its id."""
        selection = [{"path": asset.split("/")} for asset in assets]
        parameters = {
            "mode": "default",
            "selector": {**JOB, "assetSelection": selection, "assetCheckSelection": []},
            "executionMetadata": {"tags": [{"key": k, "value": v} for k, v in tags.items()]},
            "runConfigData": "{}",
        }
        done = self.change(
            "launchPipelineExecution", "$p:ExecutionParams!", "executionParams:$p", p=parameters
        )
        return str(done["run"]["runId"])

    def launch(self, job: str) -> str:
        """Launch a job as its page does; the id of the run."""
        selector = {**REPOSITORY, "pipelineName": job}
        parameters = {"mode": "default", "selector": selector, "runConfigData": "{}"}
        done = self.change(
            "launchPipelineExecution", "$p:ExecutionParams!", "executionParams:$p", p=parameters
        )
        return str(done["run"]["runId"])

    def of_refresh(self, run_id: str) -> list[dict[str, Any]]:
        """The runs that belong to the refresh that a run began, the newest first."""
        (begun,) = (run for run in self.runs() if run["runId"] == run_id)
        return self.runs(weft__refresh=begun["tags"].get("weft/refresh", run_id[:8]))

    def backfill(self, assets: Sequence[str], partitions: Sequence[str]) -> str:
        """Ask for a backfill as the page of partitions does; its id."""
        parameters = {
            "assetSelection": [{"path": [asset]} for asset in assets],
            "partitionNames": list(partitions),
            "tags": [],
        }
        done = self.change(
            "launchPartitionBackfill", "$p:LaunchBackfillParams!", "backfillParams:$p", p=parameters
        )
        return str(done["backfillId"])

    def terminate(self, run_id: str) -> None:
        self.change(
            "terminateRun", "$r:String!", "runId:$r,terminatePolicy:SAFE_TERMINATE", r=run_id
        )

    def runs(self, **tags: str) -> list[dict[str, Any]]:
        """Runs as the page of runs lists them, the newest first: id, status, job, tags and assets."""
        wanted = [{"key": key.replace("__", "/"), "value": value} for key, value in tags.items()]
        found = self.ask(
            "query($f:RunsFilter){runsOrError(filter:$f,limit:200){... on Runs{results{"
            "runId status jobName tags{key value} assetSelection{path} hasUnconstrainedRootNodes repositoryOrigin{"
            "repositoryLocationName}}}}}",
            f={"tags": wanted},
        )["runsOrError"]["results"]
        return [
            {
                **run,
                "tags": {tag["key"]: tag["value"] for tag in run["tags"]},
                "assets": {"/".join(key["path"]) for key in run["assetSelection"] or ()},
            }
            for run in found
        ]

    def at_rest(self) -> bool:
        return all(run["status"] in ("SUCCESS", "FAILURE", "CANCELED") for run in self.runs())

    def rest(self) -> None:
        """Wait until no run is going and the automations, which looked since the last one ended,
        asked for no other.
        """
        until(self._is_at_its_end, "the end of runs that follow each other")

    def _is_at_its_end(self) -> bool:
        if len(self.runs()) == self._followed:
            return True
        answered(self.at_rest, "the end of all runs")
        runs, before = len(self.runs()), self.looks()
        answered(lambda: self.looks() >= before + 2, "two looks of the sensor")
        if self.at_rest() and len(self.runs()) == runs:
            self._followed = runs
        return self._followed == runs

    def reload(self) -> None:
        self.ask('mutation{reloadRepositoryLocation(repositoryLocationName:"weft"){__typename}}')

    def looks(self) -> int:
        """How often the sensor has looked at what ended."""
        return self.log.read_text().count("Checking for new runs for sensor: refresh_goes_on")

    def fault(self, run_id: str) -> str:
        """What the first failed step of a run says."""
        found = self.ask(
            "query($r:ID!){logsForRun(runId:$r){... on EventConnection{events{... on ExecutionStepFailureEvent{"
            "error{message errorChain{error{message}}}}}}}}",
            r=run_id,
        )
        errors = [event["error"] for event in found["logsForRun"]["events"] if event.get("error")]
        return " ".join(
            [errors[0]["message"], *(link["error"]["message"] for link in errors[0]["errorChain"])]
        )

    def status(self, run_id: str) -> str:
        return next(str(run["status"]) for run in self.runs() if run["runId"] == run_id)

    def ended(self, run_id: str) -> str:
        ends = ("SUCCESS", "FAILURE", "CANCELED")
        return str(
            answered(lambda: (s := self.status(run_id)) in ends and s, f"the end of run {run_id}")
        )

    def next_tick(self, name: str) -> dict[str, Any]:
        """What a look of a sensor at this moment would ask for: the reason of a skip, and runs."""
        selector = {**REPOSITORY, "sensorName": name}
        data = "selectorData:$s,cursor:null"
        done = self.change("sensorDryRun", "$s:SensorSelector!", data, s=selector)
        return dict(done["evaluationResult"])

    def ticks(self, name: str) -> list[dict[str, Any]]:
        """The ticks of a schedule or sensor, the newest first: time, status, reason of a skip,
        runs.
        """
        found = self.ask(
            "query($s:InstigationSelector!){instigationStateOrError(instigationSelector:$s){"
            "... on InstigationState{ticks(limit:50){timestamp status skipReason runIds error{message}}}}}",
            s={**REPOSITORY, "name": name},
        )
        return list(found["instigationStateOrError"]["ticks"])

    @contextlib.contextmanager
    def ticking(self, name: str) -> Iterator[Callable[[], dict[str, Any]]]:
        """While a sensor is on: the next of its ticks, ended."""
        selector = {**REPOSITORY, "sensorName": name}
        on = self.change("startSensor", "$s:SensorSelector!", "sensorSelector:$s", s=selector)
        seen = {tick["timestamp"] for tick in self.ticks(name)}

        def look() -> Any:
            fresh = [
                t
                for t in self.ticks(name)
                if t["timestamp"] not in seen and t["status"] != "STARTED"
            ]
            seen.update(tick["timestamp"] for tick in fresh[-1:])
            return fresh and fresh[-1]

        try:
            yield lambda: answered(look, f"a tick of {name}")
        finally:
            self.change("stopSensor", "$i:String!", "id:$i", i=on["sensorState"]["id"])


@contextlib.contextmanager
def weft_ui(work: Workspace, folder: Path) -> Iterator[Server]:
    """`weft ui` for a workspace, started in `folder`."""
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    command = [sys.executable, "-c", START, "ui", "--config", str(work.config), "--port", str(port)]
    log = work.folder / "ui.log"
    if "run_queue" not in (settings := instance_home(work.settings) / "dagster.yaml").read_text():
        settings.write_text(settings.read_text() + QUICK)
    repository = str(Path(__file__).parents[1])
    with log.open("w") as printed:
        process = subprocess.Popen(
            command,
            start_new_session=True,
            stdout=printed,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**environment, "PYTHONPATH": repository, "PYTHONSAFEPATH": "1"},
        )
        try:
            running = Server(port, log, process.pid)
            answered(running.is_loaded, "a server that has loaded Weft")
            yield running
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(HUNG)
