"""The published index as conversations ask it: versions, many queries in one pass, and passages to
show.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from assets.embedding import query_vectors
from assets.protocols.models import EmbeddingCache
from assets.protocols.search import Asker
from dagster_project.config.settings import Settings
from dagster_project.index.search.filters import where_conditions
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.opened_version import HnswScores, OpenedVersion
from dagster_project.index.search.ranking import Near, row_batches
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedding_cache import QueryVectorCache
from dagster_project.models.static import PackagedTokenCounter
from dagster_project.system.sql_files import SqlFile
from transforms.context.candidates import (
    borne_out,
    in_stretches,
    query_parts,
    strangers,
    telling_terms,
    worth,
)
from transforms.context.passages import Passage
from transforms.context.selection import most_passages
from transforms.errors import QueryError
from transforms.retrieval import bm25, fusion, labels, pipeline
from transforms.retrieval.search_filters import Filters
from transforms.schemas.conversations import CONVERSATION_CANDIDATES
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import BUILT_IN_PROFILES

_LEXICAL_TERMS = 25
"""Terms of a query chunk that are searched lexically, the most telling ones."""
_MODEL_OF_DESIGN, _LEAST_OF_DESIGN = "gemini-embedding-001", 0.7
_NEAR_PAIRS = 0.05
"""Share of the pairs of chunks that are nearer than the least cosine of the profile seed, for
models that its own does not fit.
"""
_LEAST_CANDIDATES = 20
"""Candidates of a query, where the settings name no number."""
_LOGGED_QUERIES = 50
"""Queries whose numbers of candidates a line of the log has."""
_LEAST_TURN = 20
"""Bytes of a turn of a chat that may be found; a shorter one, such as "ok", says nothing without
the turn it answers.
"""
_SQL = SqlFile(__file__, "context_index.sql", least_turn=str(_LEAST_TURN))
_FACTS = (
    "chunk_no",
    "chunk_id",
    "document_id",
    "source_kind",
    "is_segment",
    "turn",
    "byte_start",
    "byte_end",
)
"""The columns of the facts of chunks in `context_index.sql`."""
_SEARCHED: dict[str, Any] = {
    "fusion": "blend",
    "vector_search": "exact",
    "per_document": 1 << 30,
    "collapse_threads": False,
    "aggregation": "off",
    "cutoff_ratio": None,
    "diversity": 0.0,
}
"""Settings that the block decides in place of the search: the parts of documents to show, and where
the list ends.
"""


class IndexForContext:
    """One published version for batches of long queries.

    The vectors of queries are kept in `cache` where the model costs money and the cache may be
    written, so that a window that stays as it is costs nothing in the next version.
    """

    def __init__(self, index: SearchIndex, cache: EmbeddingCache):
        self.index, self.cache = index, cache
        self._numbers: dict[str, int] = {}
        self.paths: Counter[str] = Counter()
        """How many queries of the last call went by the HNSW index (hnsw), and by every vector
        (exact); missing parts.
        """
        self.missing: list[str] = []

    @property
    def facts(self) -> Mapping[str, Any]:
        """The names of the index in a manifest."""
        manifest = self.index.manifest
        settings = json.loads(manifest["settings"])
        return {
            "index_version": self.index.version,
            "model": manifest["model"],
            "chunking": {name: values for name, values in settings.items() if name in _CHUNKING},
            "dimensions": int(manifest["dimensions"]),
            "tokenizer": PackagedTokenCounter.name,
        }

    def suited(self, settings: ContextSettings) -> ContextSettings:
        """The settings, filled with the weight of words in a search, and the least cosine of a
        candidate.
        """
        least, weight = settings.min_similarity, settings.lexical_weight
        if least is None:
            least = self._least_of_model if settings.calibrated else 0.0
        if weight is None:
            weight = self.index.settings.lexical_weight
        return settings.model_copy(update={"min_similarity": least, "lexical_weight": weight})

    @cached_property
    def _least_of_model(self) -> float:
        """The least cosine of egregora for its own model; for others one that few pairs of the
        index's own chunks reach, of such as tell nothing of each other (`strangers`).
        """
        if self.index.manifest["model"].partition("+")[0] == _MODEL_OF_DESIGN:
            return _LEAST_OF_DESIGN
        vectors, facts = self.index.vector_sample, self.index.arrays.rows.of(self.index.sampled)
        rows = self.index.frame(_SQL("linked_documents")).rows()
        linked = {(str(one), str(other)) for one, other in rows}
        cosines = vectors @ vectors.T
        choices = strangers([facts[n] for n in self.index.sampled.tolist()], linked)
        least = (float(np.quantile(cosines[pairs], 1 - _NEAR_PAIRS)) for pairs in choices)
        return round(min(least, default=0.0), 4)

    def candidates(
        self,
        queries: pl.DataFrame,
        settings: ContextSettings,
        askers: Mapping[str, Asker] | None = None,
    ) -> pl.DataFrame:
        """The rows of `conversation_candidates`: the best chunks of each query among those that its
        asker may find.

        All queries are answered in one pass. A candidate is a hit of a search and not less similar
        than `min_similarity`, unless its terms found it. The first hit of a query is there even if
        too little bears it out: with rank 0.
        """
        settings = self.suited(settings)
        texts = queries.get_column("text").to_list()
        if settings.candidates is None:
            # Enough to fill the budget of the window with the fewest queries.
            counts = queries.group_by("window_id").len().get_column("len").to_list()
            limit = max(_LEAST_CANDIDATES, most_passages(settings) // min(counts, default=1))
            settings = settings.model_copy(update={"candidates": limit})
        masks = self._masks(
            askers or {w: Asker((w,)) for w in queries.get_column("window_id").unique()}, settings
        )
        allowed = [masks[window] for window in queries.get_column("window_id").to_list()]
        best = self._ranked(texts, allowed, settings).select(
            "chunk_no",
            "lexical_score",
            row=pl.col("query").cast(pl.Int64),
            similarity="vector_score",
            score="score" if settings.lexical_weight else "vector_score",
            evidence=pl.lit(None, pl.Float64),
            fills=False,
        )
        by_terms = (pl.col("lexical_score") > 0) & bool(settings.lexical_weight)
        is_far = (pl.col("similarity") < (settings.min_similarity or 0.0)) & ~by_terms
        best = self._described(best.filter(~is_far))
        far = best.clear()
        if settings.by_parts:
            best = best.with_columns(evidence=self._evidence(best, texts))
            searched = [
                self.index.chunk_count if mask is None else int(mask.sum()) for mask in allowed
            ]
            best = borne_out(best, searched, self.index.settings)
            is_near = pl.col("near") > 0
            far = best.group_by("row", maintain_order=True).first().filter(~is_near)
            best = (
                self._in_stretches(best, allowed) if settings.fills_budget else best.filter(is_near)
            )
            best = worth(best).with_columns(fills=pl.col("near") < 1)
            far = far.join(best, on=["row", "chunk_no"], how="anti")
        best = best.sort("row", "score", "chunk_no", descending=[False, True, False])
        best = best.with_columns(rank=1 + pl.int_range(pl.len()).over("row"))
        far = far.with_columns(rank=pl.lit(0, pl.Int64))
        best = pl.concat([best, far], how="diagonal_relaxed").sort("row", "rank")
        best = best.filter(pl.col("rank") <= settings.candidates)
        self._numbers |= dict(best.select("chunk_id", "chunk_no").iter_rows())
        numbered = queries.select("window_id", "query", row=pl.int_range(pl.len()))
        rows = best.join(numbered, on="row", how="left", maintain_order="left")
        self._log(len(texts), rows)
        return rows.select(CONVERSATION_CANDIDATES.names)

    def _log(self, queries: int, candidates: pl.DataFrame) -> None:
        """Log how the queries went, and how many candidates each of them has."""
        paths = ", ".join(f"{count} by {path}" for path, count in sorted(self.paths.items()))
        counts = dict(candidates.filter(pl.col("rank") > 0).group_by("row").len().iter_rows())
        numbers = " + ".join(
            str(counts.get(row, 0)) for row in range(min(queries, _LOGGED_QUERIES))
        )
        more = " + …" if queries > _LOGGED_QUERIES else ""
        logging.getLogger("weft").info(
            "context: %d queries (%s), %s candidates",
            queries,
            paths or "none",
            f"{numbers}{more}" if numbers else "no",
        )

    def _ranked(
        self, texts: Sequence[str], allowed: Sequence[np.ndarray | None], settings: ContextSettings
    ) -> pl.DataFrame:
        """The hits of each query in the order of a search, second look included; of a document as
        many as there are.

        Without a lexical weight they are the nearest vectors alone.
        """
        index = self.index
        searched = index.settings.model_copy(update=_SEARCHED | self._changes(settings))
        chosen = telling_terms(
            texts,
            index.postings.df,
            index.postings.ranked_count,
            _LEXICAL_TERMS,
            searched.stopwords,
            index.term_settings,
        )
        terms = [list(some) for some in bm25.terms_by_query(chosen.to_arrow(), len(texts))]
        vectors = self._query_vectors(texts)
        self.paths, self.missing = Counter(), []
        hits = [pl.DataFrame(schema=pipeline.RANKED)]
        for batch in row_batches(index.ranking, index, texts, allowed):
            own = slice(batch.first, batch.first + len(batch.queries))
            batch.knows(vectors[own], terms[own], searched)
            if settings.mode == "ann":
                batch.near = partial(self._near, settings)
            else:
                self.paths["exact"] += len(batch.queries)
            ranked = index.of_batch(batch, searched)
            self.missing += ranked.missing
            hits.append(ranked.hits)
        return pl.concat(hits)

    def _changes(self, settings: ContextSettings) -> dict[str, Any]:
        """The changes that a context makes in the settings of a search."""
        changes = {"limit": settings.candidates, "lexical_weight": settings.lexical_weight}
        if not settings.lexical_weight:
            return changes | BUILT_IN_PROFILES["vector"]
        looks_again = self.index.reranker is not None and self.index.settings.rerank != "off"
        # A language model would be asked once for each of hundreds of queries.
        return changes | {"rerank": "features" if looks_again else "off", "length_counts": False}

    def _evidence(self, candidates: pl.DataFrame, texts: Sequence[str]) -> pl.Series:
        """The evidence for each candidate: share of words plus cosine for the part of its query
        that it answers best.

        If the model costs money, the cosine is that of the whole query.
        """
        index, settings = self.index, self.index.settings
        evidence = np.zeros(len(candidates))
        rows, similarity = (candidates.get_column(n).to_numpy() for n in ("row", "similarity"))
        for row in np.unique(rows).tolist():
            own, parts = np.flatnonzero(rows == row), query_parts(texts[row])
            chunks = candidates.get_column("chunk_no").to_numpy()[own]
            words = index.query_terms(parts, settings.stopwords)
            scores = [
                bm25.TermScores(some, index.postings, index.weighed(settings), None)
                for some in words
            ]
            support = np.stack([score.support(chunks) for score in scores])
            whole = index.embedder.is_paid
            vectors = (
                self._query_vectors([texts[row]]) if whole else index.embedder.embed_queries(parts)
            )
            cosine = (
                similarity[own]
                if whole
                else np.vecdot(vectors[:, np.newaxis], index.vectors.of(chunks))
            )
            usual = index.usual_cosines(vectors)[:, np.newaxis]
            evidence[own] = labels.evidence(support, cosine, usual).max(axis=0)
        return pl.Series(evidence)

    def chunk_vectors(self, chunk_ids: Sequence[str]) -> dict[str, np.ndarray]:
        """The vector of each chunk; zeros for a chunk without one."""
        numbers = _numbers_of(self.index, chunk_ids, self._numbers)
        stored = self.index.vectors.of(np.array([*numbers.values()], dtype=np.int64))
        none = np.zeros(int(self.index.manifest["dimensions"]), dtype=np.float32)
        return dict.fromkeys(chunk_ids, none) | dict(zip(numbers, stored, strict=True))

    def passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """The chunks as a reader sees them, with the section or mail around each."""
        return passages(self.index, chunk_ids, self._numbers)

    def _query_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, float32 of shape (texts, dimensions)."""
        embedder = self.index.embedder
        if not texts:
            return np.empty((0, embedder.dimensions), dtype=np.float32)
        if not embedder.is_paid:
            return embedder.embed_queries(texts)
        by_text = query_vectors(texts, embedder, self.cache)
        # A refused text is like nothing: its words alone find something.
        none = np.zeros(embedder.dimensions, dtype=np.float32)
        return np.stack([by_text.get(text, none) for text in texts])

    def _near(
        self, settings: ContextSettings, vectors: np.ndarray, allowed: Sequence[np.ndarray | None]
    ) -> Iterator[fusion.QueryScores]:
        """The cosines of each query with the chunks that are allowed, each valid until the next is
        computed.

        They come from the HNSW index if there is one and it finds enough; `paths` counts.
        """
        near = Near(settings.candidates or _LEAST_CANDIDATES, settings.nprobe, settings.overfetch)
        for scores in self.index.ranking.nearest(self.index, vectors, allowed, near):
            self.paths["hnsw" if isinstance(scores, HnswScores) else "exact"] += 1
            yield scores

    def _masks(
        self, askers: Mapping[str, Asker], settings: ContextSettings
    ) -> dict[str, np.ndarray | None]:
        """By window which chunks its queries may find; None where nothing is left out."""
        try:
            fitting = self.index.conditions.mask(Filters(), where_conditions(settings.where))
        except QueryError as fault:
            raise QueryError(f"context.where: {fault}") from fault
        masks: dict[str, np.ndarray | None] = {}
        for window, asker in askers.items():
            facts = {
                "own": list(asker.own),
                "earlier": settings.include == "earlier",
                "until": asker.until,
            }
            facts |= {"conversation": asker.conversation_id}
            text = {"text": asker.text, "least": _LEAST_TURN} if "\n" in asker.text.strip() else {}
            mask, hidden = fitting, np.zeros(0, dtype=np.int64)
            if text or facts["own"] or facts["earlier"]:
                result = self.index.connection.execute(
                    _SQL("hidden_with_turns" if text else "hidden"), facts | text
                )
                hidden = result.fetchnumpy()["chunk_no"].astype(np.int64)
            if len(hidden):
                mask = (
                    np.ones(self.index.chunk_count, dtype=bool)
                    if fitting is None
                    else fitting.copy()
                )
                mask[hidden] = False
            masks[window] = mask
        return masks

    def _described(self, candidates: pl.DataFrame) -> pl.DataFrame:
        """The candidates with their mails or documents, but for turns that say nothing by
        themselves.
        """
        numbers = candidates.get_column("chunk_no").unique().sort().to_list()
        chunks = self.index.frame(_SQL("described"), numbers)
        return candidates.join(chunks, on="chunk_no", how="inner", maintain_order="left")

    def _in_stretches(
        self, candidates: pl.DataFrame, allowed: Sequence[np.ndarray | None]
    ) -> pl.DataFrame:
        """The candidates as `steps.in_stretches` has them, of turns those that the query may find."""
        documents = candidates.drop_nulls("turn").get_column("document_id").unique().to_list()
        turns = (
            self.index.frame(_SQL("turns"), documents)
            if documents
            else candidates.select(*_FACTS).clear()
        )
        spread = in_stretches(candidates, turns)
        masks = {row: mask for row, mask in enumerate(allowed) if mask is not None}
        may = [
            row not in masks or bool(masks[row][chunk])
            for row, chunk in spread.select("row", "chunk_no").iter_rows()
        ]
        return spread.filter(pl.Series(may, dtype=pl.Boolean)).with_columns(
            pl.col("lexical_score").fill_null(0.0)
        )


_CHUNKING = (
    "mail",
    "blocks",
    "chunks",
    "documents",
    "document_chunks",
    "conversations",
    "terms",
    "sentences",
)
"""The settings of a version that say how its texts became chunks."""


def passages(
    index: OpenedVersion, chunk_ids: Sequence[str], known: Mapping[str, int] = MappingProxyType({})
) -> dict[str, Passage]:
    """The passages of chunks by id; those that the index does not hold are left out.

    `known` has numbers of chunks. A mail is read from the rows of hits alone, its text from a few
    packs: a statement reads columns of texts for all chunks.
    """
    numbers = _numbers_of(index, chunk_ids, known)
    rows = index.arrays.rows.of(numbers.values())
    texts = index.arrays.rows.texts(row["text_key"] for row in rows.values())
    others = [n for n, row in rows.items() if row["source_kind"] != "message"]
    further = {
        row["chunk_no"]: row
        for row in (index.frame(_SQL("further"), others).iter_rows(named=True) if others else ())
    }
    encoded = {key: text.encode() for key, text in texts.items()}
    return {
        chunk: _passage(rows[n] | further.get(n, {}), encoded.get(rows[n]["text_key"], b""))
        for chunk, n in numbers.items()
    }


def _numbers_of(
    index: OpenedVersion, chunk_ids: Iterable[str], known: Mapping[str, int]
) -> dict[str, int]:
    """The numbers of chunks by id, in the order of the ids, if they are in the index."""
    ids = sorted({*chunk_ids})
    unknown = [chunk for chunk in ids if chunk not in known]
    numbers = {**known}
    if unknown:
        numbers |= dict(index.frame(_SQL("numbers"), unknown).iter_rows())
    return {chunk: numbers[chunk] for chunk in ids if chunk in numbers}


def _passage(row: dict[str, Any], text: bytes) -> Passage:
    """The passage of a row, whose bytes are those of `text`; around it is its section, or its mail."""
    own_spans = [span for span in row["spans"] if span["role"] == "own"]
    start = min((span["byte_start"] for span in own_spans), default=0)
    end = max((span["byte_end"] for span in own_spans), default=0)
    own, display = text[start:end].decode(errors="replace"), row["text_display"]
    around, heading = None, row.get("heading_start")
    first, last = heading or 0, row.get("body_end") or len(text)
    if heading is not None or row["source_kind"] == "message":
        around = text[first:last].decode()
    line, around_line = (1 + text.count(b"\n", 0, place) for place in (start, first))
    attachment = row["attachment_id"]
    title = (row["breadcrumb"] or "").lstrip("> ")
    if row["breadcrumb"] is None and row["source_kind"] != "document":
        title = row["subject"]
    return Passage(
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        place=(row.get("node_id") or row["doc_id"])
        + (f" attachment {attachment[:12]}" if attachment else ""),
        source_kind=row["source_kind"],
        title=title or "(no title)",
        date=row["effective_at"],
        tags=tuple(row.get("tags") or ()),
        text=own if own.rstrip() == display.rstrip() else display,
        start=start,
        end=end,
        around=around,
        around_start=first,
        around_end=last if around is not None else 0,
        turn=row.get("turn"),
        answers=row["answered_id"],
        page_starts=tuple(row.get("page_starts") or ()),
        lines=(line, max(line, 1 + text[:end].rstrip(b"\n").count(b"\n"))),
        around_lines=(around_line, around_line + (around or "").rstrip("\n").count("\n")),
    )


class PublishedVersions:
    """Opens the current version below a folder."""

    def __init__(self, settings: Settings):
        self.settings, self.cache = (
            settings,
            QueryVectorCache(settings.root / "cache" / "embeddings"),
        )

    def of(self, index: SearchIndex) -> IndexForContext:
        """A version that is open already."""
        return IndexForContext(index, self.cache)

    @contextmanager
    def open(self, place: Path | None = None) -> Iterator[IndexForContext]:
        """The current version, or the file at `place`, closed on leaving; IndexUnavailableError if
        it is unusable.
        """
        with (
            closing(open_index(self.settings, place=place)) as index,
            faults_translated(index.path),
        ):
            yield self.of(index)
