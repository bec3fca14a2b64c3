"""How fast a service may be asked: requests and tokens in a window of time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

_WINDOW = 61.0
"""Seconds in which the quota of a minute is spent; the one above it covers requests that travel faster."""


class Quota:
    """Requests and tokens that may be spent in any window of time.

    The window slides: what was spent counts until it is as old as the window is long, so that the
    service's own count, wherever its minute begins, is never above the quota.
    """

    def __init__(
        self,
        requests: int,
        tokens: int,
        window: float = _WINDOW,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ):
        self.requests, self.tokens, self.window = requests, tokens, window
        self._clock, self._sleep = clock, sleep
        self._spent: deque[tuple[float, int, int]] = deque()
        self._held_until = 0.0

    async def take(self, requests: int, tokens: int) -> None:
        """Return when that much may be spent; what is above the whole quota waits for an empty window."""
        requests, tokens = min(requests, self.requests), min(tokens, self.tokens)
        while (pause := self._pause(requests, tokens)) > 0:
            await self._sleep(pause)
        self._spent.append((self._clock(), requests, tokens))

    def hold(self, seconds: float) -> None:
        """Let nothing through for some seconds: the service asked for a pause."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    def _pause(self, requests: int, tokens: int) -> float:
        now = self._clock()
        if now < self._held_until:
            return self._held_until - now
        while self._spent and self._spent[0][0] + self.window <= now:
            self._spent.popleft()
        requests += sum(s[1] for s in self._spent) - self.requests
        tokens += sum(s[2] for s in self._spent) - self.tokens
        for at, freed_requests, freed_tokens in self._spent:
            if requests <= 0 and tokens <= 0:
                return 0.0
            requests, tokens = requests - freed_requests, tokens - freed_tokens
            if requests <= 0 and tokens <= 0:
                return at + self.window - now
        return 0.0
