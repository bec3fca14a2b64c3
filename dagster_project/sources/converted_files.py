"""What became of files that take long to read, kept by their content, as a partition is read as a whole."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
import zlib
from pathlib import Path

from transforms.formats.converted import VERSION, Converted, FormatError
from transforms.hashing import parts_hash

_KEPT_SECONDS = 30 * 24 * 3600
"""Seconds after which what was not asked for is deleted."""
_FLEETING = ("too_slow", "out_of_memory", "ended")
"""Codes of faults that another try may not have."""


class ConvertedFiles:
    """A folder with a file for each content, which may be deleted at any time."""

    def __init__(self, folder: Path):
        self.folder = folder

    def place(self, data: bytes, kind: str, ocr: str | None) -> Path:
        """Where what becomes of a file is kept: by content, kind, languages of OCR, version of the readers."""
        name = parts_hash((data, kind, ocr or "", VERSION))
        return self.folder / name[:2] / name

    def get(self, place: Path) -> Converted | None:
        """What is kept at a place, None if nothing is; FormatError if the file could not be read."""
        try:
            kept = json.loads(zlib.decompress(place.read_bytes()))
        except (OSError, ValueError, zlib.error):
            return None
        with contextlib.suppress(OSError):
            os.utime(place)
        if "fault" in kept:
            raise FormatError(kept["fault"])
        return Converted(**kept)

    def put(self, place: Path, converted: Converted | FormatError) -> None:
        """Keep what became of a file; a disk that is full, or may not be written, keeps nothing."""
        if str(converted if isinstance(converted, FormatError) else "").partition(":")[0] in _FLEETING:
            return
        kept = {"fault": str(converted)} if isinstance(converted, FormatError) else converted._asdict()
        beside = place.with_name(f"{place.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(zlib.compress(json.dumps(kept).encode(), 1))
            beside.replace(place)

    def sweep(self) -> int:
        """Delete what nobody asked for in a month, the number of files."""
        count = 0
        for file in self.folder.glob("*/*"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    file.unlink()
                    count += 1
        return count
