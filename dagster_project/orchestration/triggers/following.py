"""A process that stays: it builds what comes to the sources within a second as one batch.

An event is a hint to look, and each batch is a whole look: an event that is lost costs a delay.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.config.settings import Settings
from dagster_project.orchestration.build import build, build_batch
from dagster_project.orchestration.direct_runs import DirectRuns
from dagster_project.orchestration.instance import instance_place
from dagster_project.orchestration.outcomes import BuildResult
from dagster_project.orchestration.triggers.watching import SourceWatch, watched_places
from dagster_project.remotes.news import RemoteNews
from dagster_project.system.globs import is_folder
from dagster_project.system.long_work import give_memory_back
from transforms.errors import BusyError, WeftError

_TICK_SECONDS = 2.0
"""Seconds between two looks at clocks and at the folders themselves, which read no file."""
_LOOK_SECONDS = 600.0
"""Seconds after which all sources are looked at although nothing was reported."""
_GAP_SECONDS = 60.0
"""Seconds that pass between two ticks if the machine slept, or its clock was set."""
_BUSY_SECONDS = 2.0
_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 5.0, 300.0
"""Seconds after which a failed batch is tried again: twice as many after each failure."""
_NAMED = 3
_FIRST_LOOK, _AGAIN = "the sources as they are", "tries again"


@dataclass(frozen=True)
class Hint:
    """A reason to look: paths that changed, sources to fetch, or another one in words."""

    paths: frozenset[Path] = frozenset()
    sources: frozenset[str] = frozenset()
    reason: str = ""


@dataclass(frozen=True)
class Batch:
    """A build that found news, or that failed: its hint in words, when it began and its seconds.

    `fault` is empty if all sources could be read and fetched.
    """

    came: str
    begun: datetime
    seconds: float
    result: BuildResult | None = None
    fault: str = ""

    def __str__(self) -> str:
        """The line for people."""
        head = f"{self.begun.astimezone():%H:%M:%S} {self.came}"
        if self.fault:
            return f"{head}: error: {' '.join(self.fault.split())}"
        outcome = "searchable" if self.result and self.result.published else "nothing changed"
        return f"{head}: {outcome} after {self.seconds:.1f} s"

    def as_json(self) -> dict[str, Any]:
        """The line of `weft follow --json`."""
        published = dict(self.result.published or {}) if self.result else {}
        stages = self.result.stages if self.result else {}
        outcome = "PUBLISHED" if published else "UNCHANGED"
        return {
            "outcome": "FAILED" if self.fault else outcome,
            "at": self.begun.isoformat(timespec="milliseconds"),
            "came": self.came,
            "made": sorted(self.result.plan.stale) if self.result else [],
            "removed": sorted(self.result.plan.vanished) if self.result else [],
            "version": published.get("version"),
            "seconds": round(self.seconds, 3),
            "steps": {name: round(own["seconds"], 3) for name, own in stages.items()},
            **({"error": self.fault} if self.fault else {}),
        }


class Follower:
    """Builds after hints, until nobody asks for the next batch."""

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        *,
        fetch: bool = True,
        clock: Callable[[], float] = time.time,
    ):
        self.settings, self.instance = settings, instance
        self._clock, self._wall = clock, clock()
        wake = threading.Event()
        self._news = RemoteNews(settings, wake) if fetch else None
        own = settings.root, instance_place(settings)
        self._watch = SourceWatch(watched_places(settings), own, wake)
        self._looked = self._again_at = 0.0
        self._retry, self._fault = _FIRST_RETRY_SECONDS, ""
        self._left: frozenset[str] = frozenset()
        self._direct = DirectRuns(settings, instance)

    def batches(self) -> Iterator[Batch]:
        """Each batch that found news or failed, after a first build of everything; never ends.

        A fault that lasts is yielded once, and when it ends.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._direct.record, at_once=True)
            stack.enter_context(self._watch)
            if self._news:
                stack.enter_context(self._news)
            yield from self._built(Hint(sources=self._all_remotes(), reason=_FIRST_LOOK))
            while True:
                if hint := self.next_hint():
                    yield from self._built(hint)

    def _all_remotes(self) -> frozenset[str]:
        return frozenset(self._news.sources if self._news else ())

    def next_hint(self) -> Hint | None:
        """Wait for a reason to look, for one tick at most; None if there is none."""
        paths = frozenset(self._watch.wait(_TICK_SECONDS))
        sources = frozenset(self._news.take()) if self._news else frozenset()
        reason = self._reason()
        return Hint(paths, sources | self._left, reason) if paths or sources or reason else None

    def _reason(self) -> str:
        """A reason to look beside events, in words; empty if there is none."""
        now, before, self._wall = time.monotonic(), self._wall, self._clock()
        if abs(self._wall - before) > _GAP_SECONDS:
            return "the clock moved"
        if self._again_at and now >= self._again_at:
            return _AGAIN
        return "a look" if now - self._looked > _LOOK_SECONDS else ""

    def _built(self, hint: Hint) -> Iterator[Batch]:
        begun, start = datetime.now(UTC), time.monotonic()
        result, fault, run_id = None, "", None
        try:
            # The first one may have much to do, and say which file ended a process.
            if hint.reason == _FIRST_LOOK:
                result = build(self.settings, self.instance, fetch=bool(hint.sources))
            else:
                result = build_batch(self._direct, hint.sources)
            fault = result.faults()
        except BusyError:
            self._again_at, self._left = time.monotonic() + _BUSY_SECONDS, hint.sources
            return
        except (WeftError, OSError) as error:
            fault, run_id = str(error), getattr(error, "run_id", None)
        self._direct.record()
        give_memory_back()
        self._wall, self._looked = self._clock(), time.monotonic()
        lasting = fault.replace(f" (run {run_id})", "")  # each try is another run
        is_new = lasting != self._fault
        self._note(hint, lasting)
        if is_new or (result and result.published):
            came = _in_words(hint, self.settings)
            yield Batch(came, begun, time.monotonic() - start, result, fault)

    def _note(self, hint: Hint, fault: str) -> None:
        """Say when the next try is due, if this one failed."""
        self._fault = fault
        if not fault:
            self._again_at, self._retry, self._left = 0.0, _FIRST_RETRY_SECONDS, frozenset()
            return
        self._again_at, self._left = time.monotonic() + self._retry, hint.sources
        self._retry = min(2 * self._retry, _LAST_RETRY_SECONDS)


def _in_words(hint: Hint, settings: Settings) -> str:
    """The names of files and sources of a hint, the first few."""
    names = sorted({path.name for path in hint.paths if not is_folder(path)})
    names += sorted(hint.sources) if hint.reason != _FIRST_LOOK else []
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}" if names else hint.reason or "the folders"
