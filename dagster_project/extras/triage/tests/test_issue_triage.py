"""Builds of issues: the table with its check, what follows a new issue, and the command."""

import json
from pathlib import Path
from typing import Any

import anyio
import dagster as dg
import pytest
from mcp import Client
from starlette.testclient import TestClient

from dagster_project.extras.triage.transforms.table import ISSUE_TRIAGE
from dagster_project.orchestration.asset_jobs import asset_definitions, whole_assets
from dagster_project.outgoing.receipts import Receipts
from dagster_project.servers.mcp import mcp_server
from tests.archives import Workspace

pytestmark = pytest.mark.exhaustive

SECRET = "AKIAIOSFODNN7EXAMPLE"
TEXTS = {
    1: (
        "The door does not close",
        f"In 1.2 the door of the shed stays open in a storm. The key is {SECRET}, "
        "the password: T0pmost!Secret9, ask ann@example.org.",
    ),
    2: ("Lamp flickers", "The lamp in the hall flickers every night at ten."),
    3: (
        "Shed door stays open",
        "When there is a storm, the shed's door stays open with 1.2. Closing it by hand helps.",
    ),
}


def export(*numbers: int) -> str:
    """The issues of these numbers as GitHub exports them."""
    issues = [
        {
            "number": n,
            "title": TEXTS[n][0],
            "body": TEXTS[n][1],
            "created_at": f"2025-01-0{n}T10:00:00Z",
            "html_url": f"https://github.com/o/r/issues/{n}",
            "state": "open",
            "user": {"login": "ann"},
        }
        for n in numbers
    ]
    return json.dumps(issues)


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    work = Workspace(tmp_path / "w")
    work.put("tracker/issues.json", export(1, 2))
    return work.configure({"name": "bugs", "kind": "issues", "path": "tracker"})


def rows(work: Workspace) -> dict[int, dict[str, Any]]:
    stored = work.lake.stored("issue_triage", ISSUE_TRIAGE.names)
    assert stored is not None
    return {row["number"]: row for row in stored.to_pylist()}


def printed(work: Workspace, *arguments: str) -> tuple[int, str]:
    result = work.weft("triage", *arguments)
    return result.exit_code, result.output


def test_a_new_issue_is_triaged_by_the_build_that_reads_it(work: Workspace):
    assert printed(work)[0] == 5
    work.build()
    _is_described_and_checked(work)
    assert set(rows(work)) == {1, 2} and rows(work)[1]["missing"] == ["steps", "log"]
    work.put("tracker/later.json", export(3))
    work.put("tracker/broken.json", '[{"number": 4}]')
    work.build()
    (first, *_) = rows(work)[3]["duplicates"]
    assert (
        first["number"] == 1 and first["confidence"] > rows(work)[2]["duplicates"][0]["confidence"]
    )
    assert "storm" in first["passage"] and "storm" in first["earlier_passage"]
    assert work.sql("SELECT place, reason LIKE 'no_title:%' FROM quarantine") == [
        ("broken.json#0", True)
    ]
    assert work.sql("SELECT count(*) FROM documents WHERE 'o/r/3.md' = path") == [(1,)]
    code, text = printed(work)
    listed = [line[:2] for line in text.splitlines() if line.startswith("#")]
    assert (code, listed) == (0, ["#3", "#2", "#1"])
    assert (
        "holds: 1 cloud_key, 1 email, 1 password" in text
        and SECRET not in text
        and "lacks: steps, log" in text
    )
    (row,) = json.loads(printed(work, "--json", "3")[1])
    assert (
        row["created_at"] == "2025-01-03T10:00:00+00:00"
        and row["duplicates"][0]["doc_id"] == "bugs:o/r/1.md"
    )
    work.config.write_text(work.config.read_text() + '[sources.needs]\nwind = "(?i)storm"\n')
    work.build()
    assert {n: row["missing"] for n, row in rows(work).items()} == {1: [], 2: ["wind"], 3: []}
    assert (
        printed(work, "9")[0] == 3 and printed(work, "--since", "2025-01-03")[1].count("#3 ") == 1
    )
    work.put("notes/a.md", "# A note\n\nIt is short.\n")
    work.configure({"name": "notes", "kind": "tree", "path": "notes"}).build()
    assert not work.lake.is_stored("issue_triage")


def _is_described_and_checked(work: Workspace) -> None:
    """Dagster asks for the asset, describes and checks it; without issues it has none."""
    definitions = asset_definitions(work.settings)
    spec = definitions.resolve_asset_graph().get(dg.AssetKey("issue_triage"))
    assert spec.description and "dagster/column_schema" in spec.metadata
    assert "issue_triage" in whole_assets(work.settings)
    with work.instance() as instance:
        check = dg.AssetCheckKey(dg.AssetKey("issue_triage"), "what_is_shown_is_screened")
        (record,) = instance.event_log_storage.get_asset_check_execution_history(check, limit=1)
        assert record.status.value == "SUCCEEDED"
    notes = Workspace(work.folder / "notes").configure({"name": "n", "kind": "tree", "path": "."})
    assert (
        not asset_definitions(notes.settings).resolve_asset_graph().has(dg.AssetKey("issue_triage"))
    )
    assert printed(notes)[0] == 2


def tool_issues(work: Workspace, lens: str | None, **arguments: int) -> dict[str, Any]:
    """The answer of the tool `triage`."""

    async def call() -> Any:
        async with Client(mcp_server(work.settings, lens)) as client:
            return (await client.call_tool("triage", arguments)).structured_content

    return dict(anyio.run(call))


def test_a_tool_and_a_page_show_the_issues_that_a_lens_shows(work: Workspace):
    work.put("tracker/later.json", export(3))
    hidden = json.dumps(
        [
            json.loads(export(1))[0]
            | {"title": "Hidden door", "html_url": "https://github.com/h/h/issues/1"}
        ]
    )
    work.put("hidden/issues.json", hidden)
    sources = [
        {"name": name, "kind": "issues", "path": path}
        for name, path in (("bugs", "tracker"), ("hid", "hidden"))
    ]
    work.configure(*sources, lenses={"few": "source:bugs"}).build()
    everything, few = (tool_issues(work, lens) for lens in (None, "few"))
    assert "Hidden" in str(everything) and "Hidden" not in str(few)
    assert SECRET not in str(everything) and "T0pmost" not in str(everything)
    assert [one["number"] for one in few["issues"]] == [3, 2, 1]
    assert few["issues"][0]["duplicates"][0]["number"] == 1
    second = tool_issues(work, "few", number=2)
    assert (second["issues"][0]["title"], second["more"]) == ("Lamp flickers", 0)
    assert tool_issues(work, "few", limit=1)["more"] == 2
    *_, receipt = Receipts(work.settings.root).read()
    assert (receipt["tool"], receipt["lens"]) == ("triage", "few")
    web = pytest.importorskip("dagster_project.extras.web.app")
    for lens in (None, "few"):
        client = TestClient(web.web_app(work.settings, lens=lens), base_url="http://localhost")
        page = client.get("/issues")
        assert page.status_code == 200 and "Shed door stays open" in page.text
        assert ("Hidden" in page.text) == (lens is None) and SECRET not in page.text
        assert '"/issues"' in client.get("/corpus").text


def test_under_a_lens_issues_are_triaged_as_if_there_were_no_others(
    work: Workspace, tmp_path: Path
):
    work.put("tracker/later.json", export(3))
    other = json.dumps(
        [
            json.loads(export(1))[0]
            | {"title": "Hidden door", "html_url": "https://github.com/h/h/issues/1"}
        ]
    )
    work.put("hidden/issues.json", other)
    sources = [
        {"name": name, "kind": "issues", "path": path}
        for name, path in (("bugs", "tracker"), ("hid", "hidden"))
    ]
    work.configure(*sources, lenses={"few": "source:bugs"}).build()
    alone = Workspace(tmp_path / "alone")
    for name in ("issues", "later"):
        alone.put(f"tracker/{name}.json", (work.folder / f"tracker/{name}.json").read_text())
    alone.configure(sources[0]).build()
    assert "Hidden" in printed(work, "--json")[1]
    under = printed(work, "--json", "--lens", "few")
    assert under == printed(alone, "--json") and under[0] == 0 and "Hidden" not in under[1]
    *_, receipt = Receipts(work.settings.root).read()
    assert (receipt["tool"], receipt["lens"]) == ("weft triage", "few") and receipt["masked"][
        "cloud_key"
    ]
    assert {p["place"].partition(" bytes")[0].partition(":")[0] for p in receipt["passages"]} == {
        "bugs"
    }
    assert (
        printed(work, "--source", "hid", "--lens", "few")[0] == 3
        and printed(work, "--lens", "none")[0] == 2
    )
