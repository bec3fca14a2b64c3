"""Protocols of the lake, which stores tables, and of the progress of the stages that fill it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

WAITING_BYTES = "waits"
"""The name among the inputs in a footer for the bytes of very long texts that a partition's tables
leave out for now.
"""


@dataclass(frozen=True)
class Loaded:
    """A table read from the lake, with the hash of its content."""

    table: pa.Table
    content_hash: str


@dataclass(frozen=True)
class Partitions:
    """The partitions of one table; `read` reads all columns of a partition or some."""

    table: str
    read: Callable[[str, Sequence[str] | None], Loaded]


class Staged(Protocol):
    """A file that is written but not yet visible; `commit` makes it visible."""

    @property
    def content_hash(self) -> str: ...

    @property
    def row_count(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    def commit(self) -> None: ...


class Footer(Protocol):
    """Metadata of a stored table."""

    @property
    def content_hash(self) -> str: ...

    @property
    def code_version(self) -> str: ...

    @property
    def inputs(self) -> Mapping[str, str]: ...

    @property
    def row_count(self) -> int: ...


@dataclass(frozen=True)
class Parts:
    """A table over the whole lake, stored in parts, one for each partition or bucket that has rows
    of it.

    Parts that are neither `retained` nor `new` are deleted; `new` gives the names of parts and
    their staged files.
    """

    retained: Collection[str]
    new: Iterable[tuple[str, Staged]]


class Lake(Protocol):
    """Stores tables."""

    def footer(self, table: str, partition: str | None = None) -> Footer | None:
        """The footer of the stored table; None if it does not exist or is damaged."""

    def code_versions(self, table: str) -> list[str]:
        """The versions of the code that made the partitions of a table, sorted; none of a table
        without partitions.
        """

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table | Iterable[pa.Table],
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> Staged:
        """Write `data`, one table or several, beside its place, after checking it against the
        table's schema.
        """

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of the stored partition of a table; empty if it does not exist."""

    def stored(
        self, table: str, columns: Sequence[str], partition: str | None = None
    ) -> pa.Table | None:
        """Columns of a stored table, or of one partition of it; None if it does not exist or is
        damaged.
        """

    def intact(
        self, table: str, columns: Sequence[str], partition: str | None = None
    ) -> pa.Table | None:
        """As `stored`, but LakeDamageError if it is damaged."""

    def evaluated(self, expression: Callable[..., Any], *tables: pa.Table) -> pa.Table:
        """The rows of a function of Ibis tables, applied to Arrow tables."""


class Progress(Protocol):
    """Reports the progress of stages."""

    def expect(self, stage: str, rows: int) -> None:
        """Announce that `stage` has `rows` rows to do; from now on its rate and the remaining time
        are reported.
        """

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Count `rows` more rows of `stage` as done; without rows and partition, `stage` begins."""
