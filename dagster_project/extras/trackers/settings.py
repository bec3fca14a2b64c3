"""Settings of `[sources.fetch]` of the issues of a project on GitHub or GitLab."""

from __future__ import annotations

import re
from datetime import date
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from dagster_project.config.remote_settings import (
    RemoteSettings,
    checked_url,
    refuse_open_credentials,
)

_PROJECT = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)+")


class TrackerRemote(RemoteSettings):
    """The issues of one project with their comments, for sources of kind issues."""

    token_login: ClassVar[tuple[str, ...]] = ("TOKEN",)
    project: str = Field(description="`owner/name`, on GitLab with all groups above it")
    api: str = Field(description="address of the REST interface")
    since: date | None = Field(None, description="only issues that changed on this day or later")
    max_bytes: int = Field(64 << 20, gt=0, description="bytes of one page of issues at most")

    @field_validator("project")
    @classmethod
    def _named(cls, project: str) -> str:
        if not _PROJECT.fullmatch(project) or ".." in project:
            raise ValueError("give the project as `owner/name`, without the address of the site")
        return project

    @field_validator("api")
    @classmethod
    def _address(cls, url: str) -> str:
        return checked_url(url, ("https", "http")).rstrip("/")

    @model_validator(mode="after")
    def _consistent(self) -> TrackerRemote:
        refuse_open_credentials(self, self.api)
        return self


class GithubRemote(TrackerRemote):
    """The issues and pull requests of a repository on GitHub."""

    kind: Literal["github"] = Field(description="issues of a repository on GitHub")
    api: str = Field("https://api.github.com", description="address of the REST interface")


class GitlabRemote(TrackerRemote):
    """The issues of a project on GitLab."""

    kind: Literal["gitlab"] = Field(description="issues of a project on GitLab")
    api: str = Field("https://gitlab.com/api/v4", description="address of the REST interface")
