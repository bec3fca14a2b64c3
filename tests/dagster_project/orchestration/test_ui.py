"""Headless Chromium against the real Dagster server: the graph, a partition that is materialized, the report's plots.

Pictures are kept in `.screenshots/` of the repository, or where WEFT_SCREENSHOTS says.
"""

from __future__ import annotations

import json
import os
import shutil
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
from urllib.parse import quote

import pytest

from dagster_project.orchestration.build import make_report
from tests.archives import Workspace
from tests.dagster_project.servers.test_own_pages import status

pytestmark = pytest.mark.exhaustive

LOADED_WITHIN, ENDED_WITHIN, SHOWN_WITHIN = 120, 120, 60
"""Seconds until the server has loaded Weft, until a run ended, until a page shows what is waited for."""
SCREENSHOTS = Path(os.environ.get("WEFT_SCREENSHOTS") or Path(__file__).parents[3] / ".screenshots")


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
def workspace(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two lists, published, with the report on how that went."""
    work = built_once.copied(tmp_path_factory.mktemp("ui") / "work")
    with work.instance() as instance:
        make_report(work.settings, instance)
    return work


@pytest.fixture(scope="module")
def server(workspace: Workspace) -> Iterator[Server]:
    """`weft ui` in a folder that has packages of the names of Weft's own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("assets", "transforms", "dagster_project"):
        package = workspace.folder / "own" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('this package is somebody else's')")
    command = [str(Path(sys.executable).parent / "weft"), "ui", "--config", str(workspace.config)]
    environment = {k: v for k, v in os.environ.items() if k != "DAGSTER_HOME"}
    with (workspace.folder / "ui.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            start_new_session=True,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=workspace.folder / "own",
            env=environment,
        )
        try:
            running = Server(port)
            waited(running.repository, LOADED_WITHIN)
            yield running
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@pytest.fixture(scope="module")
def page(server: Server) -> Iterator[Any]:
    """A page of headless Chromium that is at no address yet."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        pytest.skip("no Chromium on this machine")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        opened = launched.new_page(viewport={"width": 1500, "height": 1000})
        opened.set_default_timeout(SHOWN_WITHIN * 1000)
        yield opened
        launched.close()


def shoot(page: Any, name: str) -> None:
    """Keep a picture of a page."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def test_the_server_starts_without_a_warning(server: Server, workspace: Workspace):
    assert "Warning" not in (workspace.folder / "ui.log").read_text()


def test_the_graph_of_assets_shows_every_group(page: Any, server: Server):
    page.goto(f"http://127.0.0.1:{server.port}/asset-groups")
    for group in ("mail", "documents", "conversations", "relations", "publish", "operations"):
        node = page.locator("svg foreignObject", has_text=group).first
        node.wait_for()
        assert node.is_visible()
    shoot(page, "graph")


RUNS = f"/graphql?query={quote('mutation{reloadWorkspace{__typename}}')}"
READS = f"/graphql?query={quote('{version}')}"
SOCKET = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("Sec-WebSocket-Protocol", "graphql-ws"),
)
EMBEDDED = (("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"))


@pytest.mark.parametrize(
    ("method", "path", "headers", "expected"),
    [
        ("GET", READS, [("Host", "127.0.0.1:PORT")], 200),
        ("POST", RUNS, [("Host", "localhost:PORT"), ("Origin", "http://localhost:PORT")], 200),
        ("GET", "/graphql", [("Host", "127.0.0.1:PORT"), ("Origin", "http://127.0.0.1:PORT"), *SOCKET], 101),
        ("GET", READS, [("Host", "rebound.example:PORT")], 421),
        ("POST", RUNS, [("Host", "127.0.0.1:PORT"), ("Origin", "https://elsewhere.example")], 403),
        ("POST", RUNS, [("Host", "127.0.0.1:PORT"), ("Origin", "null")], 403),
        ("GET", RUNS, [("Host", "127.0.0.1:PORT"), *EMBEDDED], 403),
        (
            "GET",
            "/graphql",
            [("Host", "127.0.0.1:PORT"), ("Origin", "https://elsewhere.example"), *SOCKET],
            403,
        ),
        ("GET", "/graphql", [("Host", "rebound.example:PORT"), *SOCKET], 403),
    ],
)
def test_pages_of_other_origins_neither_read_nor_run_anything(
    server: Server, method: str, path: str, headers: list[tuple[str, str]], expected: int
):
    assert status(server.port, method, path, headers)[0] == expected


def test_a_partition_is_materialized_from_the_ui(page: Any, server: Server, workspace: Workspace):
    partition = "dev/dev.2004-02"
    file = Path(str(workspace.lake.path("messages", partition)))
    before = file.read_bytes()
    file.unlink()
    address = f"http://127.0.0.1:{server.port}/assets/messages?view=partitions&partition={quote(partition, safe='')}"
    page.goto(address)
    page.get_by_text("View all historical events (1)").wait_for()
    page.get_by_role("button", name="Materialize…").click()
    page.get_by_role("button", name="Confirm").click()
    shoot(page, "materialize")
    page.get_by_role("button", name="Launch 1 run").click()
    waited(file.exists, ENDED_WITHIN)
    assert file.read_bytes() == before
    asked = "{runsOrError(limit:1){... on Runs{results{status}}}}"
    waited(
        lambda: server.ask(asked)["runsOrError"]["results"][0]["status"] not in ("STARTED", "STARTING"),
        ENDED_WITHIN,
    )
    page.goto(address)
    page.get_by_text("View all historical events (2)").wait_for()
    page.get_by_text("Materialized (3)").wait_for()
    page.goto(f"http://127.0.0.1:{server.port}/runs")
    page.get_by_text("Success", exact=True).first.wait_for()
    shoot(page, "materialized")


def test_the_report_shows_its_plots(page: Any, server: Server):
    page.goto(f"http://127.0.0.1:{server.port}/assets/operations_report?view=overview")
    page.get_by_text("[Show Markdown]").click()
    plots = page.locator("img[src^='data:image/png;base64,']")
    plots.wait_for()
    width, height = plots.evaluate("plot => [plot.naturalWidth, plot.naturalHeight]")
    assert width > 500 and height > 400
    page.get_by_text("Rows per second, by step of the last runs").wait_for()
    shoot(page, "report")
