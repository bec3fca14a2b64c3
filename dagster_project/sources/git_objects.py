"""Asking git for what a stranger's repository holds: no program that its configuration names runs, nothing is fetched."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from dagster_project.system.processes import output_of
from transforms.errors import SourceError

# Plumbing runs no pager, no diff driver and no signature check. What a partial clone left out is missing: git before
# 2.39.4 knows no way not to ask for it, and then finds no protocol that it may use.
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_BLOCK = 1 << 20
_HEADER = 128
MISSING, DAMAGED, TOO_LARGE = "missing", "damaged", "too_large"


class Object(NamedTuple):
    """An object of a repository: its bytes; without them the fault (MISSING, DAMAGED or TOO_LARGE), and its size."""

    data: bytes
    size: int = 0
    fault: str | None = None


class Objects:
    """The objects of one repository by name, each checked against it; git is started again where one ended it."""

    def __init__(self, repository: Path):
        self.repository = repository
        self._process: subprocess.Popen[bytes] | None = None
        self._nobody = secrets.token_hex(16)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def read(self, name: str, kind: str, limit: int = 64 << 20) -> Object:
        """The object of a name if it is of a kind (`blob`, `commit`, `tree`) and not over `limit` bytes."""
        was_running = self._process is not None
        answer, is_cut = self._answer(name, limit)
        if not answer and was_running:  # it may have ended over the object before this one
            answer, is_cut = self._answer(name, limit)
        first, _, data = answer.partition(b"\n")
        header = first.split()
        if len(header) == 2 and header[1] == b"missing":
            return Object(b"", fault=MISSING)
        if len(header) != 3:
            return Object(b"", fault=DAMAGED)
        size = int(header[2])
        if is_cut:
            return Object(b"", size, TOO_LARGE)
        del data[-1:]
        digest = hashlib.sha256() if len(name) == 64 else hashlib.sha1(usedforsecurity=False)
        digest.update(header[1] + b" %d\0" % size + data)
        if digest.hexdigest() != name or header[1] != kind.encode():
            return Object(b"", size, DAMAGED)
        return Object(bytes(data), size) if size <= limit else Object(b"", size, TOO_LARGE)

    def _answer(self, name: str, limit: int) -> tuple[bytearray, bool]:
        """What git answers for an object, cut if it is far over `limit`; empty where git ends.

        A name that does not exist is requested after it: git gives a corrupt object fewer bytes than it says.
        """
        if self._process is None:
            self._process = start(
                self.repository, "cat-file", "--batch", stderr=subprocess.DEVNULL, unbuffered=True
            )
        assert self._process.stdin and self._process.stdout
        answer, is_cut = bytearray(), False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), f"{name}\n{self._nobody}\n".encode())
        end = f"{self._nobody} missing\n".encode()
        while not answer.endswith(end):
            block = os.read(self._process.stdout.fileno(), _BLOCK)
            if not block:
                self._end()
                return bytearray(), False
            answer += block
            if len(answer) > limit + _BLOCK:
                del answer[_HEADER : -len(end)]
                is_cut = True
        return answer[: -len(end)], is_cut

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            with self._process:
                self._process = None


def missing_objects(repository: Path, names: Sequence[str]) -> set[str]:
    """Those of some names of which the repository has no object that begins as one."""
    stdin = "".join(f"{name}\n" for name in names).encode()
    try:
        output = git(
            repository, "cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer", stdin=stdin
        )
    except GitFailedError:  # as in a partial clone, over the first one that is missing
        output = git(
            repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered"
        )
        return set(names) - set(output.decode("ascii", "replace").split())
    return {line.partition(b" ")[0].decode() for line in output.split(b"\n") if line.endswith(b" missing")}


def start(
    repository: Path, *arguments: str, stderr: int = subprocess.PIPE, unbuffered: bool = False
) -> subprocess.Popen[bytes]:
    """A running git command on that repository."""
    try:
        return subprocess.Popen(
            ["git", *arguments],
            env={**_inherited(), **_ENVIRONMENT, "GIT_DIR": str(repository)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0 if unbuffered else -1,
        )
    except FileNotFoundError:
        raise SourceError(
            f"{repository}: the git program is not there; install git, or remove the source of kind public_inbox"
        ) from None


def _inherited() -> dict[str, str]:
    """The environment without what would point git elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


class GitFailedError(SourceError):
    """A git command failed; the text has its own first line."""


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What a git command prints; GitFailedError with git's own words where it fails."""
    process = start(repository, *arguments)
    printed, complaint = output_of(process, stdin)
    if process.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise GitFailedError(
            f"repository {repository} cannot be read: git {arguments[0]} says: {lines[0] if lines else 'nothing'}; look at "
            "it with `git fsck`, or fetch it again"
        )
    return printed
