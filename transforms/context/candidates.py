"""The parts of a text that are asked, and the results of one window as one list without repetitions: dedup, order.

Frames of candidates have one row per window, query and chunk: `window_id`, `query` (number in the
window), `chunk_id`, `document_id`, `similarity` (cosine), `score` (what is ranked by).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from transforms.retrieval.diversity import marginal_order
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import TermSettings
from transforms.text.terms import counted_terms, stems

VERSION = "2"
_ADAPTIVE_MESSAGES = 100
"""Messages up to which, with strategy = "adaptive", a window is one query (egregora)."""
_ADAPTIVE_TOKENS = 1_800
"""Tokens up to which, with strategy = "adaptive_tokens", a window is one query: as many as a query chunk may have."""
_MMR_LAMBDA = 0.6
"""Weight of relevance against likeness (egregora)."""
_SHARPNESS = 4
_SHORT = 2_000
"""Characters of a window up to which parts are asked by themselves, too: in longer ones they add chance finds."""


def strategy_queries(windows: pl.DataFrame, chunks: pl.DataFrame, settings: ContextSettings) -> pl.DataFrame:
    """The queries: `window_id`, `query` and `text`, by the strategy of the settings (egregora).

    `windows` has doc_id, message_count and text (all its messages); `chunks` has doc_id,
    chunk_index, token_count and text.
    """
    by_window = windows.filter(pl.col("text").str.strip_chars() != "")
    by_window = by_window.select(
        window_id="doc_id", query=pl.lit(-1, pl.Int64), text="text", messages="message_count"
    )
    by_chunk = chunks.select(window_id="doc_id", query=pl.col("chunk_index").cast(pl.Int64), text="text")
    if settings.strategy in ("window", "off"):
        by_chunk = by_chunk.clear()
    if settings.strategy in ("chunks", "off"):
        by_window = by_window.clear()
    elif settings.strategy == "adaptive":
        by_window = by_window.filter(pl.col("messages") <= _ADAPTIVE_MESSAGES)
        by_chunk = by_chunk.join(by_window, on="window_id", how="anti")
    elif settings.strategy == "adaptive_tokens":
        is_small = pl.col("token_count").sum() <= _ADAPTIVE_TOKENS
        small = chunks.group_by(window_id="doc_id").agg(is_small=is_small).filter("is_small")
        by_window = by_window.join(small, on="window_id", how="semi")
        by_chunk = by_chunk.join(by_window, on="window_id", how="anti")
    queries = pl.concat([by_window.drop("messages"), by_chunk])
    if settings.by_parts:
        queries = pl.concat([queries, _parts_of_short(queries)])
    return queries.filter(pl.col("text").str.contains(r"[\p{L}\p{N}]")).sort("window_id", "query")


def _parts_of_short(queries: pl.DataFrame) -> pl.DataFrame:
    """The parts of the queries of short windows that have several, numbered on behind the last query of their window."""
    is_short = pl.col("text").str.len_chars().sum().over("window_id") <= _SHORT
    short = queries.filter(is_short).with_columns(
        text=pl.col("text").map_elements(parts, return_dtype=pl.List(pl.String))
    )
    last = queries.group_by("window_id").agg(last=pl.col("query").max())
    return (
        short.filter(pl.col("text").list.len() > 1)
        .sort("window_id", "query")
        .explode("text")
        .join(last, on="window_id")
        .with_columns(query=pl.col("last") + pl.int_range(1, pl.len() + 1).over("window_id"))
        .select("window_id", "query", "text")
    )


def telling_terms(
    texts: Sequence[str],
    documents_with: Mapping[str, int],
    chunk_count: int,
    limit: int,
    stopwords: Sequence[str],
    settings: TermSettings,
) -> pl.DataFrame:
    """Columns `query` and `term`: of each text the `limit` terms with the highest tf times idf.

    As Lucene's MoreLikeThis chooses them; `documents_with` is the chunks that hold a term.
    """
    term_counts = counted_terms(pl.Series(list(texts), dtype=pl.String), settings)
    frequencies = pl.DataFrame(
        {"term": list(documents_with), "df": list(documents_with.values())},
        schema={"term": pl.String, "df": pl.Int64},
    )
    weight = pl.col("tf") * (1 + (chunk_count - pl.col("df") + 0.5) / (pl.col("df") + 0.5)).log()
    return (
        term_counts.join(frequencies, on="term")
        .filter(~pl.col("term").is_in(stems(list(stopwords), settings)))
        .with_columns(weight=weight)
        .sort("row", "weight", "term", descending=[False, True, False])
        .group_by("row", maintain_order=True)
        .head(limit)
        .select(query=pl.col("row").cast(pl.Int32), term="term")
    )


def deduplicate(candidates: pl.DataFrame, n: int = 1) -> pl.DataFrame:
    """Of each document the `n` best chunks of a window, each chunk once (egregora).

    A candidate without document counts as a document of its own; one without similarity is last of
    its document. Documents stay in the order of their first candidate, chunks best first.
    """
    window = ["window_id"] if "window_id" in candidates.columns else []
    by = "score" if "score" in candidates.columns else "similarity"
    numbered = candidates.with_row_index("_found").with_columns(
        _document=pl.coalesce(
            pl.col("document_id"),
            pl.format("\x00{}", pl.coalesce(pl.col("chunk_id"), pl.col("_found").cast(pl.String))),
        )
        if "chunk_id" in candidates.columns
        else pl.coalesce(pl.col("document_id"), pl.format("\x00{}", pl.col("_found")))
    )
    best = numbered.sort(by, "_found", descending=[True, False], nulls_last=True)
    if "chunk_id" in candidates.columns:
        best = best.unique([*window, "chunk_id"], keep="first", maintain_order=True)
    best_of_document = best.filter(pl.int_range(pl.len()).over([*window, "_document"]) < n)
    first = numbered.group_by([*window, "_document"]).agg(_first=pl.col("_found").min())
    return (
        best_of_document.join(first, on=[*window, "_document"], how="left", maintain_order="left")
        .with_columns(_place=pl.int_range(pl.len()))
        .sort("_first", "_place")
        .drop("_found", "_document", "_first", "_place")
    )


def drop_similar(
    documents: pl.DataFrame, vectors: Mapping[str, np.ndarray], similarity: float
) -> pl.DataFrame:
    """Of each window the chunks, best first, that are less like every better one than `similarity`."""
    selected: list[int] = []
    order_documents = documents.with_row_index("_row").sort(
        "window_id", "score", "chunk_id", descending=[False, True, False]
    )
    for _, rows in order_documents.group_by("window_id", maintain_order=True):
        chosen_vectors: list[np.ndarray] = []
        for row, chunk in rows.select("_row", "chunk_id").iter_rows():
            vector = vectors[chunk]
            if not chosen_vectors or float(np.max(np.stack(chosen_vectors) @ vector)) < similarity:
                chosen_vectors.append(vector)
                selected.append(row)
    return documents[sorted(selected)]


def order_documents(
    candidates: pl.DataFrame,
    documents: pl.DataFrame,
    settings: ContextSettings,
    vectors: Mapping[str, np.ndarray] | None = None,
) -> pl.DataFrame:
    """`documents` with the column `place`: 1 for the best of a window; the order of `settings.pick`.

    `vectors` by chunk are needed for `mmr` alone. Ties break on the chunk's id.
    """
    frames = []
    for (window,), rows in documents.sort(
        "window_id", "score", "chunk_id", descending=[False, True, False]
    ).group_by("window_id", maintain_order=True):
        if settings.pick == "mmr":
            assert vectors is not None
            order = _mmr(rows, vectors, _MMR_LAMBDA)
        elif settings.pick == "coverage":
            order = _coverage(rows, candidates.filter(pl.col("window_id") == window))
        else:
            order = list(range(len(rows)))
        positions = np.empty(len(rows), dtype=np.int64)
        positions[order] = np.arange(1, len(rows) + 1)
        frames.append(rows.with_columns(place=pl.Series(positions)).sort("place"))
    return pl.concat(frames) if frames else documents.with_columns(place=pl.lit(None, pl.Int64))


def _mmr(rows: pl.DataFrame, vectors: Mapping[str, np.ndarray], weight: float) -> list[int]:
    """The order of `marginal_order`; relevance is the score, a cosine or a blend, so that both are of one scale."""
    relevance = rows.get_column("score").fill_null(0.0).to_numpy()
    matrix = np.stack([vectors[c] for c in rows.get_column("chunk_id")])
    return marginal_order(relevance, matrix, 1 - weight)


def _coverage(rows: pl.DataFrame, candidates: pl.DataFrame) -> list[int]:
    """Greedily what adds most to the sum, over queries, of the best score among the chosen documents.

    Facility location (Lin and Bilmes 2011) over the scores of the candidates, so that every part
    of a conversation pulls towards its own documents. Scores count with their fourth power, so that
    one good match is worth more than many middling ones. What adds nothing follows by score.
    """
    names = [d or f"\x00{c}" for d, c in rows.select("document_id", "chunk_id").iter_rows()]
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        columns.setdefault(name, []).append(column)
    queries = {q: i for i, q in enumerate(sorted(set(candidates.get_column("query").to_list())))}
    matrix = np.zeros((len(queries), len(rows)))
    scores = candidates.select("query", "document_id", "chunk_id", "score").iter_rows()
    for query, document, chunk, score in scores:
        for column in columns.get(document or f"\x00{chunk}", ()):
            matrix[queries[query], column] = max(
                matrix[queries[query], column], max(score or 0.0, 0.0) ** _SHARPNESS
            )
    covered = np.zeros(len(queries))
    remaining = np.ones(len(rows), dtype=bool)
    order = []
    for _ in range(len(rows)):
        gain = np.maximum(matrix - covered[:, None], 0.0).sum(axis=0)
        best = int(np.argmax(np.where(remaining, gain, -1.0)))
        if gain[best] <= 0:
            break
        order.append(best)
        remaining[best] = False
        covered = np.maximum(covered, matrix[:, best])
    return [*order, *np.flatnonzero(remaining).tolist()]


_ENDS = re.compile(r"\n\s*\n|(?<=\?)[\"')\]]*\s+")
"""Where a paragraph ends, or a question."""
_LEAST_WORDS, _LEAST_OF_QUESTION = 25, 4
_MOST = 16


def parts(text: str) -> list[str]:
    """The parts of a text in order: questions, and paragraphs, small ones together; at most 16, longer in a long text.

    >>> parts("We moved to a new host. Why is the index bloated? And which lock does a vacuum take?")
    ['We moved to a new host. Why is the index bloated?', 'And which lock does a vacuum take?']
    """
    pieces = [piece.strip() for piece in _ENDS.split(text) if piece.strip()]
    least = max(_LEAST_WORDS, len(text.split()) // _MOST)
    found: list[str] = []
    is_open = False
    for piece in pieces:
        if is_open:
            found[-1] = f"{found[-1]}\n{piece}"
        else:
            found.append(piece)
        words = len(found[-1].split())
        is_question = piece.endswith("?") and least == _LEAST_WORDS
        is_open = words < (_LEAST_OF_QUESTION if is_question else least)
    if is_open and len(found) > 1:
        last = found.pop()
        found[-1] = f"{found[-1]}\n{last}"
    return found
