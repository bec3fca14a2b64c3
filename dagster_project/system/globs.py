"""Paths of sources: matching globs, inspecting paths, naming partitions, storing notes about them."""

import errno
import glob
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from dagster_project.system.durable import write_durably
from transforms.hashing import text_hash

_KEY_CHARACTERS = 150
"""Limit of one half of a partition key: file systems allow names of 255 bytes, and windows need
some of them.
"""
NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM)
"""Error numbers of a disk that is mounted read-only, and of a missing right to write."""


def write_atomically(file: Path, text: str) -> None:
    """Write a text file by a rename, with the folders above it."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    write_durably(file, text, temporary)


def matching_paths(pattern: Path, base: Path) -> list[Path]:
    """The paths that a glob matches; wildcards in the name of the settings file's folder are taken
    literally.
    """
    if pattern.is_relative_to(base):
        return [base / p for p in sorted(glob.glob(str(pattern.relative_to(base)), root_dir=base))]
    return [Path(p) for p in sorted(glob.glob(str(pattern)))]


def fixed_folder(pattern: Path) -> Path:
    """The folder above a path or glob: its parts before the first wildcard, without the last part."""
    parts = pattern.parent.parts
    wild = [
        i
        for i, part in enumerate(parts)
        if glob.has_magic(part) and not is_there(Path(*parts[: i + 1]))
    ]
    return Path(*parts[: wild[0]]) if wild else pattern.parent


is_there, is_folder, is_file = os.path.exists, os.path.isdir, os.path.isfile
"""Tests of a path, behind links; False for an unreadable one, where `Path` raises: a closed folder,
a circle of links.
"""


def real_path(path: Path) -> Path:
    """The path behind all links, as far as they lead; `Path.resolve` raises in a circle of them."""
    return Path(os.path.realpath(path))


def size_of(path: Path) -> int:
    """The bytes of a file, behind links; 0 if none can be reached there, where `Path` may raise."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def entries_below(root: Path) -> Iterator[tuple[Path, OSError | None]]:
    """All entries below a folder, at any depth; one that cannot be listed, with the reason. Links
    are not entered.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        if folder != root:
            yield folder, None
        try:
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                else:
                    yield Path(entry.path), None
        except OSError as error:
            yield folder, error


def valid_text(path: Path | str) -> str:
    """A file name as valid text: bytes that are not UTF-8 are written as escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def partition_name(name: str) -> str:
    """`name` as a partition key and file name: other than letters, digits, `.`, `_`, `-`
    percent-escaped.

    One that is too long for file systems ends in a hash of it.
    """
    escaped = "".join(
        c
        if c.isascii() and (c.isalnum() or c in "._-")
        else "".join(f"%{b:02x}" for b in c.encode())
        for c in name
    )
    escaped = escaped.replace("..", ".%2e").strip(".") or "%2e"
    if len(escaped) <= _KEY_CHARACTERS:
        return escaped
    return f"{escaped[: _KEY_CHARACTERS - 20].rstrip('%')}-{text_hash(name)[:16]}"
