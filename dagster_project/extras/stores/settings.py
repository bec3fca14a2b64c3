"""Settings of `[sources.fetch]` of an object store or folder."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from dagster_project.config.remote_settings import (
    RemoteSettings,
    checked_url,
    refuse_open_credentials,
)


class ObjectRemote(RemoteSettings):
    """A prefix of an object store, or another folder, for any kind of source but public_inbox."""

    secrets: ClassVar[tuple[str, ...]] = (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    )
    token_login: ClassVar[tuple[str, ...]] = ()
    kind: Literal["objects"] = Field(description="all files below a prefix")
    url: str = Field(description="`s3://bucket/prefix` (extra `s3`) or `file:///folder`")
    requests_per_minute: int = Field(1200, gt=0, description="files that are copied in any minute")
    endpoint: str | None = Field(None, description="address of an S3 service other than Amazon's")

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        return checked_url(url, ("s3", "file"))

    @field_validator("endpoint")
    @classmethod
    def _endpoint_address(cls, url: str | None) -> str | None:
        return url and checked_url(url, ("https", "http"))

    @model_validator(mode="after")
    def _consistent(self) -> ObjectRemote:
        if self.endpoint:
            refuse_open_credentials(self, self.endpoint)
        return self
