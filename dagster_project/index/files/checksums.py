"""The checksums of the arrays of a version, in `facts.json`: whoever opens them checks the small files, the doctor all.

A file that a version shares with the one before it keeps its checksum from there and is not read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from dagster_project.system.durable import sync

FACTS = "facts.json"
_CHECKED_AT_ONCE = 4 << 20
"""Bytes of the smallest files that are read whenever a version is opened: some milliseconds."""
_BLOCK = 1 << 20


def write_facts(folder: Path, identity: Mapping[str, str], before: Path | None) -> None:
    """Write what a complete folder is of and the checksums of its files; all of it is durable when the call returns.

    `before` is the folder of another version, with which it may share files.
    """
    known = _files(before) if before else {}
    files, new = {}, []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if before and name in known and (before / name).samefile(path):
            files[name] = known[name]
        else:
            files[name] = [path.stat().st_size, _checksum(path)]
            new.append(path)
    facts = {**identity, "files": files}
    (folder / FACTS).write_text(json.dumps({**facts, "checksum": _of_facts(facts)}))
    sync([*new, folder / FACTS, *(p for p in folder.rglob("*") if p.is_dir()), folder])


def facts_of(folder: Path) -> dict[str, Any]:
    """What `write_facts` wrote; empty if it is missing or is not what was written."""
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_bytes())
        return facts if facts.pop("checksum") == _of_facts(facts) else {}
    except (OSError, ValueError, KeyError, AttributeError):
        return {}


def damages(folder: Path, *, reads_all: bool = False) -> Iterator[str]:
    """Each file of a folder that is missing, or of another size or content than was written, with the reason.

    Only the smallest files are read, unless it `reads_all`. OSError if one cannot be read.
    """
    budget = _CHECKED_AT_ONCE
    for name, (size, checksum) in sorted(_files(folder).items(), key=lambda file: file[1][0]):
        path = folder / name
        if not path.exists():
            yield f"{name} is missing"
        elif path.is_dir():
            raise IsADirectoryError(f"{name} is a folder")
        elif path.stat().st_size != size:
            yield f"{name} has {path.stat().st_size:,} bytes in place of {size:,}"
        elif (reads_all or (budget := budget - size) >= 0) and _checksum(path) != checksum:
            yield f"{name} is not what was written"


def require_whole(folder: Path, paths: Iterable[Path]) -> None:
    """ValueError for the first of some files of a folder that is not what was written."""
    known = _files(folder)
    for path in paths:
        name = str(path.relative_to(folder))
        if name in known and known[name] != [path.stat().st_size, _checksum(path)]:
            raise ValueError(f"{name} is not what was written")


def _files(folder: Path) -> dict[str, list[int]]:
    """Size and checksum of each file by its name in the folder."""
    files: dict[str, list[int]] = facts_of(folder).get("files", {})
    return files


def _of_facts(facts: Mapping[str, Any]) -> int:
    return crc32(json.dumps(facts, sort_keys=True).encode())


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = crc32(block, checksum)
    return checksum
