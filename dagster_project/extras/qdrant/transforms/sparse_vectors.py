"""The inverted index as sparse vectors, whose products with those of queries are the BM25F scores
of `bm25`.

A vector has for each term of a chunk, or of a whole mail or page, f / (f + norm), its BM25 without
its idf; the vector of a query has the idf of its terms. Both are sums over the same terms, so that
a vector is as good as its corpus is old in one way only: `norm` knows the mean length that it was
made with.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from transforms.retrieval import bm25
from transforms.retrieval.postings import Postings

_Weights = TypeVar("_Weights", bm25.Weighed, bm25.WeighedWholes)


@dataclass(frozen=True)
class SparseVectors:
    """Vectors one after the other: vector i has `numbers` and `values` from `starts[i]` to
    `starts[i + 1]`.

    Numbers (uint32) are those of terms and ascend in each vector, values are float32.
    """

    starts: np.ndarray
    numbers: np.ndarray
    values: np.ndarray

    def of(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and values of a vector."""
        part = slice(int(self.starts[row]), int(self.starts[row + 1]))
        return self.numbers[part], self.values[part]


def term_number(term: str, moved: Mapping[str, int]) -> int:
    """The 32-bit number of a term: its CRC-32, with a salt for one of the `moved`, whose number
    another term has.

    >>> term_number("index", {}), term_number("index", {"index": 1})
    (2155046657, 3670693644)
    """
    salt = moved.get(term, 0)
    return zlib.crc32(f"{term}\0{salt}".encode() if salt else term.encode())


def moved_terms(
    terms: Sequence[str],
    before: Mapping[str, int],
    was_there: Callable[[str], bool] = lambda term: False,
) -> dict[str, int]:
    """The salts by which all terms have numbers of their own; of two with one number the first
    keeps it.

    `before` are the salts in use, which stay; `was_there` says which terms are numbered by now.
    """
    moved = dict(before)
    numbers = np.array([term_number(term, moved) for term in terms], dtype=np.uint32)
    distinct, of_number, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    shared = [terms[place] for place in np.flatnonzero(counts[of_number] > 1).tolist()]
    if not shared:
        return moved
    in_use, met = set(distinct.tolist()), set[int]()
    for term in sorted(shared, key=lambda term: (term not in before, not was_there(term), term)):
        number = term_number(term, moved)
        if number in met:
            while number in in_use:
                moved[term] = moved.get(term, 0) + 1
                number = term_number(term, moved)
            in_use.add(number)
        met.add(number)
    return moved


def with_mean(weights: _Weights, mean: float) -> _Weights:
    """The weights of chunks, or of mails and pages as a whole, with the norms that another mean
    length makes.
    """
    if weights.mean == mean or not mean:
        return replace(weights, mean=mean)
    least = bm25.K1 * (1 - bm25.B)
    norm = least + (weights.norm - least) * (weights.mean / mean)
    return replace(weights, norm=norm.astype(weights.norm.dtype), mean=mean)


def chunk_vectors(
    postings: Postings, weights: bm25.Weighed, numbers: Sequence[np.ndarray], chunks: np.ndarray
) -> SparseVectors:
    """The vector of each of some chunks; `numbers` has the numbers of the terms of each segment, in
    their order.
    """
    slots = postings.slots.of(chunks)
    rows, terms, codes = _occurrences(postings, numbers, slots)
    frequency = weights.frequency[codes]
    values = frequency / (frequency + weights.norm[slots][rows])
    counts = frequency > 0
    return _vectors(rows[counts], terms[counts], values[counts], len(chunks))


def whole_vectors(
    postings: Postings,
    wholes: bm25.WeighedWholes,
    numbers: Sequence[np.ndarray],
    chunks: np.ndarray,
) -> tuple[np.ndarray, SparseVectors]:
    """The numbers of the mails and pages of some chunks, ascending, and their vectors; `chunks` are
    all chunks of these.
    """
    slots = postings.slots.of(chunks)
    document, of_chunk = np.unique(wholes.document[slots], return_inverse=True)
    rows, terms, codes = _occurrences(postings, numbers, slots)
    keys = (of_chunk[rows].astype(np.uint64) << np.uint64(32)) | terms
    distinct, places = np.unique(keys, return_inverse=True)
    body, title = np.zeros((2, len(distinct)))
    np.add.at(body, places, wholes.body[codes])
    np.maximum.at(title, places, wholes.title[codes])
    frequency = body + title
    rows = (distinct >> np.uint64(32)).astype(np.int64)
    values = frequency / (frequency + wholes.norm[document][rows])
    counts = frequency > 0
    terms = distinct.astype(np.uint32)
    return document, _vectors(rows[counts], terms[counts], values[counts], len(document))


def _occurrences(
    postings: Postings, numbers: Sequence[np.ndarray], slots: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The postings of the chunks in these slots: the place of the chunk among them, the number of
    the term, the code.
    """
    place = np.full(postings.slots.count, -1, dtype=np.int32)
    place[slots] = np.arange(len(slots), dtype=np.int32)
    parts = []
    for segment, (slot, code), of_terms in zip(
        postings.segments, postings.firsts, numbers, strict=True
    ):
        in_segment = place[slot : slot + segment.lengths.shape[1]].take(segment.chunks[:])
        places = np.flatnonzero(in_segment >= 0)
        numbered = of_terms[np.searchsorted(segment.starts, places, side="right") - 1]
        parts.append((in_segment[places], numbered, segment.codes[places].astype(np.int64) + code))
    rows, terms, codes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return rows, terms, codes


def _vectors(rows: np.ndarray, terms: np.ndarray, values: np.ndarray, count: int) -> SparseVectors:
    order = np.lexsort((terms, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
    return SparseVectors(starts, terms[order].astype(np.uint32), values[order].astype(np.float32))
