"""The real Dagster server over Weft's definitions: it loads, shows the partitions and materializes one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.archives import Workspace, two_lists

LOADED_WITHIN, ENDED_WITHIN = 120, 120
PARTITIONED = [
    "messages",
    "attachments",
    "quarantine",
    "message_blocks",
    "message_chunks",
    "message_exclusions",
    "slow_queue",
]


def waited(look: Callable[[], Any], seconds: int) -> Any:
    """The first true answer of `look`, asked twice a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := look():
                return found
        except (urllib.error.URLError, ConnectionError, KeyError):
            pass
        time.sleep(0.5)
    raise AssertionError(f"nothing within {seconds} s")


class Server:
    """GraphQL against the server of one workspace."""

    def __init__(self, port: int):
        self.port = port

    def ask(self, query: str, **variables: object) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def repository(self) -> dict[str, str] | None:
        nodes = self.ask("{repositoriesOrError{... on RepositoryConnection{nodes{name location{name}}}}}")[
            "repositoriesOrError"
        ]["nodes"]
        return nodes and {
            "repositoryName": nodes[0]["name"],
            "repositoryLocationName": nodes[0]["location"]["name"],
        }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return two_lists(tmp_path_factory.mktemp("ui"))


@pytest.fixture(scope="module")
def server(workspace: Workspace) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "dagster_project.cli", "ui", "--config", str(workspace.config)]
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    with (workspace.folder / "ui.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            start_new_session=True,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            running = Server(port)
            waited(running.repository, LOADED_WITHIN)
            yield running
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def test_a_partition_is_materialized_from_the_ui(server: Server, workspace: Workspace):
    asked = '{assetNodes(assetKeys:[{path:["messages"]}]){partitionKeys}}'
    keys = server.ask(asked)["assetNodes"][0]["partitionKeys"]
    assert keys == ["dev/dev.2004-01", "dev/dev.2004-02", "users/users.2004-01"]
    selector = {
        **(server.repository() or {}),
        "pipelineName": "refresh_mail",
        "assetSelection": [{"path": [name]} for name in PARTITIONED],
        "assetCheckSelection": [],
    }
    tags = [{"key": "dagster/partition", "value": keys[1]}]
    launched = server.ask(
        "mutation($p:ExecutionParams!){launchPipelineExecution(executionParams:$p){"
        "... on LaunchRunSuccess{run{runId}} ... on PythonError{message}}}",
        p={"selector": selector, "runConfigData": {}, "mode": "default", "executionMetadata": {"tags": tags}},
    )["launchPipelineExecution"]
    assert "run" in launched, launched

    def ended() -> str | None:
        answer = server.ask(
            "query($i:ID!){runOrError(runId:$i){... on Run{status}}}", i=launched["run"]["runId"]
        )
        status: str = answer["runOrError"]["status"]
        return status if status in ("SUCCESS", "FAILURE", "CANCELED") else None

    assert waited(ended, ENDED_WITHIN) == "SUCCESS"
    lake = Path(workspace.folder) / "state" / "lake"
    made = {str(p.relative_to(lake)) for p in lake.rglob("*.parquet")}
    assert made == {f"{name}/{keys[1]}.parquet" for name in PARTITIONED}
