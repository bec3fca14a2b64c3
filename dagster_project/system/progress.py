"""Where the stages tell how far they have come: to the log, or to a terminal."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from assets.protocols.lake import Progress


class LoggedProgress:
    """Progress as debug lines of the logger `weft`."""

    def expect(self, stage: str, rows: int) -> None:
        """Log how much there is to do."""
        logging.getLogger("weft").debug("%s: %d rows to do", stage, rows)

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Log one finished piece."""
        logging.getLogger("weft").debug("%s %s: %d rows", stage, partition or "", rows)


class Phases:
    """The phases of one long step as stages of its progress: each has the time until the next one begins."""

    def __init__(self, progress: Progress):
        self.progress = progress
        self._phase: str | None = None

    def begin(self, phase: str) -> None:
        """End the phase that runs, and begin the next."""
        if self._phase:
            self.step(self._phase, 0)
        self.step(phase, 0)
        self._phase = phase

    def step(self, phase: str, rows: int) -> None:
        """Count more rows of a phase."""
        self.progress.step(phase, None, rows)


class CountedProgress:
    """Adds up rows, time and processor time per stage, and reports every step to `tell`."""

    def __init__(self, tell: Callable[[str, str | None, int], None]):
        self.tell = tell
        self.rows: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self._last, self._used = time.monotonic(), time.process_time()
        self._expected: dict[str, tuple[int, int, float]] = {}

    def expect(self, stage: str, rows: int) -> None:
        """From now on every step of `stage` tells, in place of a partition, how far it is and when it ends."""
        self._expected[stage] = (rows, self.rows.get(stage, 0), time.monotonic())

    def step(self, stage: str, partition: str | None, rows: int, processor: float | None = None) -> None:
        """Count one finished piece; the time since the last step goes to its stage.

        So does the processor time of this process, or what another one took that made the piece.
        """
        now, used = time.monotonic(), time.process_time()
        own = used - self._used if processor is None else processor
        self.processor[stage] = self.processor.get(stage, 0.0) + own
        self._used = used
        self.rows[stage] = self.rows.get(stage, 0) + rows
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
        self.tell(stage, partition or self._outlook(stage, now), rows)

    def _outlook(self, stage: str, now: float) -> str | None:
        """Share, rate and time left of a stage whose end is known."""
        if stage not in self._expected:
            return None
        total, before, start = self._expected[stage]
        done = self.rows[stage] - before
        rate = done / max(now - start, 1e-9)
        remaining = timedelta(seconds=round((total - done) / rate)) if done else "unknown time"
        return f"of {total:,}, {rate:,.0f}/s, {remaining} left"
