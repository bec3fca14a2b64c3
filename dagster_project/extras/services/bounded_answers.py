"""Connections to a service whose answers are read up to a limit, and no compressed ones, which swell in memory."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from transforms.settings.models import GeminiSettings

if TYPE_CHECKING:
    import ssl

    import httpx2

MAX_ANSWER_BYTES = 16 << 20
"""Twice the vectors of a full request: 100 of 3,072 numbers of 25 characters."""


@cache
def trusted() -> ssl.SSLContext:
    """The certificates of the machine, which take 20 ms to read; the environment's, if it names some."""
    import httpx2

    return httpx2.create_ssl_context()


def bounded_connections(settings: GeminiSettings) -> httpx2.AsyncClient:
    """A client whose every answer has `MAX_ANSWER_BYTES` at most; httpx2.RemoteProtocolError for any other."""
    import httpx2

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
                        raise httpx2.RemoteProtocolError(f"an answer of over {MAX_ANSWER_BYTES:,} bytes")
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
