"""Where sources lie: globs to paths, paths to names, names to partition keys."""

from __future__ import annotations

import glob
import os
from pathlib import Path


def matching_paths(pattern: Path, base: Path) -> list[Path]:
    """What a glob matches; signs in the name of the settings file's folder are no part of it."""
    if pattern.is_relative_to(base):
        return [base / p for p in sorted(glob.glob(str(pattern.relative_to(base)), root_dir=base))]
    return [Path(p) for p in sorted(glob.glob(str(pattern)))]


def fixed_folder(pattern: Path) -> Path:
    """The folder below which a path or glob lies: its parts before the first wildcard, without the last part."""
    parts = pattern.parent.parts
    wild = [i for i, part in enumerate(parts) if glob.has_magic(part) and not Path(*parts[: i + 1]).exists()]
    return Path(*parts[: wild[0]]) if wild else pattern.parent


def valid_text(path: Path) -> str:
    """A file name as valid text: bytes that are no UTF-8 are written as escapes."""
    return os.fsencode(path).decode(errors="backslashreplace")


def unit_name(name: str) -> str:
    """`name` as a partition key and file name: other than letters, digits, `.`, `_`, `-` percent-escaped."""
    escaped = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-") else "".join(f"%{b:02x}" for b in c.encode())
        for c in name
    )
    return escaped.replace("..", ".%2e").strip(".") or "%2e"
