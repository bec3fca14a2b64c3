"""The settings file: TOML, validated, found through `--config`, `WEFT_CONFIG` or `weft.toml`."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from transforms.errors import SettingsError
from transforms.settings import (
    BlockSettings,
    ChunkSettings,
    EmbeddingSettings,
    FamilySettings,
    IndexSettings,
    InferredQuoteSettings,
    MailSettings,
    SearchSettings,
    StageSettings,
    TermSettings,
    ThreadSettings,
)

CONFIG_VARIABLE = "WEFT_CONFIG"
DEFAULT_CONFIG = "weft.toml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class SourceSettings(StageSettings):
    """One place that mail comes from."""

    name: str = Field(description="name of the source; the part of a partition before the slash")
    kind: Literal["mbox", "maildir", "eml"] = Field(description="how mails are stored there")
    path: str = Field(description="file, folder or glob; relative to the settings file")
    list_id: str | None = Field(
        None, description="mailing list; default: the file name before its date, else the source's name"
    )
    grain: Literal["month", "year", "archive"] = Field(
        "month", description="what one partition holds: a month or year of mail, or one archive file"
    )
    dialect: Literal["mboxrd", "mboxo", "content-length"] = Field(
        "mboxrd", description="how From_ lines are escaped in mbox files"
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or ".." in name:
            raise ValueError("use 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit")
        return name


class StorageSettings(StageSettings):
    """Where what Weft makes is kept."""

    root: str = Field(
        "data", description="folder of lake/, index/, cache/ and dagster/; relative to the file"
    )
    lake: str | None = Field(None, description="URI of the lake; default: lake/ below root")


class Settings(StageSettings):
    """Everything a settings file may say; every section but `sources` has defaults."""

    sources: tuple[SourceSettings, ...] = Field(description="where mail comes from")
    storage: StorageSettings = StorageSettings()
    mail: MailSettings = MailSettings()
    blocks: BlockSettings = BlockSettings()
    chunks: ChunkSettings = ChunkSettings()
    terms: TermSettings = TermSettings()
    threads: ThreadSettings = ThreadSettings()
    families: FamilySettings = FamilySettings()
    inferred_quotes: InferredQuoteSettings = InferredQuoteSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    index: IndexSettings = IndexSettings()
    search: SearchSettings = SearchSettings()
    base: Path = Field(Path(), description="folder that relative paths start from", exclude=True)

    @model_validator(mode="after")
    def _distinct_names(self) -> Settings:
        names = [s.name for s in self.sources]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"two sources are named {twice[0]!r}; names must differ")
        return self

    @property
    def root(self) -> Path:
        """Folder below which everything generated lies."""
        return (self.base / self.storage.root).resolve()

    @property
    def lake_uri(self) -> str:
        """Location of the Parquet lake."""
        given = self.storage.lake
        if given and "://" in given:
            return given
        return str((self.base / given).resolve() if given else self.root / "lake")

    def source(self, name: str) -> SourceSettings:
        """The source of that name; KeyError if there is none."""
        return {s.name: s for s in self.sources}[name]


def config_path(given: str | Path | None = None) -> Path:
    """Path of the settings file: `given`, else `WEFT_CONFIG`, else `weft.toml` in this folder."""
    chosen = Path(given or os.environ.get(CONFIG_VARIABLE) or DEFAULT_CONFIG)
    if not chosen.is_file():
        raise SettingsError(
            f"no settings file at {chosen}: name one with --config FILE or {CONFIG_VARIABLE}=FILE "
            "(data/sample/weft.toml is an example)"
        )
    return chosen


def load_settings(given: str | Path | None = None) -> Settings:
    """The validated settings; SettingsError names the file, the entry and what is wrong with it."""
    path = config_path(given)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no valid TOML: {error}") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from error
    if "base" in raw:
        raise SettingsError(f"{path}: base: unknown setting")
    try:
        return Settings(**raw, base=path.resolve().parent)
    except ValidationError as error:
        raise SettingsError(_explain(path, raw, error)) from error


def _explain(path: Path, raw: dict[str, object], error: ValidationError) -> str:
    """One line per fault: the file, the entry, the fault and, for unknown names, the known ones."""
    lines = []
    for fault in error.errors():
        place = ".".join(str(p) for p in fault["loc"]) or "file"
        if fault["type"] == "extra_forbidden":
            lines.append(f"{path}: {place}: unknown setting; docs/settings.md lists the known ones")
        else:
            lines.append(f"{path}: {place}: {fault['msg']}")
    return "\n".join(lines)
