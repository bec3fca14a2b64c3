"""The published index as conversations ask it: many queries in one pass, and passages to show."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl

from assets.embedding import query_vectors
from assets.protocols.models import EmbeddingCache
from assets.protocols.search import Asker
from dagster_project.context.passages import passages
from dagster_project.context.rules import included_chunks
from dagster_project.index.search.filters import Filters, where_conditions
from dagster_project.index.search.opened_version import HnswScores
from dagster_project.index.search.ranking import Near
from dagster_project.index.search.search_index import SearchIndex
from transforms.context.block import Passage
from transforms.context.candidates import parts, telling_terms
from transforms.context.selection import most_passages
from transforms.errors import QueryError
from transforms.retrieval import bm25, fusion
from transforms.schemas.conversations import CONVERSATION_CANDIDATES
from transforms.settings.conversations import ContextSettings
from transforms.text import terms

_LEXICAL_TERMS = 25
"""Terms of a query chunk that are searched lexically, the most telling ones."""
_MODEL_OF_DESIGN, _LEAST_OF_DESIGN = "gemini-embedding-001", 0.7
_NEAR_PAIRS = 0.05
"""Share of the pairs of chunks that are nearer than the least cosine of the profile seed, for models of which its own says
nothing."""
_LEAST_CANDIDATES = 20
"""Candidates of a query, where the settings name no number."""
_LEAST_TURN = 20
"""Bytes of a turn of a chat that may be found; a shorter one, such as "ok", says nothing without what it answers."""
_WAY_TO_PASS = 0.4
"""How far from WEAK to PASS of the model the evidence lies below which nothing is shown: there no topic of a conversation
was lost, and nine off-topic texts in ten find nothing."""


class IndexForContext:
    """One published version for batches of long queries.

    The vectors of queries are kept in `cache` where the model costs money and the cache may be written, so that a
    window that stays as it is costs nothing in the next version.
    """

    def __init__(self, index: SearchIndex, token_counter: str, cache: EmbeddingCache):
        self.index, self.token_counter, self.cache = index, token_counter, cache
        self.paths: Counter[str] = Counter()
        """How many queries of the last call were searched by the HNSW index (hnsw), and by every vector (exact)."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What names the index in a manifest."""
        manifest = self.index.manifest
        settings = json.loads(manifest["settings"])
        return {
            "index_version": self.index.version,
            "model": manifest["model"],
            "chunking": {name: values for name, values in settings.items() if name in _CHUNKING},
            "dimensions": int(manifest["dimensions"]),
            "tokenizer": self.token_counter,
        }

    def suited(self, settings: ContextSettings) -> ContextSettings:
        """The settings with the least cosine of a candidate, where they name none: in the profile seed that of the model."""
        if settings.min_similarity is not None:
            return settings
        least = self._least_of_model if settings.profile == "seed" else 0.0
        return settings.model_copy(update={"min_similarity": least})

    @cached_property
    def _least_of_model(self) -> float:
        """The least cosine of egregora for its own model; for others what few pairs of the index's own chunks reach."""
        if self.index.manifest["model"].partition("+")[0] == _MODEL_OF_DESIGN:
            return _LEAST_OF_DESIGN
        vectors = self.index.vector_sample
        pairs = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
        return round(float(np.quantile(pairs, 1 - _NEAR_PAIRS)), 4) if len(pairs) else 0.0

    def candidates(
        self, queries: pl.DataFrame, settings: ContextSettings, askers: Mapping[str, Asker] | None = None
    ) -> pl.DataFrame:
        """The rows of `conversation_candidates`: the best chunks of each query among those that its asker may find.

        All queries are answered in one pass: one product with the matrix of vectors, one read of the
        postings. A candidate is among the nearest or the lexically best chunks of its query and not
        less similar than `min_similarity`, unless its terms found it.
        """
        settings = self.suited(settings)
        texts = queries.get_column("text").to_list()
        if settings.candidates is None:
            settings = settings.model_copy(update={"candidates": _wanted(queries, settings)})
        masks = self._masks(
            askers or {w: Asker((w,)) for w in queries.get_column("window_id").unique()}, settings
        )
        allowed = [masks[window] for window in queries.get_column("window_id").to_list()]
        query_terms = self._telling_terms(texts, settings)
        self.paths = Counter()
        near = self._similar(self._query_vectors(texts), allowed, settings)
        words = self._lexical_scores(query_terms, allowed, settings)
        found = [
            _best(number, scores, similar, settings)
            for number, (scores, similar) in enumerate(zip(words, near, strict=True))
        ]
        said = ", ".join(f"{count} by {path}" for path, count in sorted(self.paths.items()))
        logging.getLogger("weft").info("context: %d queries (%s)", len(texts), said or "none")
        best = pl.concat([pl.DataFrame(schema=_CANDIDATES), *found])
        if settings.by_parts:
            weak, passing = self.index.settings.label_weak, self.index.settings.label_pass
            floor = weak + _WAY_TO_PASS * (passing - weak)
            best = best.with_columns(evidence=self._evidence(best, texts))
            best = best.filter(pl.col("evidence") >= floor)
        return self._named(best, queries)

    def _evidence(self, candidates: pl.DataFrame, texts: Sequence[str]) -> pl.Series:
        """What bears out each candidate: of the part of its query that it answers best the share of words, plus the cosine.

        Of a model that costs money the cosine is that of the whole query.
        """
        index, settings = self.index, self.index.settings
        evidence = np.zeros(len(candidates))
        rows, similarity = (candidates.get_column(n).to_numpy() for n in ("row", "similarity"))
        for row in np.unique(rows).tolist():
            own, asked = np.flatnonzero(rows == row), parts(texts[row])
            chunks = candidates.get_column("chunk_no").to_numpy()[own]
            words = index.query_terms(asked, settings.stopwords)
            scores = [bm25.TermScores(some, index.postings, index.weighed(settings), None) for some in words]
            support = np.stack([score.support(chunks) for score in scores])
            cosine = similarity[own]
            if not index.embedder.is_paid:
                cosine = index.embedder.embed_queries(asked) @ index.vectors.of(chunks).T
            evidence[own] = (support + np.clip(cosine, 0.0, None)).max(axis=0)
        return pl.Series(evidence)

    def chunk_vectors(self, chunk_ids: Sequence[str]) -> dict[str, np.ndarray]:
        """The vector of each chunk; zeros for one that has none."""
        rows = self.index.connection.execute(
            "SELECT chunk_id, chunk_no FROM chunks WHERE chunk_id IN (SELECT unnest($ids::VARCHAR[])) ORDER BY chunk_no",
            {"ids": sorted(set(chunk_ids))},
        ).fetchall()
        stored = self.index.vectors.of(np.array([number for _, number in rows], dtype=np.int64))
        vectors = {chunk: vector for (chunk, _), vector in zip(rows, stored, strict=True)}
        none = np.zeros(int(self.index.manifest["dimensions"]), dtype=np.float32)
        return {chunk: vectors.get(chunk, none) for chunk in chunk_ids}

    def passages(self, chunk_ids: Sequence[str]) -> dict[str, Passage]:
        """The chunks as a reader sees them, with the section or mail around each."""
        return passages(self.index.connection, chunk_ids)

    def named_chunks(self, names: Sequence[str], own: Sequence[str]) -> tuple[list[str], list[str]]:
        """The chunks of what `names` mean, without those of the documents `own`; and the names that mean nothing."""
        return included_chunks(self.index, names, own)

    def _query_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """The vectors of texts, float32 of shape (texts, dimensions)."""
        embedder = self.index.embedder
        if not texts:
            return np.empty((0, embedder.dimensions), dtype=np.float32)
        if not embedder.is_paid:
            return embedder.embed_queries(texts)
        known = query_vectors(texts, embedder, self.cache)
        # A refused text is like nothing: its words alone find something.
        none = np.zeros(embedder.dimensions, dtype=np.float32)
        return np.stack([known.get(text, none) for text in texts])

    def _telling_terms(self, texts: Sequence[str], settings: ContextSettings) -> pl.DataFrame:
        """The telling terms of each text; none where lexical candidates are off."""
        if not settings.lexical_weight or not texts:
            return pl.DataFrame(schema={"query": pl.Int32, "term": pl.String})
        counted = terms.counted_terms(pl.Series(list(texts), dtype=pl.String), self.index.term_settings)
        known = dict(
            self.index.connection.execute(
                "SELECT term, df FROM terms WHERE term IN (SELECT unnest(?::VARCHAR[]))",
                [counted.get_column("term").unique().to_list()],
            ).fetchall()
        )
        return telling_terms(
            texts,
            known,
            self.index.postings.ranked_count,
            _LEXICAL_TERMS,
            self.index.settings.stopwords,
            self.index.term_settings,
        )

    def _lexical_scores(
        self, query_terms: pl.DataFrame, allowed: Sequence[np.ndarray | None], settings: ContextSettings
    ) -> Iterator[bm25.TermScores | None]:
        """The BM25 scores of each query over the chunks that are allowed; None if the settings want none."""
        if not settings.lexical_weight:
            yield from repeat(None, len(allowed))
            return
        weights = self.index.weighed(self.index.settings)
        words = bm25.terms_by_query(query_terms.to_arrow(), len(allowed))
        for some, mask in zip(words, allowed, strict=True):
            yield bm25.TermScores(some, self.index.postings, weights, mask)

    def _similar(
        self, vectors: np.ndarray, allowed: Sequence[np.ndarray | None], settings: ContextSettings
    ) -> Iterator[fusion.Scores]:
        """The cosines of each query with the chunks that are allowed, each valid until the next is computed.

        With `mode = "ann"` they come from the HNSW index if there is one and it finds enough; `paths` counts.
        """
        in_view = settings.nprobe if settings.mode == "ann" else 0
        near = Near(settings.candidates or _LEAST_CANDIDATES, in_view, settings.overfetch)
        for scores in self.index.ranking.nearest(self.index, vectors, allowed, near):
            self.paths["hnsw" if isinstance(scores, HnswScores) else "exact"] += 1
            yield scores

    def _masks(self, askers: Mapping[str, Asker], settings: ContextSettings) -> dict[str, np.ndarray | None]:
        """By window which chunks its queries may find; None where nothing is left out."""
        try:
            fitting = self.index.conditions.mask(Filters(), where_conditions(settings.where))
        except QueryError as fault:
            raise QueryError(f"context.where: {fault}") from fault
        masks: dict[str, np.ndarray | None] = {}
        for window, asker in askers.items():
            hidden = self.index.connection.execute(
                _HIDDEN,
                {
                    "own": list(asker.own),
                    "earlier": settings.include == "earlier",
                    "conversation": asker.conversation_id,
                    "until": asker.until,
                },
            ).fetchnumpy()["chunk_no"]
            masks[window] = fitting
            if len(hidden):
                mask = np.ones(self.index.chunk_count, dtype=bool) if fitting is None else fitting.copy()
                mask[np.asarray(hidden, dtype=np.int64)] = False
                masks[window] = mask
        return masks

    def _named(self, candidates: pl.DataFrame, queries: pl.DataFrame) -> pl.DataFrame:
        numbers = ", ".join(str(n) for n in candidates.get_column("chunk_no").unique().sort()) or "-1"
        chunks = self.index.frame(
            f"SELECT chunk_no::BIGINT AS chunk_no, chunk_id, doc_id AS document_id, source_kind FROM chunks "
            f"WHERE chunk_no IN ({numbers}) AND (chunk_kind <> 'turn' OR "
            f"list_sum([s.byte_end - s.byte_start FOR s IN spans]) >= {_LEAST_TURN})"
        )
        numbered = (
            queries.select("window_id", "query")
            .with_row_index("row")
            .with_columns(pl.col("row").cast(pl.Int64))
        )
        return (
            candidates.join(numbered, on="row", how="left", maintain_order="left")
            .join(chunks, on="chunk_no", how="inner", maintain_order="left")
            .select(CONVERSATION_CANDIDATES.names)
        )


def _wanted(queries: pl.DataFrame, settings: ContextSettings) -> int:
    """How many candidates of each query fill the budget of a window with the fewest queries."""
    counts = queries.group_by("window_id").len().get_column("len").to_list()
    return max(_LEAST_CANDIDATES, most_passages(settings) // min(counts, default=1))


_CANDIDATES = {
    "row": pl.Int64,
    "rank": pl.Int64,
    "chunk_no": pl.Int64,
    "similarity": pl.Float64,
    "lexical_score": pl.Float64,
    "score": pl.Float64,
    "evidence": pl.Float64,
}


def _best(
    row: int, words: bm25.TermScores | None, near: fusion.Scores, settings: ContextSettings
) -> pl.DataFrame:
    """The candidates of one query, best first, ties by chunk number."""
    most = settings.candidates or _LEAST_CANDIDATES
    chosen = near.best(most)
    lexical_scores = np.zeros(len(chosen))
    weight = settings.lexical_weight if words is not None else 0.0
    if words is not None:
        chosen = np.union1d(chosen, words.best(most))
        lexical_scores = words.of(chosen)
    similarity = near.of(chosen)
    eligible = (similarity >= (settings.min_similarity or 0.0)) | (lexical_scores > 0)
    chosen, lexical_scores, similarity = chosen[eligible], lexical_scores[eligible], similarity[eligible]
    if weight:
        by_words = fusion.scaled(lexical_scores, 0.0, words.high if words is not None else 0.0)
        score = weight * by_words + (1 - weight) * fusion.scaled(similarity, near.low, near.high)
    else:
        score = similarity
    order = np.lexsort((chosen, -score))[:most]
    columns = {
        "row": np.full(len(order), row),
        "rank": np.arange(1, len(order) + 1),
        "chunk_no": chosen[order],
        "similarity": similarity[order],
        "lexical_score": lexical_scores[order],
        "score": score[order],
        "evidence": np.full(len(order), None),
    }
    return pl.DataFrame(columns, schema=_CANDIDATES)


_HIDDEN = """
SELECT chunk_no FROM chunks WHERE doc_id IN (SELECT unnest($own::VARCHAR[])) OR $earlier AND doc_id IN (
  SELECT doc_id FROM conversation_windows WHERE conversation_id = $conversation OR last_at > $until
  UNION ALL SELECT message_id FROM messages WHERE effective_at > $until
  UNION ALL SELECT doc_id FROM documents WHERE coalesce(modified_at, created_at) > $until
)
"""
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
