"""Postings of one version made from those of the one before: renumbered, and new ones put in their places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GONE = -1


class SortedPostings(NamedTuple):
    """Postings in order of term and chunk: those of term t are `starts[t]` to `starts[t + 1]` of both columns."""

    starts: np.ndarray
    chunks: np.ndarray
    codes: np.ndarray


class AddedTerms(NamedTuple):
    """Terms that get postings, ascending: their places among the terms before, and whether they are new there.

    A new term stands before the one that has its place. `counts` says how many of the postings each has.
    """

    places: np.ndarray
    are_new: np.ndarray
    counts: np.ndarray


def merged_postings(
    before: SortedPostings, chunk_of: np.ndarray, terms: AddedTerms, chunks: np.ndarray, codes: np.ndarray
) -> tuple[SortedPostings, np.ndarray]:
    """All postings, and which of the terms before are left without any.

    Chunks of `before` become the numbers that `chunk_of` has at their place, which must keep their order; the
    postings of a chunk that is GONE are left out. `chunks` and `codes` are the added postings in order of term and
    chunk, with the new numbers. Linear in all postings, most of it copies of memory.
    """
    retained = _renumbered(before, chunk_of)
    edges = np.concatenate([[0], np.cumsum(terms.counts)])
    places = np.empty(len(chunks), dtype=np.int64)
    for term, (place, is_new) in enumerate(zip(terms.places.tolist(), terms.are_new.tolist(), strict=True)):
        first = int(retained.starts[place])
        own = slice(int(edges[term]), int(edges[term + 1]))
        old_chunks = retained.chunks[first : first if is_new else int(retained.starts[place + 1])]
        places[own] = first + np.searchsorted(old_chunks, chunks[own])
    count = np.diff(retained.starts)
    old, new = ~terms.are_new, terms.are_new
    count[terms.places[old]] += terms.counts[old]
    is_empty = count == 0
    count = np.insert(count, terms.places[new], terms.counts[new])
    starts = np.concatenate([[0], np.cumsum(count[count > 0])]).astype(np.int64)
    merged = SortedPostings(
        starts, np.insert(retained.chunks, places, chunks), np.insert(retained.codes, places, codes)
    )
    return merged, is_empty


def _renumbered(before: SortedPostings, chunk_of: np.ndarray) -> SortedPostings:
    chunks = chunk_of.take(before.chunks)
    if not (chunk_of == GONE).any():
        return SortedPostings(before.starts, chunks, before.codes)
    stays = chunks != GONE
    passed = np.concatenate([[0], np.cumsum(stays)])
    return SortedPostings(passed[before.starts], chunks[stays], before.codes[stays])
