"""Calling an endpoint that speaks OpenAI's protocol: an address, a key, retries, and an end to every wait."""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import httpx2

from dagster_project.models.bounded_answers import MAX_ANSWER_BYTES
from transforms.errors import ServiceError, UnansweredError
from transforms.settings.models import GeminiSettings

ADDRESS_VARIABLE, KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_ADDRESS = "https://api.openai.com/v1"
_SHOWN_CHARS = 300
_OF_CONTENT = (400, 413, 422)
"""Codes that say that a request is wrong, not who sends it or where to."""
T = TypeVar("T")


def key_variable() -> str:
    """The variable of the environment with the key."""
    return KEY_VARIABLE


class RefusedRequestError(ServiceError):
    """The endpoint will not take a request, perhaps for what is in it."""


class _PassingError(Exception):
    """A fault after which the same request may succeed; `pause` is what the endpoint asks for, in seconds."""

    def __init__(self, reason: str, pause: float | None = None):
        super().__init__(reason)
        self.pause = pause


class OpenAIService:
    """Sends requests to the address in OPENAI_BASE_URL with the key in OPENAI_API_KEY, if there is one.

    Limits of time and attempts are those of [gemini]. The key is taken out of every text that leaves this class.
    """

    def __init__(self, settings: GeminiSettings):
        self.settings = settings
        self._client: httpx2.Client | None = None
        self._deadline: float | None = None

    def results(self, jobs: Iterator[Callable[[], T]]) -> Iterator[T]:
        """The results of jobs in their order, `concurrency` under way; a job is asked for when there is room for it."""
        self._deadline = time.monotonic() + self.settings.time_limit_seconds
        waiting: deque[Future[T]] = deque()
        with ThreadPoolExecutor(self.settings.concurrency) as threads:
            try:
                for job in jobs:
                    waiting.append(threads.submit(job))
                    if len(waiting) >= self.settings.concurrency:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
                self._deadline = None

    def answer(self, path: str, body: dict[str, Any], check: Callable[[Any], T]) -> T:
        """What `check` makes of the answer to a request; it raises ValueError, KeyError or TypeError for a bad one.

        RefusedRequestError for a request that is wrong in itself. ServiceError for other lasting faults, and when the
        attempts or the time are used up; UnansweredError where an answer may be paid for and was lost.
        """
        reason, may_be_paid = "", False
        for attempt in range(self.settings.attempts):
            try:
                return check(self._sent(path, body))
            except _PassingError as fault:
                reason, pause = str(fault), fault.pause
            except httpx2.HTTPError as fault:
                reason, pause = f"{type(fault).__name__}: {self._shown(str(fault))}", None
                may_be_paid |= not isinstance(fault, httpx2.ConnectError | httpx2.ConnectTimeout)
            except (ValueError, KeyError, TypeError, IndexError, AttributeError) as fault:
                reason, pause, may_be_paid = (
                    f"an answer that cannot be read ({type(fault).__name__})",
                    None,
                    True,
                )
            most = min(self.settings.max_backoff_seconds, self.settings.backoff_seconds * 2**attempt)
            pause = random.uniform(0, most) if pause is None else pause
            if self._deadline is not None and time.monotonic() + pause > self._deadline:
                reason += "; gemini.time_limit_seconds is over"
                break
            logging.getLogger("weft").info("%s: %s; next attempt in %.1f s", self._address(), reason, pause)
            time.sleep(pause)
        raise (UnansweredError if may_be_paid else ServiceError)(
            f"{self._address()} failed {self.settings.attempts} times in a row, last with: {reason}. What was answered "
            "before is kept; the next build asks for the rest"
        )

    def _sent(self, path: str, body: dict[str, Any]) -> Any:
        """The answer to one request as JSON; its faults told apart."""
        if self._client is None:
            self._client = httpx2.Client(
                timeout=self.settings.timeout_seconds, headers={"Accept-Encoding": "identity"}
            )
        key = os.environ.get(KEY_VARIABLE, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        address = f"{self._address()}/{path}"
        try:
            with self._client.stream("POST", address, json=body, headers=headers) as answer:
                data = b""
                for part in answer.iter_raw():
                    data += part
                    if len(data) > MAX_ANSWER_BYTES:
                        raise httpx2.RemoteProtocolError(f"an answer of over {MAX_ANSWER_BYTES:,} bytes")
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as fault:
            raise ServiceError(f"{ADDRESS_VARIABLE} is no address: {self._shown(str(fault))}") from None
        if answer.status_code == 200:
            return json.loads(data)
        raise self._explained(answer, data.decode("utf-8", "replace"))

    def _explained(self, answer: httpx2.Response, text: str) -> Exception:
        """A fault that the endpoint reports."""
        code = answer.status_code
        said = self._shown(f"{code}: {text}")
        if code in (408, 429) or code >= 500:
            pause = str(answer.headers.get("retry-after", "")).strip()
            return _PassingError(said, float(pause) if pause.isascii() and pause.isdigit() else None)
        if code in (401, 403):
            return ServiceError(f"{self._address()} does not accept the key in {KEY_VARIABLE} ({said})")
        if code in _OF_CONTENT:
            return RefusedRequestError(f"{self._address()} refuses a request ({said})")
        return ServiceError(f"{self._address()} does not know the model or address ({said})")

    def _address(self) -> str:
        return (os.environ.get(ADDRESS_VARIABLE, "").strip() or _ADDRESS).rstrip("/")

    def _shown(self, text: str) -> str:
        """`text` without the key, and not too long."""
        if key := os.environ.get(KEY_VARIABLE, "").strip():
            text = text.replace(key, "[key]")
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
