"""Which documents are like each other, by the mean of their chunks' vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dagster_project.extras.graph.transforms.stripes import DECIMALS
from transforms.embedding.vectors import matrix

_PERCENTILE = 90.0
"""Percentile of all pairs above which documents are similar (Information Graph)."""
_MOST = 5
"""Similar documents that a document names (Information Graph)."""
_ROWS_AT_ONCE = 1024
_SAMPLE = 1000
"""Documents whose pairs the percentile is taken of; every n-th where there are more."""


class Similar(NamedTuple):
    """A document that is like another."""

    doc_id: str
    similarity: float


def similar_documents(chunks: pa.Table) -> dict[str, list[Similar]]:
    """By document the documents most like it, at most _MOST, best first.

    `chunks` is the result of `embedded_text.embedded_chunks`. Similar are documents whose similarity is above
    the percentile of all pairs. Every pair is one step of a matrix product: 10,000 documents take seconds.
    """
    names, first = np.unique(chunks.column("doc_id").to_numpy(zero_copy_only=False), return_index=True)
    if len(names) < 2:
        return {}
    means = np.add.reduceat(matrix(chunks.column("vector")).astype(np.float64), first, axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(float).tiny)
    threshold = _threshold(means)
    similar: dict[str, list[Similar]] = {}
    most = min(_MOST, len(names) - 1)
    for start in range(0, len(names), _ROWS_AT_ONCE):
        scores = np.round(means[start : start + _ROWS_AT_ONCE] @ means.T, DECIMALS)
        rows = np.arange(len(scores))
        scores[rows, rows + start] = -np.inf
        edges = np.partition(scores, -most, axis=1)[:, -most]
        for row, edge in zip(rows, edges, strict=True):
            # To sort them all would take four times as long; equal scores are in the order of their names.
            candidates = np.flatnonzero((scores[row] >= edge) & (scores[row] > threshold))
            best = candidates[np.argsort(-scores[row, candidates], kind="stable")][:most]
            similar[str(names[row + start])] = [Similar(str(names[c]), float(scores[row, c])) for c in best]
    return similar


def _threshold(means: np.ndarray) -> float:
    sample = means[:: -(-len(means) // _SAMPLE)]
    if len(sample) < 2:
        sample = means[:2]
    pairs = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
    return round(float(np.percentile(pairs, _PERCENTILE)), DECIMALS)
