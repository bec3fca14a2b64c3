"""Protocol of the engine that makes partitions elsewhere, and its result for each: names, hashes
and counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transforms.errors import WeftError


@dataclass(frozen=True)
class MadeTable:
    """A table of a partition that a stage made: the facts of its file, and figures that Dagster
    shows beside it.

    `read` has the content hash of each table that was read, or the fingerprint of the source files.
    """

    name: str
    content_hash: str
    row_count: int
    code_version: str
    read: Mapping[str, str]
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The tables of a partition that a task wrote to the lake, by name; `fault` is why the others
    are missing.
    """

    partition: str
    tables: Mapping[str, MadeTable]
    fault: WeftError | None = None


class Engine(Protocol):
    """Makes partitions in tasks, elsewhere than in the run that asks for them."""

    def outcomes(
        self, run_id: str, tables: Collection[str], partitions: Sequence[str]
    ) -> Mapping[str, Outcome] | None:
        """The outcomes of tasks that make `tables` of each partition, once for a run.

        None if the run is to make them itself. EngineError if the engine cannot be reached, or does
        not see the lake.
        """
