"""Hits that one hit replaces: chunks of a document, mails of a thread, equal texts, quotes, revisions of a patch."""

import numpy as np
import polars as pl

from transforms.retrieval.hits import (
    Step,
    best_first,
    firsts,
    groups,
    nothing_dropped,
    parted,
    unchanged,
)
from transforms.retrieval.small_tables import is_given, rows_at, with_values
from transforms.settings.search import SearchSettings


def best_of_documents(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The best `per_document` hits of each document; without that setting one of a mail and all others."""
    chunks, is_mail = (hits.get_column(name).to_numpy() for name in ("chunk_no", "is_mail"))
    documents = groups(hits, "document")
    keeps = stays(settings.per_document, documents, is_mail)
    return parted(hits, keeps, "a better hit of the same document", chunks[firsts(documents)])


def stays(per_document: int | None, documents: np.ndarray, is_mail: np.ndarray) -> np.ndarray:
    """True of the rows, best first, that a document may show: one of a mail and all others if `per_document` is None."""
    order = np.argsort(documents, kind="stable")
    in_order = documents[order]
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
    return (nth < 1) | ~is_mail if per_document is None else nth < per_document


def latest_first(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the facts REVISION; the postings of one patch exchange their scores, so that later ones stand higher."""
    is_patch = is_given(hits.get_column("revision"))
    if not is_patch.any():
        return unchanged(hits)
    postings = rows_at(hits, np.flatnonzero(is_patch))
    patches = groups(postings, "revision")
    version, is_latest = (postings.get_column(name).to_numpy() for name in ("version", "is_latest"))
    score = hits.get_column("score").to_numpy(writable=True)
    of_patches = score[is_patch]
    exchanged = np.empty_like(of_patches)
    exchanged[np.lexsort((-version, ~is_latest, patches))] = of_patches[
        np.lexsort((-of_patches, patches))
    ]
    score[is_patch] = exchanged
    return unchanged(best_first(with_values(hits, score=score)))


def best_of_threads(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The best hit of each thread."""
    first = firsts(groups(hits, "thread"))
    chunks = hits.get_column("chunk_no").to_numpy()
    keeps = first == np.arange(len(hits))
    return parted(hits, keeps, "a better hit of the same thread", chunks[first])


def unlike(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the facts ORIGIN and REVISION, without those that repeat another hit of the query.

    A chunk that is nothing but an unmarked quote goes into a hit of the mail it repeats; equal texts
    into the best one; of the postings of a patch the latest among the hits stays. A hit that stays has the
    best score of those that it replaces. Lists that lack the original keep the copy.
    """
    if hits.is_empty():
        return Step(hits, nothing_dropped())
    quoted = hits.select("query", quoted_from="doc_id", _into="chunk_no").unique(
        ["query", "quoted_from"], keep="first", maintain_order=True
    )
    marked = hits.join(quoted, on=["query", "quoted_from"], how="left", maintain_order="left")
    quotes = _gathered(marked, pl.coalesce("_into", "chunk_no"), "repeats the mail it answers")
    first = pl.col("chunk_no").first().over("query", "checksum")
    distinct = pl.when(pl.col("checksum").is_null()).then("chunk_no").otherwise(first)
    equals = _gathered(quotes.hits, distinct, "the same text")
    latest = (
        pl.col("chunk_no")
        .sort_by("is_latest", "version", descending=True, nulls_last=True, maintain_order=True)
        .first()
        .over("query", "revision")
    )
    newest = pl.when(pl.col("revision").is_null()).then("chunk_no").otherwise(latest)
    patches = _gathered(equals.hits, newest, "an earlier posting of the same patch")
    dropped = pl.concat([quotes.dropped, equals.dropped, patches.dropped])
    return Step(best_first(patches.hits.select(hits.columns)), dropped)


def _gathered(hits: pl.DataFrame, into: pl.Expr, reason: str) -> Step:
    """The hits that go into themselves, each with the best score of those that go into it."""
    marked = hits.with_columns(_into=into)
    marked = marked.with_columns(
        pl.col("score", "rerank_score").max().over("query", "_into"),
        pl.col("rank_before").min().over("query", "_into"),
    )
    goes, chunks = (marked.get_column(name).to_numpy() for name in ("_into", "chunk_no"))
    return parted(marked, goes == chunks, reason, goes)
