"""How `weft ask`, `stripe` and `serve-graph` end, and whom the served graph answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.archives import Workspace
from tests.dagster_project.cli.test_exit_codes import ended
from tests.dagster_project.servers.test_own_pages import FRIEND, serving, status


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["compactor"], 0),
        (["compactor \udcff", "--json"], 0),
        (["compactor \udcff", "--static"], 0),
        (['"no such phrase at all"'], 3),
        (["--static", "a" * 20_001], 2),
    ],
    ids=range(5),
)
def test_ask_ends_with_its_code(built_once: Workspace, arguments: list[str], code: int):
    assert ended(built_once, "ask", *arguments)[0] == code


def test_without_an_index_there_is_no_stripe(workspace: Workspace):
    assert ended(workspace, "stripe", "x")[0] == 5


def test_the_graph_is_served_to_the_origins_of_the_settings(tmp_path: Path):
    work = Workspace(tmp_path / "work").configure(graph={"enabled": True, "origins": [FRIEND]})
    work.put("state/graph/index.json", "{}")
    with serving(tmp_path, "serve-graph", "--config", str(work.config), option="--port") as port:
        own = ("Host", "127.0.0.1:PORT")
        assert status(port, "GET", "/index.json", [own]) == (200, "")
        assert status(port, "GET", "/index.json", [own, ("Origin", FRIEND)]) == (200, FRIEND)
        assert status(port, "GET", "/index.json", [own, ("Origin", "https://elsewhere.example")]) == (403, "")
        assert status(port, "GET", "/index.json", [("Host", "rebound.example:PORT")]) == (421, "")
