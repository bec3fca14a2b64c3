"""Vectors as bits: a first look at all of them, so that only the near ones are compared in full."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import numpy as np

from transforms.retrieval.top_k import top_k

WORD = 64
_ROWS_AT_ONCE = 1 << 15
_FARTHEST = 512
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[None], axis=0).astype(np.float32)
"""The bits of every byte, of shape (8, 256)."""


def sign_codes(vectors: np.ndarray) -> np.ndarray:
    """The signs of float vectors of shape (rows, dimensions) as bits, uint64 of shape (words, rows).

    A word is a row of the result, so that a search reads memory in order; bits beyond the dimensions are 0.
    """
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(bits), -(-vectors.shape[1] // WORD) * WORD // 8), dtype=np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def hamming(codes: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Bits in which each code differs from one of shape (words,), uint16; block by block, to stay in the cache."""
    distances = np.zeros(codes.shape[1], dtype=np.uint16)
    differing = np.empty(_ROWS_AT_ONCE, dtype=np.uint64)
    bits = np.empty(_ROWS_AT_ONCE, dtype=np.uint8)
    for start in range(0, codes.shape[1], _ROWS_AT_ONCE):
        block = distances[start : start + _ROWS_AT_ONCE]
        rows = slice(0, len(block))
        for word in range(len(codes)):
            np.bitwise_xor(codes[word, start : start + len(block)], code[word], out=differing[rows])
            np.bitwise_count(differing[rows], out=bits[rows])
            np.add(block, bits[rows], out=block)
    return distances


@dataclass(frozen=True)
class CodedVectors:
    """Vectors of shape (rows, dimensions), their `sign_codes`, and the numbers of the rows that are none."""

    vectors: np.ndarray
    codes: np.ndarray
    absent: np.ndarray


class CodeScores:
    """The cosines of one query with vectors of unit length, of which few are computed.

    The `candidates` allowed rows with the most signs in common are put in order by the product of the
    query with their signs, the first `rescored` of these by the true cosine. All that is returned is true
    cosines; what is missed was not among the candidates. Where no more rows are allowed than rescored,
    the search is exact. `high` and `low` are the cosines of the nearest allowed row and of the farthest of those
    that were compared, 0 if none is allowed.
    """

    def __init__(
        self,
        query: np.ndarray,
        coded: CodedVectors,
        allowed: np.ndarray | None,
        candidates: int,
        rescored: int,
    ):
        self.query, self.vectors, self.absent = query, coded.vectors, coded.absent
        code = sign_codes(query[None, :])[:, 0]
        distances = hamming(coded.codes, code)
        if allowed is not None:
            distances[~allowed] = np.iinfo(np.uint16).max
        distances[coded.absent] = np.iinfo(np.uint16).max
        nearby = np.flatnonzero(distances <= _edge(distances, candidates, coded.vectors.shape[1]))
        if len(nearby) > rescored:
            nearby = np.sort(nearby[top_k(_signed(coded.codes.take(nearby, axis=1), query), rescored)])
        scores = self._cosines(nearby)
        order = np.lexsort((nearby, -scores))
        self.nearest = nearby[order]
        self.high = float(scores.max()) if len(scores) else 0.0
        self.low = self._lowest(distances)

    def _lowest(self, distances: np.ndarray) -> float:
        """The lowest cosine of the allowed rows with the fewest signs in common, 0 if there is none."""
        dimensions = self.vectors.shape[1]
        # Rows that are not allowed become the nearest when turned round.
        shared = np.subtract(dimensions, distances, dtype=np.int16)
        shared[shared < 0] = dimensions + 1
        far = np.flatnonzero(shared <= _edge(shared, _FARTHEST, dimensions))[:_FARTHEST]
        return float(self._cosines(far).min()) if len(far) else 0.0

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest rows, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The cosines of these rows, float64; the lowest for a row without a vector."""
        scores = self._cosines(chunks)
        if len(self.absent):
            scores[np.isin(chunks, self.absent)] = self.low
        return scores

    def _cosines(self, rows: np.ndarray) -> np.ndarray:
        # Row by row: a product with the matrix of them starts threads, and rounds by the place of a row in it.
        return np.vecdot(self.vectors[rows], self.query).astype(np.float64)


def _edge(distances: np.ndarray, count: int, largest: int) -> int:
    """The smallest distance within which `count` rows lie; `largest` if fewer do."""
    within = range(largest)
    return bisect.bisect_left(within, count, key=lambda d: int(np.count_nonzero(distances <= d)))


def _signed(codes: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The product of a query with the bits of codes of shape (words, rows), float32.

    What eight bits add to it is looked up by their byte, as product quantisation does (Jegou, Douze and Schmid 2011).
    """
    padded = np.zeros(len(codes) * WORD, dtype=np.float32)
    padded[: len(query)] = query
    by_byte = padded.reshape(-1, 8) @ _BITS
    bytes_of_rows = codes.view(np.uint8).reshape(len(codes), -1, 8)
    products = np.zeros(codes.shape[1], dtype=np.float32)
    for byte, of_value in enumerate(by_byte):
        products += of_value.take(bytes_of_rows[byte // 8, :, byte % 8])
    return products
