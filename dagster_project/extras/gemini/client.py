"""Calling Google's service: one client, a quota, retries, and an end to every wait."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

import tenacity

from dagster_project.models.bounded_answers import bounded_connections, trusted
from dagster_project.system.rate_limit import Quota
from transforms.errors import EmbeddingError, ServiceError, SettingsError, UnansweredError, not_installed
from transforms.settings.model_names import EMBEDDING_NAME, LANGUAGE_NAME
from transforms.settings.models import GeminiSettings

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.errors import APIError

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_SHOWN_CHARS = 300
_OF_CONTENT = (400, 413, 422)
"""Codes that say that a request is wrong, not who sends it or where to."""
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")
T = TypeVar("T")
Call = Callable[["AsyncClient"], Awaitable[T]]


class TransientError(Exception):
    """A fault after which the same request may succeed; `pause` is what the service asks for, in seconds.

    `may_be_paid` if the service may count the request as answered.
    """

    def __init__(self, reason: str, pause: float | None = None, may_be_paid: bool = False):
        super().__init__(reason)
        self.pause, self.may_be_paid = pause, may_be_paid


class RefusedError(ServiceError):
    """The service will not take a request, perhaps for what is in it."""


class NotFoundError(ServiceError):
    """The service does not know the model, the job or the address."""


class GeminiService:
    """Runs calls of the google-genai client, several at once, each repeated while that may help.

    The key is read from the environment when the first call is made, and taken out of every text
    that leaves this class.
    """

    def __init__(self, settings: GeminiSettings):
        self.settings = settings
        self.quota = Quota(settings.requests_per_minute, settings.tokens_per_minute)
        self._sending: set[asyncio.Task[Any]] = set()
        self._is_ending = False
        self.left_over = ""
        """What goes on when the time of a run is over."""

    def results(self, jobs: Iterator[Callable[[AsyncClient], Awaitable[T]]]) -> Iterator[T]:
        """The results of the jobs as they come, in any order, at most `concurrency` under way.

        A job is asked for when there is room for it. After a fault no more are asked for, those
        under way are brought to their end, and the fault is raised last. ServiceError when the time
        limit is over. It is an UnansweredError where a request that went out may be paid for.
        """
        client, close = self._client()
        # Loading the library takes seconds, which do not count.
        deadline = time.monotonic() + self.settings.time_limit_seconds
        loop = asyncio.new_event_loop()
        under_way: set[asyncio.Task[T]] = set()
        fault: BaseException | None = None
        self._is_ending = False
        try:
            while True:
                while fault is None and len(under_way) < self.settings.concurrency:
                    job = next(jobs, None)
                    if job is None:
                        break
                    under_way.add(loop.create_task(_awaited(job(client))))
                if not under_way:
                    break
                done = loop.run_until_complete(_first(under_way, deadline - time.monotonic()))
                if not done:
                    raise (UnansweredError if self._sending else ServiceError)(self._over_time())
                under_way -= done
                for task in done:
                    if task.cancelled():
                        continue
                    if error := task.exception():
                        fault = error if fault is None or isinstance(error, UnansweredError) else fault
                        self._send_no_more(under_way)
                    else:
                        yield task.result()
        finally:
            for task in under_way:
                task.cancel()
            loop.run_until_complete(_ended(under_way, close))
            loop.close()
        if fault is not None:
            raise fault

    def _send_no_more(self, under_way: set[asyncio.Task[T]]) -> None:
        """End what waits to be sent; what was sent may still be answered, and is paid for."""
        self._is_ending = True
        for task in under_way - self._sending:
            task.cancel()

    def result(self, job: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """The result of one job, also where this thread runs an event loop already (a notebook)."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return next(iter(list(self.results(iter([job])))))
        with ThreadPoolExecutor(1) as elsewhere:
            return elsewhere.submit(lambda: list(self.results(iter([job])))).result()[0]

    async def answer(
        self, client: AsyncClient, requests: int, tokens: int, call: Call[Any], check: Callable[[Any], T]
    ) -> tuple[T, int]:
        """What `check` makes of the answer to a call that counts as `requests` requests of `tokens` tokens.

        The number beside it says how often the service was called for it.

        `check` raises EmbeddingError for an answer that is no good. ServiceError when the service
        refuses for good or `attempts` attempts failed; pauses that the service asks for do not count.
        """
        faults: list[TransientError] = []
        calls = 0

        async def attempt() -> T:
            nonlocal calls
            if self._is_ending:
                raise asyncio.CancelledError
            await self.quota.take(requests, tokens)
            calls += 1
            task = asyncio.current_task()
            assert task is not None
            self._sending.add(task)
            try:
                return await self._once(client, call, check)
            finally:
                self._sending.discard(task)

        def is_enough(state: tenacity.RetryCallState) -> bool:
            fault = state.outcome.exception() if state.outcome else None
            if isinstance(fault, TransientError) and fault.pause is None:
                faults.append(fault)
            return len(faults) >= self.settings.attempts

        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=self._pause,
            stop=is_enough,
            sleep=asyncio.sleep,
            reraise=True,
        )
        try:
            return await retrying(attempt), calls
        except TransientError as fault:
            kind = UnansweredError if any(f.may_be_paid for f in faults) else ServiceError
            raise kind(
                f"the Gemini service failed {len(faults)} times in a row, last with: {fault}. What was answered "
                "before is kept; the next build asks for the rest"
            ) from None

    async def _once(self, client: AsyncClient, call: Call[Any], check: Callable[[Any], T]) -> T:
        """One attempt, its faults told apart: TransientError, or ServiceError for good.

        A fault is raised outside of the handler of the one below it: that one carries the request
        and the answer, and may hold the key.
        """
        import httpx2
        from google.genai.errors import APIError

        fault: Exception
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                found = await call(client)
            return check(found)
        except APIError as error:
            fault = self._explained(error)
        except TimeoutError:
            fault = TransientError(f"no answer within {self.settings.timeout_seconds:g} s", may_be_paid=True)
        except httpx2.InvalidURL as error:
            fault = SettingsError(f"gemini.base_url is no address: {self.shown(str(error))}")
        except httpx2.HTTPError as error:
            is_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            fault = TransientError(f"{type(error).__name__}: {self.shown(str(error))}", may_be_paid=is_sent)
        except EmbeddingError as error:
            fault = TransientError(str(error), may_be_paid=True)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            fault = TransientError(
                f"an answer that cannot be read ({type(error).__name__})", may_be_paid=True
            )
        raise fault

    def _explained(self, error: APIError) -> Exception:
        """A fault that the service reports: TransientError, RefusedError or ServiceError."""
        said = self.shown(f"{error.code} {error.status}: {error.message}")
        if error.code == 429 and _is_used_up(error):
            return ServiceError(
                f"the quota of the day is used up ({said}). What was embedded is kept; build again when it is renewed"
            )
        if error.code in (408, 429) or error.code >= 500:
            self.quota.learn(**_said_limits(error))
            pause = _asked_pause(error)
            if pause is not None and pause > self.settings.time_limit_seconds:
                return ServiceError(
                    f"the Gemini service asks to wait {pause:g} s, longer than gemini.time_limit_seconds ({said}). "
                    "What was answered is kept; build again later"
                )
            if pause is not None:
                self.quota.hold(pause)
            return TransientError(said, pause)
        if error.code in (401, 403) or "API_KEY" in str(error.details) or "api key" in said.lower():
            return ServiceError(
                f"the Gemini service does not accept the key in {key_variable()} ({said}). Put a valid one into the "
                "environment; what was embedded before is kept"
            )
        if error.code == 404:
            return NotFoundError(
                f"the Gemini service does not know the model or address ({said}). Of a model that Google retired the "
                f"successors are {EMBEDDING_NAME} for vectors and {LANGUAGE_NAME} for language"
            )
        if error.code not in _OF_CONTENT or error.status == "FAILED_PRECONDITION":
            return ServiceError(f"the Gemini service will not serve this account or place ({said})")
        return RefusedError(f"the Gemini service refuses a request ({said})")

    def shown(self, text: str) -> str:
        """`text` without any key, and not too long."""
        for name in KEY_VARIABLES:
            if key := os.environ.get(name, "").strip():
                text = text.replace(key, "[key]")
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Seconds before the next attempt: what the service asks for and a little, else drawn at random."""
        fault = state.outcome.exception() if state.outcome else None
        settings = self.settings
        drawn = tenacity.wait_random_exponential(settings.backoff_seconds, settings.max_backoff_seconds)(
            state
        )
        asked = fault.pause if isinstance(fault, TransientError) else None
        seconds = drawn if asked is None else asked + min(drawn, settings.backoff_seconds)
        logging.getLogger("weft").info("Gemini: %s; next attempt in %.1f s", fault, seconds)
        return seconds

    def _client(self) -> tuple[AsyncClient, Callable[[], Awaitable[None]]]:
        """A client with its connections, and what closes it."""
        try:
            import httpx2
            from google import genai
            from google.genai.types import HttpOptions
        except ImportError as error:
            raise not_installed(error, "gemini") from error
        # The client would print what the service says in place of a word that it does not know.
        warnings.filterwarnings("ignore", ".* is not a valid ", UserWarning, r"google\.genai\.")
        warnings.filterwarnings("ignore", r"batches\.create_embeddings", Warning)
        connections = bounded_connections(self.settings)
        # The client would make connections of its own for the calls that do not wait, and read certificates for
        # sockets; neither is used.
        options = HttpOptions(
            base_url=self.settings.base_url,
            httpx_async_client=connections,
            httpx_client=httpx2.Client(verify=False),
            async_client_args={"ssl": trusted()},
        )
        client = genai.Client(api_key=_key(), vertexai=False, http_options=options)
        return client.aio, connections.aclose

    def _over_time(self) -> str:
        return (
            f"the time limit of {self.settings.time_limit_seconds:g} s for the Gemini service is over "
            f"(gemini.time_limit_seconds). What was answered is kept{self.left_over}; the next build asks for the rest"
        )


def key_variable() -> str:
    """The first variable of the environment that holds a key, else the first of all."""
    return next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), KEY_VARIABLES[0])


def _key() -> str:
    """The key; SettingsError if there is none."""
    if key := os.environ.get(key_variable(), "").strip():
        return key
    raise SettingsError(
        f"the model gemini needs a key in the environment variable {' or '.join(KEY_VARIABLES)}; it is never read "
        "from a file"
    )


async def _awaited(call: Awaitable[T]) -> T:
    return await call


async def _first(tasks: set[asyncio.Task[T]], seconds: float) -> set[asyncio.Task[T]]:
    done, _ = await asyncio.wait(tasks, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
    return done


async def _ended(tasks: set[asyncio.Task[T]], close: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await close()


def _details(error: APIError) -> list[dict[str, Any]]:
    """The typed details of an error as Google's services send them (google.rpc.Status)."""
    body = error.details.get("error") if isinstance(error.details, dict) else None
    details = body.get("details") if isinstance(body, dict) else None
    return [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []


def _asked_pause(error: APIError) -> float | None:
    """Seconds that the service asks to wait, by RetryInfo or the header Retry-After."""
    for detail in _details(error):
        given = _DELAY.fullmatch(str(detail.get("retryDelay")))
        if given:
            return float(given[1])
    header = str(getattr(error.response, "headers", {}).get("retry-after") or "").strip()
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _violations(error: APIError) -> list[dict[str, Any]]:
    """The quotas that a request was above, as google.rpc.QuotaFailure lists them."""
    listed = [v for d in _details(error) if isinstance(v := d.get("violations"), list)]
    return [quota for violations in listed for quota in violations if isinstance(quota, dict)]


def _said_limits(error: APIError) -> dict[str, int]:
    """The requests and tokens per minute that the account may send, as far as the service says so."""
    limits: dict[str, int] = {}
    for quota in _violations(error):
        name, value = str(quota.get("quotaId", "")).lower(), str(quota.get("quotaValue", ""))
        if "perminute" in name and value.isascii() and value.isdigit() and int(value) > 0:
            limits["tokens" if "token" in name else "requests"] = int(value)
    return limits


def _is_used_up(error: APIError) -> bool:
    """True for a quota per day: no pause of seconds helps."""
    return any("perday" in str(v.get("quotaId", "")).lower() for v in _violations(error))
