"""Credentials of remotes, and text from the network made safe to show: masked, on one line, and
bounded.
"""

from __future__ import annotations

import json
import logging
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import groupby
from math import ceil
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from dagster_project.config.remote_settings import RemoteSettings
from transforms.errors import FetchError
from transforms.settings.models import SafetySettings

MASK = "[secret]"
SERVER_CHARS = 300
"""Characters of a server's message that are shown."""
FAULT_CHARS = 1500
"""Characters of a whole fault: the message of a server, with addresses, file names and the remedy.
"""
_LEAST_BASE64 = 6
"""Characters from which a piece of base64 is not a coincidence."""
_PIECE = 8
"""Characters of a secret that are masked alone, as an echo may be cut off."""
_ANY_SECRET = SafetySettings(emails="send", phones="send")
"""Another person's token in the name of a folder, or in the words of a server, is one too."""
_WIRE_LOGGERS = ("httpx2", "httpcore2", "imapclient", "botocore", "aiobotocore", "s3fs", "fsspec")


def quiet_wire_logs() -> None:
    """Keep libraries from logging requests and answers: those hold addresses and credentials, also
    as echoes.
    """
    for name in _WIRE_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


class Secrets:
    """Texts to mask: the secrets in every form, pieces of them, and names of users as whole words."""

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()):
        coded = {
            form for secret in secrets if secret for form in _forms(secret) | _base64_cores(secret)
        }
        words = {_on_one_line(name) for name in names} - {""}
        # A line break that an answer puts into a secret is a blank by now.
        patterns = [r"\s?".join(map(re.escape, form)) for form in coded]
        patterns += [rf"(?<!\w){re.escape(word)}(?!\w)" for word in words]
        whole = "|".join(sorted(patterns, key=len, reverse=True))
        self._whole = re.compile(whole, re.IGNORECASE) if patterns else None
        self._pieces = {
            form[n : n + _PIECE].lower() for form in coded for n in range(len(form) - _PIECE + 1)
        }

    def masked(self, text: str) -> str:
        """`text` with a mask for each run of characters that belong to something secret."""
        mask = bytearray(len(text))
        for match in self._whole.finditer(text) if self._whole else ():
            mask[match.start() : match.end()] = b"\1" * len(match[0])
        for start in range(len(text) - _PIECE + 1) if self._pieces else ():
            if text[start : start + _PIECE].lower() in self._pieces:
                mask[start : start + _PIECE] = b"\1" * _PIECE
        runs = groupby(zip(text, mask, strict=True), key=lambda pair: pair[1])
        return "".join(MASK if is_hidden else "".join(c for c, _ in run) for is_hidden, run in runs)


def shown_address(url: str) -> str:
    """An address as it may be printed: without name, password, query and fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}{parts.path}"


def _on_one_line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return " ".join(printable.split())


def _forms(secret: str) -> set[str]:
    """A secret as itself, in base64, and as addresses, headers, HTML, JSON and messages of
    libraries would quote it.
    """
    forms = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        escape(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        repr(secret.encode())[2:-1],
        b64encode(secret.encode()).decode().rstrip("="),
    }
    return {_on_one_line(form) for form in forms} - {""}


def _base64_cores(secret: str) -> set[str]:
    """The parts of a secret that base64 of any text around it holds: they depend on its place
    modulo three alone.
    """
    data = secret.encode()
    cores = set()
    for before in range(3):
        coded = b64encode(b"\0" * before + data).decode()
        core = coded[ceil(before * 4 / 3) : (before + len(data)) * 4 // 3]
        cores |= {core, core.replace("+", "-").replace("/", "_")}
    return {core for core in cores if len(core) >= _LEAST_BASE64}


_LEAST_IN_QUERY = 6
"""Characters of a value in an address's query that may be a key; a shorter one is a page or a flag.
"""
_LEAST_IN_WORDS = 6
"""Characters of a user's name that is masked within words, too."""


@dataclass(frozen=True)
class Credentials:
    """User, password and token from the environment, and the other secrets of a remote; none is
    ever shown.
    """

    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    others: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls, remote: RemoteSettings, source: str, environment: Mapping[str, str] = os.environ
    ) -> Credentials:
        """Those that a remote names; FetchError if a variable is not set."""
        variables = remote.variables(environment)
        values = {part: environment.get(name, "").strip() for part, name in variables.items()}
        for part, value in values.items():
            if not value:
                raise FetchError(
                    f"source {source}: the environment variable {variables[part]} is not set"
                )
            if not value.isprintable() or (part == "token" and not value.isascii()):
                raise FetchError(
                    f"source {source}: the variable {variables[part]} cannot be sent as it is"
                )
        return cls(**values, others=_others(remote))

    @property
    def authorization(self) -> str | None:
        """Value of the header Authorization, or None without credentials."""
        if self.token:
            return f"Bearer {self.token}"
        return f"Basic {self._basic}" if self.user and self.password else None

    @property
    def _basic(self) -> str:
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    def hidden(self, text: str, most: int = SERVER_CHARS) -> str:
        """`text` without these and whatever else has the form of a secret, on one line and not too
        long.
        """
        from transforms.text.redaction import screened

        # Cleaned before it is masked: a secret must not come together after the search for it.
        text = self._secrets.masked(_on_one_line(text))
        (text,) = screened([text], _ANY_SECRET).texts
        return text if len(text) <= most else f"{text[:most]}…"

    @cached_property
    def _secrets(self) -> Secrets:
        both = [self._basic] if self.user and self.password else []
        secrets = [s for s in (self.password, self.token, *both, *self.others) if s]
        user = self.user or ""
        # A short name may be a piece of any word.
        return Secrets([*secrets, user] if len(user) >= _LEAST_IN_WORDS else secrets, [user])


def _others(remote: RemoteSettings) -> tuple[str, ...]:
    """Other secrets: keys in the queries of addresses, passwords of proxies, variables that its
    client reads.
    """
    secrets = []
    for url in (getattr(remote, "url", None), getattr(remote, "endpoint", None)):
        values = [v for _, v in parse_qsl(urlsplit(url or "").query) if "{" not in v]
        secrets += [v for v in values if len(v) >= _LEAST_IN_QUERY]
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            secrets.append(value.rpartition("@")[0].partition("://")[2].partition(":")[2])
    secrets += [os.environ.get(name, "") for name in remote.secrets]
    return tuple(filter(None, secrets))
