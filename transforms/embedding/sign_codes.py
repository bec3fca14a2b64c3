"""Vectors as bits: a first look at all of them, so that only the near ones are compared in full."""

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from transforms.embedding.vectors import from_fixed_point
from transforms.retrieval.postings import GONE, Slots
from transforms.retrieval.small_tables import top_k

_Run = Callable[[Callable[[Any], object], Iterable[Any]], Iterator[object]]
"""Gives the result of a function for each value, as `map` does, and as threads do that begin at
once.
"""
WORD_BITS = 64
_ROWS_AT_ONCE = 1 << 15
_FARTHEST = 512
_CACHED = 1 << 11
"""Vectors that a processor's cache holds while a batch of queries is compared with them."""
_COUNTED_AT_ONCE = 1 << 18
"""Codes that a thread compares before another may take its turn."""
_AT_ONCE = 4
"""Such parts of all vectors that a thread compares before another may take its turn."""
_NO_VECTOR = np.iinfo(np.uint16).max
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[None], axis=0).astype(np.float32)
"""The bits of every byte, of shape (8, 256)."""


def sign_codes(vectors: np.ndarray) -> np.ndarray:
    """The signs of float vectors of shape (rows, dimensions) as bits, uint64 of shape (words,
    rows).

    A word is a row of the result, so that a search reads memory in order; bits beyond the
    dimensions are 0.
    """
    bits = np.packbits(vectors > 0, axis=1)
    padded = np.zeros(
        (len(bits), -(-vectors.shape[1] // WORD_BITS) * WORD_BITS // 8), dtype=np.uint8
    )
    padded[:, : bits.shape[1]] = bits
    return np.ascontiguousarray(padded.view(np.uint64).T)


def hamming(codes: np.ndarray, code: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Bits in which each code differs from one of shape (words,), uint16, in `out` unless it is
    None.

    Block by block, to stay in the cache.
    """
    distances = np.empty(codes.shape[1], dtype=np.uint16) if out is None else out
    differing = np.empty(_ROWS_AT_ONCE, dtype=np.uint64)
    bits = np.empty(_ROWS_AT_ONCE, dtype=np.uint8)
    for start in range(0, codes.shape[1], _ROWS_AT_ONCE):
        block = distances[start : start + _ROWS_AT_ONCE]
        block[:] = 0
        rows = slice(0, len(block))
        for word in range(len(codes)):
            np.bitwise_xor(codes[word, start : start + len(block)], code[word], out=differing[rows])
            np.bitwise_count(differing[rows], out=bits[rows])
            np.add(block, bits[rows], out=block)
    return distances


@dataclass(frozen=True)
class CodedVectors:
    """The vectors of chunks in segments: of each the `fixed_point` of shape (rows, dimensions), and
    their `sign_codes`.

    `slots` says where the chunks stand in them, `absent` has the numbers of those that have no
    vector, but zeros.
    """

    segments: Sequence[tuple[np.ndarray, np.ndarray]]
    slots: Slots
    absent: np.ndarray

    @cached_property
    def is_absent(self) -> np.ndarray:
        """True of each chunk that has no vector."""
        return np.bincount(self.absent, minlength=self.slots.chunk_count) > 0

    @property
    def dimensions(self) -> int:
        """The dimensions of each vector."""
        return int(self.segments[0][0].shape[1])

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The vectors of these chunks, float32 of shape (chunks, dimensions)."""
        rows = np.empty((len(chunks), self.dimensions), dtype=np.int16)
        for (vectors, _), places, local in self._by_segment(self.slots.of(chunks)):
            rows[places] = vectors[local]
        return from_fixed_point(rows)

    def products(self, chunks: np.ndarray, query: np.ndarray) -> np.ndarray:
        """The product of the vector of each of these chunks with a query, float32.

        Row by row: a product with the matrix of them starts threads, and rounds by the place of a
        row in it.
        """
        return np.vecdot(self.of(chunks), query)

    @cached_property
    def _blocks(self) -> list[tuple[np.ndarray, np.ndarray | slice, np.ndarray]]:
        """The vectors, some at a time, which of them are of a chunk, and the numbers of these
        chunks.
        """
        blocks: list[tuple[np.ndarray, np.ndarray | slice, np.ndarray]] = []
        for (vectors, _), slots, _ in self._by_segment(np.arange(self.slots.count)):
            chunks = self.slots.chunks(slots)
            is_there = chunks != GONE
            for rows in (slice(first, first + _CACHED) for first in range(0, len(chunks), _CACHED)):
                present = slice(None) if is_there[rows].all() else is_there[rows]
                blocks.append((vectors[rows], present, chunks[rows][present]))
        return blocks

    def comparing(
        self, queries: np.ndarray, out: np.ndarray | None = None, run: _Run = map
    ) -> Callable[[], np.ndarray]:
        """Gives the cosine of each query with each chunk, float32 of shape (queries, chunks); -inf
        without a vector.

        Written to `out` unless it is None, by work that `run` begins now. Row by row: a product
        with a matrix starts threads, which go on waiting for longer than it takes, and rounds by
        the place of a row in it.
        """
        cosines = (
            np.empty((len(queries), self.slots.chunk_count), np.float32) if out is None else out
        )
        blocks = self._blocks

        def compare(first: int) -> None:
            for vectors, present, chunks in blocks[first : first + _AT_ONCE]:
                cosines[:, chunks] = np.vecdot(from_fixed_point(vectors)[None], queries[:, None])[
                    :, present
                ]

        parts = run(compare, range(0, len(blocks), _AT_ONCE))

        def compared() -> np.ndarray:
            for _ in parts:
                pass
            cosines[:, self.absent] = -np.inf
            return cosines

        return compared

    def differing(self, query: np.ndarray, run: _Run = map) -> Callable[[], np.ndarray]:
        """Gives the bits in which the code of the vector in each slot differs from that of a query,
        uint16.

        A slot without a vector has `_NO_VECTOR`. `run` begins to count now.
        """
        code = sign_codes(query[None, :])[:, 0]
        distances, parts, first = np.empty(self.slots.count, dtype=np.uint16), [], 0
        for _, codes in self.segments:
            for start in range(0, codes.shape[1], _COUNTED_AT_ONCE):
                part = codes[:, start : start + _COUNTED_AT_ONCE]
                parts.append((part, distances[first + start : first + start + part.shape[1]]))
            first += codes.shape[1]
        counted = run(lambda part: hamming(part[0], code, part[1]), parts)

        def differing() -> np.ndarray:
            for _ in counted:
                pass
            distances[self._without_vector] = _NO_VECTOR
            return distances

        return differing

    @cached_property
    def _without_vector(self) -> np.ndarray:
        """The slots of the chunks that are gone, or have no vector."""
        is_gone = self.slots.chunks(np.arange(self.slots.count)) == GONE
        return np.concatenate([np.flatnonzero(is_gone), self.slots.of(self.absent)])

    def codes_in(self, slots: np.ndarray) -> np.ndarray:
        """The codes of the vectors in these slots, of shape (words, slots)."""
        result = np.empty((len(self.segments[0][1]), len(slots)), dtype=np.uint64)
        for (_, codes), places, local in self._by_segment(slots):
            result[:, places] = codes.take(local, axis=1)
        return result

    def _by_segment(
        self, slots: np.ndarray
    ) -> Iterator[tuple[tuple[np.ndarray, np.ndarray], np.ndarray, np.ndarray]]:
        """Each segment, which of the slots are in it, and the rows that these are there."""
        first = 0
        for segment in self.segments:
            end = first + len(segment[0])
            places = np.flatnonzero((slots >= first) & (slots < end))
            yield segment, places, slots[places] - first
            first = end


class CodeScores:
    """The cosines of one query with vectors of unit length, few of them computed.

    The `candidates` allowed rows with the most signs in common are put in order by the product of
    the query with their signs, the first `rescored` of these by the true cosine. All results are
    true cosines; a missed row was not among the candidates. Where no more rows are allowed than
    rescored, the search is exact. `high` and `low` are the cosines of the nearest allowed row and
    of the farthest of those that were compared, 0 if none is allowed.
    """

    def __init__(
        self,
        query: np.ndarray,
        coded: CodedVectors,
        allowed: np.ndarray | None,
        candidates: int,
        rescored: int,
        differing: Callable[[], np.ndarray] | None = None,
    ):
        """`differing` is the result of `coded.differing` for the query, if that has begun."""
        self.query, self.coded = query, coded
        distances = (differing or coded.differing(query))()
        if allowed is not None:
            distances[~coded.slots.mask(allowed)] = _NO_VECTOR
        edge = bisect.bisect_left(
            range(coded.dimensions), candidates, key=lambda d: int(np.count_nonzero(distances <= d))
        )
        near = np.flatnonzero(distances <= edge)
        slots, nearby = coded.slots.in_order(near)
        if len(nearby) > rescored:
            nearby = np.sort(nearby[top_k(_signed(coded.codes_in(slots), query), rescored)])
        scores = self._cosines(nearby)
        order = np.lexsort((nearby, -scores))
        self.nearest = nearby[order]
        self.high = float(scores.max()) if len(scores) else 0.0
        self.low = self._lowest(distances)

    def _lowest(self, distances: np.ndarray) -> float:
        """The lowest cosine of the allowed rows with the fewest signs in common, 0 if there is
        none.
        """
        dimensions = self.coded.dimensions
        left_out = int(np.count_nonzero(distances > dimensions))
        edge = bisect.bisect_left(
            range(dimensions),
            _FARTHEST,
            key=lambda shared: int(np.count_nonzero(distances >= dimensions - shared)) - left_out,
        )
        farthest = np.flatnonzero(distances >= dimensions - edge)
        _, far = self.coded.slots.in_order(farthest[distances[farthest] <= dimensions])
        return float(self._cosines(far[:_FARTHEST]).min()) if len(far) else 0.0

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest rows, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The cosines of these rows, float64; the lowest for a row without a vector."""
        scores = self._cosines(chunks)
        scores[self.coded.is_absent[chunks]] = self.low
        return scores

    def _cosines(self, rows: np.ndarray) -> np.ndarray:
        return self.coded.products(rows, self.query).astype(np.float64)


def _signed(codes: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The product of a query with the bits of codes of shape (words, rows), float32.

    The sum of eight bits is looked up by their byte, as product quantisation does (Jegou, Douze and
    Schmid 2011).
    """
    padded = np.zeros(len(codes) * WORD_BITS, dtype=np.float32)
    padded[: len(query)] = query
    by_byte = padded.reshape(-1, 8) @ _BITS
    bytes_of_rows = codes.view(np.uint8).reshape(len(codes), -1, 8)
    products = np.zeros(codes.shape[1], dtype=np.float32)
    for byte, of_value in enumerate(by_byte):
        products += of_value.take(bytes_of_rows[byte // 8, :, byte % 8])
    return products
