"""Fetching under Dagster and before a build: retries, checks, lag, and a remote that fails stops
nothing.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from click.testing import Result

from assets.fetch import fetched_key
from assets.sources import partitions_key, source_key
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.build import fetch_only
from dagster_project.orchestration.names import REFRESH_NOW, REFRESH_TAG
from dagster_project.orchestration.outcomes import FetchOutcome
from tests.archives import Workspace, discussion, mbox
from tests.daemon import Daemon
from tests.http_loopback import Archives, served_archives, status

MONTH = "/remote.200401"


@pytest.fixture
def server() -> Iterator[Archives]:
    with served_archives() as archives:
        archives.files[MONTH] = mbox(discussion(0, 4, "compactor"))
        yield archives


def remote_source(server: Archives, **changes: Any) -> dict[str, Any]:
    fetch = {
        "kind": "http",
        "url": f"{server.address}/remote.{{year}}{{month:02}}",
        "since": "2004-01/2004-01",
        "requests_per_minute": 10_000,
        **changes,
    }
    return {"name": "remote-list", "kind": "mbox", "fetch": fetch}


@pytest.fixture
def work(tmp_path: Path, server: Archives) -> Workspace:
    made = Workspace(tmp_path / "work")
    made.write("local.2004-01.mbox", discussion(100, 3, "shell"))
    return made.configure(
        {"name": "local", "kind": "mbox", "path": "mail/*"}, remote_source(server)
    )


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.fetch._BACKOFF_SECONDS", 0.01)


def run_fetch(work: Workspace) -> dg.ExecuteInProcessResult:
    job = build_definitions(work.settings).resolve_job_def(REFRESH_NOW)
    with work.instance() as instance:
        return job.execute_in_process(instance=instance, raise_on_error=False)


def checks_of(result: dg.ExecuteInProcessResult) -> list[tuple[str, bool]]:
    return [(c.check_name, c.passed) for c in result.get_asset_check_evaluations()]


@pytest.mark.exhaustive
def test_a_fetch_is_an_asset_with_counts_lag_and_checks(work: Workspace):
    result = run_fetch(work)
    (event,) = result.asset_materializations_for_node("fetch_remote_list")
    facts = {k: v.value for k, v in event.metadata.items()}
    assert event.asset_key == fetched_key("remote-list")
    assert (facts["added"], facts["requests"]) == (1, 1)
    assert facts["lag_seconds"] > 20 * 365 * 24 * 3600
    assert checks_of(result) == [("reachable", True), ("lag", True)]


@pytest.mark.exhaustive
def test_the_graph_leads_from_what_is_fetched_to_the_assets_that_read_it(work: Workspace):
    graph = build_definitions(work.settings).resolve_asset_graph()
    assert graph.get(fetched_key("remote-list")).child_keys == {source_key("remote-list")}
    assert graph.get(source_key("remote-list")).child_keys == {partitions_key("mail")}
    fed = graph.get(partitions_key("mail")).child_keys
    assert fed == {dg.AssetKey(table) for table in ("messages", "attachments", "quarantine")}
    assert not graph.has(dg.AssetKey("documents")), "no source has documents"


@pytest.mark.exhaustive
def test_a_remote_that_is_old_warns(work: Workspace, server: Archives):
    work.configure(remote_source(server, max_lag_hours=24))
    result = run_fetch(work)
    assert result.success
    assert ("lag", False) in checks_of(result)


@pytest.mark.exhaustive
def test_a_fault_that_passes_is_repeated_and_one_that_does_not_is_not(
    work: Workspace, server: Archives
):
    server.plan[MONTH] = [status(500), status(503, Retry_After="0")]
    result = run_fetch(work)
    assert result.success
    assert [s for _, s in server.take_asked()] == [500, 503, 200]
    server.plan[MONTH] = [status(403)] * 5
    work.configure(remote_source(server, since="2004-01/2004-02"))
    server.plan["/remote.200402"] = [status(403)] * 5
    result = run_fetch(work)
    assert not result.success
    assert [s for _, s in server.take_asked()] == [403]


@pytest.mark.parametrize(
    "pause", [{}, {"Retry_After": "1"}], ids=["by the policy", "as the server asks"]
)
def test_attempts_are_limited(work: Workspace, server: Archives, pause: dict[str, str]):
    server.plan[MONTH] = [status(500, **pause)] * 9
    result = run_fetch(work)
    assert not result.success
    assert len(server.take_asked()) == 3
    assert checks_of(result)[-2:] == [("reachable", False), ("lag", True)]


@pytest.mark.exhaustive
def test_a_build_fetches_first_a_second_one_finds_nothing_new_and_lost_files_do_not_empty_the_index(
    work: Workspace, server: Archives
):
    assert work.build().published
    assert work.column("SELECT count(*) FROM messages") == [7]
    again = work.build()
    assert (again.published, again.fetched["remote-list"].is_change) == (None, False)
    assert again.as_json()["fetched"]["remote-list"]["outcome"] == "UNCHANGED"
    for path in (work.folder / "state/sources").rglob("*.mbox"):
        path.unlink()
    (work.folder / "state/sources/remote-list").rmdir()
    server.plan[MONTH] = [status(403)]
    assert "what was fetched of it is no longer there; fetch it again" in work.build().faults()
    assert work.column("SELECT count(*) FROM messages") == [7]
    assert work.build().published is None


@pytest.mark.exhaustive
def test_a_remote_that_fails_stops_nothing_and_is_reported(work: Workspace, server: Archives):
    """Before anything was fetched, and after: what is there is built, what was there stays."""
    server.plan[MONTH] = [status(500)] * 3
    first = work.build()
    assert first.published and "answers 500" in (first.fetched["remote-list"].fault or "")
    assert work.column("SELECT DISTINCT source FROM memberships") == ["local"]
    work.build()
    work.write("local.2004-02.mbox", discussion(200, 2, "parser"))
    work.configure(
        {"name": "local", "kind": "mbox", "path": "mail/*"},
        remote_source(server, url="http://127.0.0.1:9/{year}{month}"),
    )
    answer = work.weft("build", "--json")
    told = json.loads(answer.stdout)
    assert (answer.exit_code, told["outcome"], told["fetched"]["remote-list"]["outcome"]) == (
        10,
        "PUBLISHED",
        "FAILED",
    )
    assert told["fetched"]["remote-list"]["lag_seconds"] > 0
    assert "error: source remote-list: " in answer.stderr
    assert work.column("SELECT count(*) FROM messages") == [9]
    assert work.weft("build", "--no-fetch").exit_code == 0


def test_the_command_fetches_all_or_some_and_tells_what_came(work: Workspace, server: Archives):
    def told(*arguments: str) -> Result:
        return work.weft("build", "--fetch-only", *arguments)

    first = told()
    assert first.exit_code == 0
    assert re.search(r"remote-list +│ fetched +│ +1 │ +0 │ +0 │", first.output)
    again = json.loads(told("remote-list", "--json").stdout)
    assert again["remote-list"]["outcome"] == "UNCHANGED"
    refused = told("local")
    assert refused.exit_code == 2
    assert "no source with fetch is called 'local'; there are: remote-list" in refused.stderr
    work.configure(remote_source(server, since="2004-01/2004-02"))
    server.plan["/remote.200402"] = [status(401)]
    failed = told()
    assert (failed.exit_code, "│ failed" in failed.output) == (10, True)
    assert "answers 401" in failed.stderr


def test_the_hour_begins_with_a_fetch_and_goes_on_with_what_is_there_if_a_remote_fails(
    work: Workspace, server: Archives
):
    server.plan[MONTH] = [status(403)]
    with work.instance() as instance:
        daemon = Daemon(work, instance)
        (begins,) = daemon.hour()
        assert (begins.job_name, daemon.look()) == (REFRESH_NOW, [])
        assert not daemon.run(checked=False).success
        (local,) = daemon.look()
        assert (local.job_name, local.tags["dagster/partition"]) == (
            "mail_partitions",
            "local/2004-01",
        )
        assert local.tags[REFRESH_TAG] == begins.tags[REFRESH_TAG]


def test_an_outcome_says_what_became_of_a_fetch():
    assert FetchOutcome(fault="x").as_json()["outcome"] == "FAILED"
    assert FetchOutcome(added=1).as_json()["outcome"] == "FETCHED"
    assert FetchOutcome().as_json()["outcome"] == "UNCHANGED"


def test_sources_without_a_remote_make_no_run(tmp_path: Path):
    work = Workspace(tmp_path).configure()
    with work.instance() as instance:
        assert fetch_only(work.settings, instance) == {}
        assert instance.get_runs_count() == 0
