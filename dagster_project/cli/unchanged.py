"""A build where nothing changed, in a tenth of a second: the last one noted the state of all that it looked at.

This module loads little beside modules of Python. A note is of one day, so that each day has a whole look.
"""

import fcntl
import json
import os
import stat
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from dagster_project.system.globs import recall, remember
from dagster_project.system.locks import BUILD_LOCK

ROOT, NOTE, LOOKED = "data", "cache/unchanged.json", "cache/looked.json"
_OPTIONS = {"build", "--json", "--quiet", "--fetch", "--no-fetch"}
_MOST, _CLOCKS_DIFFER = 100_000, 60
"""A note has at most so many files and folders, and none may be newer than now by more than these seconds."""


def states(places: Iterable[Path], but: Path) -> dict[str, list[int]] | None:
    """Kind, size, times, device and inode of all files and folders at and below `places`, `but` one folder.

    None if there are too many, or if a link leads to a folder, which is not entered.
    """
    result: dict[str, list[int]] = {}
    waiting, left_out = [str(place) for place in places], _state(str(but))[4:]
    while waiting and len(result) + len(waiting) <= _MOST:
        place = waiting.pop()
        state = _state(place)
        if state and state[4:] == left_out:
            continue
        if state and stat.S_ISDIR(state[0]):
            if Path(place).is_symlink():
                return None
            waiting += (entry.path for entry in os.scandir(place))
        result[place] = state
    return None if waiting else result


def _state(place: str) -> list[int]:
    """The state of a file or folder; empty if it is not there."""
    try:
        info = os.stat(place)  # noqa: PTH116 - a path object takes longer than the look
    except OSError:
        return []
    return [
        info.st_mode,
        info.st_size,
        info.st_mtime_ns,
        info.st_ctime_ns,
        info.st_dev,
        info.st_ino,
    ]


def note(
    root: Path, before: Mapping[str, Any], result: Mapping[str, Any], *, has_remotes: bool
) -> None:
    """Write down below a storage root that a build found nothing to do, and the state of all `before` it looked."""
    facts = {"day": str(date.today()), "remotes": has_remotes, "result": result, "states": before}
    remember(root / NOTE, json.dumps(facts))


def is_done(arguments: Sequence[str], config: Path) -> bool:
    """True if this is a build by a settings file and nothing changed since the note; prints then as the build would."""
    begun, options = time.monotonic(), [*arguments]
    if "--config" in options[:-1]:
        del options[(at := options.index("--config")) : at + 2]
    options = [option for option in options if not option.startswith("--config=")]
    if (
        options[:1] != ["build"]
        or not _OPTIONS.issuperset(options)
        or "WEFT_PSEUDONYM_KEY" in os.environ
    ):
        return False
    try:
        root = config.parent / tomllib.loads(config.read_text()).get("storage", {}).get(
            "root", ROOT
        )
        noted, latest = recall(root / NOTE), (time.time() + _CLOCKS_DIFFER) * 1e9
        fetches = noted["remotes"] and ("--fetch" in options or "--no-fetch" not in options)
        is_of_this_code = __file__ in noted["states"]
        if fetches or not is_of_this_code or noted["day"] != str(date.today()):
            return False
        with (root / BUILD_LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if any(
                _state(p) != state or state[2:3] > [latest] for p, state in noted["states"].items()
            ):
                return False
            now = datetime.now(UTC).isoformat()
            remember(root / LOOKED, json.dumps(dict.fromkeys(recall(root / LOOKED), (0, now))))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    result, seconds = noted["result"], time.monotonic() - begun
    if "--json" in options:
        print(json.dumps({**result, "seconds": round(seconds, 3)}))
    elif "--quiet" not in options:
        print(f"{result['partitions']} partitions in the sources, 0 to make, 0 to remove")
        print(f"Nothing changed; the index is current ({seconds:.1f} s).")
    return True
