"""Posting a message to an address of the user's: whatever the server does, it ends in time and in a word or two."""

from __future__ import annotations

import asyncio

from dagster_project.system.masking import quiet_wire_logs


def post(url: str, body: bytes, seconds: float) -> str | None:
    """Why an address did not take a JSON body; None if it did. The address is not told: it may be a secret."""
    import httpx2

    quiet_wire_logs()
    try:
        status = asyncio.run(_posted(url, body, seconds))
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        return f"cannot be reached: {type(error).__name__}"
    return None if 200 <= status < 300 else f"answered {status}"


async def _posted(url: str, body: bytes, seconds: float) -> int:
    """The status of the answer; its body is not read, and a redirect is not followed: it could lead to any host."""
    import httpx2

    headers = {"Content-Type": "application/json", "User-Agent": "weft"}
    async with (
        asyncio.timeout(seconds),
        httpx2.AsyncClient(timeout=seconds) as client,
        client.stream("POST", url, content=body, headers=headers) as response,
    ):
        return response.status_code
