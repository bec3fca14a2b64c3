"""The engine of the settings: partitions are made by the run that asks for them, or by tasks of an extra."""

from collections.abc import Collection, Sequence
from typing import Protocol

from assets.partitions import PARTITIONS_OF_RUN
from assets.protocols import engine as protocol
from assets.protocols.models import Embedder
from dagster_project.config.settings import Settings
from dagster_project.extras.registry import engines, load


class BuildEngine(protocol.Engine, Protocol):
    """An engine as builds use it; `run_partitions` are the partitions of a run of a build, at most."""

    run_partitions: int

    def close(self) -> None:
        """Give back what was taken of the cluster."""


class LocalEngine:
    """Leaves every partition to the run that asks."""

    run_partitions = PARTITIONS_OF_RUN

    def outcomes(self, run_id: str, tables: Collection[str], partitions: Sequence[str]) -> None:
        """None."""

    def close(self) -> None:
        """Nothing."""


def make_engine(settings: Settings) -> BuildEngine:
    """The engine of `[engine]`, which begins nothing before the first tasks; SettingsError without its packages."""
    offer = engines().get(settings.engine.kind)
    engine: BuildEngine = load(offer.make)(settings) if offer else LocalEngine()
    return engine


def on_engine(settings: Settings, embedder: Embedder) -> Embedder:
    """The embedder, or one by which the engine embeds many documents; SettingsError without its packages."""
    offer = engines().get(settings.engine.kind)
    if offer is None or not offer.embedder:
        return embedder
    elsewhere: Embedder = load(offer.embedder)(settings, embedder)
    return elsewhere
