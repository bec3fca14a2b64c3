"""Settings of `[sources.fetch]` of an IMAP folder."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field, model_validator

from dagster_project.config.remote_settings import LOOPBACK, RemoteSettings


class ImapRemote(RemoteSettings):
    """One folder of an IMAP server, for sources of kind maildir."""

    kind: Literal["imap"] = Field(description="the mails of one folder, read without changing it")
    host: str = Field(min_length=1, description="name of the server")
    port: int | None = Field(None, gt=0, lt=65536, description="none: 993, or 143 unless tls is `tls`")
    tls: Literal["tls", "starttls", "off"] = Field(
        "tls", description="encryption; off is possible on this machine alone"
    )
    ca_file: str | None = Field(None, description="certificates that are trusted, PEM; none: the system's")
    folder: str = Field("INBOX", min_length=1, description="folder on the server")
    requests_per_minute: int = Field(600, gt=0, description="commands that are sent in any minute")
    max_bytes: int = Field(64 << 20, gt=0, description="bytes of one mail; a larger one is not fetched")
    since: date | None = Field(None, description="only mails that arrived there on this day or later")
    expunged: Literal["delete", "keep"] = Field(
        "delete", description="what becomes of a mail here that is no longer there"
    )

    @model_validator(mode="after")
    def _consistent(self) -> ImapRemote:
        if self.tls == "off" and self.host not in LOOPBACK:
            raise ValueError("tls = 'off' sends the password in the clear; it is possible on localhost alone")
        if not self.user_variable or not self.has_credentials:
            raise ValueError("IMAP needs user_variable and password_variable or token_variable")
        return self

    @property
    def used_port(self) -> int:
        """The port that is connected to."""
        return self.port or (993 if self.tls == "tls" else 143)
