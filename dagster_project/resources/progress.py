"""Where the stages tell how far they have come: to the log, or to a terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class LoggedProgress:
    """Progress as debug lines of the logger `weft`."""

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Log one finished piece."""
        logging.getLogger("weft").debug("%s %s: %d rows", stage, partition or "", rows)


class CountedProgress:
    """Adds up rows and time per stage, and reports every step to `tell`."""

    def __init__(self, tell: Callable[[str, str | None, int], None]):
        self.tell = tell
        self.rows: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Count one finished piece; the time since the last step goes to its stage."""
        now = time.monotonic()
        self.rows[stage] = self.rows.get(stage, 0) + rows
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now
        self.tell(stage, partition, rows)
