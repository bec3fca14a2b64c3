"""Settings of `[sources.fetch]`: what a source is fetched from, under which limits, with credentials of which variables."""

from __future__ import annotations

import re
from datetime import date
from string import Formatter
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from transforms.settings.base import StageSettings

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_MONTH = r"^(19|20)\d\d-(0[1-9]|1[0-2])$"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEMPLATE_FIELDS = {"list", "year", "month", "month_name"}


class RemoteSettings(StageSettings):
    """What every remote has."""

    user_variable: str | None = Field(
        None,
        description="environment variable with the user's name (object store: the access key)",
    )
    password_variable: str | None = Field(
        None, description="environment variable with the password (object store: the secret key)"
    )
    token_variable: str | None = Field(
        None, description="environment variable with a token, in place of both"
    )
    requests_per_minute: int = Field(60, gt=0, description="requests sent in any minute")
    timeout_seconds: float = Field(30, gt=0, description="seconds to wait for a connection or the next bytes")
    time_limit_seconds: float = Field(
        1200, gt=0, description="seconds of one fetch; the next one brings what is missing"
    )
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


def _checked_url(url: str, schemes: tuple[str, ...]) -> str:
    """`url`; ValueError if its scheme is none of `schemes` or if it carries credentials."""
    try:
        parts = urlsplit(url)
        named = parts.port, parts.username, parts.password
    except ValueError as error:
        raise ValueError("no address can be read from it") from error
    if parts.scheme not in schemes:
        raise ValueError(f"the address must begin with {' or '.join(f'{s}://' for s in schemes)}")
    if named[2] or (named[1] and parts.scheme != "ssh"):
        raise ValueError("leave name and password out of the address; name their variables instead")
    return url


def _refuse_open_credentials(remote: RemoteSettings, url: str) -> None:
    """ValueError if credentials would travel in the clear to another machine."""
    parts = urlsplit(url)
    if remote.has_credentials and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise ValueError("credentials are sent over https:// only")


class HttpRemote(RemoteSettings):
    """Monthly mbox archives over HTTP, for sources of kind mbox."""

    kind: Literal["http"] = Field(description="one mbox file per month")
    url: str = Field(
        description="address with `{year}`, `{month:02}` or `{month_name}`, and for several lists `{list}`"
    )
    since: str = Field(pattern=_MONTH, description="first month, as `2004-01`")
    until: str | None = Field(None, pattern=_MONTH, description="last month; none: the current one")
    lists: tuple[str, ...] = Field(
        (), description="what stands for `{list}`; none: `list_id` or the source's name"
    )
    recheck_days: int = Field(
        30, ge=0, description="days after which a closed month is asked for again; 0: never"
    )

    @field_validator("url")
    @classmethod
    def _template(cls, url: str) -> str:
        try:
            fields = [(name, change) for _, name, _, change in Formatter().parse(url) if name is not None]
            if {name for name, _ in fields} - _TEMPLATE_FIELDS or any(change for _, change in fields):
                raise ValueError(
                    "known fields are {list}, {year}, {month}, {month:02} and {month_name}, without attributes"
                )
            sample = url.format(list="list", year=2004, month=1, month_name="January")
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError("its fields in braces cannot be understood") from error
        names = {name for name, _ in fields}
        if "year" not in names or not names & {"month", "month_name"}:
            raise ValueError("the address needs {year} and {month:02} or {month_name}")
        _checked_url(sample, ("https", "http"))
        return url

    @field_validator("lists")
    @classmethod
    def _plain_lists(cls, lists: tuple[str, ...]) -> tuple[str, ...]:
        for name in lists:
            if not _LIST.fullmatch(name) or ".." in name:
                raise ValueError(f"{name!r} is no name of a list: use letters, digits, '.', '_', '+' or '-'")
        return lists

    @model_validator(mode="after")
    def _consistent(self) -> HttpRemote:
        _refuse_open_credentials(self, self.url)
        if len(self.lists) > 1 and "{list" not in self.url:
            raise ValueError("several lists need {list} in the address")
        if self.until and self.until < self.since:
            raise ValueError("until is before since")
        return self


class ImapRemote(RemoteSettings):
    """One folder of an IMAP server, for sources of kind maildir."""

    kind: Literal["imap"] = Field(description="the mails of one folder, read without changing it")
    host: str = Field(min_length=1, description="name of the server")
    port: int | None = Field(None, gt=0, lt=65536, description="none: 993, or 143 unless tls is `tls`")
    tls: Literal["tls", "starttls", "off"] = Field(
        "tls", description="encryption; off is possible on this machine alone"
    )
    ca_file: str | None = Field(
        None,
        description="certificates that are trusted, PEM; none: the system's",
    )
    folder: str = Field("INBOX", min_length=1, description="folder on the server")
    requests_per_minute: int = Field(600, gt=0, description="commands that are sent in any minute")
    max_bytes: int = Field(64 << 20, gt=0, description="bytes of one mail; a larger one is not fetched")
    since: date | None = Field(None, description="only mails that arrived there on this day or later")
    expunged: Literal["delete", "keep"] = Field(
        "delete", description="what becomes of a mail here that is no longer there"
    )

    @model_validator(mode="after")
    def _consistent(self) -> ImapRemote:
        if self.tls == "off" and self.host not in _LOOPBACK:
            raise ValueError("tls = 'off' sends the password in the clear; it is possible on localhost alone")
        if not self.user_variable or not self.has_credentials:
            raise ValueError("IMAP needs user_variable and password_variable or token_variable")
        return self

    @property
    def used_port(self) -> int:
        """The port that is connected to."""
        return self.port or (993 if self.tls == "tls" else 143)


class GitRemote(RemoteSettings):
    """Repositories of a public-inbox (v2 format), for sources of kind public_inbox."""

    kind: Literal["git"] = Field(description="repositories of a public-inbox")
    url: str = Field(
        description="address; with `{epoch}` of all epochs, as `https://lore.kernel.org/linux-erofs/{epoch}`"
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        if set(re.findall(r"\{.*?\}", url)) - {"{epoch}"}:
            raise ValueError("the only field is {epoch}")
        return _checked_url(url, ("https", "ssh", "git", "http", "file"))

    @model_validator(mode="after")
    def _consistent(self) -> GitRemote:
        _refuse_open_credentials(self, self.url)
        if self.has_credentials and urlsplit(self.url).scheme not in ("https", "http"):
            raise ValueError("variables are for https:// addresses; ssh uses the keys of its agent")
        return self


class ObjectRemote(RemoteSettings):
    """A prefix of an object store, or another folder, for any kind of source but public_inbox."""

    kind: Literal["objects"] = Field(description="all files below a prefix")
    url: str = Field(description="`s3://bucket/prefix` (extra `s3`) or `file:///folder`")
    requests_per_minute: int = Field(1200, gt=0, description="files that are copied in any minute")
    endpoint: str | None = Field(None, description="address of an S3 service other than Amazon's")
    anonymous: bool = Field(False, description="send no credentials")

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        return _checked_url(url, ("s3", "file"))

    @field_validator("endpoint")
    @classmethod
    def _endpoint_address(cls, url: str | None) -> str | None:
        return url and _checked_url(url, ("https", "http"))

    @model_validator(mode="after")
    def _consistent(self) -> ObjectRemote:
        if self.token_variable:
            raise ValueError("an object store takes user_variable and password_variable")
        if self.endpoint:
            _refuse_open_credentials(self, self.endpoint)
        return self


MailRemote = Annotated[HttpRemote | ImapRemote | GitRemote | ObjectRemote, Field(discriminator="kind")]
Remote = HttpRemote | ImapRemote | GitRemote | ObjectRemote
REMOTES: tuple[type[Remote], ...] = (HttpRemote, ImapRemote, GitRemote, ObjectRemote)
REMOTES_OF = {
    "mbox": ("http", "objects"),
    "maildir": ("imap", "objects"),
    "eml": ("objects",),
    "public_inbox": ("git",),
}
"""Which remotes a kind of mail source can be fetched from."""


def known_zone(name: str) -> str:
    """`name`, if a time zone has it; ValueError if not."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"no time zone is called {name!r}; names are like Europe/London") from error
    return name
