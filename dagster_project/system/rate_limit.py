"""Rate limit of a service: requests and tokens per window of time, and the pauses that it asks for."""

import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

_WINDOW = 61.0
"""Seconds that share the quota of a minute; the extra second covers requests that travel faster."""


_SECONDS = re.compile(r"[0-9]{1,18}")


def http_time(text: str | None) -> datetime | None:
    """The time in a header of HTTP; None for any other text."""
    try:
        at = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, LookupError, OverflowError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def requested_pause(header: str, now: datetime | None = None) -> float | None:
    """Seconds of a Retry-After header, which has a number or a time (RFC 9110, section 10.2.3);
    None for any other text.
    """
    if _SECONDS.fullmatch(header.strip()):
        return float(header)
    at = http_time(header)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds()) if at else None


class Quota:
    """Requests and tokens that may be spent in any window of time.

    The window slides: spent requests and tokens count until they are as old as the window is long,
    so that the service's own count, wherever its minute begins, is never above the quota.
    """

    def __init__(
        self,
        requests: int,
        tokens: int,
        window: float = _WINDOW,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] | None = None,
    ):
        import asyncio  # takes 12 ms, which a search does without

        self.requests, self.tokens, self.window = requests, tokens, window
        self._clock, self._sleep = clock, sleep or asyncio.sleep
        self._spent: deque[tuple[float, int, int]] = deque()
        self._closed_until = 0.0

    async def take(self, requests: int, tokens: int) -> None:
        """Return when so much may be spent; a request above the whole quota waits for an empty
        window.
        """
        requests, tokens = min(requests, self.requests), min(tokens, self.tokens)
        while (pause := self._pause(requests, tokens)) > 0:
            await self._sleep(pause)
        self._spent.append((self._clock(), requests, tokens))

    def learn(self, requests: int | None = None, tokens: int | None = None) -> None:
        """Keep below the limits that the service gives, where these are less."""
        self.requests = min(self.requests, requests or self.requests)
        self.tokens = min(self.tokens, tokens or self.tokens)

    def hold(self, seconds: float) -> None:
        """Block all requests for some seconds, as the service requested a pause."""
        self._closed_until = max(self._closed_until, self._clock() + seconds)

    def _pause(self, requests: int, tokens: int) -> float:
        now = self._clock()
        if now < self._closed_until:
            return self._closed_until - now
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


class RunBudget:
    """Tokens that are left; the embedder and the language model of a run share one."""

    def __init__(self, tokens: int):
        self.left = tokens

    def spend(self, tokens: int) -> None:
        """Take used tokens."""
        self.left -= tokens
