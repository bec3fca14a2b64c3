"""The engine that makes partitions by tasks of a cluster: all tables of a run when its first stage
asks.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from assets.protocols.engine import Outcome
from assets.protocols.models import Embedder
from dagster_project.config.settings import Settings
from dagster_project.extras.engines.task import written_tasks
from dagster_project.system import unasked_pandas
from transforms.errors import not_installed


class Cluster(Protocol):
    """A cluster that runs tasks."""

    def run(self, place: str, count: int) -> Iterable[Outcome]:
        """The outcomes of the tasks of the file at `place`, in any order."""

    def close(self) -> None:
        """Give back the machines of the cluster."""


class TaskEngine:
    """Makes the partitions of a run in tasks: all of their tables when its first stage asks."""

    run_partitions = 1000
    """Partitions of a run of a build, at most: all of them may be made at once."""

    def __init__(self, settings: Settings, cluster: Cluster):
        self.settings, self.cluster = settings, cluster
        self._run_id = ""
        self._outcomes: dict[str, Outcome] = {}

    def outcomes(
        self, run_id: str, tables: Collection[str], partitions: Sequence[str]
    ) -> Mapping[str, Outcome]:
        """The outcomes of the tasks of a run, by partition; those of the run before are forgotten."""
        if run_id != self._run_id:
            with written_tasks(self.settings, sorted(tables), partitions) as place:
                outcomes = self.cluster.run(place, len(partitions))
                self._outcomes = {outcome.partition: outcome for outcome in outcomes}
            self._run_id = run_id
        return self._outcomes

    def close(self) -> None:
        """Leave the cluster."""
        self.cluster.close()


def _packaged(extra: str, name: str) -> Any:
    """A class of the module of an extra, whose imports come with that; SettingsError without its
    packages.
    """
    unasked_pandas.let_in()
    try:
        return getattr(import_module(f"{__package__}.{extra}"), name)
    except ImportError as error:
        raise not_installed(error, extra) from error


def spark_engine(settings: Settings) -> TaskEngine:
    """The engine over Spark; SettingsError without its packages."""
    return TaskEngine(settings, _packaged("spark", "SparkCluster")(settings.engine))


def ray_engine(settings: Settings) -> TaskEngine:
    """The engine over Ray; SettingsError without its packages."""
    return TaskEngine(settings, _packaged("ray", "RayCluster")(settings.engine))


def ray_embedder(settings: Settings, embedder: Embedder) -> Embedder:
    """The embedder, or one by which actors of Ray embed, where a model is large enough to be worth
    it.
    """
    if settings.embedding.model != "transformer":
        return embedder
    return _packaged("ray", "RayEmbedder")(embedder, settings.embedding, settings.engine)
