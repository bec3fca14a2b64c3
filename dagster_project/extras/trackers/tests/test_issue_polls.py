"""Issues of GitHub and GitLab, fetched from a tracker on the loopback interface and triaged."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.config.settings import load_settings
from dagster_project.extras.trackers.tests.tracker_loopback import Tracker, served_tracker
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Workspace
from transforms.errors import FetchError, FetchInterruptedError, SettingsError

Fetch = Callable[..., Fetched]
PROJECTS = {"github": "o/r", "gitlab": "g/o/r"}
pytestmark = pytest.mark.exhaustive


@pytest.fixture
def tracker() -> Iterator[Tracker]:
    with served_tracker() as tracker:
        for number in range(1, 6):
            tracker.put(number, f"Fault {number}", f"2025-02-0{number}T10:00:00Z")
        tracker.comment(71, 2, "I see it, too.", "2025-02-07T10:00:00Z")
        yield tracker


def source(tracker: Tracker, kind: str, **changes: Any) -> dict[str, Any]:
    fetch = {
        "kind": kind,
        "project": PROJECTS[kind],
        "api": tracker.address,
        "requests_per_minute": 10_000,
        **changes,
    }
    return {"name": "bugs", "kind": "issues", "fetch": fetch}


@pytest.fixture(params=PROJECTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fetch(tmp_path: Path, tracker: Tracker, kind: str, every_key: None) -> Fetch:
    def run(**changes: Any) -> Fetched:
        work = Workspace(tmp_path).configure(source(tracker, kind, **changes))
        return SourceRemotes(work.settings).fetch("bugs")

    return run


def files(tmp_path: Path) -> dict[str, Any]:
    folder = tmp_path / "state" / "sources" / "bugs"
    return {p.name: json.loads(p.read_text()) for p in sorted(folder.iterdir())}


def test_all_issues_and_comments_come_once_and_then_only_changes(
    tmp_path: Path, tracker: Tracker, fetch: Fetch, kind: str
):
    first = fetch()
    assert first.added == 6 and first.newest_at is not None
    assert first.newest_at.isoformat() == "2025-02-07T10:00:00+00:00"
    assert set(files(tmp_path)) == {*(f"{n}.json" for n in range(1, 6)), "2.comments.json"}
    before = files(tmp_path)
    tracker.take_requests()
    fetch()
    second = tracker.take_requests()
    assert len(second) <= 3, "the last changed issue, not every page"
    fetch()
    assert {status for _, status in tracker.take_requests()} == {304}
    assert files(tmp_path) == before
    tracker.put(6, "Fault 6", "2025-03-01T10:00:00Z")
    tracker.comment(72, 1, "Mended in 1.3.", "2025-03-02T10:00:00Z")
    third = fetch()
    assert (third.added, third.removed) == (2, 0)
    assert [one["body"] for one in files(tmp_path)["1.comments.json"]] == ["Mended in 1.3."]
    tracker.comment(73, 1, "Not mended.", "2025-03-03T10:00:00Z")
    tracker.comment(71, 2, "I saw it.", "2025-03-04T10:00:00Z")
    fetch()
    now = files(tmp_path)
    assert [one["id"] for one in now["1.comments.json"]] == [72, 73]
    assert [one["body"] for one in now["2.comments.json"]] == ["I saw it."]


def test_a_fetch_that_ends_early_goes_on_where_it_ended(
    tmp_path: Path, tracker: Tracker, fetch: Fetch
):
    """The second page is refused: the first is there, and is not asked for again."""
    fetch_one = tracker.records
    pages = iter([False, True])

    def records(path: str, since: str) -> list[dict[str, Any]] | None:
        if path.endswith("/issues") and next(pages, False):
            tracker.refusals.append((500, {}))
        return fetch_one(path, since)

    tracker.records = records  # type: ignore[method-assign]
    with pytest.raises(FetchInterruptedError, match="500"):
        fetch()
        fetch()
    tracker.records = fetch_one  # type: ignore[method-assign]
    assert files(tmp_path)
    fetch()
    assert set(files(tmp_path)) == {*(f"{n}.json" for n in range(1, 6)), "2.comments.json"}


@pytest.mark.parametrize(
    ("status", "headers", "pause"),
    [
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}, 1.0),
        (429, {"ratelimit-remaining": "0", "ratelimit-reset": "1"}, 1.0),
        (403, {"Retry-After": "7"}, 7.0),
        (429, {"Retry-After": "7"}, 7.0),
    ],
)
def test_a_spent_quota_is_waited_for(
    tracker: Tracker, fetch: Fetch, status: int, headers: dict[str, str], pause: float
):
    tracker.refusals.append((status, headers))
    with pytest.raises(FetchInterruptedError, match="quota of requests is spent") as caught:
        fetch()
    assert caught.value.pause == pause


def test_a_quota_that_is_spent_for_longer_than_a_fetch_may_take_ends_it(
    tracker: Tracker, fetch: Fetch
):
    tracker.refusals.append(
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999"})
    )
    with pytest.raises(FetchError, match="the next fetch goes on") as caught:
        fetch()
    assert not isinstance(caught.value, FetchInterruptedError)


def test_the_token_comes_from_the_environment_and_is_never_shown(
    tracker: Tracker, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
):
    tracker.token = "ghp_Correct7HorseBatteryStaple99"
    with pytest.raises(FetchError, match="TRACKER_TOKEN|TRACKER_USER"):
        fetch(credentials="TRACKER")
    monkeypatch.setenv("TRACKER_TOKEN", "ghp_Wrong7HorseBatteryStaple9999")
    with pytest.raises(FetchError, match="check TRACKER_TOKEN") as caught:
        fetch(credentials="TRACKER")
    assert "Wrong7Horse" not in str(caught.value)
    monkeypatch.setenv("TRACKER_TOKEN", tracker.token)
    assert fetch(credentials="TRACKER").added == 6


def test_another_project_takes_the_place_of_the_one_before(
    tmp_path: Path, tracker: Tracker, fetch: Fetch
):
    fetch()
    with pytest.raises(FetchError, match="404"):
        fetch(project="o/another")
    assert files(tmp_path) == {}


def test_a_next_page_on_another_server_is_not_asked_for(tracker: Tracker, fetch: Fetch):
    with served_tracker() as other:
        tracker.next_on = other.address
        with pytest.raises(FetchError, match="on another server"):
            fetch()
        assert other.requests == []


@pytest.mark.parametrize(
    "records",
    [{"message": "hello"}, "<html>", b"[" * 100_000, [1, {"number": -1}, {"number": "x"}]],
)
def test_what_is_no_list_of_issues_becomes_no_file(
    tmp_path: Path, tracker: Tracker, fetch: Fetch, records: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tracker, "records", lambda path, since: records)
    if isinstance(records, list):
        assert "no issue" in fetch().notes[0]
    else:
        with pytest.raises(FetchError, match="no list of JSON"):
            fetch()
    assert files(tmp_path) == {}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"project": "no-owner"}, "owner/name"),
        ({"project": "../../etc/x"}, "owner/name"),
        ({"api": "ftp://x.example"}, "must begin with"),
        ({"api": "http://x.example", "credentials": "A"}, "https"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(
    tmp_path: Path, tracker: Tracker, kind: str, changes: dict[str, Any], words: str
):
    work = Workspace(tmp_path)
    with pytest.raises(SettingsError, match=words):
        load_settings(work.configure(source(tracker, kind, **changes)).config)


def test_notes_are_not_fetched_from_a_tracker(tmp_path: Path, tracker: Tracker, kind: str):
    work = Workspace(tmp_path)
    with pytest.raises(SettingsError, match="is fetched by"):
        load_settings(work.configure(source(tracker, kind) | {"kind": "vault"}).config)


def test_a_build_triages_the_issues_that_came(tmp_path: Path, tracker: Tracker, kind: str):
    work = Workspace(tmp_path).configure(source(tracker, kind))
    work.build()
    assert work.sql("SELECT count(*) FROM documents") == [(5,)]
    assert work.weft("triage").output.count("#") >= 5
    tracker.put(6, "Fault 6", "2025-03-01T10:00:00Z", "The roof of the shed leaks in rain.")
    work.build()
    result = work.weft("triage", "6")
    assert result.exit_code == 0 and "roof of the shed leaks" in result.output
    assert work.sql("SELECT count(*) FROM quarantine") == [(0,)]
