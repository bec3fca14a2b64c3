"""Tasks on Ray, at most so many at once."""

import os
from collections.abc import Iterator
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from assets.protocols.engine import Outcome
from dagster_project.extras.engines.task import run_task
from transforms.errors import EngineError
from transforms.settings.operations import EngineSettings

_REPETITIONS = 3
"""Of a task whose worker is lost, before the build fails."""


class RayCluster:
    """A connection to Ray, made when the first tasks come."""

    def __init__(self, settings: EngineSettings):
        self.settings = settings

    def run(self, place: str, count: int) -> Iterator[Outcome]:
        """The outcomes of the tasks 0 to `count` of the file at `place`, as they come.

        EngineError if Ray cannot be reached, or a task is lost more than three times.
        """
        try:
            connect(self.settings)
            yield from self._outcomes(place, count)
        except RayTaskError as error:
            raise EngineError(str(error.cause)) from error
        except (RayError, ConnectionError, ValueError) as error:
            raise EngineError(f"Ray at {os.environ.get('RAY_ADDRESS', 'this machine')}: {error}") from error

    def _outcomes(self, place: str, count: int) -> Iterator[Outcome]:
        task: Any = ray.remote(num_cpus=1, max_retries=_REPETITIONS)(run_task)
        under_way: list[Any] = []
        for number in range(count):
            if len(under_way) == self.settings.tasks:
                done, under_way = ray.wait(under_way)
                yield from ray.get(done)
            under_way.append(task.remote(place, number))
        while under_way:
            done, under_way = ray.wait(under_way)
            yield from ray.get(done)

    def close(self) -> None:
        """Leave Ray; one that was begun here ends."""
        ray.shutdown()


def connect(settings: EngineSettings) -> None:
    """Connect this process to Ray, if it is not; without RAY_ADDRESS Ray begins on this machine."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": settings.tasks}
    ray.init(include_dashboard=False if here else None, log_to_driver=False, **here)
