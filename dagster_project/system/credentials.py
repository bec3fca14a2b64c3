"""Credentials of remotes: read from the environment when needed, and masked in every message."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qsl, urlsplit

from dagster_project.config.remote_settings import RemoteSettings
from dagster_project.system.masking import FAULT_CHARS, SERVER_CHARS, Secrets, shown
from transforms.errors import FetchError, FetchInterruptedError

_LEAST_IN_QUERY = 6
"""Characters of a value in an address's query that may be a key; a shorter one is a page or a flag."""
_LEAST_IN_WORDS = 6
"""Characters of a user's name that is masked within words, too."""


@dataclass(frozen=True)
class Credentials:
    """User, password and token from the environment, and the other secrets of a remote; none is ever shown."""

    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    others: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, remote: RemoteSettings, source: str) -> Credentials:
        """Those that a remote names; FetchError if a variable is not set."""
        variables = {
            "user": remote.user_variable,
            "password": remote.password_variable,
            "token": remote.token_variable,
        }
        values = {part: os.environ.get(name, "").strip() for part, name in variables.items() if name}
        for part, value in values.items():
            if not value:
                raise FetchError(f"source {source}: the environment variable {variables[part]} is not set")
            if not value.isprintable() or (part == "token" and not value.isascii()):
                raise FetchError(
                    f"source {source}: the environment variable {variables[part]} holds signs that cannot be sent"
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
        """`text` without anything secret, on one line and not too long."""
        return shown(text, self._secrets, most)

    def masked_fault(self, fault: FetchError) -> FetchError:
        """A fault of a remote with secrets masked, as it may leave the fetch."""
        reason = self.hidden(str(fault), FAULT_CHARS)
        if isinstance(fault, FetchInterruptedError):
            return FetchInterruptedError(reason, fault.pause)
        return FetchError(reason)

    @cached_property
    def _secrets(self) -> Secrets:
        both = [self._basic] if self.user and self.password else []
        secrets = [s for s in (self.password, self.token, *both, *self.others) if s]
        user = self.user or ""
        # A short name may be a piece of any word.
        return Secrets([*secrets, user] if len(user) >= _LEAST_IN_WORDS else secrets, [user])


def _others(remote: RemoteSettings) -> tuple[str, ...]:
    """Other secrets: keys in the queries of addresses, passwords of proxies, what its client reads from the environment."""
    secrets = []
    for url in (getattr(remote, "url", None), getattr(remote, "endpoint", None)):
        values = [v for _, v in parse_qsl(urlsplit(url or "").query) if "{" not in v]
        secrets += [v for v in values if len(v) >= _LEAST_IN_QUERY]
    for name, value in os.environ.items():
        if name.lower().endswith("_proxy"):
            _, at, _ = value.rpartition("@")
            secrets += [value.rpartition("@")[0].partition("://")[2].partition(":")[2]] if at else []
    secrets += [os.environ.get(name, "") for name in remote.secrets]
    return tuple(filter(None, secrets))
