"""The places of the sources on this machine: which paths below them changed, as the system reports
it.
"""

import os
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Self

from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

from dagster_project.config.settings import Settings
from dagster_project.system import globs

_QUIET_MILLISECONDS = 150
"""Time without another change after which a batch begins."""
_LONGEST_WAIT_MILLISECONDS = 1_000
"""Time after the first change at which a batch begins though changes continue."""
_FORCE_POLLING = "WATCHFILES_FORCE_POLLING"
_POLL_MILLISECONDS = 1_000
_UNWATCHED_SECONDS = 60.0
"""Seconds between two looks at places that the system does not watch."""
_States = dict[Path, tuple[int, int] | None]


def watched_places(settings: Settings) -> list[Path]:
    """The files and folders to watch: those of each source without a remote, of a pattern the
    folder above it. One that is not there is among them.
    """
    places = (settings.place(source) for source in settings.sources if source.remote is None)
    return list(
        dict.fromkeys(p if globs.is_there(p) else globs.fixed_folder(p / "*") for p in places)
    )


class SourceWatch:
    """Watches places and all below them; a folder that comes back under its name is watched again."""

    def __init__(self, places: Sequence[Path], own: Collection[Path], wake: threading.Event):
        """Changes below the folders `own` do not count; `wake` ends each wait early."""
        self.places, self._own, self._wake = tuple(places), tuple(own), wake
        self.fault = ""
        """The reason why the system does not watch a place, if it refuses to."""
        self._states: _States = {}
        self._notify: RustNotify | None = None
        self._looked = time.monotonic()

    def __enter__(self) -> Self:
        """Begin to watch: later changes are reported, those before are not."""
        self._renew()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def wait(self, seconds: float) -> set[Path]:
        """The paths that changed, those that follow each other closely together; none if it was
        woken, or after `seconds`.
        """
        if self._notify is None:
            self._wake.wait(seconds)
            reported: Any = "timeout"
        else:
            try:
                reported = self._notify.watch(
                    _LONGEST_WAIT_MILLISECONDS,
                    _QUIET_MILLISECONDS,
                    int(seconds * 1000),
                    self._wake,
                )
            except WatchfilesRustInternalError:  # lost events, or a watch that ended: look at all
                self._states, reported = {}, "timeout"
        self._wake.clear()
        paths = () if isinstance(reported, str) else (Path(path) for _, path in reported)
        changed = {p for p in paths if not any(p.is_relative_to(own) for own in self._own)}
        return changed | self._renew() | self._unwatched()

    def _renew(self) -> set[Path]:
        """Watch the places that are there now, if they are others; those that changed."""
        states = {place: _identity(place) for place in self.places}
        if states == self._states:
            return set()
        changed = {place for place in self.places if states[place] != self._states.get(place)}
        self._close()
        self._states = states
        there = [str(place) for place, state in states.items() if state]
        self.fault = ""
        if there:
            polls = os.environ.get(_FORCE_POLLING, "").lower() not in ("", "0", "false", "disable")
            try:
                self._notify = RustNotify(there, False, polls, _POLL_MILLISECONDS, True, True)
            except (OSError, WatchfilesRustInternalError) as error:
                self.fault = str(error)
        return changed

    def _unwatched(self) -> set[Path]:
        """All places, once a minute, if the system does not watch them."""
        if not self.fault or time.monotonic() - self._looked < _UNWATCHED_SECONDS:
            return set()
        self._looked = time.monotonic()
        return set(self.places)

    def _close(self) -> None:
        if self._notify:
            self._notify.close()
            self._notify = None


def _identity(place: Path) -> tuple[int, int] | None:
    """Device and inode of a place, which another file or folder of the name has not; None if there
    is none.
    """
    try:
        state = place.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino
