"""A build where nothing changed, in a tenth of a second: the ledger has the state of all files that
the last build without news looked at.

This module loads little beside modules of Python. A record is of one day, so that each day has a
whole look.
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

from dagster_project.config.places import overriding
from dagster_project.ledger.ledger import Ledger, Row, file_state, ledger_in, state_text
from dagster_project.system.locks import BUILD_LOCK

ROOT = "data"
_OPTIONS = {"build", "--json", "--quiet", "--fetch", "--no-fetch"}
_MOST, _CLOCKS_DIFFER = 100_000, 60
"""A record has at most so many files and folders, and none may be newer than now by more than these
seconds.
"""


def states(places: Iterable[Path], but: Path) -> dict[Row, Row] | None:
    """The states of all files and folders at and below `places`, `but` one folder; '' of a missing
    one.

    None if there are too many, or if a link leads to a folder, which is not entered.
    """
    result: dict[Row, Row] = {}
    waiting = [os.fsencode(place) for place in places]
    while waiting and len(result) + len(waiting) <= _MOST:
        place = waiting.pop()
        result[(place,)] = ("",)
        try:
            info = os.stat(place)  # noqa: PTH116 - a path object takes longer than the look
        except OSError:
            continue
        if stat.S_ISDIR(info.st_mode):
            if but.exists() and os.path.samestat(info, but.stat()):
                del result[(place,)]
                continue
            if os.path.islink(place):  # noqa: PTH114
                return None
            try:
                waiting += (entry.path for entry in os.scandir(place))
            except OSError:  # closed to this user, or removed meanwhile
                return None
        result[(place,)] = (state_text(info),)
    return None if waiting else result


def record(
    ledger: Ledger, before: Mapping[Row, Row], result: Mapping[str, Any], *, has_remotes: bool
) -> None:
    """Record that a build found nothing to do, and the states of all files `before` it looked."""
    ledger.change("looks", ledger.rows("looks"), before)
    build: Row = (str(date.today()), int(has_remotes), json.dumps(result))
    ledger.change("builds", ledger.rows("builds"), {("last",): build})


def is_unchanged(ledger: Ledger) -> bool:
    """True if all files are as the last build without news saw them, none of them newer than now."""
    latest = (time.time() + _CLOCKS_DIFFER) * 1e9
    looks = ledger.rows("looks")
    return (os.fsencode(__file__),) in looks and all(
        _state(path) == state and (not state or int(str(state).split()[2]) <= latest)
        for (path,), (state,) in looks.items()
    )


def _state(path: Any) -> str:
    try:
        return file_state(path)
    except OSError:
        return ""


def is_done(arguments: Sequence[str], config: Path) -> bool:
    """True if this is a build by a settings file and nothing changed since the last; prints then as
    the build would.
    """
    begun, options = time.monotonic(), [*arguments]
    if "--config" in options[:-1]:
        del options[(at := options.index("--config")) : at + 2]
    options = [option for option in options if not option.startswith("--config=")]
    if (
        options[:1] != ["build"]
        or not _OPTIONS.issuperset(options)
        or "WEFT_PSEUDONYM_KEY" in os.environ
        or overriding(os.environ)
    ):
        return False
    try:
        stored = tomllib.loads(config.read_text()).get("storage", {})
        root = config.parent / stored.get("root", ROOT)
        with (root / BUILD_LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            ledger = ledger_in(root)
            day, has_remotes, result = ledger.rows("builds")[("last",)]
            fetches = has_remotes and ("--fetch" in options or "--no-fetch" not in options)
            if fetches or day != str(date.today()) or not is_unchanged(ledger):
                return False
            sources, now = ledger.rows("sources"), datetime.now(UTC).isoformat()
            ledger.change("sources", sources, dict.fromkeys(sources, (0, now)))
            facts = json.loads(str(result))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    seconds = time.monotonic() - begun
    if "--json" in options:
        print(json.dumps({**facts, "seconds": round(seconds, 3)}))
    elif "--quiet" not in options:
        print(f"{facts['partitions']} partitions in the sources, 0 to make, 0 to remove")
        print(f"Nothing changed; the index is current ({seconds:.1f} s).")
    return True
