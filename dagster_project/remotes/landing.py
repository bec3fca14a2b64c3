"""The folder where a source's fetched files land, whole or not at all, and the notes on them
between fetches.
"""

import filecmp
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dagster_project.system.durable import remove, sync, write_durably
from transforms.errors import FetchError

_MOST_NOTES = 20
_SAVED_EVERY = 1.0
"""Seconds between two writings of the notes while many files come."""


class Landing:
    """The folder of a source's fetched files; unfinished ones and the memory lie in a folder of
    their own.

    Both are on one file system, so that a finished file gets its place by a rename.
    """

    def __init__(self, fetched: Path, source: str):
        self.source, self.folder = source, fetched / source
        self.work = fetched / ".fetch" / source
        self._memory = fetched / ".fetch" / f"{source}.json"
        self.items: dict[str, dict[str, Any]] = {}
        self.is_complete = False
        self.newest_at: datetime | None = None
        self.added = self.changed = self.unchanged = self.removed = self.bytes = self.requests = 0
        self.notes: list[str] = []
        self._saved_at = 0.0
        self._changed_folders: set[Path] = set()
        self._recall()

    def has_files(self) -> bool:
        """True if something that was fetched is here."""
        return any(path.is_file() for path in self.folder.rglob("*"))

    def prepare(self) -> None:
        """Make the folders; FetchError if that is impossible. Notes on lost files are deleted."""
        if not self.folder.is_dir():
            self.items, self.is_complete = {}, False
        try:
            for folder in (self.folder, self.work):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FetchError(
                f"source {self.source}: {error.filename} cannot be made ({error.strerror}); mend storage.root"
            ) from error

    def partial(self, name: str) -> Path:
        """The place of an unfinished file."""
        return self.work / f"{name}.part"

    def put(self, unfinished: Path, name: str) -> bool:
        """Give a finished file its place; False, and the old file stays, if that has the same
        bytes.
        """
        target = self.folder / name
        if target.is_file() and filecmp.cmp(unfinished, target, shallow=False):
            unfinished.unlink()
            self.unchanged += 1
            return False
        sync([unfinished])
        if target.exists():
            self.changed += 1
        else:
            self.added += 1
        target.parent.mkdir(parents=True, exist_ok=True)
        self._changed_folders.add(unfinished.replace(target).parent)
        return True

    def drop(self, name: str) -> None:
        """Remove a fetched file, if it is there."""
        path = self.folder / name
        if path.is_file():
            path.unlink()
            self.removed += 1

    def saw(self, at: datetime) -> None:
        """Keep the time of the newest mail or file."""
        self.newest_at = max(at, self.newest_at or at)

    def note(self, text: str) -> None:
        """Keep a remark on something left out."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(text)

    def save_now_and_then(self) -> None:
        """Write the notes unless that was done within the last second."""
        if time.monotonic() - self._saved_at >= _SAVED_EVERY:
            self.save()

    def save(self) -> None:
        """Write the notes, after the names of the files in them are durable."""
        self._saved_at = time.monotonic()
        sync(folder for folder in self._changed_folders if folder.exists())
        self._changed_folders.clear()
        facts = {
            "complete": self.is_complete,
            "newest_at": self.newest_at and self.newest_at.isoformat(),
            "items": self.items,
        }
        text = json.dumps(facts, sort_keys=True)
        write_durably(self._memory, text, self._memory.with_suffix(".json.tmp"))

    def forget_unfinished(self) -> None:
        """Delete unfinished files of earlier fetches."""
        # A program that outlived its fetch may still write there; the next fetch deletes the rest.
        remove(self.work.iterdir())

    def _recall(self) -> None:
        try:
            facts = json.loads(self._memory.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return
        if isinstance(facts, dict):
            self.is_complete = bool(facts.get("complete"))
            self.items = {
                k: v for k, v in (facts.get("items") or {}).items() if isinstance(v, dict)
            }
            self.newest_at = parsed_time(facts.get("newest_at"))


def parsed_time(text: object) -> datetime | None:
    """A time as it was written by `isoformat`, or None."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


MALFORMED = (
    AssertionError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""To be caught around the call of a library alone, where no fault of our own can hide among them.
"""
