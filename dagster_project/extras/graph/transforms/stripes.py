"""Chunks in an order whose every beginning represents the document, and which documents are like
each other.
"""

from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.extras.graph.transforms.schema import CHUNK_SIMILARITIES, STRIPE_ORDERS
from dagster_project.extras.graph.transforms.settings import GraphSettings
from transforms.embedding.vectors import matrix

MIN_STRIPED = 8
"""Chunks beside the baseline from which an order is striped; fewer stand in order of similarity."""
DECIMALS = 6
"""Decimals of a similarity, so that orders do not depend on the last bit of a sum."""
_WORD = r"[\p{L}\p{M}\p{N}_]+"
_ROWS_AT_ONCE = 1 << 16


def stripe_factor(count: pl.Expr) -> pl.Expr:
    """The distance between neighbours of a stripe, for `count` chunks beside the baseline."""
    root = count.cast(pl.Float64).sqrt().round().cast(pl.Int64)
    striped = pl.max_horizontal(pl.lit(2), pl.min_horizontal(count // 2, root))
    return pl.when(count < MIN_STRIPED).then(1).otherwise(striped)


_COSINE_WEIGHT = 0.7
"""Weight of vectors in a mixed similarity; words have the rest (Information Graph)."""
_TECHNICAL_TITLES = [
    "quick reference",
    "api reference",
    "command reference",
    "cheat sheet",
    "cheatsheet",
]
"""Words in the heading of a technical baseline (Information Graph, whose published data never has
the first).
"""


def chunk_similarities(chunks: pa.Table, classes: pa.Table, settings: GraphSettings) -> pa.Table:
    """The similarity of every chunk to the baselines of its document, as
    `schemas.CHUNK_SIMILARITIES`.

    `chunks` is the result of `embedded_chunks`, `classes` the table `chunk_classes`. A document has
    a conceptual baseline, and a technical one where the rule finds one. The design's MinHash
    estimates the Jaccard similarity of words; a chunk meets two baselines at most, so here it is
    counted.
    """
    frame = pl.DataFrame(chunks.drop_columns(["vector"])).with_row_index("row")
    code = pl.DataFrame(classes.select(["chunk_id", "is_code"]))
    frame = frame.join(code, on="chunk_id", how="left", maintain_order="left")
    pairs = frame.join(_baselines(frame, settings), on="doc_id", maintain_order="left")
    vectors = matrix(chunks.column("vector"))
    first, second = pairs["row"].to_numpy(), pairs["baseline_row"].to_numpy()
    pairs = pairs.with_columns(
        cosine=pl.Series(_cosines(vectors, first, second), dtype=pl.Float64),
        jaccard=pl.lit(None, dtype=pl.Float64),
    )
    if settings.similarity == "mixed":
        pairs = pairs.with_columns(jaccard=_jaccards(frame, first, second))
    mixed = _COSINE_WEIGHT * pl.col("cosine") + (1 - _COSINE_WEIGHT) * pl.col("jaccard")
    pairs = pairs.with_columns(similarity=pl.coalesce(mixed, "cosine").round(DECIMALS))
    return CHUNK_SIMILARITIES.conform(
        pairs.sort("doc_id", "baseline", "chunk_index").select(CHUNK_SIMILARITIES.names).to_arrow()
    )


def stripe_orders(similarities: pa.Table) -> pa.Table:
    """The orders of every document as `schemas.STRIPE_ORDERS`; ties go to the chunk that is first."""
    group = ["doc_id", "baseline"]
    frame = pl.DataFrame(similarities).with_columns(
        is_baseline=pl.col("chunk_index") == pl.col("baseline_index")
    )
    by_similarity = frame.sort(
        *group, ~pl.col("is_baseline"), -pl.col("similarity"), "chunk_index"
    ).with_columns(
        rank=pl.int_range(pl.len()).over(group) - 1,
        factor=stripe_factor(pl.len().cast(pl.Int64) - 1).over(group),
    )
    stripe_of = pl.when(pl.col("is_baseline")).then(-1).otherwise(pl.col("rank") % pl.col("factor"))
    ordered = by_similarity.with_columns(stripe=stripe_of).sort(*group, "stripe", "rank")
    ordered = ordered.with_columns(place=pl.int_range(pl.len()).over(group))
    return STRIPE_ORDERS.conform(ordered.select(STRIPE_ORDERS.names).to_arrow())


def _baselines(frame: pl.DataFrame, settings: GraphSettings) -> pl.DataFrame:
    """Columns doc_id, baseline, baseline_index and baseline_row."""
    index = pl.col("chunk_index")
    if settings.profile == "data":
        conceptual = pl.coalesce(index.filter(~pl.col("is_code")).min(), index.min())
        technical = index.filter(pl.col("is_code")).min()
    else:
        last_heading = pl.col("heading_path").list.last().str.to_lowercase()
        is_technical = last_heading.str.contains_any(_TECHNICAL_TITLES).fill_null(False)
        conceptual = index.min()
        technical = index.filter((index == 1) & is_technical).min()
    baselines = frame.group_by("doc_id").agg(conceptual=conceptual, technical=technical)
    baselines = baselines.unpivot(
        index="doc_id", variable_name="baseline", value_name="baseline_index"
    ).drop_nulls("baseline_index")
    rows = frame.select("doc_id", baseline_index="chunk_index", baseline_row="row")
    return baselines.join(rows, on=["doc_id", "baseline_index"])


def _cosines(vectors: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The cosine of each pair of rows, which are of unit length."""
    blocks = [
        np.einsum(
            "ij,ij->i",
            vectors[first[at : at + _ROWS_AT_ONCE]],
            vectors[second[at : at + _ROWS_AT_ONCE]],
            dtype=np.float64,
        )
        for at in range(0, len(first), _ROWS_AT_ONCE)
    ]
    return np.round(np.concatenate([*blocks, np.zeros(0)]), DECIMALS).clip(-1, 1)


def _jaccards(frame: pl.DataFrame, first: np.ndarray, second: np.ndarray) -> pl.Series:
    """Shared words : all words, of each pair of rows."""
    words = frame["text_display"].str.to_lowercase().str.extract_all(_WORD)
    one, other = words.gather(first).list, words.gather(second)
    shared, all_words = one.set_intersection(other).list.len(), one.set_union(other).list.len()
    return (shared / all_words.clip(lower_bound=1)).round(DECIMALS)


_PERCENTILE = 90.0
"""Percentile of all pairs above which documents are similar (Information Graph)."""
_MOST = 5
"""Similar documents that a document names (Information Graph)."""
_DOCUMENTS_AT_ONCE = 1024
_SAMPLE = 1000
"""Documents whose pairs the percentile is taken of; every n-th where there are more."""


class Similar(NamedTuple):
    """A document that is like another."""

    doc_id: str
    similarity: float


def similar_documents(chunks: pa.Table) -> dict[str, list[Similar]]:
    """By document the documents most like it, at most _MOST, best first.

    `chunks` is the result of `embedded_text.embedded_chunks`. Similar are documents whose
    similarity is above the percentile of all pairs. Every pair is one step of a matrix product:
    10,000 documents take seconds.
    """
    names, first = np.unique(
        chunks.column("doc_id").to_numpy(zero_copy_only=False), return_index=True
    )
    if len(names) < 2:
        return {}
    means = np.add.reduceat(matrix(chunks.column("vector")).astype(np.float64), first, axis=0)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), np.finfo(float).tiny)
    threshold = _threshold(means)
    similar: dict[str, list[Similar]] = {}
    most = min(_MOST, len(names) - 1)
    for start in range(0, len(names), _DOCUMENTS_AT_ONCE):
        scores = np.round(means[start : start + _DOCUMENTS_AT_ONCE] @ means.T, DECIMALS)
        rows = np.arange(len(scores))
        scores[rows, rows + start] = -np.inf
        edges = np.partition(scores, -most, axis=1)[:, -most]
        for row, edge in zip(rows, edges, strict=True):
            # To sort them all would take four times as long; equal scores are in the order of their
            # names.
            candidates = np.flatnonzero((scores[row] >= edge) & (scores[row] > threshold))
            best = candidates[np.argsort(-scores[row, candidates], kind="stable")][:most]
            similar[str(names[row + start])] = [
                Similar(str(names[c]), float(scores[row, c])) for c in best
            ]
    return similar


def _threshold(means: np.ndarray) -> float:
    sample = means[:: -(-len(means) // _SAMPLE)]
    pairs = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
    return round(float(np.percentile(pairs, _PERCENTILE)), DECIMALS)
