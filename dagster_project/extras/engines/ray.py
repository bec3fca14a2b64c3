"""Ray: tasks, at most so many at once, and texts embedded by actors that hold the model, on GPUs
where there are any.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from assets.protocols.engine import Outcome
from assets.protocols.models import Embedded, Embedder
from dagster_project.extras.engines.task import run_task
from dagster_project.models.embedders import make_embedder
from transforms.errors import EngineError
from transforms.settings.models import EmbeddingSettings
from transforms.settings.operations import EngineSettings

_REPETITIONS = 3
"""Repetitions of a task whose worker is lost, before the build fails."""


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
            raise EngineError(
                f"Ray at {os.environ.get('RAY_ADDRESS', 'this machine')}: {error}"
            ) from error

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
    """Connect this process to Ray, if it is not; without RAY_ADDRESS Ray begins on this machine.

    Ray waits half a minute for itself, which may be too short on a busy machine: it begins twice.
    """
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": settings.tasks}
    for is_last in (False, True):
        try:
            ray.init(include_dashboard=False if here else None, log_to_driver=False, **here)
            return
        except Exception as fault:  # Ray raises no other class for it
            ray.shutdown()
            if is_last or _SLOW_START not in str(fault):
                raise


_SLOW_START = "timed out during startup"
"""Words of Ray's fault if it took too long to begin."""
_LEAST_BATCHES = 10
"""Fewer are embedded where the build is, before an actor would have read the model."""
_AT_ONCE = 2
"""Batches of an actor: one that it is at, and the next."""
_RESTARTS = 3


class RayEmbedder:
    """Has documents embedded on Ray, a batch of `batch_texts` at a time; the rest is asked of
    `local`, which is equal.
    """

    def __init__(self, local: Embedder, settings: EmbeddingSettings, engine: EngineSettings):
        self.local, self.settings, self.engine = local, settings, engine
        self.model, self.dimensions = local.model, local.dimensions
        self.batch_texts, self.batch_tokens = local.batch_texts, local.batch_tokens
        self.is_paid, self.remembers, self.price = local.is_paid, local.remembers, local.price
        self.safety, self.budget = local.safety, local.budget
        self.token_counts = local.token_counts
        self.embed_documents, self.embed_queries = local.embed_documents, local.embed_queries

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that the model reads."""
        return self.local.max_tokens

    def for_texts(self, count: int) -> Embedder:
        """This one for many texts, else the one of this machine."""
        is_much = count >= _LEAST_BATCHES * self.batch_texts
        return self if is_much else self.local.for_texts(count)

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as they are done, in any order; EngineError if Ray cannot be reached, or
        loses an actor too often.
        """
        try:
            connect(self.engine)
            count, options = actors(ray.cluster_resources(), self.engine.tasks)
            remote: Any = ray.remote
            kind = remote(max_restarts=_RESTARTS, max_task_retries=_RESTARTS, **options)(_Actor)
            workers = [kind.remote(self.settings, "num_gpus" in options) for _ in range(count)]
            try:
                yield from _embedded(workers, batches)
            finally:
                for worker in workers:
                    ray.kill(worker)
        except RayTaskError as error:
            raise EngineError(str(error.cause)) from error
        except (RayError, ConnectionError) as error:
            raise EngineError(f"Ray: {error}") from error


def actors(resources: Mapping[str, float], tasks: int | None) -> tuple[int, dict[str, int]]:
    """How many actors a cluster with these resources takes, `tasks` at most, and the resources of
    each.

    >>> actors({"CPU": 64.0, "GPU": 4.0}, None)
    (4, {'num_gpus': 1})
    >>> actors({"CPU": 8.0}, 2)
    (2, {'num_cpus': 1})
    """
    unit = "GPU" if resources.get("GPU", 0) >= 1 else "CPU"
    there = max(1, int(resources.get(unit, 1)))
    return min(there, tasks or there), {f"num_{unit.lower()}s": 1}


def _embedded(workers: Sequence[Any], batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
    """The batches, each given to the worker that has the fewest."""
    at: dict[Any, Any] = {}
    room = [worker for _ in range(_AT_ONCE) for worker in workers]
    for number, texts in enumerate(batches):
        if not room:
            (done, *_), _ = ray.wait(list(at))
            room.append(at.pop(done))
            yield ray.get(done)
        worker = room.pop(0)
        at[worker.embed.remote(number, list(texts))] = worker
    while at:
        (done, *_), _ = ray.wait(list(at))
        del at[done]
        yield ray.get(done)


class _Actor:
    """A process of Ray with the model."""

    def __init__(self, settings: EmbeddingSettings, has_gpu: bool):
        self.embedder = cast(Any, make_embedder(settings))
        if has_gpu:
            self.embedder.device = "cuda"

    def embed(self, number: int, texts: Sequence[str]) -> Embedded:
        """The batch `number`."""
        (done,) = self.embedder.embed_batches([texts])
        return replace(done, batch=number, vectors=np.asarray(done.vectors))
