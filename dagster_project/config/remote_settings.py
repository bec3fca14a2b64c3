"""Settings that every remote has, and checks of the addresses that remotes name."""

from __future__ import annotations

import re
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from transforms.settings.base import Internal, StageSettings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RemoteSettings(StageSettings):
    """What every remote has; `secrets` names variables that its client reads beside those of the settings."""

    secrets: ClassVar[tuple[str, ...]] = ()
    kind: str = Field(description="what the source is fetched from")
    user_variable: str | None = Field(
        None, description="environment variable with the user's name (object store: the access key)"
    )
    password_variable: str | None = Field(
        None, description="environment variable with the password (object store: the secret key)"
    )
    token_variable: str | None = Field(
        None, description="environment variable with a token, in place of both"
    )
    requests_per_minute: int = Field(60, gt=0, description="requests sent in any minute")
    timeout_seconds: Internal[float] = Field(30, gt=0)
    """Seconds to wait for a connection or the next bytes."""
    time_limit_seconds: Internal[float] = Field(1200, gt=0)
    """Seconds of one fetch; the next one brings what is missing."""
    max_bytes: int = Field(
        2 << 30, gt=0, description="bytes of one file, mail or pack of git; a larger one is not fetched"
    )
    max_lag_hours: float | None = Field(
        None, gt=0, description="age of the newest mail or file from which the check `lag` warns"
    )

    @field_validator("user_variable", "password_variable", "token_variable")
    @classmethod
    def _names_a_variable(cls, name: str | None) -> str | None:
        # The message must not repeat the value: it may be the secret itself.
        if name is not None and not _VARIABLE.fullmatch(name):
            raise ValueError("give the name of an environment variable, never the secret itself")
        return name

    @model_validator(mode="after")
    def _whole_credentials(self) -> RemoteSettings:
        if self.password_variable and not self.user_variable:
            raise ValueError("password_variable needs user_variable beside it")
        if self.token_variable and self.password_variable:
            raise ValueError("give either token_variable or password_variable")
        return self

    @property
    def has_credentials(self) -> bool:
        """True if something secret is sent."""
        return bool(self.password_variable or self.token_variable)


def checked_url(url: str, schemes: tuple[str, ...]) -> str:
    """`url`; ValueError if its scheme is none of `schemes` or if it carries credentials."""
    try:
        parts = urlsplit(url)
        account = parts.port, parts.username, parts.password
    except ValueError as error:
        raise ValueError("no address can be read from it") from error
    if parts.scheme not in schemes:
        raise ValueError(f"the address must begin with {' or '.join(f'{s}://' for s in schemes)}")
    if account[2] or (account[1] and parts.scheme != "ssh"):
        raise ValueError("leave name and password out of the address; name their variables instead")
    return url


def refuse_open_credentials(remote: RemoteSettings, url: str) -> None:
    """ValueError if credentials would travel in the clear to another machine."""
    parts = urlsplit(url)
    if remote.has_credentials and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("credentials are sent over https:// only")
