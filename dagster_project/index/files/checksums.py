"""The checksums of the files beside a published file: written once, compared when the files are
read.

A file has one for each block. Files that a search reads in parts are compared block by block, each
before something in it is first read; the others, a tenth of all bytes, whenever a version is opened.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from dagster_project.system.durable import sync
from transforms.errors import IndexUnavailableError

_FACTS = "facts.json"
CHECKED_BYTES = 1 << 20
"""Bytes that have a checksum together: it is computed in half a millisecond."""
READ_IN_PARTS = {"chunks.npy", "codes.npy", "vectors.npy", "hits.sqlite", "later_hits.sqlite"}
"""Names of files that a search reads parts of; rows of SQLite have checksums of their own."""
_EVERY = 24 * 3600
"""Seconds after which all bytes are compared again: disks lose some that nobody reads."""


def write_facts(folder: Path, identity: Mapping[str, str], before: Path | None) -> None:
    """Write the identity of a complete folder and the checksums of its files; all of it is durable
    when the call returns.

    `before` is the folder of another version, with which it may share files.
    """
    previous = checksums(before) if before else {}
    files, new = {}, []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if before and name in previous and (before / name).samefile(path):
            files[name] = previous[name]
        else:
            files[name] = [path.stat().st_size, *_blocks(path)]
            new.append(path)
    facts = {**identity, "files": files}
    (folder / _FACTS).write_text(json.dumps({**facts, "checksum": _of_facts(facts)}))
    sync([*new, folder / _FACTS, *(p for p in folder.rglob("*") if p.is_dir()), folder])


def facts_of(folder: Path) -> dict[str, Any]:
    """The facts of `write_facts`; empty if they are missing or differ from what was written."""
    try:
        facts: dict[str, Any] = json.loads((folder / _FACTS).read_bytes())
        return facts if facts.pop("checksum") == _of_facts(facts) else {}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}


def checksums(folder: Path) -> dict[str, list[int]]:
    """The size of each file and the checksums of its blocks, by its name in the folder."""
    return facts_of(folder).get("files", {})


def file_damages(folder: Path, *, reads_all: bool = False) -> Iterator[str]:
    """Each file of a folder that is missing, or of another size or content than was written, with
    the reason.

    Those of READ_IN_PARTS are not read if they are large, unless it `reads_all`. OSError if one
    cannot be read.
    """
    for name, (size, *written) in sorted(checksums(folder).items()):
        path = folder / name
        if not path.exists():
            yield f"{name} is missing"
        elif path.is_dir():
            raise IsADirectoryError(f"{name} is a folder")
        elif path.stat().st_size != size:
            yield f"{name} has {path.stat().st_size:,} bytes in place of {size:,}"
        elif reads_all or not is_read_in_parts(path):
            pairs = enumerate(zip(_blocks(path), written, strict=True))
            yield from (_differing(name, block) for block, (now, then) in pairs if now != then)


def is_read_in_parts(path: Path) -> bool:
    """True for a file that a search reads a few blocks of, and compares when it does."""
    return path.name in READ_IN_PARTS and path.stat().st_size > CHECKED_BYTES


def require_intact(folder: Path, paths: Iterable[Path]) -> None:
    """ValueError for the first of some files of a folder that differs from what was written."""
    files = checksums(folder)
    for path in paths:
        name = str(path.relative_to(folder))
        if name in files and files[name] != [path.stat().st_size, *_blocks(path)]:
            raise ValueError(f"{name} is not what was written")


def is_comparison_due(folder: Path) -> bool:
    """True if it is a day since all bytes of a folder were compared."""
    try:
        return time.time() - (folder / _FACTS).stat().st_mtime > _EVERY
    except OSError:
        return True


def note_comparison(folder: Path) -> None:
    """Note that all bytes of a folder were compared now, if that can be written."""
    with contextlib.suppress(OSError):
        os.utime(folder / _FACTS)


def damaged(folder: Path, damage: object) -> IndexUnavailableError:
    """The fault of a damaged file in a folder, which loses its facts: whoever opens it next rebuilds
    it.
    """
    remedy = "the next search or `weft build` makes it again"
    try:
        (folder / _FACTS).unlink(missing_ok=True)
    except OSError as error:
        remedy = f"delete it ({error}), and the next search or `weft build` makes it again"
    return IndexUnavailableError(f"{folder} is damaged ({damage}): {remedy}")


class CheckedRows:
    """The rows of an array in a file, which is mapped into memory: each block is compared with its
    checksum before a row in it is first read.

    Reading raises the fault of `damaged` if one differs.
    """

    def __init__(self, folder: Path, name: str):
        """`name` is that of the file in a folder with facts."""
        mapped = np.load(folder / name, mmap_mode="r")
        self.folder, self.name, self.shape = folder, name, mapped.shape
        self._rows = mapped.view(np.ndarray)
        self._bytes, self._start = memoryview(mapped.base), mapped.offset
        self._width = mapped.strides[0]
        self._written = checksums(folder)[name][1:]
        self._unread = set(range(len(self._written)))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if self._unread:
            self._compare(rows)
        return self._rows[rows]

    def _compare(self, rows: slice | np.ndarray) -> None:
        """Compare the blocks of these rows that nobody has read."""
        if isinstance(rows, slice):
            first, end, _ = rows.indices(len(self))
            blocks = {*range(self._block(first, 0), self._block(end, -1) + 1)}
        else:
            begins, ends = self._block(rows, 0), self._block(rows + 1, -1)
            blocks = {*begins.tolist(), *ends.tolist()}
        for block in sorted(blocks & self._unread):
            if (
                crc32(self._bytes[block * CHECKED_BYTES : (block + 1) * CHECKED_BYTES])
                != self._written[block]
            ):
                raise damaged(self.folder, _differing(self.name, block))
            self._unread.discard(block)

    def _block(self, row: Any, byte: int) -> Any:
        """The block with a byte of a row, or of several, from the row's first one on."""
        return (self._start + row * np.int64(self._width) + byte) // CHECKED_BYTES


def _differing(name: str, block: int) -> str:
    return f"{name} is not what was written in the bytes from {block * CHECKED_BYTES:,} on"


def _blocks(path: Path) -> Iterator[int]:
    """The checksum of each block of a file."""
    with path.open("rb") as file:
        while block := file.read(CHECKED_BYTES):
            yield crc32(block)


def _of_facts(facts: Mapping[str, Any]) -> int:
    return crc32(json.dumps(facts, sort_keys=True).encode())
