"""What the assets need from the world, as protocols; dagster_project/resources implements them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from transforms.documents import RawFile
from transforms.mail import RawMail


@dataclass(frozen=True)
class Unit:
    """One unit of a source: `fingerprint` changes whenever a byte of its files does.

    `family` says what its files become: mail or documents.
    """

    source: str
    unit: str
    list_id: str | None
    fingerprint: str
    family: str = "mail"

    @property
    def partition(self) -> str:
        """Key of the unit's partition."""
        return f"{self.source}/{self.unit}"


class Sources(Protocol):
    """The configured sources."""

    def unit(self, partition: str) -> Unit:
        """The unit behind a partition key; SourceError if no file makes it up."""

    def mails(self, unit: Unit) -> Iterable[RawMail]:
        """The unit's mails in order; what cannot be read is a mail with a fault."""

    def files(self, unit: Unit) -> Iterable[RawFile]:
        """The files of a unit of documents in order; what cannot be read is a file with a fault."""


@dataclass(frozen=True)
class Loaded:
    """A table read from the lake, with the hash of its content."""

    table: pa.Table
    content_hash: str


@dataclass(frozen=True)
class Partitions:
    """The partitions of one table, each read when it is asked for."""

    table: str
    read: Callable[[str], Loaded]


class Staged(Protocol):
    """A partition that is written beside its place and not yet visible."""

    content_hash: str
    row_count: int


class Lake(Protocol):
    """Where tables are kept."""

    def stage(
        self,
        table: str,
        partition: str | None,
        data: pa.Table,
        *,
        code_version: str,
        inputs: Mapping[str, str],
    ) -> Staged:
        """`data` checked against the table's schema and written beside its place."""

    def ids(self, table: str, partition: str) -> set[str]:
        """The first column of the table that is stored for the partition; empty if there is none."""


class Embedder(Protocol):
    """Makes unit-length vectors of texts."""

    model: str
    dimensions: int

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched, float32 of shape (texts, dimensions)."""

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched with, float32 of shape (texts, dimensions)."""


class EmbeddingCache(Protocol):
    """Vectors by hash of text, model, dimensions and task."""

    def hashes(self, model: str, dimensions: int, task: str) -> set[str]:
        """The text hashes that have a vector."""

    def store(
        self, model: str, dimensions: int, task: str, hashes: Sequence[str], vectors: np.ndarray
    ) -> None:
        """Keep vectors; durable when the call returns."""

    def vectors(self, model: str, dimensions: int, task: str, hashes: Sequence[str]) -> pa.Table:
        """Columns `text_hash` and `vector`, sorted by hash, for those of `hashes` that are known."""

    def compact(self, model: str, dimensions: int, task: str) -> None:
        """Merge what is stored in many small pieces."""


class Publisher(Protocol):
    """Builds and switches the published index."""

    def publish(self) -> Mapping[str, Any]:
        """Publish what the lake holds; returns version, row counts and what was reused."""


class Progress(Protocol):
    """Is told how far a stage has come."""

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """`rows` more rows of `stage` are done."""
