"""The lake, the sources, the stages and the engine of a settings file, as a task needs them.
Imports no Dagster.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from assets.partitions import PARTITIONS_OF_RUN
from assets.pipeline import source_stages
from assets.protocols import engine as protocol
from assets.protocols.models import Embedder
from assets.stages.declaration import Stage
from dagster_project.config.settings import Settings
from dagster_project.extensions import declared_tables, load, offered
from dagster_project.lake.forgotten import Forgotten
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.set_aside import SetAside
from dagster_project.ledger.ledger import Ledger, ledger_in
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.sources.chats import ChatFiles
from dagster_project.sources.remembered_sources import RememberedSources
from dagster_project.sources.seen_partitions import partitions_in_lake
from transforms.mail.chunks.long_texts import AT_ONCE, AT_ONCE_BY_TABLE, AtOnce
from transforms.schemas.registry import lake_tables
from transforms.settings.models import BUNDLED


def make_ledger(settings: Settings, aside: Path | None = None) -> Ledger:
    """The record of looks; in the folder `aside`, unless it is None."""
    return ledger_in(aside or settings.root)


def make_lake(settings: Settings, aside: Path | None = None) -> ParquetLake:
    """The lake at the configured place; copies of its files go to the folder `aside`, unless it is
    None.
    """
    tables = lake_tables(settings.embedding.dimensions) | declared_tables()
    copies = (aside or settings.root / "cache") / "lake"
    return ParquetLake(settings.lake_uri, tables, copies, make_ledger(settings, aside))


def make_sources(
    settings: Settings, aside: Path | None = None, failing: SetAside | None = None
) -> RememberedSources:
    """The configured sources without forgotten texts, and without `failing`, by default those that
    the lake has noted; readings of their files go to the folder `aside`, unless it is None.
    """
    lake = make_lake(settings, aside)
    return RememberedSources(
        Forgotten(lake.base),
        failing or SetAside(lake.base),
        settings,
        aside or settings.root / "cache",
        ChatFiles(settings, lake.ledger),
        lambda source, source_type: partitions_in_lake(lake, source, source_type),
    )


def stages_of_sources(settings: Settings) -> list[Stage]:
    """The stages that make the partitions of sources, in order: all that a task can make."""
    at_once = AT_ONCE_BY_TABLE if settings.embedding.model in BUNDLED else AT_ONCE
    if settings.operations.slow_at_once_bytes is not None:
        at_once = AtOnce(settings.operations.slow_at_once_bytes, 0)
    return source_stages(settings, PackagedTokenCounter(), at_once)


class BuildEngine(protocol.Engine, Protocol):
    """An engine as builds use it; `run_partitions` are the partitions of a run of a build, at most."""

    run_partitions: int

    def close(self) -> None:
        """Give back the machines of the cluster."""


class LocalEngine:
    """Leaves every partition to the run that asks."""

    run_partitions = PARTITIONS_OF_RUN

    def outcomes(self, run_id: str, tables: Collection[str], partitions: Sequence[str]) -> None:
        """None."""

    def close(self) -> None:
        """Nothing."""


def make_engine(settings: Settings) -> BuildEngine:
    """The engine of `[engine]`, which begins nothing before the first tasks; SettingsError without
    its packages.
    """
    offer = offered("engines").get(settings.engine.kind)
    return load(offer.make)(settings) if offer else LocalEngine()


def on_engine(settings: Settings, embedder: Embedder) -> Embedder:
    """The embedder, or one by which the engine embeds many documents; SettingsError without its
    packages.
    """
    offer = offered("engines").get(settings.engine.kind)
    return load(offer.embedder)(settings, embedder) if offer and offer.embedder else embedder
