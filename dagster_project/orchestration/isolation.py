"""The files over which a process ends, by a signal or for want of memory: found by making their
partition again on halves of its files, in processes that nothing else depends on. Imports no
Dagster.
"""

import json
import mmap
import multiprocessing
import os
import resource
import signal
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from upath import UPath

from assets.partitions import CONVERSATIONS, DOCUMENTS
from assets.protocols.sources import SourcePartition
from assets.stages.singly import STAGE_FAILED, failing_units
from assets.stages.stage_run import made_of_partition
from dagster_project.composition.stage_code import with_code
from dagster_project.composition.stores import make_lake, make_sources, stages_of_sources
from dagster_project.config.settings import Settings
from dagster_project.lake.set_aside import SetAside

_SHARE_OF_MEMORY = 0.75
"""The share of free memory that such a process gets: the rest is for those beside it."""
_STAGE_BYTES = 64
_CGROUP = Path("/sys/fs/cgroup")


def ending(settings: Settings, partitions: Sequence[str]) -> dict[str, dict[str, str]]:
    """By partition the places of files and mails over which a process ends that makes it, each with
    the reason; the lake stays as it is.

    A partition that ends one with no file, or with nearly all of them, is not in it.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_search, args=(settings, partitions, sender), daemon=True)
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        return {}
    finally:
        process.join()


def set_ending_aside(settings: Settings, partitions: Collection[str]) -> dict[str, dict[str, str]]:
    """Put what `ending` finds into quarantine from now on; what that is."""
    faults = {key: own for key, own in ending(settings, sorted(partitions)).items() if own}
    sources = make_sources(settings)
    for partition, reasons in faults.items():
        sources.set_aside(partition, reasons)
    return faults


class _Without(SetAside):
    """The places that are set aside and `others`; more are not stored, but are in `new`."""

    def __init__(self, base: UPath, others: Collection[str] = ()):
        super().__init__(base)
        self._others = dict.fromkeys(others, STAGE_FAILED)
        self.new: dict[str, str] = {}

    def of(self, partition: SourcePartition) -> dict[str, str]:
        return super().of(partition) | self._others | self.new

    def add(self, partition: SourcePartition, reasons: Mapping[str, str]) -> None:
        self.new |= reasons


def _search(settings: Settings, partitions: Sequence[str], sender: Connection) -> None:
    """Send the result of `ending`. This process only forks: each fork opens what it needs."""
    sender.send({partition: _Search(settings, partition).reasons() for partition in partitions})


class _Search:
    def __init__(self, settings: Settings, partition: str):
        self.settings, self.partition = settings, partition
        self._memory = mmap.mmap(-1, _STAGE_BYTES)
        """The name of the stage that a fork is at, which outlives it."""

    def reasons(self) -> dict[str, str]:
        """The reasons by place."""
        why, places = self._forked(self._places)
        return {} if why else failing_units(places, lambda some: self._why(some, places))

    def _places(self) -> list[str]:
        sources = make_sources(self.settings)
        partition = sources.partition(self.partition)
        if partition.source_type == CONVERSATIONS.name:
            return [partition.name]
        if partition.source_type == DOCUMENTS.name:
            return sorted({f"{partition.source}:{file.path}" for file in sources.files(partition)})
        return sorted({mail.place for mail in sources.mails(partition)})

    def _why(self, some: Collection[str], places: Collection[str]) -> str | None:
        """Why a fork ends that makes the partition of `some` of its files, or leaves one of them
        out; None if it does not.
        """
        with tempfile.TemporaryDirectory(prefix="weft-apart-") as folder:
            why, new = self._forked(lambda: self._make(set(places) - set(some), Path(folder)))
        return why or next(iter((new or {}).values()), None)

    def _make(self, others: Collection[str], folder: Path) -> dict[str, str]:
        """Make the tables without some places, in a lake in a folder of its own; further places
        that a stage fails on, with the reasons.
        """
        failing = _Without(make_lake(self.settings).base, others)
        sources = make_sources(self.settings, failing=failing)
        kind = sources.partition(self.partition).source_type
        storage = self.settings.storage.model_copy(update={"lake": str(folder / "lake")})
        lake = make_lake(self.settings.model_copy(update={"storage": storage}), folder)
        for stage in with_code(stages_of_sources(self.settings)):
            if stage.source_type and stage.source_type.name == kind:
                self._memory[:] = stage.name.encode()[:_STAGE_BYTES].ljust(_STAGE_BYTES)
                made_of_partition(stage, lake, sources, self.partition)
        return failing.new

    def _forked(self, work: Callable[[], Any]) -> tuple[str | None, Any]:
        """Why a fork of this process ended over some work, if it did, and the result."""
        if (parent := multiprocessing.parent_process()) and not parent.is_alive():
            os._exit(1)
        reader, writer = os.pipe()
        if not (child := os.fork()):
            os.close(reader)
            _work_and_end(work, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stage = self._memory[:].decode(errors="replace").strip("\0 ")
        if status < 0:
            name = signal.Signals(-status).name
            return f"{STAGE_FAILED}: {stage}: its process was ended by {name}", None
        return (None, json.loads(answer)) if answer else (None, None)


def _work_and_end(work: Callable[[], Any], writer: int) -> None:
    """Write the result of some work, under a limit of memory, and end this process.

    A fault that has words is not written: the run that makes the partition says it.
    """
    try:
        _limit_memory()
        os.write(writer, json.dumps(work()).encode())
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel ends one that takes all memory
    finally:
        os._exit(0)


def _limit_memory() -> None:
    """Bound the memory of this process, where the system says how much is free."""
    with suppress(OSError, ValueError, IndexError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        limit = used + int(_free_bytes() * _SHARE_OF_MEMORY)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _free_bytes() -> int:
    """The memory that this machine, or the container, has to give."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (free,) = (int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError):  # without a limit its file has the word `max`
        most, used = (int((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, max(0, most - used))
    return free
