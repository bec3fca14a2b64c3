"""Settings that every remote has, and checks of the addresses that remotes name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from transforms.errors import FetchError
from transforms.settings.base import Internal, StageSettings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class RemoteSettings(StageSettings):
    """The settings of every remote; `secrets` names variables that its client reads beside those of
    the settings.
    """

    secrets: ClassVar[tuple[str, ...]] = ()
    token_login: ClassVar[tuple[str, ...]] = ("TOKEN",)
    """The credentials of a login by a token; empty if the remote takes none."""
    kind: str = Field(description="kind of remote")
    credentials: str | None = Field(
        None,
        description="`NAME`: the environment variables NAME_USER and NAME_PASSWORD (object store: access key, secret key), "
        "or NAME_TOKEN, have them, or NAME_OAUTH of a mailbox; empty: an object store gets none",
    )
    requests_per_minute: int = Field(60, gt=0, description="requests sent in any minute")
    timeout_seconds: Internal[float] = Field(30, gt=0)
    """Seconds to wait for a connection or the next bytes."""
    time_limit_seconds: Internal[float] = Field(1200, gt=0)
    """Seconds of one fetch; the next one brings the rest."""
    max_bytes: int = Field(
        2 << 30,
        gt=0,
        description="bytes of one file, mail or pack of git; a larger one is not fetched",
    )
    max_lag_hours: float | None = Field(
        None, gt=0, description="age of the newest mail or file from which the check `lag` warns"
    )

    @field_validator("credentials")
    @classmethod
    def _names_variables(cls, name: str | None) -> str | None:
        # The message must not repeat the value: it may be the secret itself.
        if name and not _VARIABLE.fullmatch(name):
            raise ValueError(
                "give the name with which environment variables begin, never the secret itself"
            )
        return name

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables of the credentials by part (user, password, token): by token if
        `environment` has one.
        """
        by_token = self.token_login and environment.get(f"{self.credentials}_TOKEN")
        parts = self.token_login if by_token else ("USER", "PASSWORD")
        return (
            {part.lower(): f"{self.credentials}_{part}" for part in parts}
            if self.credentials
            else {}
        )

    def remedy(self, source: str) -> str:
        """The instruction to a person if a server refuses the login of a source."""
        names = " and ".join(self.variables(os.environ).values())
        return f"check {names or 'whether `credentials` must name a login'}"

    def too_late(self, address: str) -> FetchError:
        """The fault of a fetch whose time is over."""
        limit = f"{self.time_limit_seconds:g} s"
        return FetchError(f"{address}: the time limit of {limit} is over; the next fetch goes on")


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
        raise ValueError(
            "leave name and password out of the address; name their variables by `credentials`"
        )
    return url


def refuse_open_credentials(remote: RemoteSettings, url: str) -> None:
    """ValueError if credentials would travel in the clear to another machine."""
    parts = urlsplit(url)
    if remote.credentials and parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError("credentials are sent over https:// only")
