"""Credentials of remotes: read from the environment when they are needed, and taken out of whatever is said."""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from dagster_project.config.source_settings import RemoteSettings
from transforms.errors import FetchError

_SHOWN_CHARS = 300


@dataclass(frozen=True)
class Credentials:
    """Name, password and token as the environment has them; none of them is ever shown."""

    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, remote: RemoteSettings, source: str) -> Credentials:
        """Those that a remote names; FetchError if a variable is not set."""
        named = {
            "user": remote.user_variable,
            "password": remote.password_variable,
            "token": remote.token_variable,
        }
        found = {part: os.environ.get(name, "").strip() for part, name in named.items() if name}
        for part, value in found.items():
            if not value:
                raise FetchError(f"source {source}: the environment variable {named[part]} is not set")
            if not value.isprintable() or (part == "token" and not value.isascii()):
                raise FetchError(
                    f"source {source}: the environment variable {named[part]} holds signs that cannot be sent"
                )
        return cls(**found)

    @property
    def authorization(self) -> str | None:
        """Value of the header Authorization, or None without credentials."""
        if self.token:
            return f"Bearer {self.token}"
        return f"Basic {self._basic}" if self.user and self.password else None

    @property
    def _basic(self) -> str:
        return b64encode(f"{self.user}:{self.password}".encode()).decode()

    def hidden(self, text: str) -> str:
        """`text` without anything secret, on one line and not too long."""
        for secret in (self.password, self.token, self._basic if self.password else None):
            for form in {secret or "", quote(secret or "", safe=""), quote(secret or "")} - {""}:
                text = text.replace(form, "[secret]")
        text = " ".join(text.split())
        return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def shown_address(url: str) -> str:
    """An address as it may be printed: without name, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"
