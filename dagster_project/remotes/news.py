"""The sources with a remote that are due to be fetched: at intervals, or as soon as the remote says
that it has news.
"""

import threading
import time
from typing import Self

from dagster_project.config.settings import Settings
from dagster_project.extensions import offered
from dagster_project.remotes.source_remotes import SourceRemotes
from transforms.errors import WeftError

FETCH_SECONDS = 300.0
"""Seconds between two fetches of a remote that does not say when it has news."""
_FIRST_PAUSE, _LAST_PAUSE = 2.0, 300.0
"""Seconds after which a lost connection is opened again: twice as many each time it fails."""


class RemoteNews:
    """The sources that are due; each remote that reports news has a thread of its own.

    While such a connection is lost, its source is fetched at intervals.
    """

    def __init__(self, settings: Settings, wake: threading.Event, interval: float = FETCH_SECONDS):
        """`wake` is set when a remote has news."""
        self.remotes, self._wake, self._interval = SourceRemotes(settings), wake, interval
        offers = offered("remotes")
        kinds = {source.name: source.remote.kind for source in settings.sources if source.remote}
        self.sources = tuple(kinds)
        self._reporting = [
            name for name, kind in kinds.items() if kind in offers and offers[kind].reports
        ]
        self._quiet: set[str] = set()
        """The sources whose remote would report news now."""
        self._due = dict.fromkeys(kinds, time.monotonic() + interval)
        self._new: set[str] = set()
        self._lock, self._ended = threading.Lock(), threading.Event()

    def __enter__(self) -> Self:
        """Open the connections, each in a thread that ends with this process at the latest."""
        for name in self._reporting:
            threading.Thread(target=self._follow, args=[name], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def take(self) -> set[str]:
        """The sources that are due now; they are due again after new reports or the interval."""
        now = time.monotonic()
        with self._lock:
            due = {n for n, at in self._due.items() if at <= now and n not in self._quiet}
            due |= self._new
            self._new.clear()
            for name in due:
                self._due[name] = now + self._interval
        return due

    def _follow(self, name: str) -> None:
        """Note the news of a source as they are reported, and connect again when that ends."""
        pause = _FIRST_PAUSE
        while not self._ended.is_set():
            try:
                for _ in self.remotes.reports(name).news():
                    pause = _FIRST_PAUSE
                    with self._lock:
                        self._quiet.add(name)
                        self._new.add(name)
                    self._wake.set()
                    if self._ended.is_set():
                        return
            except (WeftError, OSError):
                pass  # the fetch at the next interval meets it again, and names it
            finally:
                with self._lock:
                    self._quiet.discard(name)
            self._ended.wait(pause)
            pause = min(2 * pause, _LAST_PAUSE)
