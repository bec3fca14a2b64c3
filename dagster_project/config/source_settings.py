"""Settings of `[sources.fetch]` by kind: those of the core, and those that extras add."""

from __future__ import annotations

import re
from functools import reduce
from operator import or_
from string import Formatter
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from dagster_project.config.remote_settings import (
    RemoteSettings,
    checked_url,
    refuse_open_credentials,
)
from dagster_project.extensions import load, offered

_LIST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
_MONTH = r"(19|20)\d\d-(0[1-9]|1[0-2])"
_TEMPLATE_FIELDS = {"list", "year", "month", "month_name"}


class HttpRemote(RemoteSettings):
    """Monthly mbox archives over HTTP, for sources of kind mbox."""

    kind: Literal["http"] = Field(description="one mbox file per month")
    url: str = Field(
        description="address with `{year}`, `{month:02}` or `{month_name}`, and for several lists `{list}`"
    )
    since: str = Field(
        pattern=f"^{_MONTH}(/{_MONTH})?$",
        description="first month, as `2004-01`, or first and last, as `2004-01/2010-12`",
    )
    lists: tuple[str, ...] = Field(
        (), description="values of `{list}`; none: `list_id` or the source's name"
    )

    @field_validator("url")
    @classmethod
    def _template(cls, url: str) -> str:
        try:
            fields = [
                (name, change) for _, name, _, change in Formatter().parse(url) if name is not None
            ]
            if {name for name, _ in fields} - _TEMPLATE_FIELDS or any(
                change for _, change in fields
            ):
                raise ValueError(
                    "known fields are {list}, {year}, {month}, {month:02} and {month_name}, without attributes"
                )
            sample = url.format(list="list", year=2004, month=1, month_name="January")
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError("its fields in braces cannot be understood") from error
        names = {name for name, _ in fields}
        if "year" not in names or not names & {"month", "month_name"}:
            raise ValueError("the address needs {year} and {month:02} or {month_name}")
        checked_url(sample, ("https", "http"))
        return url

    @field_validator("lists")
    @classmethod
    def _plain_lists(cls, lists: tuple[str, ...]) -> tuple[str, ...]:
        for name in lists:
            if not _LIST.fullmatch(name) or ".." in name:
                raise ValueError(
                    f"{name!r} is not a list's name: use letters, digits, '.', '_', '+' or '-'"
                )
        return lists

    @model_validator(mode="after")
    def _consistent(self) -> HttpRemote:
        refuse_open_credentials(self, self.url)
        if len(self.lists) > 1 and "{list" not in self.url:
            raise ValueError("several lists need {list} in the address")
        if "/" in self.since and self.since[8:] < self.since[:7]:
            raise ValueError("the last month of since is before the first")
        return self


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
        return checked_url(url, ("https", "ssh", "git", "http", "file"))

    @model_validator(mode="after")
    def _consistent(self) -> GitRemote:
        refuse_open_credentials(self, self.url)
        if self.credentials and urlsplit(self.url).scheme not in ("https", "http"):
            raise ValueError("variables are for https:// addresses; ssh uses the keys of its agent")
        return self


_OWN: dict[str, tuple[type[RemoteSettings], tuple[str, ...]]] = {
    "git": (GitRemote, ("public_inbox",)),
    "http": (HttpRemote, ("mbox",)),
}
REMOTES = _OWN | {
    name: (load(remote.model), remote.sources) for name, remote in offered("remotes").items()
}
"""The kinds of remote by name: the settings of each, and the kinds of source that are fetched by
it.
"""


def remotes_of(*kinds: str) -> list[str]:
    """The kinds of remote from which some of these kinds of source are fetched."""
    return sorted(name for name, (_, sources) in REMOTES.items() if set(kinds) & set(sources))


def _fetch_of(*kinds: str) -> Any:
    """The annotation of the remotes of some kinds of source; that of None if there are none."""
    models = [REMOTES[name][0] for name in remotes_of(*kinds)]
    fetch: Any = reduce(or_, models) if models else type(None)
    return Annotated[fetch, Field(discriminator="kind")] if len(models) > 1 else fetch


if TYPE_CHECKING:
    MailRemote: TypeAlias = RemoteSettings
    FileRemote: TypeAlias = RemoteSettings
else:
    MailRemote, FileRemote = (
        _fetch_of("mbox", "maildir", "eml", "public_inbox"),
        _fetch_of("tree", "issues"),
    )


def known_zone(name: str) -> str:
    """`name`, if a time zone has it; ValueError if not."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"no time zone is called {name!r}; names are like Europe/London"
        ) from error
    return name
