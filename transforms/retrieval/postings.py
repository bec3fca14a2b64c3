"""Segments of an index, where later ones hold newer chunks: the places of chunks, and postings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from transforms.languages import OR

GONE = -1
_MARKED = 64
"""Postings that are compared with marked chunks in the time in which one chunk is looked up among
them.
"""
_TERMS_KNOWN = 1 << 16
"""Terms whose frequencies are remembered."""


class Slots:
    """The slot of each chunk: its place in the segments of an index, the first row of the first
    segment being 0.

    `of` and `chunks` have the slot of each chunk number and the chunk number in each slot, GONE
    where a chunk is not there any more, int32. Where every chunk has its own number for a slot
    (`are_numbers`), nothing is looked up.
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
        """Slots of chunks that are there, by the numbers of these, and the numbers: ties break
        alike in every layout.
        """
        if self.are_numbers:
            return slots, slots
        chunks = self._chunks.take(slots)
        order = np.argsort(chunks)
        return slots[order], chunks[order]


class TermNumbers(Protocol):
    """The numbers of the terms of a segment."""

    def get(self, term: str, /) -> int | None:
        """The number of a term, in the order of the terms; None if no chunk holds it."""


@dataclass(frozen=True)
class TermSegment:
    """The postings of some chunks, which have numbers of their own from 0, in the order of their
    slots.

    The postings of the term with number t are `chunks[starts[t]:starts[t + 1]]` (int32, ascending)
    and the same slice of `codes`, the row of `counts` that says how often the term is in each of
    `bm25.FIELDS`. `lengths` has a row per field: the terms that each chunk holds in it.
    """

    numbers: TermNumbers
    starts: np.ndarray
    chunks: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray


class PostingPart(NamedTuple):
    """Postings of a term: the slots of the chunks that hold it, ascending, and for each the row of
    `Postings.counts`.
    """

    slots: np.ndarray
    codes: np.ndarray

    def lookup(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of some slots (int32, as those of the part, which would else be copied) are in it,
        and where.
        """
        places = np.searchsorted(self.slots, slots)
        places[places == len(self.slots)] = 0
        present = (self.slots.take(places) == slots).nonzero()[0]
        return present, places[present]


def lookups(
    slots: np.ndarray, parts: Sequence[PostingPart], slot_count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each part, which of some slots are in it, and where: many slots by marks, few by a lookup
    in the part.
    """
    numbers = slots.astype(np.int32)
    is_marked = None
    for part in parts:
        if _MARKED * len(numbers) < max(len(part.slots), slot_count >> 4):
            yield part.lookup(numbers)
            continue
        if is_marked is None:
            # Marks of a byte stay in the cache of a processor; the numbers are read where there is
            # a mark.
            is_marked, number_in = (
                np.zeros(slot_count, dtype=bool),
                np.empty(slot_count, dtype=np.int32),
            )
            is_marked[numbers] = True
            number_in[numbers] = np.arange(len(numbers), dtype=np.int32)
        places = is_marked.take(part.slots).nonzero()[0]
        yield number_in.take(part.slots.take(places)), places


class GoneTerms(NamedTuple):
    """The terms with postings of chunks that are gone: the numbers of these terms, and the count of
    such chunks for each.
    """

    numbers: TermNumbers
    counts: np.ndarray


@dataclass(frozen=True)
class Postings:
    """The inverted index: its segments, the slots of its chunks, and the terms with postings of
    chunks that are gone.
    """

    segments: Sequence[TermSegment]
    slots: Slots
    gone_terms: GoneTerms = field(
        default_factory=lambda: GoneTerms({}, np.zeros(0, dtype=np.int64))
    )
    _known: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return self.slots.chunk_count

    @cached_property
    def ranked(self) -> np.ndarray:
        """Mask of the chunks that have words: a ranking takes the others for not there."""
        has_words = np.concatenate([segment.lengths.any(axis=0) for segment in self.segments])
        return np.asarray(has_words[self.slots.of(np.arange(self.chunk_count))])

    @cached_property
    def ranked_count(self) -> int:
        """Chunks that have words."""
        return int(np.count_nonzero(self.ranked))

    @cached_property
    def counts(self) -> np.ndarray:
        """The rows of `counts` of all segments, one segment after the other."""
        return np.concatenate([segment.counts for segment in self.segments])

    @cached_property
    def firsts(self) -> list[tuple[int, int]]:
        """The first slot of each segment, and the first of its rows of `counts`."""
        sizes = [(segment.lengths.shape[1], len(segment.counts)) for segment in self.segments]
        slots, codes = zip((0, 0), *sizes[:-1], strict=True)
        return list(zip(np.cumsum(slots).tolist(), np.cumsum(codes).tolist(), strict=True))

    def df(self, term: str) -> int:
        """How many chunks hold a term."""
        if (known := self._known.get(term)) is not None:
            return known
        if len(self._known) >= _TERMS_KNOWN:
            self._known.clear()
        self._known[term] = self._df(term)
        return self._known[term]

    def _df(self, term: str) -> int:
        if OR in term:
            return sum(
                int((self.slots.chunks(part.slots) != GONE).sum()) for part in self.parts(term)
            )
        number = self.gone_terms.numbers.get(term)
        count = sum(rows.stop - rows.start for _, rows in self._rows(term))
        return count if number is None else count - int(self.gone_terms.counts[number])

    def parts(self, term: str) -> list[PostingPart]:
        """The postings of a term, those of gone chunks included: of the first segment as they are,
        of the others as one.

        If there are several terms with OR between them, a chunk is in the postings of the first
        that it holds.
        """
        names = term.split(OR)
        parts = self._parts_of(names[0])
        for name in names[1:]:
            before = np.concatenate([part.slots for part in parts] or [np.zeros(0, np.int32)])
            for slots, codes in self._parts_of(name):
                is_new = ~np.isin(slots, before)
                parts.append(PostingPart(slots[is_new], codes[is_new]))
        return parts

    def _parts_of(self, term: str) -> list[PostingPart]:
        parts, later = [], []
        for number, rows in self._rows(term):
            segment, (slot, code) = self.segments[number], self.firsts[number]
            if number:
                later.append(
                    (
                        segment.chunks[rows] + np.int32(slot),
                        segment.codes[rows].astype(np.int32) + code,
                    )
                )
            else:
                parts.append(PostingPart(segment.chunks[rows], segment.codes[rows]))
        if later:
            slots, codes = zip(*later, strict=True)
            parts.append(PostingPart(np.concatenate(slots), np.concatenate(codes)))
        return parts

    def _rows(self, term: str) -> list[tuple[int, slice]]:
        """The segments that hold a term, and where its postings stand in each."""
        places = ((n, s.starts, s.numbers.get(term)) for n, s in enumerate(self.segments))
        return [
            (n, slice(int(starts[t]), int(starts[t + 1])))
            for n, starts, t in places
            if t is not None
        ]
