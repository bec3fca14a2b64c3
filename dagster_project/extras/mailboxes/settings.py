"""Settings of `[sources.fetch]` of a folder of mail, by IMAP and by JMAP."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, timedelta
from typing import ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from dagster_project.config.remote_settings import (
    LOOPBACK,
    RemoteSettings,
    checked_url,
    refuse_open_credentials,
)


class MailFolder(NamedTuple):
    """A folder of an account: its name, the count of its mails, and its role by RFC 6154 in small
    letters (`all`, `trash`), empty without one.
    """

    name: str
    mails: int
    role: str = ""


class FolderRemote(RemoteSettings):
    """One folder of a mail server."""

    folder: str = Field("INBOX", min_length=1, description="folder on the server")
    requests_per_minute: int = Field(600, gt=0, description="commands that are sent in any minute")
    max_bytes: int = Field(
        64 << 20, gt=0, description="bytes of one mail; a larger one is not fetched"
    )
    since: date | None = Field(
        None, description="only mails that arrived there on this day or later"
    )
    first_days: int | None = Field(
        None,
        gt=0,
        description="the first fetch brings the mails of so many days alone, the next one the older mails",
    )
    expunged: Literal["delete", "keep"] = Field(
        "delete", description="treatment of a mail here that is no longer there"
    )

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """As those of every remote; a sign-in has the token."""
        if not environment.get(f"{self.credentials}_OAUTH"):
            return super().variables(environment)
        return {
            part.lower(): f"{self.credentials}_{part}"
            for part in self.token_login
            if part != "TOKEN"
        }

    def remedy(self, source: str) -> str:
        """As that of every remote, or the command that signs in again or asks for the password."""
        if os.environ.get(f"{self.credentials}_OAUTH"):
            return f"sign in by `weft build --sign-in {source}`"
        if any(os.environ.get(f"{self.credentials}_{part}") for part in ("PASSWORD", "TOKEN")):
            return super().remedy(source)
        return f"give another password by `weft build --sign-in {source}`"

    def oldest(self, today: date, *, is_first: bool) -> date | None:
        """The day from which on mails are fetched; None without a limit."""
        if not is_first or self.first_days is None:
            return self.since
        first = today - timedelta(days=self.first_days)
        return max(first, self.since or first)

    @model_validator(mode="after")
    def _has_credentials(self) -> FolderRemote:
        if not self.credentials:
            raise ValueError(
                "a mailbox needs credentials, as `MAIL` of MAIL_USER and MAIL_PASSWORD, MAIL_TOKEN or MAIL_OAUTH"
            )
        return self


class ImapRemote(FolderRemote):
    """One folder of an IMAP server, for sources of kind maildir."""

    token_login: ClassVar[tuple[str, ...]] = ("USER", "TOKEN")
    kind: Literal["imap"] = Field(description="the mails of one folder, read without changing it")
    host: str = Field(
        description="name of the server, with `:` and its port unless that is 993, or 143 unless tls is `tls`"
    )
    tls: Literal["tls", "starttls", "off"] = Field(
        "tls", description="encryption; off is possible on this machine alone"
    )

    @model_validator(mode="after")
    def _consistent(self) -> ImapRemote:
        if self.tls == "off" and self.address[0] not in LOOPBACK:
            raise ValueError(
                "tls = 'off' sends the password in the clear; it is possible on localhost alone"
            )
        return self

    @property
    def address(self) -> tuple[str, int]:
        """The name of the server and the port that is connected to."""
        parts = urlsplit(f"//{self.host}")
        return parts.hostname or "", parts.port or (993 if self.tls == "tls" else 143)


class JmapRemote(FolderRemote):
    """One folder of a JMAP account (Fastmail, Stalwart), for sources of kind maildir."""

    kind: Literal["jmap"] = Field(description="the mails of one folder, read without changing it")
    url: str = Field(
        description="address of the session, as `https://api.fastmail.com/jmap/session`"
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        return checked_url(url, ("https", "http"))

    @model_validator(mode="after")
    def _consistent(self) -> JmapRemote:
        refuse_open_credentials(self, self.url)
        return self
