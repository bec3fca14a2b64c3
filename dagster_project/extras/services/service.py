"""Calling a model service: calls that run together, a quota, retries, bounded answers, and an end
to every wait.
"""

import asyncio
import logging
import os
import random
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

import httpx2

from dagster_project.system.rate_limit import Quota
from transforms.errors import EmbeddingError, ServiceError, SettingsError, UnansweredError
from transforms.settings.models import GeminiSettings

OF_CONTENT = (400, 413, 422)
"""Codes that say that a request is wrong, not who sends it or where to."""
_SHOWN_CHARS = 300
T = TypeVar("T")
Call = Callable[[Any], Awaitable[T]]
"""A call with the client of a service."""


class TransientError(Exception):
    """A fault after which the same request may succeed; `pause` is the seconds that the service
    asks for.

    `may_be_paid` if the service may count the request as answered.
    """

    def __init__(self, reason: str, pause: float | None = None, may_be_paid: bool = False):
        super().__init__(reason)
        self.pause, self.may_be_paid = pause, may_be_paid


class RefusedError(ServiceError):
    """The service will not take a request, perhaps for its content."""


class NotFoundError(ServiceError):
    """The service does not know the model, the job or the address."""


class Service(ABC):
    """Runs calls of a client, several at once, each repeated while that may help.

    The key is read from the environment when the first call is made, and taken out of every text
    that leaves this class. A subclass opens the client and explains the faults that the service
    reports.
    """

    keys: ClassVar[tuple[str, ...]]
    """Variables of the environment with a key."""
    address_key: ClassVar[str]
    """The setting or the variable with the address."""

    def __init__(self, settings: GeminiSettings, quota: Quota):
        self.settings, self.quota = settings, quota
        self._sending: set[asyncio.Task[Any]] = set()
        self._is_ending = False
        self.left_over = ""
        """Work that goes on when the time of a run is over."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name of the service in faults."""

    @abstractmethod
    def opened(self) -> tuple[Any, Callable[[], Awaitable[None]]]:
        """A client with its connections, and the function that closes it."""

    async def called(self, client: Any, call: Call[Any]) -> Any:
        """The answer to one call; a fault that the service reports is a TransientError or a
        ServiceError.
        """
        return await call(client)

    def results(self, jobs: Iterator[Call[T]]) -> Iterator[T]:
        """The results of the jobs as they come, in any order, at most `concurrency` under way.

        A job is asked for when there is room for it. After a fault no more are asked for, those
        under way are brought to their end, and the fault is raised last. ServiceError when the time
        limit is over. It is an UnansweredError where a request that went out may be paid for.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            yield from self._results(jobs)
            return
        # A thread runs one loop at a time, and that of a notebook runs in this one.
        with ThreadPoolExecutor(1) as elsewhere:
            results, end = self._results(jobs), cast(Any, object())
            try:
                yield from iter(lambda: elsewhere.submit(next, results, end).result(), end)
            finally:
                elsewhere.submit(results.close).result()

    def _results(self, jobs: Iterator[Call[T]]) -> Generator[T, None, None]:
        client, close = self.opened()
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
                    under_way.add(asyncio.ensure_future(job(client), loop=loop))
                if not under_way:
                    break
                left = max(0.0, deadline - time.monotonic())
                first = asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                done, _ = loop.run_until_complete(first)
                if not done:
                    raise (UnansweredError if self._sending else ServiceError)(
                        f"the time limit of {self.settings.time_limit_seconds:g} s for {self.label} is over. "
                        f"Earlier answers are kept{self.left_over}; the next build asks for the rest"
                    )
                under_way -= done
                for task in done:
                    if task.cancelled():
                        continue
                    if error := task.exception():
                        fault = (
                            error if fault is None or isinstance(error, UnansweredError) else fault
                        )
                        # Requests that wait to be sent end; sent ones may still be answered, and
                        # are paid for.
                        self._is_ending = True
                        for waiting in under_way - self._sending:
                            waiting.cancel()
                    else:
                        yield task.result()
        finally:
            for task in under_way:
                task.cancel()
            loop.run_until_complete(_ended(under_way, close))
            loop.close()
        if fault is not None:
            raise fault

    def result(self, job: Call[T]) -> T:
        """The result of one job."""
        (result,) = self.results(iter([job]))
        return result

    async def answer(
        self, client: Any, requests: int, tokens: int, call: Call[Any], check: Callable[[Any], T]
    ) -> tuple[T, int]:
        """The result of `check` on the answer to a call that counts as `requests` requests of
        `tokens` tokens.

        The number beside it counts the calls of the service for it.

        `check` raises EmbeddingError for a bad answer. ServiceError when the service refuses for
        good or `attempts` attempts failed; pauses that the service asks for do not count.
        """
        calls = failed = 0
        may_be_paid = False
        while True:
            if self._is_ending:
                raise asyncio.CancelledError
            await self.quota.take(requests, tokens)
            calls += 1
            task = asyncio.current_task()
            assert task is not None
            self._sending.add(task)
            try:
                return await self._once(client, call, check), calls
            except TransientError as error:
                fault = error
            finally:
                self._sending.discard(task)
            failed += fault.pause is None
            may_be_paid |= fault.may_be_paid
            if failed >= self.settings.attempts:
                break
            await asyncio.sleep(self._pause(fault, calls))
        raise (UnansweredError if may_be_paid else ServiceError)(
            f"{self.label} failed {failed} times in a row, last with: {fault}. Earlier answers "
            "are kept; the next build asks for the rest"
        )

    async def _once(self, client: Any, call: Call[Any], check: Callable[[Any], T]) -> T:
        """The answer of one attempt; its faults are TransientError, or ServiceError for good.

        A fault is raised outside of the handler of the one below it: that one carries the request
        and the answer, and may hold the key.
        """
        fault: Exception
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                answer = await self.called(client, call)
            return check(answer)
        except TimeoutError:
            fault = TransientError(
                f"no answer within {self.settings.timeout_seconds:g} s", may_be_paid=True
            )
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            fault = SettingsError(f"{self.address_key} is not an address: {self.shown(str(error))}")
        except httpx2.HTTPError as error:
            is_sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            fault = TransientError(
                f"{type(error).__name__}: {self.shown(str(error))}", may_be_paid=is_sent
            )
        except EmbeddingError as error:
            fault = TransientError(str(error), may_be_paid=True)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
            fault = TransientError(
                f"an answer that cannot be read ({type(error).__name__})", may_be_paid=True
            )
        raise fault

    def passing(self, report: str, pause: float | None) -> Exception:
        """The fault of a service that is busy or broken, which `report` describes, and asks for a
        pause or for none.
        """
        if pause is not None and pause > self.settings.time_limit_seconds:
            return ServiceError(
                f"{self.label} asks to wait {pause:g} s, longer than a run waits ({report}). "
                "Earlier answers are kept; build again later"
            )
        if pause is not None:
            self.quota.hold(pause)
        return TransientError(report, pause)

    def shown(self, text: str) -> str:
        """`text` without any key, and not too long."""
        for name in self.keys:
            if key := os.environ.get(name, "").strip():
                text = text.replace(key, "[key]")
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"

    def _pause(self, fault: TransientError, calls: int) -> float:
        """Seconds before the next attempt: a little more than the service asks for, else drawn at
        random.
        """
        settings = self.settings
        exponent = min(calls - 1, 64)  # with more, the number would be too large for a float
        drawn = random.uniform(
            0, min(settings.max_backoff_seconds, settings.backoff_seconds * 2.0**exponent)
        )
        seconds = (
            drawn if fault.pause is None else fault.pause + min(drawn, settings.backoff_seconds)
        )
        logging.getLogger("weft").info("%s: %s; next attempt in %.1f s", self.label, fault, seconds)
        return seconds


async def _ended(tasks: set[asyncio.Task[T]], close: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await close()


MAX_ANSWER_BYTES = 16 << 20
"""Twice the vectors of a full request: 100 of 3,072 numbers of 25 characters."""


@cache
def trusted() -> ssl.SSLContext:
    """The certificates of the machine, which take 20 ms to read; the environment's, if it names
    some.
    """
    return httpx2.create_ssl_context()


def bounded_connections(settings: GeminiSettings) -> httpx2.AsyncClient:
    """A client whose every answer has `MAX_ANSWER_BYTES` at most, and is not compressed, which
    swells in memory.

    httpx2.RemoteProtocolError for any other answer.
    """

    class Bounded(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            answer = await super().send(request, **(options | {"stream": True}))
            try:
                if answer.headers.get("content-encoding", "identity").lower() != "identity":
                    raise httpx2.RemoteProtocolError("a compressed answer, which was not asked for")
                parts: list[bytes] = []
                size = 0
                async for part in answer.aiter_raw():
                    size += len(part)
                    if size > MAX_ANSWER_BYTES:
                        raise httpx2.RemoteProtocolError(
                            f"an answer of over {MAX_ANSWER_BYTES:,} bytes"
                        )
                    parts.append(part)
            finally:
                await answer.aclose()
            return httpx2.Response(
                answer.status_code, headers=answer.headers, content=b"".join(parts), request=request
            )

    limits = httpx2.Limits(max_connections=settings.concurrency)
    return Bounded(
        verify=trusted(),
        limits=limits,
        timeout=settings.timeout_seconds,
        headers={"Accept-Encoding": "identity"},
    )
