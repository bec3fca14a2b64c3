"""Repositories of public-inbox (v2 format): which mails they hold, and the mails themselves.

One commit is one change: a blob at path `m` is a mail that came, a blob at path `d` is a mail that
was removed. Everything is asked of the git program's plumbing commands; nothing is checked out, and
no name inside a repository becomes a path.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple

from transforms.errors import SourceError
from transforms.mail.messages import RawMail

_EPOCH = re.compile(r"(\d+)\.git")
_CHANGE = re.compile(rb":\d{6} (\d{6}) [0-9a-f]+ ([0-9a-f]+) ([AMDT])\t([md])")
# What a stranger's repository could name in its configuration is switched off or never asked for:
# plumbing runs no pager, no diff driver and no signature check, and nothing is fetched.
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_BLOCK = 1 << 20


class InboxMail(NamedTuple):
    """A mail in a repository: its place, the repository, the blob, and the month it was sent in."""

    place: str
    repository: Path
    blob: str
    month: str
    epoch: str


def repositories(inbox: Path) -> list[Path]:
    """The git repositories of an inbox in order of age: its epochs `git/0.git`, `git/1.git`, …, or itself."""
    for folder in (inbox / "git", inbox):
        epochs = {int(m[1]): p for p in folder.glob("*.git") if (m := _EPOCH.fullmatch(p.name))}
        if epochs:
            return [epochs[number] for number in sorted(epochs)]
    return [inbox / ".git" if (inbox / ".git").is_dir() else inbox]


def inbox_mails(inbox: Path, name: str) -> list[InboxMail]:
    """The mails that the inbox holds now, in the order in which they came.

    A removal takes away every earlier mail of that content, in older epochs too; a mail that comes
    again after it is there again. SourceError where git is missing or a repository is broken.
    """
    held: dict[tuple[str, str], InboxMail] = {}
    places: dict[str, list[tuple[str, str]]] = {}
    found = repositories(inbox)
    for repository in found:
        epoch = _EPOCH.fullmatch(repository.name)
        label = f"{name}/{repository.name}" if epoch else name
        for commit, at, came, removed in _changes(repository):
            for key in places.pop(removed, ()) if removed else ():
                del held[key]
            if came:
                key = (label, commit)
                month = _month(at)
                held[key] = InboxMail(
                    f"{label}:{commit}", repository, came, month, epoch[1] if epoch else "0"
                )
                places.setdefault(came, []).append(key)
    return list(held.values())


def _month(seconds: int) -> str:
    """`YYYY-MM` of the author's time, which public-inbox takes from the mail's Date header."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m")
    except (ValueError, OverflowError, OSError):
        return "undated"


def _changes(repository: Path) -> Iterator[tuple[str, int, str, str]]:
    """Commit, author time, blob that came and blob that was removed (or empty), oldest commit first."""
    head = _head(repository)
    if head is None:
        return
    commits = _git(repository, "rev-list", "--first-parent", "--reverse", head)
    told = _git(
        repository, "diff-tree", "--stdin", "--root", "-r", "-m", "--first-parent", "--raw", "--no-abbrev",
        "--no-renames", "--no-ext-diff", "--no-textconv", "--format=%H %at", given=commits,
    )  # fmt: skip
    commit, at, mail = "", 0, ""
    changed: dict[str, tuple[str, str]] = {}
    for line in (*told.split(b"\n"), b"end 0"):
        if (change := _CHANGE.fullmatch(line)) is not None:
            mode, blob, kind, path = (group.decode() for group in change.groups())
            changed[path] = (kind if mode.startswith("100") or kind == "D" else "T", blob)
        elif line and not line.startswith(b":"):
            if changed:
                came, removed, mail = _meaning(changed, mail)
                yield commit, at, came, removed
                changed = {}
            commit, _, seconds = line.decode("ascii", "replace").partition(" ")
            at = int(seconds) if seconds.lstrip("-").isdecimal() else 0


def _meaning(changed: dict[str, tuple[str, str]], mail: str) -> tuple[str, str, str]:
    """Blob that came, blob that was removed, and the blob that stands at `m` now."""
    kind, blob = changed.get("m", ("", ""))
    came = blob if kind in ("A", "M") else ""
    mail = came or ("" if kind == "D" else mail)
    kind, blob = changed.get("d", ("", ""))
    removed = blob if kind in ("A", "M") else ""
    if kind == "D" and not came:
        came = mail  # the mail at `m` is there again without having changed
    return came, removed, mail


def _head(repository: Path) -> str | None:
    """The newest commit: HEAD, else the only branch; None for a repository without commits."""
    if not (repository / "objects").is_dir():
        raise SourceError(
            f"{repository} is no git repository of public-inbox; name the inbox's folder (it holds git/0.git) "
            "or a bare repository as `path`"
        )
    heads = _git(repository, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads").split(b"\n")
    branches = {ref: name for name, _, ref in (line.partition(b" ") for line in heads if line)}
    if not branches:
        return None
    current = _git(repository, "symbolic-ref", "HEAD").strip()
    chosen = branches.get(current) or (next(iter(branches.values())) if len(branches) == 1 else None)
    if chosen is None:
        raise SourceError(
            f"{repository}: HEAD names {current.decode(errors='replace')}, which is none of its "
            f"{len(branches)} branches; set it with `git symbolic-ref HEAD refs/heads/NAME`"
        )
    return chosen.decode()


def blobs(mails: Sequence[InboxMail], limit: int) -> Iterator[RawMail]:
    """The mails with their bytes; one over `limit` bytes comes with its fault and without them."""
    for repository, some in _by_repository(mails):
        with _start(repository, "cat-file", "--batch", stderr=subprocess.DEVNULL) as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                for mail in some:
                    yield _blob(mail, process.stdin.fileno(), process.stdout, limit)
            finally:
                process.kill()


def _by_repository(mails: Iterable[InboxMail]) -> Iterator[tuple[Path, list[InboxMail]]]:
    grouped: dict[Path, list[InboxMail]] = {}
    for mail in mails:
        grouped.setdefault(mail.repository, []).append(mail)
    yield from grouped.items()


def _blob(mail: InboxMail, ask: int, answer: IO[bytes], limit: int) -> RawMail:
    try:
        os.write(ask, mail.blob.encode() + b"\n")
    except BrokenPipeError:
        raise _broken(mail.repository, f"git ended before object {mail.blob} was read") from None
    header = answer.readline().split()
    if len(header) != 3 or header[1] != b"blob":
        raise _broken(mail.repository, f"object {mail.blob} is missing or damaged")
    size = int(header[2])
    if size > limit:
        left = size
        while left > 0 and (block := answer.read(min(left, _BLOCK))):
            left -= len(block)
        answer.read(1)
        fault = f"too_large: {size} bytes, MailSettings.max_message_bytes is {limit}"
        return RawMail(mail.place, b"", fault=fault)
    data = answer.read(size)
    if len(data) != size:
        raise _broken(mail.repository, f"object {mail.blob} is damaged")
    answer.read(1)
    return RawMail(mail.place, data)


def _start(repository: Path, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A running git command on that repository."""
    try:
        return subprocess.Popen(
            ["git", *arguments],
            env={**_inherited(), **_ENVIRONMENT, "GIT_DIR": str(repository)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
    except FileNotFoundError:
        raise SourceError(
            f"{repository}: the git program is not there; install git, or remove the source of kind public_inbox"
        ) from None


def _inherited() -> dict[str, str]:
    """The environment without what would point git elsewhere."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _git(repository: Path, *arguments: str, given: bytes = b"") -> bytes:
    """What a git command prints; SourceError with git's own words where it fails."""
    with _start(repository, *arguments) as process:
        printed, complaint = process.communicate(given)
    if process.returncode:
        lines = complaint.decode(errors="replace").strip().splitlines()
        raise _broken(repository, f"git {arguments[0]} says: {lines[0] if lines else 'nothing'}")
    return printed


def _broken(repository: Path, what: str) -> SourceError:
    return SourceError(
        f"repository {repository} cannot be read: {what}; look at it with `git fsck`, or fetch it again"
    )
