"""Protocols of the lake, which stores tables, and of the progress of the stages that fill it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Loaded:
    """A table read from the lake, with the hash of its content."""

    table: pa.Table
    content_hash: str


@dataclass(frozen=True)
class Partitions:
    """The partitions of one table, each read when it is asked for, all columns or some."""

    table: str
    read: Callable[[str, Sequence[str] | None], Loaded]


class Staged(Protocol):
    """A partition that is written beside its place and not yet visible."""

    content_hash: str
    row_count: int


class Footer(Protocol):
    """What a stored table says of itself."""

    code_version: str
    inputs: Mapping[str, str]
    row_count: int


@dataclass(frozen=True)
class Parts:
    """A table over the whole lake that is stored in parts, one for each partition that has rows of it.

    `kept` stay as they are, `made` are the new ones: name, what it was made from, its rows. All others go.
    """

    kept: Collection[str]
    made: Iterable[tuple[str, Mapping[str, str], Iterable[pa.Table]]]


class Lake(Protocol):
    """Where tables are kept."""

    def footer(self, table: str, partition: str | None = None) -> Footer | None:
        """What the stored table says of itself; None if there is none or it is damaged."""

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table | Iterable[pa.Table],
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> Staged:
        """`data`, in one piece or several, checked against the table's schema and written beside its place."""

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of the table that is stored for the partition; empty if there is none."""

    def stored(self, table: str, columns: Sequence[str], partition: str | None = None) -> pa.Table | None:
        """Columns of a stored table, or of one partition of it; None if there is none or it is damaged."""


class Progress(Protocol):
    """Is told how far a stage has come."""

    def expect(self, stage: str, rows: int) -> None:
        """`rows` rows of `stage` are to be done; the rate and the time left are told from now on."""

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """`rows` more rows of `stage` are done."""
