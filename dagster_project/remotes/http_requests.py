"""The requests of a fetch over HTTP: within the quota, counted, and with each fault as one of the
fetch.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeVar

import httpx2

from dagster_project.config.remote_settings import RemoteSettings
from dagster_project.remotes.landing import Landing
from dagster_project.remotes.redirects import answered
from dagster_project.system.masking import Credentials, shown_address
from dagster_project.system.rate_limit import Quota, requested_pause
from transforms.errors import FetchError, FetchInterruptedError, LoginRefusedError

_Result = TypeVar("_Result")


class HttpRequests:
    """Sends the requests of one fetch of a remote."""

    def __init__(
        self, remote: RemoteSettings, landing: Landing, credentials: Credentials, now: datetime
    ):
        self.remote, self.landing, self.credentials, self.now = remote, landing, credentials, now
        self.quota = Quota(remote.requests_per_minute, 1)

    def client(self) -> httpx2.AsyncClient:
        """The connections that requests are sent by."""
        return httpx2.AsyncClient(timeout=httpx2.Timeout(self.remote.timeout_seconds))

    async def result(
        self,
        client: httpx2.AsyncClient,
        url: str,
        receive: Callable[[httpx2.Response], Awaitable[_Result]],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> _Result:
        """The result of `receive` for the answer to a GET, or to a POST of a `body`, with the
        credentials.

        FetchInterruptedError for a fault of the network, FetchError for an address that cannot be
        right.
        """
        await self.quota.take(1, 0)
        self.landing.requests += 1
        own = {"Accept-Encoding": "identity", "User-Agent": "weft"}
        if self.credentials.authorization:
            own["Authorization"] = self.credentials.authorization
        fault: FetchError
        try:
            async with answered(client, url, own | dict(headers or {}), body) as response:
                return await receive(response)
        except httpx2.TimeoutException as error:
            fault = FetchInterruptedError(
                f"{shown_address(url)}: nothing came within {self.remote.timeout_seconds:g} s ({type(error).__name__})"
            )
        except httpx2.HTTPError as error:
            reason = self.credentials.hidden(str(error)) or "no reason given"
            fault = FetchInterruptedError(f"{shown_address(url)}: {type(error).__name__}: {reason}")
        except (httpx2.InvalidURL, httpx2.CookieConflict) as error:
            fault = FetchError(f"{shown_address(url)}: {self.credentials.hidden(str(error))}")
        # Outside of the handler: the fault below holds the request, and that the credentials.
        raise fault

    def refused(self, response: httpx2.Response, url: str) -> FetchError:
        """The fault behind a status: one that may pass, or one that must be mended."""
        status = response.status_code
        reason = self.credentials.hidden(response.reason_phrase)
        text = f"{shown_address(url)} answers {status} {reason}".rstrip()
        if status in (401, 403, 407):
            return LoginRefusedError(text, self.remote.remedy(self.landing.source))
        if status in (408, 425, 429) or status >= 500:
            pause = requested_pause(response.headers.get("retry-after", ""), self.now)
            if pause is not None:
                if pause > self.remote.time_limit_seconds:
                    return FetchError(
                        f"{text} and asks to wait {pause:g} s, longer than a fetch may take"
                    )
                self.quota.hold(pause)
            return FetchInterruptedError(text, pause)
        return FetchError(f"{text}; mend the address")


async def body_of(response: httpx2.Response, most: int) -> bytes:
    """The bytes of an answer, a block more than `most` at most."""
    data = bytearray()
    async for block in response.aiter_raw():
        data += block
        if len(data) > most:
            break
    return bytes(data)
