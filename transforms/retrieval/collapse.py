"""Hits that one hit replaces: chunks of a document, mails of a thread, versions of a patch."""

from collections.abc import Collection

import numpy as np
import polars as pl

from transforms.retrieval.folding import EARLIER, LATER, OF_DOCUMENT, OF_THREAD
from transforms.retrieval.hits import (
    Patches,
    Step,
    best_first,
    firsts,
    groups,
    parted,
    unchanged,
)
from transforms.retrieval.reranking import RERANKED
from transforms.retrieval.small_tables import is_given, rows_at, with_values
from transforms.settings.search import SearchSettings


def best_of_documents(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """The best `per_document` hits of each document; without that setting one of a mail and all
    others.
    """
    chunks, is_mail = (hits.get_column(name).to_numpy() for name in ("chunk_no", "is_mail"))
    documents = groups(hits, "document")
    keeps = stays(settings.per_document, documents, is_mail)
    return parted(hits, keeps, OF_DOCUMENT, chunks[firsts(documents)])


def stays(per_document: int | None, documents: np.ndarray, is_mail: np.ndarray) -> np.ndarray:
    """True of the rows, best first, that a document may show: one of a mail and all others if
    `per_document` is None.
    """
    order = np.argsort(documents, kind="stable")
    in_order = documents[order]
    nth = np.empty(len(order), dtype=np.int64)
    nth[order] = np.arange(len(order)) - np.searchsorted(in_order, in_order)
    return (nth < 1) | ~is_mail if per_document is None else nth < per_document


def latest_first(hits: pl.DataFrame, settings: SearchSettings) -> Step:
    """Hits, with the facts REVISION; the postings of one patch exchange their scores, so that later
    ones stand higher.
    """
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
    return parted(hits, keeps, OF_THREAD, chunks[first])


def versions_once(hits: pl.DataFrame, patches: Patches, as_ranked: Collection[int]) -> Step:
    """Hits, of the versions of a patch the newest alone, with the place and
    the score of the best.

    Queries in `as_ranked` keep the best itself: they ask for a version or a time.
    """
    chunks, queries = (hits.get_column(name).to_numpy() for name in ("chunk_no", "query"))
    place, number = np.arange(len(hits)), patches.number[chunks]
    is_patch = number >= 0
    of_one = np.where(is_patch, queries.astype(np.int64) << 32 | number, -1 - place)
    _, best, group = np.unique(of_one, return_index=True, return_inverse=True)
    if len(best) == len(hits):
        return unchanged(hits)
    keeps_best = np.isin(queries, list(as_ranked))
    version = np.where(keeps_best, 0, patches.version[chunks])
    is_latest = ~keeps_best & patches.is_latest[chunks]
    newest_first = np.lexsort((place, -version, ~is_latest, group))
    newest = newest_first[np.searchsorted(group[newest_first], np.arange(len(best)))]
    order = np.argsort(best)
    result = rows_at(hits, newest[order])
    if (newest != best).any():
        of_best = rows_at(hits[:, ["score", *RERANKED]], best[order])
        result = with_values(result, **of_best.to_dict())
    into = newest[group]
    is_later = patches.version[chunks] > patches.version[chunks[into]]
    reasons = pl.Series(np.where(is_later, LATER, EARLIER))
    ids = hits[:, ["query", "chunk_no"]]
    dropped = parted(ids, into == place, reasons, chunks[into]).dropped
    return Step(result, dropped)
