"""Monthly archives over HTTP: what is asked for, what becomes a file, and what a fault leaves
behind.
"""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.config.source_settings import HttpRemote
from dagster_project.remotes.http_archives import archives, is_due, mbox_ending
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Workspace, discussion, mbox
from tests.http_loopback import (
    Archives,
    basic,
    broken_after,
    login_page,
    served_archives,
    silent,
    status,
)
from tests.lying_servers import Fetch
from transforms.errors import FetchError, FetchInterruptedError
from transforms.hashing import text_hash

NOW = datetime(2004, 3, 20, 12, tzinfo=UTC)
JANUARY, FEBRUARY, MARCH = (f"/dev.20040{n}" for n in (1, 2, 3))
MAILS = {
    p: mbox(discussion(n * 100, 40, "compactor")) for n, p in enumerate((JANUARY, FEBRUARY, MARCH))
}


@pytest.fixture
def server() -> Iterator[Archives]:
    with served_archives() as archives:
        archives.files |= MAILS
        yield archives


@pytest.fixture
def fetch(tmp_path: Path, server: Archives, every_key: None) -> Fetch:
    """Fetches the source `dev` from the server at a time; the settings of the remote can be
    changed.
    """

    def run(now: datetime = NOW, **changes: Any) -> Fetched:
        remote = {
            "kind": "http",
            "url": f"{server.address}/{{list}}.{{year}}{{month:02}}",
            "since": "2004-01",
        }
        work = Workspace(tmp_path).configure(
            {
                "name": "dev",
                "kind": "mbox",
                "fetch": {**remote, "requests_per_minute": 10_000, **changes},
            }
        )
        return SourceRemotes(work.settings, lambda: now).fetch("dev")

    return run


def files(tmp_path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((tmp_path / "state/sources/dev").iterdir())}


ALL = {f"dev.2004-0{n}.mbox": MAILS[path] for n, path in enumerate((JANUARY, FEBRUARY, MARCH), 1)}


@pytest.mark.exhaustive
def test_every_month_since_the_first_becomes_a_file(tmp_path: Path, fetch: Fetch):
    found = fetch()
    assert files(tmp_path) == ALL
    assert (found.added, found.bytes, found.requests) == (3, sum(map(len, ALL.values())), 3)
    assert found.newest_at == datetime(2004, 2, 1, tzinfo=UTC)
    assert found.lag_seconds == (NOW - found.newest_at).total_seconds()


@pytest.mark.exhaustive
def test_closed_months_are_not_asked_for_and_an_open_one_costs_a_304(
    tmp_path: Path, server: Archives, fetch: Fetch
):
    fetch()
    server.take_asked()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "state/sources/dev").iterdir()}
    found = fetch()
    assert server.take_asked() == [(MARCH, 304)]
    assert (found.added, found.changed, found.unchanged) == (0, 0, 3)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "state/sources/dev").iterdir()}


def test_a_month_that_grew_is_replaced(tmp_path: Path, server: Archives, fetch: Fetch):
    fetch()
    server.files[MARCH] += mbox(discussion(900, 2, "late"))
    assert fetch().changed == 1
    assert files(tmp_path)["dev.2004-03.mbox"] == server.files[MARCH]


def test_a_server_without_validators_gives_the_file_again_and_the_same_bytes_stay(
    tmp_path: Path, server: Archives, fetch: Fetch
):
    server.has_validators = False
    fetch()
    (march,) = (tmp_path / "state/sources/dev").glob("*03*")
    before = march.stat().st_mtime_ns
    found = fetch()
    assert (found.changed, found.bytes, march.stat().st_mtime_ns) == (0, len(MAILS[MARCH]), before)


@pytest.mark.parametrize(
    ("checked", "now", "due"),
    [
        (datetime(2004, 2, 3, 23, tzinfo=UTC), NOW, True),
        (datetime(2004, 2, 4, 1, tzinfo=UTC), datetime(2004, 2, 4, 2, tzinfo=UTC), False),
        (datetime(2004, 2, 4, 1, tzinfo=UTC), datetime(2004, 3, 4, 1, tzinfo=UTC), False),
        (datetime(2004, 2, 4, 1, tzinfo=UTC), datetime(2004, 3, 5, 1, tzinfo=UTC), True),
        (None, NOW, True),
    ],
    ids=["asked before it closed", "an hour ago", "29 days ago", "30 days ago", "never"],
)
def test_a_month_is_due_until_it_was_asked_for_after_its_end_and_then_every_thirty_days(
    checked: datetime | None, now: datetime, due: bool
):
    remote = HttpRemote(kind="http", url="https://example.org/{year}-{month:02}", since="2004-01")
    (archive,) = (a for a in archives(remote, "dev", NOW) if a.stem == "dev.2004-01")
    known = {"address": text_hash(archive.url), "checked_at": checked and checked.isoformat()}
    assert is_due(archive, known, now) is due
    assert not checked or is_due(archive, known | {"address": "of another template"}, now)


def test_templates_name_lists_years_and_months():
    remote = HttpRemote(
        kind="http",
        url="https://example.org/{list}/{year}-{month_name}.txt.gz",
        since="2003-12/2004-01",
        lists=("dev", "users"),
    )
    assert [(a.stem, a.url) for a in archives(remote, "-", NOW)] == [
        ("dev.2004-01", "https://example.org/dev/2004-January.txt.gz"),
        ("users.2004-01", "https://example.org/users/2004-January.txt.gz"),
        ("dev.2003-12", "https://example.org/dev/2003-December.txt.gz"),
        ("users.2003-12", "https://example.org/users/2003-December.txt.gz"),
    ]


@pytest.mark.parametrize(
    ("first", "ending"),
    [
        (b"From a@b Mon Jan  5 10:00:00 2004\n", ".mbox"),
        (b"\n\r\nFrom a@b Mon\n", ".mbox"),
        (gzip.compress(b"From a@b Mon\n" * 5000, mtime=0)[:4096], ".mbox.gz"),
        (gzip.compress(b"", mtime=0), ".mbox.gz"),
        (gzip.compress(b"<html>log in</html>", mtime=0), None),
        (b"<!DOCTYPE html>", None),
        (b"\x1f\x8bno gzip at all", None),
        (b"{}", None),
    ],
)
def test_an_mbox_is_known_by_its_first_bytes(first: bytes, ending: str | None):
    assert mbox_ending(first) == ending


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "of a killed fetch"])
def test_a_compressed_month_replaces_the_plain_one(
    tmp_path: Path, server: Archives, fetch: Fetch, is_noted: bool
):
    fetch()
    memory = tmp_path / "state/sources/.fetch/dev.json"
    notes = json.loads(memory.read_text())
    if not is_noted:
        del notes["items"]["dev.2004-03"]
    memory.write_text(json.dumps(notes))
    server.files[MARCH] = gzip.compress(MAILS[MARCH], mtime=0)
    fetch()
    assert sorted(files(tmp_path)) == [
        "dev.2004-01.mbox",
        "dev.2004-02.mbox",
        "dev.2004-03.mbox.gz",
    ]


def test_a_broken_download_goes_on_where_it_broke(tmp_path: Path, server: Archives, fetch: Fetch):
    server.plan[MARCH] = [broken_after(5000)]
    with pytest.raises(FetchInterruptedError):
        fetch()
    assert sorted(files(tmp_path)) == ["dev.2004-01.mbox", "dev.2004-02.mbox"]
    server.take_asked()
    assert fetch().bytes == len(MAILS[MARCH]) - 5000
    assert server.take_asked() == [(MARCH, 206)]
    assert files(tmp_path) == ALL


@pytest.mark.exhaustive
def test_a_file_that_changed_since_it_broke_starts_anew(
    tmp_path: Path, server: Archives, fetch: Fetch
):
    server.plan[MARCH] = [broken_after(5000)]
    with pytest.raises(FetchInterruptedError):
        fetch()
    server.files[MARCH] = mbox(discussion(900, 40, "another"))
    fetch()
    assert files(tmp_path)["dev.2004-03.mbox"] == server.files[MARCH]


@pytest.mark.exhaustive
@pytest.mark.parametrize("times", range(1, 6))
def test_however_often_it_breaks_the_file_is_whole_in_the_end(
    tmp_path: Path, server: Archives, fetch: Fetch, times: int
):
    server.plan[MARCH] = [broken_after(1000 * times)] * times
    for _ in range(times):
        with pytest.raises(FetchInterruptedError):
            fetch()
    fetch()
    assert files(tmp_path) == ALL


def test_an_mbox_that_calls_itself_a_page_is_taken(tmp_path: Path, server: Archives, fetch: Fetch):
    server.types = dict.fromkeys(MAILS, "text/html")
    fetch()
    assert files(tmp_path) == ALL


CODES = {500: True, 502: True, 503: True, 429: True, 408: True, 401: False, 403: False, 400: False}
FAULTS = [
    *((status(code), {}, f"dev.200403 answers {code}", passes) for code, passes in CODES.items()),
    (status(503, Retry_After="86400"), {}, "longer than a fetch may take", False),
    (login_page, {}, r"gives a web page \(text/html.*login page.*credentials", False),
    (silent, {"timeout_seconds": 0.2}, "nothing came within 0.2 s", True),
]


@pytest.mark.parametrize(("answer", "changes", "reason", "passes"), FAULTS)
def test_a_refused_month_keeps_no_other_from_being_fetched(
    tmp_path: Path,
    server: Archives,
    fetch: Fetch,
    answer: Any,
    changes: dict[str, Any],
    reason: str,
    passes: bool,
):
    server.plan[MARCH] = [answer]
    with pytest.raises(FetchError, match=reason) as fault:
        fetch(**changes)
    assert isinstance(fault.value, FetchInterruptedError) is passes
    assert sorted(files(tmp_path)) == ["dev.2004-01.mbox", "dev.2004-02.mbox"]
    fetch()
    server.plan[MARCH] = [answer]
    with pytest.raises(FetchError, match=reason):
        fetch(**changes)
    assert files(tmp_path) == ALL


def test_nobody_there_is_a_fault_that_may_pass(fetch: Fetch):
    with pytest.raises(FetchInterruptedError, match="ConnectError"):
        fetch(url="http://127.0.0.1:9/{year}{month:02}")


def test_three_faults_in_a_row_end_a_fetch(server: Archives, fetch: Fetch):
    for path in MAILS:
        server.plan[path] = [status(500)] * 9
    with pytest.raises(FetchInterruptedError, match="and 2 more"):
        fetch(since="2003-01")
    assert len(server.take_asked()) == 3


def test_a_pause_that_the_server_asks_for_is_told(server: Archives, fetch: Fetch):
    server.plan[JANUARY] = [status(503, Retry_After="7")]
    with pytest.raises(FetchInterruptedError) as fault:
        fetch()
    assert fault.value.pause == 7


@pytest.mark.exhaustive
def test_a_month_that_is_not_there_yet_is_no_fault(server: Archives, fetch: Fetch):
    del server.files[MARCH]
    assert fetch().added == 2
    server.files[MARCH] = MAILS[MARCH]
    assert fetch().added == 1


def test_a_month_that_is_missing_is_kept_and_one_that_is_gone_is_removed(
    tmp_path: Path, server: Archives, fetch: Fetch
):
    fetch()
    server.plan[MARCH] = [status(404)]
    found = fetch()
    assert files(tmp_path) == ALL
    assert found.notes == (
        "dev.2004-03: the server does not have it any more (404); the file of before is kept",
    )
    server.plan[MARCH] = [status(410)]
    assert fetch().removed == 1
    assert "dev.2004-03.mbox" not in files(tmp_path)


def test_a_template_that_fits_nothing_is_a_fault(server: Archives, fetch: Fetch):
    server.files.clear()
    with pytest.raises(FetchError, match="no month has an archive; mend `url` or `since`"):
        fetch()


def test_months_before_a_later_since_are_removed(tmp_path: Path, fetch: Fetch):
    fetch()
    assert fetch(since="2004-02").removed == 1
    assert sorted(files(tmp_path)) == ["dev.2004-02.mbox", "dev.2004-03.mbox"]


def test_a_file_that_was_lost_here_comes_again(tmp_path: Path, fetch: Fetch):
    fetch()
    (tmp_path / "state/sources/dev/dev.2004-01.mbox").unlink()
    assert fetch().added == 1
    assert files(tmp_path) == ALL


@pytest.mark.parametrize("has_validators", [True, False])
def test_a_larger_file_than_allowed_is_refused(
    tmp_path: Path, server: Archives, fetch: Fetch, has_validators: bool
):
    server.has_validators = has_validators
    with pytest.raises(FetchError, match=r"has more than 1,000 bytes \(max_bytes\)"):
        fetch(max_bytes=1000)
    assert files(tmp_path) == {}
    assert list((tmp_path / "state/sources/.fetch/dev").iterdir()) == []


@pytest.mark.exhaustive
def test_a_fetch_ends_with_its_time_limit_and_keeps_what_came(
    tmp_path: Path, server: Archives, fetch: Fetch
):
    server.plan[JANUARY] = [silent]
    with pytest.raises(FetchError, match="the time limit of 3 s is over") as fault:
        fetch(time_limit_seconds=3)
    assert not isinstance(fault.value, FetchInterruptedError)
    assert sorted(files(tmp_path)) == ["dev.2004-02.mbox", "dev.2004-03.mbox"]


def test_credentials_come_from_the_environment_and_are_nowhere_else(
    tmp_path: Path, server: Archives, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
):
    secret = "s3cret/with spaces"
    server.authorization = basic("ada", secret)
    named = {"credentials": "LIST"}
    with pytest.raises(FetchError, match="environment variable LIST_USER is not set"):
        fetch(**named)
    monkeypatch.setenv("LIST_USER", "ada")
    monkeypatch.setenv("LIST_PASSWORD", "wrong")
    with pytest.raises(
        FetchError, match="answers 401 Unauthorized; check LIST_USER and LIST_PASSWORD"
    ):
        fetch(**named)
    monkeypatch.setenv("LIST_PASSWORD", secret)
    fetch(**named)
    assert files(tmp_path) == ALL
    kept = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert secret.encode() not in kept and basic("ada", secret).split()[1].encode() not in kept


def test_a_token_is_sent_as_bearer_and_not_to_where_a_redirect_leads(
    server: Archives, fetch: Fetch, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LIST_TOKEN", "t0ken")
    with served_archives() as other:
        other.files |= MAILS
        server.plan[MARCH] = [status(302, Location=f"{other.address}{MARCH}")]
        fetch(credentials="LIST")
        assert {facts.get("Authorization") for _, _, facts in server.asked} == {"Bearer t0ken"}
        assert [facts.get("Authorization") for _, _, facts in other.asked] == [None]


def test_queries_of_addresses_are_not_shown(server: Archives, fetch: Fetch, tmp_path: Path):
    server.plan[MARCH] = [status(500)]
    with pytest.raises(FetchError) as fault:
        fetch(url=f"{server.address}/dev.{{year}}{{month:02}}?key=hidden")
    assert "hidden" not in str(fault.value)
    assert "hidden" not in (tmp_path / "state/sources/.fetch/dev.json").read_text()


def test_requests_keep_to_the_quota_of_a_minute(server: Archives, fetch: Fetch):
    with pytest.raises(FetchError, match="time limit"):
        fetch(requests_per_minute=2, time_limit_seconds=2)
    assert server.take_asked() == [(MARCH, 200), (FEBRUARY, 200)]
