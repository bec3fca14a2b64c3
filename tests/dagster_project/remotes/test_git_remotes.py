"""Mirrors of public-inbox repositories: cloned, fetched, and nothing of the remote is run."""

import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets.protocols.sources import Fetched
from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace
from tests.broken_files import Epoch, noisy_git
from tests.http_loopback import WholeAnswers, basic, served
from tests.lying_servers import Fetch
from transforms.errors import FetchError, FetchInterruptedError


class Inbox:
    """Repositories of an inbox at the remote end, one per epoch."""

    def __init__(self, folder: Path):
        self.folder, self.epochs = folder, dict[int, Epoch]()

    def add(self, number: int, *mails: Mail) -> None:
        """Mails come, each as a commit with a blob at `m`."""
        epoch = self.epochs[number] = self.epochs.get(number) or Epoch(self.folder / str(number))
        for mail in mails:
            epoch.commit({"m": mail.text().encode()})
        epoch.git("update-server-info")


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = Inbox(tmp_path / "remote")
    made.add(0, Mail(0, subject="one"), Mail(1, subject="two"))
    return made


@pytest.fixture
def fetch(work: Workspace, inbox: Inbox, every_key: None) -> Fetch:
    def run(**changes: Any) -> Fetched:
        remote = {"kind": "git", "url": f"file://{inbox.folder}/{{epoch}}", **changes}
        work.configure({"name": "lore", "kind": "public_inbox", "fetch": remote})
        return SourceRemotes(work.settings).fetch("lore")

    return run


def test_all_epochs_are_cloned_and_then_fetched(work: Workspace, inbox: Inbox, fetch: Fetch):
    assert fetch().added == 1
    assert work.subjects() == ["one", "two"]
    again = fetch()
    assert (again.added, again.changed, again.unchanged, again.bytes) == (0, 0, 1, 0)
    inbox.add(0, Mail(2, subject="three"))
    inbox.add(1, Mail(3, subject="four"))
    found = fetch()
    assert (found.added, found.changed) == (1, 1)
    assert work.subjects() == ["one", "two", "three", "four"]
    assert found.newest_at and found.newest_at.timestamp() == 1_700_000_000


def test_a_history_that_was_rewritten_there_is_rewritten_here(
    work: Workspace, inbox: Inbox, fetch: Fetch
):
    fetch()
    epoch = inbox.epochs[0]
    epoch.git("update-ref", "refs/heads/master", epoch.git("rev-parse", "master~1"))
    assert fetch().changed == 1
    assert work.subjects() == ["one"]


def test_an_epoch_that_was_fetched_must_be_there(inbox: Inbox, fetch: Fetch, work: Workspace):
    fetch()
    (inbox.folder / "0").rename(inbox.folder / "away")
    with pytest.raises(FetchError, match="mend the address"):
        fetch()
    assert work.subjects() == ["one", "two"]


def test_nothing_there_at_all_must_be_mended(fetch: Fetch, tmp_path: Path):
    with pytest.raises(FetchError, match="git says: fatal: .*; mend the address") as fault:
        fetch(url=f"file://{tmp_path}/nothing/{{epoch}}")
    assert not isinstance(fault.value, FetchInterruptedError)


@pytest.mark.exhaustive
def test_neither_hooks_nor_configuration_of_remote_or_user_are_run(
    inbox: Inbox, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    marks = tmp_path / "marks"
    marks.mkdir()
    repository = inbox.folder / "0"
    for hook in ("post-checkout", "post-merge", "reference-transaction", "pre-auto-gc"):
        path = repository / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {marks}/{hook}\n")
        path.chmod(0o755)
    inbox.epochs[0].git("config", "uploadpack.packObjectsHook", f"touch {marks}/pack; exec")
    inbox.epochs[0].git("config", "core.sshCommand", f"touch {marks}/ssh;")
    templates = tmp_path / "templates" / "hooks"
    templates.mkdir(parents=True)
    (templates / "reference-transaction").write_text(f"#!/bin/sh\ntouch {marks}/template\n")
    (templates / "reference-transaction").chmod(0o755)
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(templates.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text(
        f"[core]\nhooksPath = {templates}\n[init]\ntemplateDir = {templates.parent}\n"
    )
    fetch()
    inbox.add(0, Mail(5, subject="five"))
    fetch()
    assert [p.name for p in marks.iterdir()] == []


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c 'touch /tmp/x'",
        "ftp://example.org/x",
        "/srv/inbox",
        "https://ada:secret@example.org/x",
        "file://x/{y}",
    ],
)
def test_other_protocols_and_credentials_in_addresses_are_refused(fetch: Fetch, url: str):
    with pytest.raises(Exception, match=r"sources\.0.*fetch") as fault:
        fetch(url=url)
    assert "secret" not in str(fault.value)


def test_a_pack_that_is_too_large_is_refused(inbox: Inbox, fetch: Fetch, work: Workspace):
    inbox.add(0, Mail(8, os.urandom(60_000).hex(), "large"))
    with pytest.raises(FetchError, match="max_bytes") as fault:
        fetch(max_bytes=20_000)
    assert not isinstance(fault.value, FetchInterruptedError)
    assert list((work.folder / "state/sources/lore/git").iterdir()) == []


def test_locks_of_a_killed_fetch_are_no_obstacle(inbox: Inbox, fetch: Fetch, work: Workspace):
    fetch()
    mirror = work.folder / "state/sources/lore/git/0.git"
    for name in ("packed-refs.lock", "refs/heads/master.lock", "HEAD.lock"):
        (mirror / name).touch()
    inbox.add(0, Mail(2, subject="three"))
    assert fetch().changed == 1


def test_a_mirror_that_is_no_repository_any_more_is_cloned_again(fetch: Fetch, work: Workspace):
    fetch()
    (work.folder / "state/sources/lore/git/0.git/HEAD").unlink()
    assert fetch().added == 1
    assert work.subjects() == ["one", "two"]


class _Files(WholeAnswers):
    """Git's protocol for plain files over HTTP, behind a password."""

    root: Path
    wanted = basic("ada", "0pen-sesame")

    def do_GET(self) -> None:  # noqa: N802
        path = self.root / self.path.partition("?")[0].lstrip("/")
        code = (
            401
            if self.headers.get("Authorization") != self.wanted
            else 200
            if path.is_file()
            else 404
        )
        self.send(code, path.read_bytes() if code == 200 else b"")


@pytest.fixture
def address(inbox: Inbox) -> Iterator[str]:
    with served(_Files, root=inbox.folder) as origin:
        yield origin


def test_credentials_reach_git_by_its_environment_and_stay_in_no_file(
    fetch: Fetch, address: str, work: Workspace, monkeypatch: pytest.MonkeyPatch
):
    named = {"url": f"{address}/{{epoch}}", "credentials": "LIST"}
    monkeypatch.setenv("LIST_USER", "ada")
    monkeypatch.setenv("LIST_PASSWORD", "wrong-secret")
    with pytest.raises(FetchError, match="check address and credentials") as fault:
        fetch(**named)
    assert not isinstance(fault.value, FetchInterruptedError)
    assert "wrong-secret" not in str(fault.value)
    monkeypatch.setenv("LIST_PASSWORD", "0pen-sesame")
    fetch(**named)
    assert work.subjects() == ["one", "two"]
    kept = b"".join(p.read_bytes() for p in work.folder.rglob("*") if p.is_file())
    assert (
        b"0pen-sesame" not in kept and basic("ada", "0pen-sesame").split()[1].encode() not in kept
    )


def test_a_remote_that_says_nothing_ends_with_the_time_limit(fetch: Fetch, tmp_path: Path):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(FetchError, match="time limit of 1 s is over") as fault,
    ):
        fetch(url=f"http://127.0.0.1:{silent.getsockname()[1]}/{{epoch}}", time_limit_seconds=1)
    assert not isinstance(fault.value, FetchInterruptedError)


def test_a_remote_that_is_not_there_may_come_back(fetch: Fetch):
    with pytest.raises(FetchInterruptedError, match="git says: fatal: unable to access"):
        fetch(url="http://127.0.0.1:9/{epoch}")


def test_of_what_git_says_of_a_mirror_little_is_kept(
    inbox: Inbox, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fetch()
    noisy_git(tmp_path / "bin", monkeypatch, 128)
    tracemalloc.start()
    try:
        with pytest.raises(FetchError, match="git says: warning: xxx") as fault:
            fetch()
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert len(str(fault.value)) < 10_000
