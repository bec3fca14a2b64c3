"""HTTP for object stores: no redirect is followed, and answers of a store beside its files are
bounded.
"""

from __future__ import annotations

import time
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from aiohttp import ClientPayloadError, ClientResponse, ClientSession
from fsspec.callbacks import Callback

from transforms.errors import FetchError, FetchInterruptedError

_ANSWER_BYTES = 64 << 20
"""A page of a listing names a thousand files and takes half a megabyte."""
_LISTING_BYTES = 512 << 20
"""Pages of one fetch, which come to a million files."""


class StoreSession(AIOHTTPSession):
    """The session of aiobotocore, which leaves redirects to aiohttp; botocore's own, of requests,
    follows none.
    """

    answered = 0
    """Bytes of listings and errors so far."""

    async def _get_session(self, proxy_url: str | None) -> _Careful:
        return _Careful(self, await super()._get_session(proxy_url))


class _Careful:
    """An aiohttp session as far as `AIOHTTPSession` uses it."""

    def __init__(self, owner: StoreSession, session: ClientSession):
        self._owner, self._session = owner, session

    async def request(self, method: str, **settings: Any) -> ClientResponse:
        response = await self._session.request(method, allow_redirects=False, **settings)

        async def read() -> bytes:
            # Bodies of listings and errors: files are read from `response.content`.
            body = bytearray()
            async for block in response.content.iter_chunked(1 << 16):
                body += block
                self._owner.answered += len(block)
                if len(body) > _ANSWER_BYTES or self._owner.answered > _LISTING_BYTES:
                    raise ClientPayloadError(
                        f"more than {len(body):,} bytes of a listing or an error came"
                    )
            return bytes(body)

        response.read = read  # type: ignore[method-assign]
        return response


class Limits(Callback):
    """Ends the copying of a file that has more bytes than the listing says, or takes too long."""

    def __init__(self, address: str, size: int, ends_at: float):
        super().__init__()
        self.address, self.most, self.ends_at = address, size, ends_at

    def call(self, *ignored: Any, **also: Any) -> None:
        """Called by fsspec for each piece that came."""
        if self.value > self.most:
            raise FetchInterruptedError(
                f"{self.address}: more than {self.most:,} bytes: it changed"
            )
        if time.monotonic() >= self.ends_at:
            raise FetchError(f"{self.address}: the time limit is over")
