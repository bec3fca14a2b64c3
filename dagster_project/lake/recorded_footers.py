"""The cache of a lake on this machine: the footers of its files as the ledger records them, and
copies of files of an object store.
"""

import json
import os
import secrets
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from upath import UPath

from dagster_project.lake.parquet_files import MISSING, ParquetFooter, read_footer
from dagster_project.ledger.ledger import Ledger, Row, file_state

Place = tuple[str, str]
"""A table and its partition or part, '' for the table as a whole."""


class RecordedFooters:
    """The footers of files as a ledger records them; one whose file has changed is read again."""

    def __init__(self, ledger: Ledger):
        self.ledger = ledger
        self._rows: dict[Any, Row] = ledger.rows("outputs")
        self._new: dict[Any, Row] = {}
        self._is_changed = False
        self._footers: dict[Place, tuple[str, ParquetFooter]] = {}

    def footer(
        self, place: Place, state: str, read: Callable[[], ParquetFooter | str]
    ) -> ParquetFooter | str:
        """The footer of a file in this state (its ETag in a store), or its fault."""
        last = self._footers.get(place)
        if last and last[0] == state:
            return last[1]
        row = self._rows.get(place)
        footer = _footer_of(row) if row and row[0] == state else read()
        if isinstance(footer, ParquetFooter):
            self._footers[place] = state, footer
            if row is None or row[0] != state:
                self._is_changed = True
                self._rows[place] = self._new[place] = state, *row_of(footer)
        return footer

    def local(self, place: Place, path: str) -> ParquetFooter | str:
        """The footer of a file on this machine, or its fault."""
        try:
            state = file_state(path)
        except FileNotFoundError:
            if self._footers.pop(place, None) or place in self._rows:
                self._is_changed = True
            return MISSING
        except OSError as error:
            return str(error)
        return self.footer(place, state, lambda: read_footer(Path(path)))

    def keep(self, is_there: Callable[[Place], bool]) -> None:
        """Record the footers that were read and forget files that are gone, if there are any."""
        if not self._is_changed:
            return
        new, self._new, self._is_changed = self._new, {}, False  # other threads go on reading
        lost = [p for p in list(self._rows) if p not in self._footers and not is_there(p)]
        for place in lost:
            self._rows.pop(place, None)
        self.ledger.record("outputs", new, lost)


recorded_footers = cache(RecordedFooters)
"""Gives those of this process that a ledger records."""


def row_of(footer: ParquetFooter) -> Row:
    """The row of a footer in `outputs`, without key and state."""
    code, _, settings = footer.code_version.partition("-")
    inputs = json.dumps(dict(footer.inputs), sort_keys=True)
    counts = footer.row_count, footer.waiting
    return footer.columns, code, settings, inputs, footer.content_hash, *counts


def _footer_of(row: Row) -> ParquetFooter:
    _, columns, code, settings, inputs, content_hash, rows, waiting = row
    return ParquetFooter(
        content_hash=str(content_hash),
        code_version=f"{code}-{settings}" if settings else str(code),
        inputs=json.loads(str(inputs)),
        row_count=int(rows or 0),
        waiting=int(waiting or 0),
        columns=str(columns),
    )


PARTIAL = ".tmp-"
"""Begins the names of files that are being written; a process id follows."""


class FooterCopies:
    """The copies in a folder: DuckDB requests the same metadata of a remote file hundreds of times."""

    def __init__(self, folder: Path):
        self.folder = folder

    def of(self, place: UPath) -> Path:
        """The copy of a remote file as it is now; FileNotFoundError if it does not exist."""
        copy = self.folder / f"{_prefix(place)}{place.fs.ukey(place.path)}.parquet"
        if not copy.exists():
            temporary = self.temporary()
            place.fs.get_file(place.path, str(temporary))
            temporary.replace(copy)
        return copy

    def temporary(self) -> Path:
        """A name for a new file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{PARTIAL}{os.getpid()}-{secrets.token_hex(6)}"

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
    return f"{blake2b(str(place).encode(), digest_size=12).hexdigest()}-"
