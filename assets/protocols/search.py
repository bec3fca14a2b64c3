"""Protocols of the published index: who builds it, who searches it and who measures it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

# A search knows the protocols and nothing of what makes an index, which takes seconds to import.
if TYPE_CHECKING:
    import dagster as dg
    import ibis

    from assets.protocols.lake import Progress
    from transforms.context.passages import Passage
    from transforms.evaluation.judgements import Contents
    from transforms.operations.figures import Figures
    from transforms.retrieval.scheduled_searches import Answers
    from transforms.retrieval.search_filters import Filters
    from transforms.settings.conversations import ContextSettings
    from transforms.settings.search import SearchOptions


@dataclass(frozen=True)
class Asker:
    """Who asks: the documents that it is, its conversation, the time up to which it knows, the text
    whose turns it has.
    """

    own: Sequence[str] = ()
    conversation_id: str | None = None
    until: datetime | None = None
    text: str = ""


class ContextIndex(Protocol):
    """The published index as conversations ask it."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The names of the index in a manifest: index_version, model and dimensions."""

    def suited(self, settings: ContextSettings) -> ContextSettings:
        """The settings with the values that they leave to the model of the index."""

    def candidates(
        self,
        queries: pl.DataFrame,
        settings: ContextSettings,
        askers: Mapping[str, Asker] | None = None,
    ) -> pl.DataFrame:
        """The rows of `conversation_candidates` for queries (window_id, query, text), in one pass.

        A query finds chunks that `settings.where` allows, but neither its asker, which is its
        window if none is given, nor chunks that `settings.include` leaves out: other windows of the
        asker's conversation, and later texts.
        """

    def chunk_vectors(self, chunk_ids: Sequence[str]) -> dict[str, np.ndarray]:
        """The vector of each chunk; zeros for a chunk without one."""

    def passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """The chunks as a reader sees them."""


@dataclass(frozen=True)
class Readiness:
    """The table `readiness` of a published version, with the version's name."""

    version: str
    table: pa.Table


class Publisher(Protocol):
    """Builds and switches the published index."""

    def publish(self, progress: Progress) -> Mapping[str, Any]:
        """Publish the lake, and report each phase; returns version, row counts and the reuse of
        earlier parts.
        """

    def vector_index(self) -> Mapping[str, Any]:
        """The index of vectors in the current version: version, kind, vectors, seconds and recall."""

    def readiness(self) -> Readiness:
        """The readiness of every text of the current version: `schemas.READINESS`."""


class PublishedTables(Protocol):
    """The tables of the published file."""

    def open(self) -> AbstractContextManager[Mapping[str, ibis.Table]]:
        """The tables of the current version by name, closed on leaving; IndexUnavailableError if
        there is none.
        """


class OperationsHistory(Protocol):
    """Figures of recent runs and of the published version."""

    def figures(self, instance: dg.DagsterInstance) -> Figures:
        """The figures of the report on how the system does."""


class Searcher(Protocol):
    """The published index as scheduled searches ask it."""

    def search(
        self, queries: Sequence[str], filters: Filters, limit: int, options: SearchOptions
    ) -> Answers:
        """The hits of each query that meet the filters."""


class Evaluator(Protocol):
    """The published index as evaluation sees it."""

    def ground_truth(self) -> tuple[pa.Table, pa.Table]:
        """The configured queries and their right answers, as
        `transforms.evaluation.ground_truth.GroundTruth`.
        """

    def run(self, queries: pa.Table) -> pa.Table:
        """Every list of every query and profile: `schemas.EVALUATION_RUNS`."""

    def contents(self, relevance: pa.Table) -> Contents:
        """The contents of the index that right answers can name."""

    def facts(self) -> pl.DataFrame:
        """The facts of each chunk, see `transforms.evaluation.report.retrieved_measures`."""

    def save(self, report: Mapping[str, Any]) -> Mapping[str, str]:
        """Write a report; returns the paths of its files by their kind."""
