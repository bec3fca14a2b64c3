"""Repositories of public-inbox (v2 format): which mails they hold, and the mails themselves.

One commit is one change: a blob at path `m` is a mail that came, a blob at path `d` is a mail that
was removed. Everything is read by the git program's plumbing commands; nothing is checked out, and
no name inside a repository becomes a path.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from dagster_project.sources import git_history
from dagster_project.system.globs import is_folder
from transforms.errors import SourceError
from transforms.mail.messages import RawMail

_EPOCH = re.compile(r"(\d+)\.git")


class InboxMail(NamedTuple):
    """A mail in a repository: its place, the repository, the blob, and the month it was sent in.

    With a `fault` it is in place of a blob that cannot be read.
    """

    place: str
    repository: Path
    blob: str
    month: str
    epoch: str
    fault: str | None = None


def repositories(inbox: Path) -> list[Path]:
    """The git repositories of an inbox in order of age: its epochs `git/0.git`, `git/1.git`, …, or
    itself.
    """
    for folder in (inbox / "git", inbox):
        epochs = {int(m[1]): p for p in folder.glob("*.git") if (m := _EPOCH.fullmatch(p.name))}
        if epochs:
            return [epochs[number] for number in sorted(epochs)]
    return [inbox / ".git" if is_folder(inbox / ".git") else inbox]


def is_inbox(folder: Path) -> bool:
    """True for the folder of an inbox, or a repository whose last commit holds one mail and nothing
    else.
    """
    (first, *_) = epochs = repositories(folder)
    if len(epochs) > 1 or _EPOCH.fullmatch(first.name):
        return True
    if not is_folder(first / "objects"):
        return False
    try:
        return git_history.git(first, "ls-tree", "--name-only", "HEAD") in (b"m\n", b"d\n")
    except (git_history.GitFailedError, SourceError):
        return False


def inbox_mails(inbox: Path, name: str) -> list[InboxMail]:
    """The mails that the inbox holds now, in the order in which they came, and unreadable ones.

    A removal takes away every earlier mail of that content, in older epochs too; a mail that comes
    again after it is there again. SourceError where git is missing, or a repository gives nothing
    at all.
    """
    mails: dict[tuple[str, str], InboxMail] = {}
    places: dict[str, list[tuple[str, str]]] = {}
    for repository in repositories(inbox):
        epoch, label = _EPOCH.fullmatch(repository.name), _label(repository, name)
        changes = git_history.history(repository)
        absent = _absent(repository, changes)
        for change in changes:
            for key in places.pop(change.removed, ()) if change.removed else ():
                del mails[key]
            if change.came or change.fault:
                key = (label, change.commit)
                fault = change.fault or absent.get(change.came)
                number = epoch[1] if epoch else "0"
                place, month = f"{label}:{change.commit}", _month(change.at)
                mails[key] = InboxMail(place, repository, change.came, month, number, fault)
            if change.came:
                places.setdefault(change.came, []).append(key)
    return list(mails.values())


def mail_at(inbox: Path, name: str, place: str, limit: int) -> Iterator[tuple[Path, bytes]]:
    """The repository and the mail at a place of an inbox; none if it is not there, not readable, or
    over `limit` bytes.
    """
    label, _, commit = place.rpartition(":")
    for repository in repositories(inbox):
        if _label(repository, name) == label and commit.isalnum():
            with suppress(git_history.GitFailedError), git_history.Objects(repository) as objects:
                blob = git_history.named_object(repository, f"{commit}:m")
                if data := objects.read(blob, "blob", limit).data:
                    yield repository, data


def _label(repository: Path, name: str) -> str:
    """How the places of the mails of a repository begin."""
    return f"{name}/{repository.name}" if _EPOCH.fullmatch(repository.name) else name


def _absent(repository: Path, changes: Iterable[git_history.Change]) -> dict[str, str]:
    """By blob that came and is not there, why its mail is not read; SourceError if that is all of
    them.
    """
    came = list(dict.fromkeys(change.came for change in changes if change.came))
    if not came:
        return {}
    missing = git_history.missing_objects(repository, came)
    if len(missing) == len(came):
        raise SourceError(
            f"repository {repository} holds none of its {len(came):,} mails: it is a partial clone, or its objects are "
            "lost; clone it again"
        )
    return {blob: _fault(git_history.MISSING, blob, repository) for blob in missing}


def _fault(what: str, blob: str, repository: Path) -> str:
    return f"{what}_object: blob {blob} of repository {repository.name} is {what}; fetch or clone it again"


def _month(seconds: int | None) -> str:
    """`YYYY-MM` of the author's time, which public-inbox takes from the mail's Date header."""
    try:
        return (
            datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m")
            if seconds is not None
            else "undated"
        )
    except (ValueError, OverflowError, OSError):
        return "undated"


def blobs(mails: Iterable[InboxMail], limit: int) -> Iterator[RawMail]:
    """The mails with their bytes; one over `limit` bytes, or that cannot be read, with its fault
    and without them.
    """
    for repository, some in groupby(mails, key=attrgetter("repository")):
        with git_history.Objects(repository) as objects:
            yield from (_read(mail, objects, limit) for mail in some)


def _read(mail: InboxMail, objects: git_history.Objects, limit: int) -> RawMail:
    if mail.fault:
        return RawMail(mail.place, b"", fault=mail.fault)
    blob = objects.read(mail.blob, "blob", limit)
    if blob.fault == git_history.TOO_LARGE:
        fault = f"too_large: {blob.size} bytes, mail.max_message_bytes is {limit}"
        return RawMail(mail.place, b"", fault=fault)
    if blob.fault:
        return RawMail(mail.place, b"", fault=_fault(blob.fault, mail.blob, mail.repository))
    return RawMail(mail.place, blob.data)


def is_corrupt(mail: RawMail) -> bool:
    """True for a mail whose blob was there when it was looked for, and could not be read."""
    return (mail.fault or "").startswith(
        (f"{git_history.DAMAGED}_object", f"{git_history.MISSING}_object")
    )
