"""The engine that makes partitions by tasks of a cluster: all tables of a run when its first stage asks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from assets.protocols.engine import Outcome
from assets.protocols.models import Embedder
from dagster_project.config.settings import Settings
from dagster_project.extras.engines.task import written_tasks
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


def spark_engine(settings: Settings) -> TaskEngine:
    """The engine over Spark; SettingsError without its packages."""
    try:
        # Its imports come with the extra.
        from dagster_project.extras.engines.spark import SparkCluster
    except ImportError as error:
        raise not_installed(error, "spark") from error
    return TaskEngine(settings, SparkCluster(settings.engine))


def ray_engine(settings: Settings) -> TaskEngine:
    """The engine over Ray; SettingsError without its packages."""
    try:
        # Its imports come with the extra.
        from dagster_project.extras.engines.ray import RayCluster
    except ImportError as error:
        raise not_installed(error, "ray") from error
    return TaskEngine(settings, RayCluster(settings.engine))


def ray_embedder(settings: Settings, embedder: Embedder) -> Embedder:
    """The embedder, or one by which actors of Ray embed, where a model is large enough to be worth it."""
    if settings.embedding.model != "transformer":
        return embedder
    try:
        # Its imports come with the extra.
        from dagster_project.extras.engines.ray import RayEmbedder
    except ImportError as error:
        raise not_installed(error, "ray") from error
    return RayEmbedder(embedder, settings.embedding, settings.engine)
