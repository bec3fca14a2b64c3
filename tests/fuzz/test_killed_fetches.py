"""Fetches that are killed while a server feeds them, at any of its blocks: the next leaves what a
whole one would.
"""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dagster_project.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace, discussion, mbox
from tests.broken_files import Epoch
from tests.http_loopback import Archives, in_blocks, served_archives
from tests.processes import fetch_that_is_killed
from tests.scripted_imap import Answer, scripted_imap, sound
from tests.timing import HUNG

Remote = dict[str, Any]
State = dict[str, object]
NAME = "dev"


class Feed:
    """The blocks that a server sends: how many went, and the one before which it waits."""

    def __init__(self) -> None:
        self.sent = 0
        self.stop: int | None = None
        self.reached, self.released = threading.Event(), threading.Event()

    def until_block(self, number: int | None) -> None:
        """Count anew, and stop before a block of that number."""
        self.sent, self.stop = 0, number
        self.reached.clear()
        self.released.clear()

    def noted(self) -> None:
        """A block is about to go."""
        self.sent += 1
        if self.sent == self.stop:
            self.reached.set()
            self.released.wait(HUNG)


def in_pieces(answer: Answer, feed: Feed) -> Answer:
    """The same answer, some bytes at a time."""

    def fed(tag: bytes, line: bytes) -> Iterator[bytes]:
        for block in answer(tag, line):
            for start in range(0, len(block), 500):
                feed.noted()
                yield block[start : start + 500]

    return fed


@contextmanager
def fed_http(folder: Path, feed: Feed) -> Iterator[Remote]:
    """Three months of which one is compressed, and a state of the past that they replace."""
    with served_archives() as server:
        for month in range(1, 4):
            path = f"/2004-{month:02}"
            server.files[path] = mbox(discussion(month * 1000, 200, "compactor"))
            server.plan[path] = [in_blocks(feed.noted)] * 10_000
        yield {
            "kind": "http",
            "url": f"{server.address}/{{year}}-{{month:02}}",
            "since": "2004-01/2004-03",
            "requests_per_minute": 10_000,
        }


@contextmanager
def fed_imap(folder: Path, feed: Feed) -> Iterator[Remote]:
    """A folder with sixty mails."""
    mails = {n: Mail(n, "word " * 100).text().replace("\n", "\r\n").encode() for n in range(1, 61)}
    script = sound(mails)
    script["BODIES"] = in_pieces(script["BODIES"], feed)
    with scripted_imap(script) as port:
        yield {
            "kind": "imap",
            "host": f"127.0.0.1:{port}",
            "tls": "off",
            "credentials": "KILLED",
            "requests_per_minute": 10_000,
        }


@contextmanager
def fed_git(folder: Path, feed: Feed) -> Iterator[Remote]:
    """A repository with forty commits, each object a file of its own."""
    repository = Epoch(folder / "repository")
    for number in range(40):
        repository.commit({"m": Mail(number).text().encode()})
    repository.git("update-server-info")
    with served_archives() as server:
        _serve(server, repository.folder, feed)
        yield {"kind": "git", "url": f"{server.address}/repository", "requests_per_minute": 10_000}


def _serve(server: Archives, repository: Path, feed: Feed) -> None:
    for path in filter(Path.is_file, repository.rglob("*")):
        name = f"/repository/{path.relative_to(repository)}"
        server.files[name] = path.read_bytes()
        server.plan[name] = [in_blocks(feed.noted)] * 10_000


KILLS = 6
"""Moments at which fetches are killed, spread over the blocks of a whole one."""
KINDS: dict[str, tuple[str, Callable[[Path, Feed], Any]]] = {
    "http": ("mbox", fed_http),
    "imap": ("maildir", fed_imap),
    "git": ("public_inbox", fed_git),
}


def workspace(folder: Path, kind: str, remote: Remote) -> Workspace:
    return Workspace(folder).configure(
        {"name": NAME, "kind": KINDS[kind][0], "list_id": "me", "fetch": remote}
    )


def state(folder: Path, kind: str) -> State:
    """What is fetched: every file with its bytes, or every commit that a sound repository leads to."""
    root = folder / "state/sources" / NAME
    if kind != "git":
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    mirror = ["git", "--git-dir", str(root / "git/0.git")]
    subprocess.run([*mirror, "fsck", "--full"], check=True, capture_output=True)
    asked = subprocess.run(
        [*mirror, "log", "--all", "--format=%H %s"], check=True, capture_output=True
    )
    return {"log": asked.stdout}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a_fetch_after_killed_ones_equals_a_whole_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KILLED_USER", "ada")
    monkeypatch.setenv("KILLED_PASSWORD", "word")
    feed = Feed()
    with KINDS[kind][1](tmp_path, feed) as remote:
        whole = workspace(tmp_path / "whole", kind, remote)
        assert not fetch_that_is_killed(whole.config, NAME)
        blocks, expected = feed.sent, state(whole.folder, kind)
        assert expected and blocks > KILLS
        for kill in range(KILLS):
            work = workspace(tmp_path / f"killed-{kill}", kind, remote)
            for block in (1 + kill * (blocks - 1) // (KILLS - 1), 2)[: 1 + kill % 2]:
                feed.until_block(block)
                assert fetch_that_is_killed(work.config, NAME, feed.reached.is_set)
                feed.released.set()
            feed.until_block(None)
            SourceRemotes(work.settings).fetch(NAME)
            assert state(work.folder, kind) == expected, f"{kind}, block {block} of {blocks}"
