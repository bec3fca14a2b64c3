"""Where a redirect may lead: to the host that the settings name, or from a public host to a public
address.

The address that was looked at is the one that is connected to, so that a name cannot stand for
another one by then.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import httpx2

from dagster_project.system.masking import shown_address
from transforms.errors import FetchError, FetchInterruptedError

_MOST_REDIRECTS = 5
_HIGHEST_PORT = 65535
_TRANSLATED = ip_network("64:ff9b::/96")
"""IPv6 addresses that a gateway translates into those of IPv4 (RFC 6052)."""


@dataclass(frozen=True)
class Hop:
    """An address that is asked, and the IP address that its name stood for when it was checked."""

    url: httpx2.URL
    ip: str | None = None

    def arguments(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """The arguments of the request: to the checked IP address, for the host of the address."""
        if self.ip is None:
            return {"url": self.url, "headers": headers}
        return {
            "url": self.url.copy_with(host=self.ip),
            "headers": {**headers, "Host": self.url.netloc.decode("ascii")},
            "extensions": {"sni_hostname": self.url.host},
        }

    def is_of(self, other: httpx2.URL) -> bool:
        """True if both are the same server, which may see the same credentials."""
        return (self.url.scheme, self.url.host, self.url.port) == (
            other.scheme,
            other.host,
            other.port,
        )


@asynccontextmanager
async def answered(
    client: httpx2.AsyncClient, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> AsyncIterator[httpx2.Response]:
    """The answer at the end of the redirects, its body unread; bodies on the way are not read at
    all.

    A request with a `body` is a POST, whose redirect is the answer. FetchError for a redirect that
    may not be followed. `Authorization` is sent to the server of `url` alone.
    """
    first = httpx2.URL(url)
    hop = Hop(first)
    without = {name: value for name, value in headers.items() if name != "Authorization"}
    for _ in range(_MOST_REDIRECTS + 1):
        request = hop.arguments(headers if hop.is_of(first) else without)
        async with client.stream("POST" if body else "GET", content=body, **request) as response:
            if body or not response.has_redirect_location:
                yield response
                return
            location = response.headers["location"]
        hop = await next_hop(first, hop.url, location)
    raise FetchError(f"{shown_address(url)} redirects in circles; mend the address")


async def next_hop(first: httpx2.URL, current: httpx2.URL, location: str) -> Hop:
    """Where a redirect leads from `current`, `first` being the configured address; FetchError if it
    may not.
    """
    try:
        url = current.join(location).copy_with(userinfo=b"", fragment=None)
    except (httpx2.InvalidURL, ValueError):
        raise FetchError(f"{shown_address(str(current))} redirects to a faulty address") from None
    message = f"{shown_address(str(first))} leads to {shown_address(str(url))}"
    if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > _HIGHEST_PORT:
        raise FetchError(f"{message}, which is not an address of the web; mend the address")
    if url.scheme != "https" and "https" in (first.scheme, current.scheme):
        raise FetchError(f"{message}, away from https; mend the address")
    if url.host == first.host:
        return Hop(url)
    if not all(map(is_public, await _ips(first))):
        raise FetchError(
            f"{message}, another host than the private one that is configured; mend the address"
        )
    ips = await _ips(url)
    if not all(map(is_public, ips)):
        raise FetchError(
            f"{message}, a host in a private network; name it in the settings if it is meant"
        )
    return Hop(url, ips[0])


def is_public(ip: str) -> bool:
    """True for an IP address of the internet; one within another, as of gateways and tunnels,
    counts as itself.
    """
    address: IPv4Address | IPv6Address | None = ip_address(ip)
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _TRANSLATED:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return address is not None and address.is_global and not address.is_multicast


async def _ips(url: httpx2.URL) -> list[str]:
    """The IP addresses of a host, the preferred one first."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
            url.host, None, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise FetchInterruptedError(f"the host of {shown_address(str(url))} is not known") from None
    return [str(address[0]) for *_, address in addresses]
