"""The Maildir that the mails of a folder land in, each in a file whose name says which mail it is."""

import os
from collections.abc import Collection
from datetime import UTC, datetime

from dagster_project.extras.mailboxes.labels import label_line, with_labels
from dagster_project.remotes.landing import Landing


class Maildir:
    """The folder of fetched files as a Maildir, made where it is missing."""

    def __init__(self, landing: Landing, max_bytes: int):
        self.landing, self.max_bytes = landing, max_bytes
        landing.forget_unfinished()
        for part in ("cur", "new", "tmp"):
            (landing.folder / part).mkdir(exist_ok=True)

    def names(self) -> set[str]:
        """The names of the mails that are here."""
        return {path.name for path in (self.landing.folder / "cur").iterdir()}

    def is_too_large(self, mail: object, size: int) -> bool:
        """True if a mail has more than `max_bytes`, which is noted."""
        if size > self.max_bytes:
            self.landing.note(
                f"mail {mail} has {size:,} bytes, more than max_bytes; it was not fetched"
            )
        return size > self.max_bytes

    def put(self, name: str, data: bytes, arrived: datetime, labels: Collection[str]) -> None:
        """Give a mail its file, as old as its arrival on the server; a time in the future is now."""
        data = with_labels(data.replace(b"\r\n", b"\n"), labels)
        arrived = min(arrived, datetime.now(UTC))
        unfinished = self.landing.partial(name)
        unfinished.write_bytes(data)
        os.utime(unfinished, (arrived.timestamp(), arrived.timestamp()))
        self.landing.put(unfinished, f"cur/{name}")
        self.landing.saw(arrived)

    def relabel(self, name: str, labels: Collection[str]) -> None:
        """Write a mail that was here before again, as old as it is, if its labels changed."""
        path, line = self.landing.folder / "cur" / name, label_line(labels)
        with path.open("rb") as stream:
            first = stream.readline()
        if first == line or not (labels or first.startswith(line[:15])):
            return
        self.landing.unchanged -= 1
        self.put(name, path.read_bytes(), datetime.fromtimestamp(path.stat().st_mtime, UTC), labels)

    def drop(self, names: set[str]) -> None:
        """Remove mails that are no longer on the server."""
        for name in sorted(names):
            self.landing.drop(f"cur/{name}")
