"""The Maildir that the mails of a folder land in, each in a file whose name says which mail it is."""

import os
from datetime import UTC, datetime

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
            self.landing.note(f"mail {mail} has {size:,} bytes, more than max_bytes; it was not fetched")
        return size > self.max_bytes

    def put(self, name: str, data: bytes, arrived: datetime) -> None:
        """Give a mail its file, as old as its arrival on the server; a time in the future is now."""
        arrived = min(arrived, datetime.now(UTC))
        unfinished = self.landing.partial(name)
        unfinished.write_bytes(data.replace(b"\r\n", b"\n"))
        os.utime(unfinished, (arrived.timestamp(), arrived.timestamp()))
        self.landing.put(unfinished, f"cur/{name}")
        self.landing.saw(arrived)

    def drop(self, names: set[str]) -> None:
        """Remove mails that are no longer on the server."""
        for name in sorted(names):
            self.landing.drop(f"cur/{name}")
