"""Complete files and folders get their names, and have them after a loss of power, too."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path


def put(complete: Path, place: Path) -> Path:
    """Give a complete file or folder its name in place of the one that has it; durable when the
    call returns.
    """
    complete.replace(place)
    sync([place.parent])
    return place


def write_durably(place: Path, text: str, aside: Path) -> None:
    """Write a text to a file `aside` in the same folder and give that its name; durable when the
    call returns.
    """
    aside.parent.mkdir(parents=True, exist_ok=True)
    aside.write_text(text, encoding="utf-8")
    sync([aside])
    put(aside, place)


def write_privately(place: Path, text: str) -> None:
    """Write a text to a file that only the owner can read; durable when the call returns."""
    aside = place.with_name(f"{place.stem}.part")
    aside.unlink(missing_ok=True)  # a killed process left it, with whatever rights
    aside.touch(0o600)
    write_durably(place, text, aside)


def make_private(folder: Path) -> None:
    """Make a folder that only the owner can enter, and the missing ones above it; durable when the
    call returns.
    """
    for place in (*reversed(folder.parents), folder):
        if not place.exists():
            place.mkdir(mode=0o700, exist_ok=True)
            sync([place.parent])


def sync(paths: Iterable[Path]) -> None:
    """Bring files, or the names in folders, to the disk."""
    for path in dict.fromkeys(paths):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(paths: Iterable[Path]) -> None:
    """Delete files and folders, those that are there."""
    for path in list(paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
