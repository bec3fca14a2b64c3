"""Partitions made by jobs, many of them side by side in processes: parsing and cutting keep one
processor busy each.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import dagster as dg

from assets.partitions import PARTITIONS_OF_RUN
from assets.protocols.sources import SourcePartition
from dagster_project.composition.objects import make_sources
from dagster_project.config.settings import Settings
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.runs import run_here
from dagster_project.orchestration.work import Work
from dagster_project.system import unasked_pandas
from dagster_project.system.long_work import CountedProgress
from dagster_project.system.processes import end_with_parent
from transforms.errors import WeftError
from transforms.settings.operations import OWN_ENGINE

_RUNS_PER_PROCESS = 6
"""Runs that each process gets at least, where there are as many partitions: the last ones end at
about one time.
"""

_PROCESSES, _SIDE_BY_SIDE_BYTES = 4, 16 << 20
"""Processes at most, and source files from which they are worth their start."""
_Step = tuple[str, str | None, int, float]


class EndedProcessError(WeftError):
    """A process that made partitions was ended from outside, or by one of their files."""


class Workers:
    """Processes that run jobs beside each other; those that this one starts end with it, however it
    ends.
    """

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        progress: CountedProgress,
        count: int,
    ):
        self.count, self.progress = count, progress
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        context = multiprocessing.get_context("spawn")
        self._steps: multiprocessing.SimpleQueue[_Step | None] = context.SimpleQueue()
        state = settings, instance.get_ref(), self._steps
        self._pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=state)
        # Multiprocessing unblocks interrupts when it first shares something; the processes inherit
        # signals blocked here.
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def run(self, runs: Sequence[Work], tags: Mapping[str, str]) -> None:
        """Do the work of runs; after a failure no other begins, and its fault is raised.

        EndedProcessError if a process was ended.
        """
        telling = threading.Thread(target=self._tell)
        telling.start()
        under_way: list[Future[None]] = []
        try:
            under_way += (self._pool.submit(_run, work, tags) for work in runs)
            for future in under_way:
                future.result()
        except BrokenProcessPool as error:
            raise EndedProcessError(
                "a process that made partitions was ended from outside, perhaps for want of memory: `weft build` goes on "
                "where it stopped; engine.tasks says how many work side by side"
            ) from error
        finally:
            wait([future for future in under_way if not future.cancel()])
            self._steps.put(None)
            telling.join()

    def _tell(self) -> None:
        while step := self._steps.get():
            self.progress.step(*step)

    def close(self) -> None:
        """End the processes once their work under way is done."""
        self._pool.shutdown()


@contextlib.contextmanager
def workers_for(
    settings: Settings,
    instance: dg.DagsterInstance,
    progress: CountedProgress,
    partitions: Sequence[SourcePartition],
) -> Iterator[Workers | None]:
    """Processes to make the partitions of `partitions` in; None where there is too little to make,
    or one is wanted.
    """
    tasks = settings.engine.tasks
    count = min(tasks or _PROCESSES, os.cpu_count() or 1, len(partitions))
    sources = make_sources(settings)
    there = {partition.key for partition in sources.discover()}
    size = sum(sources.bytes_of(partition) for partition in partitions if partition.key in there)
    is_little = tasks is None and size < _SIDE_BY_SIDE_BYTES
    if count < 2 or not instance.is_persistent or is_little or settings.engine.kind != OWN_ENGINE:
        yield None
        return
    with contextlib.closing(Workers(settings, instance, progress, count)) as workers:
        yield workers


def most_of_run(workers: Workers, partitions: int) -> int:
    """How many of `partitions` a run makes at most, so that each of the processes gets its share."""
    return min(PARTITIONS_OF_RUN, -(-partitions // (workers.count * _RUNS_PER_PROCESS)))


class _Queued:
    """Progress that the process that waits for this one reports."""

    def __init__(self, steps: multiprocessing.SimpleQueue[_Step | None]):
        self.steps, self._used = steps, time.process_time()

    def expect(self, stage: str, rows: int) -> None:
        """Nothing: partitions report no end."""

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Hand on one finished piece, with the processor time since the last."""
        used = time.process_time()
        self.steps.put((stage, partition, rows, used - self._used))
        self._used = used


_state: dict[str, Any] = {}
"""The objects that a worker process was begun with; empty in any other."""


def _begin(
    settings: Settings, instance: Any, steps: multiprocessing.SimpleQueue[_Step | None]
) -> None:
    unasked_pandas.keep_out()
    threading.Thread(target=end_with_parent, daemon=True).start()
    _state["instance"] = dg.DagsterInstance.from_ref(instance)
    _state["definitions"] = asset_definitions(settings, {"progress": _Queued(steps)})
    gc.freeze()  # a third of a million objects that stay for good are not gone through at each collection


def _run(work: Work, tags: Mapping[str, str]) -> None:
    run_here(_state["definitions"], _state["instance"], work, tags)
