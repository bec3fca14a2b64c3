"""BM25 over the inverted index: postings in, scores out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from transforms.settings import CandidateSettings, SearchSettings

FIELDS = ("title", "text", "quote", "context", "file", "function", "added", "removed")


@dataclass(frozen=True)
class Postings:
    """The postings of the terms of some queries, and what BM25 has to know of all chunks.

    `rows` has the columns term_id, chunk_no and one term frequency per field (title_tf, text_tf and
    so on), the rows of a term together. `terms` gives the term and its document frequency (chunks
    that hold it) by id. `lengths` has one int32 array per field, the terms each chunk holds in it.
    """

    rows: pa.Table
    terms: Mapping[int, tuple[str, int]]
    lengths: Mapping[str, np.ndarray]

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return len(self.lengths["title"])


def field_weights(settings: SearchSettings) -> dict[str, float]:
    """Weight of one occurrence of a term in each field; parent context counts as quoted text."""
    return {
        "title": settings.title_weight,
        "text": settings.text_weight,
        "quote": settings.quote_weight,
        "context": settings.quote_weight,
        "file": settings.file_weight,
        "function": settings.function_weight,
        "added": settings.added_weight,
        "removed": settings.removed_weight,
    }


_AFTER_LEXICAL = {
    "candidates_lexical", "candidates_vector", "hnsw_ef_search", "fusion", "lexical_weight", "rrf_k",
    "thread_weight", "log_weight", "diagnostic_pattern",
    *(SearchSettings.model_fields.keys() - CandidateSettings.model_fields.keys()),
}  # fmt: skip


def lexical_key(settings: SearchSettings) -> str:
    """Equal for settings that give the same BM25 scores: every value but those known to act later."""
    return settings.model_dump_json(exclude=_AFTER_LEXICAL)


def idf(df: int, chunk_count: int) -> float:
    """What a term weighs that `df` of the chunks hold; more than any chunk can score with it."""
    return math.log(1 + (chunk_count - df + 0.5) / (df + 0.5))


def bm25_scores(
    query_terms: pa.Table, query_count: int, postings: Postings, settings: SearchSettings
) -> np.ndarray:
    """Scores of all chunks, float32 of shape (queries, chunks); 0 where no term of the query stands.

    `query_terms` has the columns query and term. The formula is Lucene's BM25 (idf = ln(1 + (N -
    df + 0.5) / (df + 0.5)), no (k1 + 1) factor); frequencies and lengths are sums over the fields,
    each times its weight, as in BM25F without length normalisation per field (Robertson, Zaragoza
    and Taylor 2004).
    """
    scores = np.zeros((query_count, postings.chunk_count), dtype=np.float32)
    weights = field_weights(settings)
    length = sum(weights[f] * postings.lengths[f].astype(np.float32) for f in FIELDS)
    assert isinstance(length, np.ndarray)
    average = float(length.mean(dtype=np.float64)) if length.size else 0.0
    if not average or not postings.rows.num_rows:
        return scores
    norm = settings.bm25_k1 * (1 - settings.bm25_b + settings.bm25_b * length / average)
    asked: dict[str, list[int]] = {}
    for query, term in zip(*(query_terms.column(c).to_pylist() for c in ("query", "term")), strict=True):
        asked.setdefault(term, []).append(query)
    for term, chunks, impact in _impacts(postings, weights, norm):
        for query in asked.get(term, ()):
            row = scores[query]
            row[chunks] += impact
    return scores


def _impacts(
    postings: Postings, weights: dict[str, float], norm: np.ndarray
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Term, chunk numbers and BM25 impacts, one entry per term."""
    columns = {name: postings.rows.column(name).to_numpy() for name in postings.rows.column_names}
    tf = sum(w * columns[f"{f}_tf"].astype(np.float32) for f, w in weights.items())
    assert isinstance(tf, np.ndarray)
    ids, count = columns["term_id"], postings.chunk_count
    edges = np.flatnonzero(np.diff(ids, prepend=-1, append=-1))
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        term, df = postings.terms[int(ids[start])]
        chunks, frequency = columns["chunk_no"][start:end], tf[start:end]
        yield term, chunks, (idf(df, count) * frequency / (frequency + norm[chunks])).astype(np.float32)
