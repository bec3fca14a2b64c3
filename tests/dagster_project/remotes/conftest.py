"""Web and IMAP servers that say what a test wants, and fetches from them with a password."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.config.source_settings import REMOTES
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Workspace
from tests.http_loopback import Archives, served_archives
from tests.lying_servers import MAIL, MAILS, PASSWORD, SECRET, USER, Fetch
from tests.scripted_imap import Answer, scripted_imap, sound


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMOTE_USER", USER)
    monkeypatch.setenv("REMOTE_PASSWORD", SECRET)


@pytest.fixture
def server() -> Iterator[Archives]:
    with served_archives() as archives:
        archives.files["/2004-01"] = MAIL
        yield archives


@pytest.fixture
def http(tmp_path: Path, server: Archives, every_key: None) -> Fetch:
    """Fetches one month with a password."""

    def run(**changes: Any) -> Fetched:
        remote = {
            "kind": "http",
            "url": f"{server.address}/{{year}}-{{month:02}}",
            "since": "2004-01/2004-01",
            **PASSWORD,
            "timeout_seconds": 2,
            "requests_per_minute": 10_000,
            **changes,
        }
        source = {
            "name": "dev",
            "kind": "mbox",
            "fetch": {k: v for k, v in remote.items() if v is not None},
        }
        return SourceRemotes(Workspace(tmp_path).configure(source).settings).fetch("dev")

    return run


@pytest.fixture
def script() -> dict[str, Answer]:
    return sound(MAILS)


@pytest.fixture
def imap(tmp_path: Path, script: dict[str, Answer], every_key: None) -> Iterator[Fetch]:
    """Fetches a folder from the scripted server."""
    if "imap" not in REMOTES:
        pytest.skip("no extra fetches mailboxes")
    with scripted_imap(script) as port:

        def run(**changes: Any) -> Fetched:
            remote = {
                "kind": "imap",
                "host": f"127.0.0.1:{port}",
                "tls": "off",
                **PASSWORD,
                "timeout_seconds": 2,
                "requests_per_minute": 10_000,
                **changes,
            }
            fetch = {k: v for k, v in remote.items() if v is not None}
            source = {"name": "inbox", "kind": "maildir", "list_id": "me", "fetch": fetch}
            return SourceRemotes(Workspace(tmp_path).configure(source).settings).fetch("inbox")

        yield run
