"""Fetches that are killed at random points while a server feeds slowly: the next fetch leaves what a whole one would."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dagster_project.resources.remotes.source_remotes import SourceRemotes
from tests.archives import Mail, Workspace, discussion, mbox
from tests.fuzz.fuzzing import seeds
from tests.http_loopback import Archives, served_archives, slowly
from tests.processes import fetch_that_is_killed
from tests.scripted_imap import Answer, scripted_imap, sound

Remote = dict[str, Any]
State = dict[str, object]
NAME = "dev"


def in_pieces(answer: Answer) -> Answer:
    """The same answer, some bytes at a time."""

    def slow(tag: bytes, line: bytes) -> Iterator[bytes]:
        for block in answer(tag, line):
            for start in range(0, len(block), 500):
                yield block[start : start + 500]
                time.sleep(0.005)

    return slow


@contextmanager
def slow_http(folder: Path) -> Iterator[Remote]:
    """Three months of which one is compressed, and a state of the past that they replace."""
    with served_archives() as server:
        for month in range(1, 4):
            path = f"/2004-{month:02}"
            server.files[path] = mbox(discussion(month * 1000, 200, "compactor"))
            server.plan[path] = [slowly] * 10_000
        yield {
            "kind": "http", "url": f"{server.address}/{{year}}-{{month:02}}", "since": "2004-01", "until": "2004-03",
            "requests_per_minute": 10_000,
        }  # fmt: skip


@contextmanager
def slow_imap(folder: Path) -> Iterator[Remote]:
    """A folder with sixty mails."""
    mails = {n: Mail(n, "word " * 100).text().replace("\n", "\r\n").encode() for n in range(1, 61)}
    script = sound(mails)
    script["BODIES"] = in_pieces(script["BODIES"])
    with scripted_imap(script) as port:
        yield {
            "kind": "imap", "host": "127.0.0.1", "port": port, "tls": "off", "user_variable": "KILLED_USER",
            "password_variable": "KILLED_PASSWORD", "requests_per_minute": 10_000,
        }  # fmt: skip


@contextmanager
def slow_git(folder: Path) -> Iterator[Remote]:
    """A repository with forty commits, each object a file of its own."""
    repository = folder / "repository"
    who = {f"GIT_{p}_{k}": "a@b" for p in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")}
    settings = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=repository, env=settings, check=True, capture_output=True)

    repository.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=master", ".")
    for number in range(40):
        (repository / "m").write_text(Mail(number).text())
        git("add", "m")
        git("commit", "--quiet", "-m", f"mail {number}")
    git("update-server-info")
    with served_archives() as server:
        _serve(server, repository / ".git")
        yield {"kind": "git", "url": f"{server.address}/repository", "requests_per_minute": 10_000}


def _serve(server: Archives, repository: Path) -> None:
    for path in filter(Path.is_file, repository.rglob("*")):
        name = f"/repository/{path.relative_to(repository)}"
        server.files[name] = path.read_bytes()
        server.plan[name] = [slowly] * 10_000


KINDS: dict[str, tuple[str, Callable[[Path], Any], int]] = {
    "http": ("mbox", slow_http, 12),
    "imap": ("maildir", slow_imap, 12),
    "git": ("public_inbox", slow_git, 12),
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
    asked = subprocess.run([*mirror, "log", "--all", "--format=%H %s"], check=True, capture_output=True)
    return {"log": asked.stdout}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_a_fetch_after_killed_ones_equals_a_whole_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KILLED_USER", "ada")
    monkeypatch.setenv("KILLED_PASSWORD", "word")
    _, serve, count = KINDS[kind]
    with serve(tmp_path) as remote:
        whole = workspace(tmp_path / "whole", kind, remote)
        fetch_that_is_killed(whole.config, NAME, 0)  # starts the server of forks
        begun = time.monotonic()
        fetch_that_is_killed(whole.config, NAME, 60)
        longest = time.monotonic() - begun
        expected = state(whole.folder, kind)
        assert expected
        killed = 0
        for seed, chance in seeds(count):
            work = workspace(tmp_path / f"killed-{seed}", kind, remote)
            killed += _killed(work, chance, longest)
            SourceRemotes(work.settings).fetch(NAME)
            assert state(work.folder, kind) == expected, f"{kind}, seed {seed}"
    assert killed >= count // 3


def _killed(work: Workspace, chance: random.Random, longest: float) -> bool:
    """Kill one or two fetches; True if one of them was under way."""
    times = [chance.uniform(0.1, 0.9) * longest for _ in range(chance.randint(1, 2))]
    killed = [fetch_that_is_killed(work.config, NAME, seconds) for seconds in times]
    return any(killed)
