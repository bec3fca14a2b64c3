"""Places where programs keep mail, notes and chats on a machine: found by names alone, without
reading a file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dagster_project.system.globs import is_file, size_of

_MOST_FILES = 200_000
"""Files of a place that are counted; one with more is larger than it says."""
_MOST_PLACES = 40
_BYTES_PER_SECOND = 2_000_000
"""Half of the pace of a first build in docs/performance.md: 120 MB take a minute."""
_PATTERNS = (
    ("Thunderbird", ".thunderbird/*/Mail"),
    ("Thunderbird", ".thunderbird/*/ImapMail"),
    ("Thunderbird", "snap/thunderbird/common/.thunderbird/*/*Mail"),
    ("Thunderbird", ".var/app/org.mozilla.Thunderbird/.thunderbird/*/*Mail"),
    ("Thunderbird", "Library/Thunderbird/Profiles/*/*Mail"),
    ("Thunderbird", "AppData/Roaming/Thunderbird/Profiles/*/*Mail"),
    ("Apple Mail", "Library/Mail/V*"),
    ("Evolution", ".local/share/evolution/mail/local"),
    ("Evolution", ".cache/evolution/mail/*"),
    ("mail", "[Mm]ail"),
    ("mail", "[Mm]aildir"),
    ("mail", ".[Mm]ail"),
    ("mail", ".local/share/mail"),
    ("mail", "mbox"),
    ("Takeout", "Downloads/[Tt]akeout*.zip"),
    ("Takeout", "Downloads/[Tt]akeout*.tgz"),
    ("Takeout", "Downloads/Takeout"),
    ("WhatsApp", "Downloads/WhatsApp*.zip"),
    ("WhatsApp", "Downloads/WhatsApp*.txt"),
    ("Telegram", "Downloads/Telegram Desktop/ChatExport*"),
    ("Telegram", "Downloads/ChatExport*"),
    ("Slack", "Downloads/*Slack export*.zip"),
    ("Signal", "Downloads/signal*export*"),
    ("Obsidian", "*/.obsidian"),
    ("Obsidian", "*/*/.obsidian"),
    ("Obsidian", "*/*/*/.obsidian"),
    ("notes and documents", "Documents"),
)
"""Programs and patterns of their places below the home of a person, after their documentation. The
folder `.obsidian` shows that the one above it is a vault.
"""


@dataclass(frozen=True)
class UsualPlace:
    """A place of a program: its path, its files and their bytes."""

    program: str
    path: Path
    files: int
    bytes: int

    @property
    def minutes(self) -> int:
        """The minutes that a first build may take, at least one."""
        return max(1, round(self.bytes / _BYTES_PER_SECOND / 60))


def usual_places(home: Path) -> list[UsualPlace]:
    """The places below a home where something is, each once: names and sizes are looked at, and no
    file is read.
    """
    paths: dict[Path, str] = {}
    for program, pattern in _PATTERNS:
        for path in sorted(home.glob(pattern)):
            path = path.parent if path.name == ".obsidian" else path
            paths.setdefault(path, program)
    sized = (
        UsualPlace(program, path, *_size(path))
        for path, program in islice(paths.items(), _MOST_PLACES)
    )
    return [place for place in sized if place.bytes]


def _size(path: Path) -> tuple[int, int]:
    """The files at a place, the first `_MOST_FILES`, and their bytes; links are not followed."""
    sizes = list(islice(_sizes(path), _MOST_FILES))
    return len(sizes), sum(sizes)


def _sizes(path: Path) -> Iterator[int]:
    if is_file(path):
        yield size_of(path)
        return
    for place, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            try:
                yield os.lstat(Path(place, name)).st_size
            except OSError:  # removed meanwhile
                continue
