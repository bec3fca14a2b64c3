"""Copies on this machine of the files of a lake on an object store, one for each content."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from pathlib import Path

from upath import UPath

TEMPORARY = ".tmp-"
"""Begins the names of files that are being written; a process id follows."""


class Copies:
    """The copies in a folder: DuckDB requests the same metadata of a remote file hundreds of times."""

    def __init__(self, folder: Path):
        self.folder = folder

    def of(self, place: UPath) -> Path:
        """The copy of what a remote file holds now; FileNotFoundError if it does not exist."""
        copy = self.folder / f"{_prefix(place)}{place.fs.ukey(place.path)}.parquet"
        if not copy.exists():
            temporary = self.temporary()
            place.fs.get_file(place.path, str(temporary))
            temporary.replace(copy)
        return copy

    def temporary(self) -> Path:
        """A name for a new file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(6)}"

    def drop(self, place: UPath) -> None:
        """Delete the copies of a remote file."""
        for copy in self.folder.glob(f"{_prefix(place)}*"):
            copy.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete the copies that a later copy of the same file has replaced."""
        latest: dict[str, Path] = {}
        for copy in sorted(self.folder.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns):
            of = copy.name.partition("-")[0]
            if of in latest:
                latest[of].unlink(missing_ok=True)
            latest[of] = copy


def _prefix(place: UPath) -> str:
    """What the names of all copies of a remote file begin with."""
    return f"{blake2b(str(place).encode(), digest_size=12).hexdigest()}-"
