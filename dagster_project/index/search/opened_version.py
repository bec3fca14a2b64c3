"""One published version as it is read: its database, and the arrays beside it that are read most."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from assets.protocols.models import Embedder
from dagster_project.index.files.arrays import SearchArrays, folder_of, open_arrays
from dagster_project.index.files.posting_arrays import VECTORS_IN
from dagster_project.index.publish import vector_index
from dagster_project.index.publish.versions import LAYOUT, require_whole, version_of
from dagster_project.index.search.completeness import Completeness, SourcesNow, completeness
from dagster_project.index.search.filters import Conditions
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.lookup import Ask, asking
from dagster_project.lake.lake_texts import show, show_stored
from dagster_project.models.embedders import serving
from dagster_project.outgoing.screen import Screen
from dagster_project.system.unasked_pandas import keep_out_if_missing
from transforms.conversations.pseudonyms import is_pseudonym
from transforms.embedding.sign_codes import CodedVectors
from transforms.errors import IndexUnavailableError
from transforms.retrieval import bm25
from transforms.settings.models import SafetySettings
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text import terms

_OPENINGS = "SELECT chunk_no FROM chunks WHERE source_kind = 'document' AND chunk_index = 0"
_SAMPLE = 1000
_REST = 0.3
"""Weight of words that stand in quoted history alone."""
_OTHERS, _USUAL, _REACHED = 300, 0.1, 0.92
"""Texts of other matter that are thought beside the index's own, since of few of these a tenth is
one that answers; the cosine that such texts have; and the share of both above which a cosine is
unusual, .9 of a large index alone.
"""


class OpenedVersion:
    """One published version, opened read-only; arrays that are often read stay in memory.

    IndexUnavailableError if the file is corrupt or of another layout, ModelMismatchError as
    `serving` says.
    """

    def __init__(self, path: Path, embedder: Embedder, term_settings: TermSettings):
        self.path, self.term_settings = path, term_settings
        self.published = path
        """The published file that this one is, or was narrowed from."""
        self.further: list[Callable[[], None]] = []
        """Functions that end the work of a question beside `connection`, called if that is
        interrupted.
        """
        keep_out_if_missing()
        with faults_translated(path):
            self.connection = duckdb.connect(str(path), read_only=True)
            try:
                require_whole(self.connection, path)
            except duckdb.Error:
                self.connection.close()
                raise
            self.manifest = dict(
                self.connection.execute("SELECT key, value FROM manifest").fetchall()
            )
            self.connection.execute("SET TimeZone = 'UTC'")
            # Arrays beside an empty file would hide its gaps.
            self.connection.execute("FROM chunks LIMIT 0")
            self.texts = show(self.connection, path)
            """Texts of the lake, where the file has references to them."""
            show_stored(self.connection, self.texts)
        if (layout := self.manifest.get("layout_version")) != LAYOUT:
            raise IndexUnavailableError(
                f"{path} has the layout {layout or 'of an older version'}, this version of Weft reads layout {LAYOUT}: "
                "run `weft build`, which publishes a new file"
            )
        self.embedder = serving(embedder, self.manifest, path)
        self.vectors_elsewhere: Callable[[np.ndarray], np.ndarray] | None = None
        """Gives the vectors of chunks that the arrays do not have."""
        self.screen = Screen(SafetySettings(outputs="send"))
        self.labels: Path | None = None
        """The file of the user's labels."""
        self.threads = ThreadPoolExecutor(os.cpu_count())
        self._in_view = 0
        self._weights: tuple[str, bm25.Weighed] | None = None
        self._whole_weights: tuple[str, tuple[bm25.WeighedWholes, bm25.WeighedWholes]] | None = None
        self._query_terms: (
            tuple[tuple[tuple[str, ...], tuple[str, ...]], list[list[str]]] | None
        ) = None

    def close(self) -> None:
        """Close the file and let go of the arrays: as long as a process holds them, deleted files
        take room, and their texts can be read.
        """
        self.threads.shutdown()
        self.connection.close()
        if "arrays" in self.__dict__:
            self.arrays.rows.close()
        for name in ("arrays", "conditions", "body_weights", "history_weights"):
            self.__dict__.pop(name, None)
        self._weights = self._whole_weights = self._query_terms = None

    @property
    def version(self) -> str:
        """The version of the published file; `manifest` has another name for its part under a lens."""
        return (
            self.manifest["version"] if self.published == self.path else version_of(self.published)
        )

    @property
    def ask(self) -> Ask:
        """Rows of the file, with their texts as `screen` shows them."""
        return self.screen.asking(asking(self.connection))

    @contextmanager
    def screened(self, screen: Screen) -> Iterator[None]:
        """Let texts pass another screen for one question."""
        before, self.screen = self.screen, screen
        try:
            yield
        finally:
            self.screen = before

    @property
    def has_vector_index(self) -> bool:
        """True if the file has an HNSW index."""
        return self.manifest["vector_search"] == vector_index.HNSW

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return self.postings.chunk_count

    @cached_property
    def arrays(self) -> SearchArrays:
        """The arrays of the version, mapped into memory."""
        arrays = open_arrays(self.connection, self.path, self.manifest)
        if VECTORS_IN in self.manifest:
            if self.vectors_elsewhere is None:
                raise IndexUnavailableError(
                    f"the vectors of {self.path} are in {self.manifest[VECTORS_IN].capitalize()}, and `index.target` or "
                    "the files in "
                    f"{folder_of(self.path)} do not say where: set them as they were, or run `weft build`, which publishes "
                    "a file as they are now"
                )
            stored = arrays.vectors
            width = int(self.manifest["dimensions"])
            vectors = VectorsElsewhere(
                [], stored.slots, stored.absent, self.vectors_elsewhere, width
            )
            arrays = replace(arrays, vectors=vectors)
        if self.texts:
            arrays.rows.shown = self.texts.of
        return arrays

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions that evaluate filters and queries."""
        return Conditions(self.connection, self.term_settings, self.arrays, self.labels)

    @cached_property
    def openings(self) -> np.ndarray:
        """The number of the chunk that each page begins with, by the number of the page; -1 of mails
        and chats.
        """
        document = self.arrays.places.document
        first = np.full(int(document.max(initial=-1)) + 1, -1, dtype=np.int32)
        rows = self.connection.execute(_OPENINGS).fetchnumpy()["chunk_no"].astype(np.int32)
        first[document[rows]] = rows
        return first

    @property
    def postings(self) -> bm25.Postings:
        """The inverted index."""
        return self.arrays.postings

    @property
    def vectors(self) -> CodedVectors:
        """The vectors of all chunks by chunk number, zeros for none."""
        return self.arrays.vectors

    @property
    def unembedded(self) -> np.ndarray:
        """The numbers of the chunks without a vector, because the model refuses their text."""
        return self.arrays.vectors.absent

    @property
    def completeness(self) -> Completeness:
        """How complete an answer is at this moment; under a lens without the state of sources."""
        is_whole = self.published == self.path
        return self._completeness.model_copy(update=self._sources_now.fields if is_whole else {})

    @cached_property
    def _sources_now(self) -> SourcesNow:
        return SourcesNow(self.path.parents[1], self._completeness.published_at)

    @cached_property
    def _completeness(self) -> Completeness:
        return completeness(self.connection, self.manifest["published_at"], len(self.unembedded))

    @cached_property
    def has_pseudonyms(self) -> bool:
        """True if a speaker of a chat has a pseudonym."""
        rows = self.connection.execute(
            "SELECT DISTINCT heading_path[3] FROM chunks WHERE chunk_kind = 'turn'"
        ).fetchall()
        return any(is_pseudonym(speaker or "") for (speaker,) in rows)

    def cosines(self, queries: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Cosine of each query with each chunk, float32 of shape (queries, chunks); -inf without a
        vector.

        Written to `out` unless it is None.
        """
        return self.vectors.comparing(queries, out, self.threads.map)()

    @cached_property
    def sampled(self) -> np.ndarray:
        """The numbers of chunks spread evenly over those of the index that have a vector."""
        step = max(1, self.chunk_count // _SAMPLE)
        return np.setdiff1d(np.arange(0, self.chunk_count, step), self.unembedded)

    @cached_property
    def vector_sample(self) -> np.ndarray:
        """The vectors of `sampled`, to know how low scores go."""
        return self.vectors.of(self.sampled)

    def usual_cosines(self, queries: np.ndarray) -> np.ndarray:
        """The cosine with each query that a tenth of the chunks reach; of few chunks nearly that of
        other matter.
        """
        cosines = np.full((len(queries), _OTHERS + len(self.vector_sample)), _USUAL)
        cosines[:, _OTHERS:] = np.vecdot(queries[:, np.newaxis], self.vector_sample)
        place = int(_REACHED * cosines.shape[1])
        return np.asarray(np.partition(cosines, place, axis=1)[:, place])

    def weighed(self, settings: SearchSettings) -> bm25.Weighed:
        """The inverted index with the weights of these settings; the last result is kept."""
        key = bm25.lexical_key(settings)
        if self._weights is None or self._weights[0] != key:
            self._weights = key, bm25.weighed(self.postings, settings)
        return self._weights[1]

    def weighed_wholes(
        self, settings: SearchSettings
    ) -> tuple[bm25.WeighedWholes, bm25.WeighedWholes]:
        """The same of mails and of pages as a whole; the last result is kept."""
        key = bm25.lexical_key(settings)
        if self._whole_weights is None or self._whole_weights[0] != key:
            self._whole_weights = key, self.arrays.places.weighed(self.postings, settings)
        return self._whole_weights[1]

    @cached_property
    def body_weights(self) -> bm25.Weighed:
        """The inverted index with weights by which words of the subject count nothing, and those of
        a quote little.
        """
        return bm25.weighed(self.postings, SearchSettings(title_weight=0.0, quote_weight=0.05))

    @cached_property
    def history_weights(self) -> bm25.Weighed:
        """The inverted index with weights by which quoted history counts little and not nothing."""
        return bm25.weighed(self.postings, SearchSettings(), rest=_REST)

    def query_terms(self, queries: Sequence[str], stopwords: Sequence[str]) -> list[list[str]]:
        """The terms of each query in this index; the last result is kept."""
        key = (tuple(queries), tuple(stopwords))
        if self._query_terms is None or self._query_terms[0] != key:
            by_query = terms.query_terms(queries, self.term_settings, stopwords, self.postings.df)
            self._query_terms = key, by_query
        return self._query_terms[1]

    def hnsw_scores(
        self, query: np.ndarray, k: int, in_view: int = vector_index.IN_VIEW
    ) -> HnswScores:
        """The `k` nearest chunks of a query by the HNSW index, which the file must have, with so
        many vectors in view.
        """
        if self._in_view != in_view:
            vector_index.use(self.connection, in_view)  # takes as long as many a search
            self._in_view = in_view
        statement = vector_index.nearest(len(query), "chunk_no", k)
        rows = self.connection.execute(statement, [str(query.tolist())]).fetchnumpy()
        nearest = np.asarray(rows["chunk_no"], dtype=np.int64)
        return HnswScores(query, nearest, self.arrays.vectors, self.vector_sample)

    def frame(
        self, statement: str, ids: Sequence[str] | Sequence[int] | None = None
    ) -> pl.DataFrame:
        """The rows of a statement; `ids` is its parameter `$ids`, a list in JSON: DuckDB would look
        for pandas at each value of a list.
        """
        parameters = {} if ids is None else {"ids": json.dumps([*ids])}
        return pl.DataFrame(self.connection.execute(statement, parameters).to_arrow_table())


@dataclass(frozen=True)
class VectorsElsewhere(CodedVectors):
    """The vectors of chunks that a service has, of `width` numbers each."""

    fetched: Callable[[np.ndarray], np.ndarray]
    width: int

    @property
    def dimensions(self) -> int:
        """The dimensions of each vector."""
        return self.width

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float32 of shape (chunks, dimensions)."""
        vectors = self.fetched(chunks)
        return (
            vectors if vectors.shape[1] else np.zeros((len(chunks), self.width), dtype=np.float32)
        )


class HnswScores:
    """The nearest chunks of one query by the HNSW index; the scores of others are read when needed."""

    def __init__(
        self, query: np.ndarray, nearest: np.ndarray, coded: CodedVectors, sample: np.ndarray
    ):
        self.query, self.coded = query, coded
        self.low = float((sample @ query).min())
        scores = self.of(nearest)
        self.nearest = nearest[np.lexsort((nearest, -scores))]
        self.high = float(scores.max(initial=self.low))

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest chunks, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64; the lowest for a chunk without a vector."""
        scores = self.coded.products(chunks, self.query).astype(np.float64)
        scores[self.coded.is_absent[chunks]] = self.low
        return scores
