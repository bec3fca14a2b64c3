"""The server of a mail address: of a known provider, or as its domain says by autoconfig, DNS or
JMAP's well-known address.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import dns.exception
import dns.resolver
import httpx2

from transforms.errors import FetchError

_SECONDS = 5.0
"""Time for each look-up: a domain that does not answer names no server."""
_ANSWER_BYTES = 256 << 10
_SOCKETS = {"SSL": "tls", "STARTTLS": "starttls"}
"""The encryptions of autoconfig; a connection in the clear has no entry."""


@dataclass(frozen=True)
class MailServer:
    """A server of mail: its settings of `[sources.fetch]`, the login, and the way to a password."""

    provider: str
    fetch: Mapping[str, str]
    user: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lookups:
    """The places where a domain says which server it has; `{domain}` is the domain."""

    autoconfig: tuple[str, ...] = (
        "https://autoconfig.{domain}/mail/config-v1.1.xml",
        "https://{domain}/.well-known/autoconfig/mail/config-v1.1.xml",
    )
    jmap: str = "https://{domain}/.well-known/jmap"
    nameservers: tuple[str, ...] = ()
    """Addresses of name servers; empty: those of this machine."""
    port: int = 53
    seconds: float = field(default=_SECONDS)

    def text(self, place: str, domain: str) -> bytes | None:
        """The answer of a place for a domain; None without one, or if it is too long."""
        try:
            with (
                httpx2.Client(timeout=self.seconds, follow_redirects=True) as client,
                client.stream("GET", place.format(domain=domain)) as answer,
            ):
                data = b""
                for block in answer.iter_bytes():
                    if len(data := data + block) > _ANSWER_BYTES:
                        return None
                return data if answer.status_code == 200 else None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
            return None

    def records(self, name: str, kind: str) -> list[Any]:
        """The records of a name in the DNS, those to be taken first at the front."""
        resolver = dns.resolver.Resolver(configure=not self.nameservers)
        if self.nameservers:
            resolver.nameservers, resolver.port = list(self.nameservers), self.port
        try:
            answer = resolver.resolve(name, kind, lifetime=self.seconds)
        except dns.exception.DNSException:
            return []
        return sorted(answer, key=lambda r: (_rank(r), -getattr(r, "weight", 0), r.to_text()))


def server_of(address: str, lookups: Lookups) -> MailServer | None:
    """The server of a mail address; None if nothing names one.

    Asked in this order: the table of providers, the domain's autoconfig in Thunderbird's form, its
    SRV records (RFC 6186), the provider that takes its mail (MX), and JMAP's well-known address
    (RFC 8620, section 2.2). FetchError for a provider that takes no password.
    """
    domain = address.rpartition("@")[2].lower()
    ways: tuple[Callable[[str, str, Lookups], MailServer | None], ...] = (
        _of_table,
        _of_autoconfig,
        _of_srv,
        _of_mx,
        _of_jmap,
    )
    return next((server for way in ways if (server := way(address, domain, lookups))), None)


@cache
def providers() -> dict[str, dict[str, Any]]:
    """The table of providers, by their names."""
    return tomllib.loads(Path(__file__).with_name("hosts.toml").read_text(encoding="utf-8"))


def _of_table(address: str, domain: str, _: Lookups) -> MailServer | None:
    names = (name for name, facts in providers().items() if domain in facts["domains"])
    return next((_of_provider(name, address) for name in names), None)


def _of_provider(name: str, address: str) -> MailServer:
    facts = providers()[name]
    if "no" in facts:
        raise FetchError(f"{address}: {facts['no']}")
    fetch = {"kind": "imap", "host": facts["host"]}
    fetch |= {"tls": facts["tls"]} if "tls" in facts else {}
    user = address.rpartition("@")[0] if facts.get("user") == "local" else address
    return MailServer(name, fetch, user, tuple(facts.get("steps", ())))


def _of_autoconfig(address: str, domain: str, lookups: Lookups) -> MailServer | None:
    texts = (lookups.text(place, domain) for place in lookups.autoconfig)
    servers = (server for text in texts if text for server in _incoming(text, address))
    return next((replace(server, provider=domain) for server in servers), None)


def _incoming(text: bytes, address: str) -> Iterator[MailServer]:
    """The IMAP servers in an autoconfig of Thunderbird's form, version 1.1; none in another text."""
    if b"<!" in text.replace(b"<!--", b""):  # entities, which such a text has no use for
        return
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError:
        return
    local, _, domain = address.rpartition("@")
    known = {"%EMAILADDRESS%": address, "%EMAILLOCALPART%": local, "%EMAILDOMAIN%": domain}
    for server in root.iter("incomingServer"):
        host, port, socket, user = (
            (server.findtext(name) or "").strip()
            for name in ("hostname", "port", "socketType", "username")
        )
        for mark, value in known.items():
            host, user = host.replace(mark, value), user.replace(mark, value)
        if server.get("type") == "imap" and host and port.isdecimal() and socket in _SOCKETS:
            yield MailServer("", _imap(host, int(port), _SOCKETS[socket]), user or address)


def _of_srv(address: str, domain: str, lookups: Lookups) -> MailServer | None:
    for service, tls in (("_imaps", "tls"), ("_imap", "starttls")):
        for record in lookups.records(f"{service}._tcp.{domain}", "SRV"):
            host = record.target.to_text(omit_final_dot=True)
            if host != ".":  # the domain says that it has no such service
                return MailServer(domain, _imap(host, record.port, tls), address)
    return None


def _of_mx(address: str, domain: str, lookups: Lookups) -> MailServer | None:
    for record in lookups.records(domain, "MX"):
        host = record.exchange.to_text(omit_final_dot=True).lower()
        for name, facts in providers().items():
            if any(f".{host}".endswith(f".{end}") for end in facts.get("mx", ())):
                return _of_provider(name, address)
    return None


def _of_jmap(address: str, domain: str, lookups: Lookups) -> MailServer | None:
    place = lookups.jmap.format(domain=domain)
    try:
        answer = httpx2.get(place, timeout=lookups.seconds, follow_redirects=True)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        return None
    # Without a login a server of JMAP refuses its session.
    if answer.status_code != 401:
        return None
    return MailServer(domain, {"kind": "jmap", "url": str(answer.url)}, address)


def _imap(host: str, port: int, tls: str) -> dict[str, str]:
    """The settings of an IMAP server, without those that are the defaults."""
    shown = host if port == (993 if tls == "tls" else 143) else f"{host}:{port}"
    return {"kind": "imap", "host": shown} | ({"tls": tls} if tls != "tls" else {})


def _rank(record: Any) -> int:
    return int(getattr(record, "priority", getattr(record, "preference", 0)))
