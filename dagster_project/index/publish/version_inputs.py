"""The inputs of a published version, their tables, and the result of a build."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from assets.partitions import IN_PARTS, SOURCE_TYPES
from dagster_project.extensions import published_tables
from dagster_project.lake.lake import ParquetLake
from dagster_project.sources.seen_partitions import SeenPartitions
from dagster_project.system.long_work import Phases
from transforms.schemas.registry import REGISTRY, lake_wide_inputs
from transforms.settings.models import EmbeddingSettings
from transforms.settings.operations import IndexSettings
from transforms.settings.search import SearchSettings, TermSettings

LAKE_WIDE = lake_wide_inputs()
"""The lake's tables without partitions that each version is built from, beside those that extras
add.
"""
TABLES_OF_TYPE = {source_type.name: source_type.tables for source_type in SOURCE_TYPES}
"""The tables of the partitions of each source type."""


@dataclass(frozen=True)
class PublishSettings:
    """The settings that a version depends on; `search` gives the SQL macros their defaults.

    `recorded` are the settings that the manifest records, `added` names the tables of extras that
    are published.
    """

    index: IndexSettings
    embedding: EmbeddingSettings
    terms: TermSettings
    search: SearchSettings
    recorded: Mapping[str, object]
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """The result of a publish."""

    version: str
    path: Path
    is_new: bool
    partitions: int
    changed: int
    reused: bool
    rows: Mapping[str, int] = field(default_factory=dict)
    unusable: str | None = None
    """The part of the previous version that could not be reused, and why."""
    mirrored: Mapping[str, Any] = field(default_factory=dict)
    """The points sent to the service that ranks, and how far its mean length is from that of the
    version.
    """


@dataclass(frozen=True)
class VersionInputs:
    """The inputs of a version: the lake, the partitions in it with their source types, hashes and
    settings.

    `hashes` has the content hashes of the tables of each partition, and below the key '' those of
    the other tables. `sightings` knows when the partitions of the lake were first seen. `facts` are
    the entries of the manifest that the file itself does not give: version, layout, settings as
    JSON. `phases` gets each phase of the build.
    """

    lake: ParquetLake
    partitions: Mapping[str, str]
    hashes: Mapping[str, Mapping[str, str]]
    sightings: SeenPartitions | None
    settings: PublishSettings
    facts: Mapping[str, str]
    phases: Phases

    def partition_hashes(self) -> pa.Table:
        """The published table `partitions`: the content hash of each table of each partition."""
        rows = [
            (p, table, content)
            for p in sorted(self.partitions)
            for table, content in self.hashes[p].items()
        ]
        return _strings(("partition", "table_name", "hash"), rows)

    def part_hashes(self) -> pa.Table:
        """The published table `parts`: the content hash of each part of the other tables."""
        rows = [
            (table, part or "", footer.content_hash)
            for table in (
                *(name for name in LAKE_WIDE if REGISTRY[name].published),
                *published_tables(),
            )
            for part in (self.lake.parts(table) if table in IN_PARTS else [None])
            if (footer := self.lake.footer(table, part))
        ]
        return _strings(("table_name", "part", "hash"), rows)


def _strings(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> pa.Table:
    return pl.DataFrame(rows, dict.fromkeys(names, pl.String), orient="row").to_arrow()


class LostTextError(Exception):
    """The lake lacks a text that an earlier version holds: its rows would stay in the bytes of a
    file made of that one.
    """


class UnfitBaseError(Exception):
    """Why a version cannot be made of an earlier one, but of the lake alone."""
