"""Where the chunks of an index stand in its segments, which lie behind each other."""

from __future__ import annotations

import numpy as np

GONE = -1


class Slots:
    """The slot of each chunk: its place in the segments of an index, the first row of the first segment being 0.

    `of` and `chunks` have the slot of each chunk number and the chunk number in each slot, GONE where a chunk is not there
    any more, int32. Where every chunk has its own number for a slot (`are_numbers`), nothing is looked up.
    """

    def __init__(self, of: np.ndarray, count: int):
        """`of` has the slot of each chunk by its number; there are `count` slots."""
        self.count, self.chunk_count = count, len(of)
        self.are_numbers = len(of) == count and bool((of == np.arange(count, dtype=of.dtype)).all())
        self._of = of
        self._chunks = np.full(0 if self.are_numbers else count, GONE, dtype=np.int32)
        if not self.are_numbers:
            self._chunks[of] = np.arange(len(of), dtype=np.int32)

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The slots of these chunks."""
        return chunks if self.are_numbers else self._of.take(chunks)

    def chunks(self, slots: np.ndarray) -> np.ndarray:
        """The numbers of the chunks in these slots, or GONE."""
        return slots if self.are_numbers else self._chunks.take(slots)

    def mask(self, of_chunks: np.ndarray) -> np.ndarray:
        """A mask of chunks as one of slots."""
        if self.are_numbers:
            return of_chunks
        mask = np.zeros(self.count, dtype=bool)
        mask[self._of] = of_chunks
        return mask

    def in_order(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slots of chunks that are there, by the numbers of these, and the numbers: ties break alike in every layout."""
        if self.are_numbers:
            return slots, slots
        chunks = self._chunks.take(slots)
        order = np.argsort(chunks)
        return slots[order], chunks[order]


def all_numbers(count: int) -> Slots:
    """The slots of one segment in which nothing is gone."""
    return Slots(np.arange(count, dtype=np.int32), count)
