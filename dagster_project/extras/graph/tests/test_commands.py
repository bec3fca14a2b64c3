"""How the commands of `weft graph` end, and whom the served graph answers."""

from pathlib import Path

from tests.archives import Workspace
from tests.dagster_project.cli.test_exit_codes import ended
from tests.dagster_project.servers.test_own_pages import FRIEND, serving, status

CALLS = {
    0: [["compactor"], ["compactor \udcff", "--json"], ["compactor \udcff", "--static"]],
    3: [['"no such phrase at all"']],
    2: [["--static", "a" * 20_001]],
}


def test_questions_and_stripes_end_with_their_codes(built_once: Workspace, workspace: Workspace):
    for code, calls in CALLS.items():
        assert {ended(built_once, "graph", "ask", *call)[0] for call in calls} == {code}
    assert ended(workspace, "graph", "stripe", "x")[0] == 5


def test_the_graph_is_served_to_the_origins_of_the_settings(tmp_path: Path):
    work = Workspace(tmp_path / "work").configure(graph={"enabled": True, "origins": [FRIEND]})
    work.put("state/graph/index.json", "{}")
    with serving(tmp_path, "graph", "serve", "--config", str(work.config), option="--port") as port:
        own = ("Host", "127.0.0.1:PORT")
        assert status(port, "GET", "/index.json", [own]) == (200, "")
        assert status(port, "GET", "/index.json", [own, ("Origin", FRIEND)]) == (200, FRIEND)
        assert status(
            port, "GET", "/index.json", [own, ("Origin", "https://elsewhere.example")]
        ) == (403, "")
        assert status(port, "GET", "/index.json", [("Host", "rebound.example:PORT")]) == (421, "")
