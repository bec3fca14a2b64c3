"""BM25 over the inverted index: postings in, scores out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from transforms.retrieval.postings import PostingPart, Postings, lookups
from transforms.retrieval.small_tables import top_k
from transforms.settings.search import SearchSettings

FIELDS = ("title", "text", "quote", "context", "file", "function", "added", "removed", "rest")
K1, B = 1.5, 0.75
"""Term saturation and length normalisation, as bm25s has them; scores are compared with its own."""
_TOGETHER = 0.4
"""Score : the most a chunk could get, from which a chunk holds the words of a query together."""
_SAMPLE = 1024
_FEW = 32
_LOOKED_UP = 4
"""Postings that are added up in the time in which one chunk is looked up among them."""
_ALL_AT_ONCE = 1 << 18
"""Postings of a query up to which every chunk is scored once, which takes a millisecond; of more,
few are looked up.
"""
_REMEMBERED = 1 << 12
"""Chunks that hold a term, above which the mails that hold it are counted once: few terms are so
common.
"""
_ROUNDING = 1e-5
"""The error of sums of single-precision impacts, as a share of the highest possible score."""


@dataclass(frozen=True)
class Weighed:
    """An index under the weights of some settings: frequencies by code, and the norm of the chunk
    in each slot.

    The norm of a chunk that is gone is infinite, so that no term adds to its score. `mean` is the
    mean length.
    """

    frequency: np.ndarray
    norm: np.ndarray
    mean: float


def field_weights(settings: SearchSettings) -> dict[str, float]:
    """Weight of one occurrence of a term in each field; parent context counts as quoted text, and
    lines that a diff removes, or names, less than those that it adds.
    """
    return {
        "title": settings.title_weight,
        "text": 1.0,
        "quote": settings.quote_weight,
        "context": settings.quote_weight,
        "file": 0.3,
        "function": 0.3,
        "added": 1.0,
        "removed": 0.5,
        "rest": 0.0,
    }


def lexical_key(settings: SearchSettings) -> str:
    """Equal for settings that give the same BM25 scores: the weights and the words left out."""
    return settings.model_dump_json(include={"title_weight", "quote_weight", "stopwords"})


def idf(df: int, chunk_count: int) -> float:
    """The weight of a term that `df` of the chunks hold; more than any chunk can score with it."""
    return math.log(1 + (chunk_count - df + 0.5) / (df + 0.5))


def weighed(postings: Postings, settings: SearchSettings, rest: float = 0.0) -> Weighed:
    """Frequencies and lengths as sums over the fields, each times its weight, float32; `rest` is the
    weight of quoted history that is in no chunk.

    As in BM25F without length normalisation per field (Robertson, Zaragoza and Taylor 2004). BM25
    adds the norm to the frequency in its denominator.
    """
    weights = field_weights(settings) | {"rest": rest}
    frequency = np.zeros(len(postings.counts), dtype=np.float32)
    for column, name in enumerate(FIELDS):
        frequency += weights[name] * postings.counts[:, column].astype(np.float32)
    in_slots = _lengths(postings, [weights[field] for field in FIELDS])
    slots = postings.slots.of(np.arange(postings.chunk_count))
    length = in_slots[slots]
    average = (
        float(length[postings.ranked].mean(dtype=np.float64)) if postings.ranked_count else 0.0
    )
    if not average:
        return Weighed(np.zeros_like(frequency), np.ones_like(in_slots), average)
    norm = np.full_like(in_slots, np.inf)
    norm[slots] = K1 * (1 - B + B * length / average)
    return Weighed(frequency, norm, average)


def _lengths(postings: Postings, weights: Sequence[float] | np.ndarray) -> np.ndarray:
    """The length of the chunk in each slot, float32: that of each field times its weight."""
    lengths = np.zeros(postings.slots.count, dtype=np.float32)
    for column, weight in enumerate(weights):
        lengths += np.float32(weight) * np.concatenate(
            [s.lengths[column] for s in postings.segments]
        ).astype(np.float32)
    return lengths


_IN_WHOLES = {"quote": 0.5, "context": 0.0, "rest": 1.0}
"""Weights of fields in a whole mail or page that differ from those in a chunk."""


@dataclass(frozen=True)
class WeighedWholes:
    """Whole mails, or pages, under the weights: frequencies by code, those of titles apart, as each
    chunk has one.

    `document` is the number of the mail (page) of the chunk in each slot, -1 without one; norms are
    by that number, and `count` is how many there are, `mean` their mean length. How many hold a
    common term is remembered in `counts`. With `by_chunk` a term has its weight in chunks: nearly
    every long page has the words that tell chunks apart.
    """

    body: np.ndarray
    title: np.ndarray
    document: np.ndarray
    norm: np.ndarray
    count: int
    mean: float
    by_chunk: bool
    counts: dict[str, int] = field(default_factory=dict)


def weighed_wholes(
    postings: Postings,
    settings: SearchSettings,
    document: np.ndarray,
    is_whole: np.ndarray,
    *,
    by_chunk: bool,
) -> WeighedWholes:
    """Frequencies and lengths of mails, or of pages, as sums over their chunks; `document` and
    `is_whole` are by chunk.
    """
    weights = field_weights(settings) | _IN_WHOLES
    of_body = np.array([weights[field] * (field != "title") for field in FIELDS], dtype=np.float32)
    of_title = np.array([weights[field] * (field == "title") for field in FIELDS], dtype=np.float32)
    length, title = np.zeros((2, int(document.max(initial=-1)) + 1))
    slots = postings.slots.of(np.arange(postings.chunk_count))
    np.add.at(length, document[is_whole], _lengths(postings, of_body)[slots[is_whole]])
    np.maximum.at(title, document[is_whole], _lengths(postings, of_title)[slots[is_whole]])
    length += title
    count = int(np.count_nonzero(length))
    mean = length.sum() / (count or 1)
    norm = K1 * (1 - B + B * length * count / (length.sum() or 1.0))
    numbers = np.full(postings.slots.count, -1, dtype=np.int32)
    numbers[slots] = np.where(is_whole, document, -1)
    return WeighedWholes(
        postings.counts @ of_body, postings.counts @ of_title, numbers, norm, count, mean, by_chunk
    )


class _TermList(NamedTuple):
    """The postings of one term; its idf is that of the index times the weight of the term
    (`factor`).
    """

    term: str
    idf: float
    factor: float
    df: int
    parts: Sequence[PostingPart]

    def impacts(
        self, part: PostingPart, weighed: Weighed, places: np.ndarray | slice = slice(None)
    ) -> np.ndarray:
        """The addition of the term to the scores of the chunks of a part (those at `places`),
        float32.
        """
        codes = part.codes[places]
        divisor = weighed.norm.take(part.slots[places])
        divisor += weighed.frequency.take(codes)
        # Each code is weighed once, and not each posting.
        return np.divide(
            (np.float32(self.idf) * weighed.frequency).take(codes), divisor, out=divisor
        )

    def weight_in(self, wholes: WeighedWholes) -> float:
        """The weight of the term in a whole mail or page."""
        if wholes.by_chunk:
            return self.idf
        count = wholes.counts.get(self.term)
        if count is None:
            with_term = np.zeros(len(wholes.norm) + 1, dtype=bool)
            for part in self.parts:
                with_term[wholes.document.take(part.slots)] = True
            count = int(np.count_nonzero(with_term[:-1]))
            if self.df > _REMEMBERED:
                wholes.counts[self.term] = count
        return self.factor * idf(count, wholes.count)


_Occurrences = tuple[_TermList, PostingPart, np.ndarray, np.ndarray]


def _lists(terms: Sequence[str] | Mapping[str, float], postings: Postings) -> list[_TermList]:
    """The postings of those of the terms that any chunk holds, in their order; a mapping gives the
    weight of each.
    """
    counts = terms if isinstance(terms, Mapping) else dict.fromkeys(terms, 1.0)
    dfs = {term: df for term in sorted(counts) if (df := postings.df(term))}
    count = postings.ranked_count
    return [
        _TermList(t, counts[t] * idf(df, count), counts[t], df, postings.parts(t))
        for t, df in dfs.items()
    ]


def terms_by_query(query_terms: pa.Table, query_count: int) -> list[list[str]]:
    """The terms of each query, of a table with the columns query and term."""
    by_query: list[list[str]] = [[] for _ in range(query_count)]
    for query, term in zip(
        *(query_terms.column(c).to_pylist() for c in ("query", "term")), strict=True
    ):
        by_query[query].append(term)
    return by_query


class TermScores:
    """The BM25 scores of one query, computed where they are needed.

    The formula is Lucene's (idf = ln(1 + (N - df + 0.5) / (df + 0.5)), no (k1 + 1) factor) over the
    frequencies and lengths of `weighed`.

    Where the terms have few postings, all chunks are scored once. Else the best are found term by
    term, the rarest first: once the terms that are left could not lift a chunk with none of the
    others among the best, only chunks that are near them are looked up in the long lists of common
    terms (MaxScore, Turtle and Flood 1995). Both ways add the same numbers in the same order.
    `allowed` masks the chunks that count. `terms` may say how much each one counts, by term.
    """

    def __init__(
        self,
        terms: Sequence[str] | Mapping[str, float],
        postings: Postings,
        weights: Weighed,
        allowed: np.ndarray | None,
    ):
        self.lists = _lists(terms, postings)
        counts = terms if isinstance(terms, Mapping) else dict.fromkeys(terms, 1.0)
        self.most = sum(
            n * idf(postings.df(t), postings.ranked_count) for t, n in counts.items() if n >= 1
        )
        """More than any chunk can score with terms that count in full, those that no chunk holds
        included: terms that count less stand for others, as synonyms do.
        """
        self.weights, self.slots, self.ranked = weights, postings.slots, postings.ranked
        self.allowed = None if allowed is None else self.slots.mask(allowed & self.ranked)
        self._best: tuple[int, np.ndarray] | None = None
        self._highest: float | None = None
        self._last: tuple[np.ndarray, list[_Occurrences]] | None = None

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores above 0, best first, ties by number."""
        if self._best is None or self._best[0] < k:
            slots, chunks = self.slots.in_order(self._near(k))
            scores = self._of(slots)
            places = top_k(scores, k)
            self._best = k, chunks[places]
            self._highest = float(scores[places[0]]) if len(places) else 0.0
        return self._best[1][:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks (ascending or not), float64 of single-precision sums."""
        return self._of(self.slots.of(chunks))

    def support(self, chunks: np.ndarray) -> np.ndarray:
        """The share of the terms that stand in each of these chunks, rare ones weighing more (idf),
        0 to 1.
        """
        weight = np.zeros(len(chunks))
        for term_list, part, present, places in self._occurrences(self.slots.of(chunks)):
            weight[present] += term_list.idf * (self.weights.frequency.take(part.codes[places]) > 0)
        return np.minimum(weight / (self.most or 1.0), 1.0)

    def of_wholes(self, chunks: np.ndarray, wholes: WeighedWholes) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the mails (pages) of some chunks, ascending, and the BM25 score of each as
        a whole.

        `chunks` are all chunks of these.
        """
        slots = self.slots.of(chunks)
        document = wholes.document.take(slots)
        is_there = np.zeros(len(wholes.norm), dtype=bool)
        is_there[document] = True
        numbers = np.flatnonzero(is_there)
        place = np.zeros(len(is_there), dtype=np.int32)
        place[numbers] = np.arange(len(numbers), dtype=np.int32)
        of_chunk = place.take(document)
        norm, scores = wholes.norm[numbers], np.zeros(len(numbers))
        # A mail or page may have chunks in several parts.
        for term_list, of_term in groupby(self._occurrences(slots), key=itemgetter(0)):
            body, title = np.zeros((2, len(numbers)))
            for _, part, present, places in of_term:
                codes, whole = part.codes[places], of_chunk[present]
                body += np.bincount(whole, wholes.body.take(codes), len(numbers))
                np.maximum.at(title, whole, wholes.title.take(codes))
            frequency = body + title
            scores += term_list.weight_in(wholes) * frequency / (frequency + norm)
        return numbers, scores

    @property
    def is_scattered(self) -> bool:
        """True if no chunk holds most of the weight of the terms: the text has them in several
        places.
        """
        return 0 < self.high < _TOGETHER * self.most

    @cached_property
    def _every(self) -> np.ndarray | None:
        """The scores by slot, if the terms have few postings."""
        if (
            sum(len(part.slots) for term_list in self.lists for part in term_list.parts)
            > _ALL_AT_ONCE
        ):
            return None
        return self._sums()

    def _of(self, slots: np.ndarray) -> np.ndarray:
        # Only `best` needs all chunks: to look up a few takes less.
        every: np.ndarray | None = self.__dict__.get("_every")
        if every is not None:
            return every[slots].astype(np.float64)
        scores = np.zeros(len(slots), dtype=np.float32)
        for term_list, part, present, places in self._occurrences(slots):
            scores[present] += term_list.impacts(part, self.weights, places)
        return scores.astype(np.float64)

    def _occurrences(self, slots: np.ndarray) -> Iterator[_Occurrences]:
        """Each part of each term's list, which of the slots are in it, and their places there.

        Those of the last slots are kept, as mails, pages and their chunks are scored one after the
        other.
        """
        if self._last is None or not np.array_equal(self._last[0], slots):
            pairs = [(t, part) for t in self.lists for part in t.parts]
            looked_up = lookups(slots, [part for _, part in pairs], self.slots.count)
            self._last = slots, [(*pair, *of) for pair, of in zip(pairs, looked_up, strict=True)]
        return iter(self._last[1])

    @property
    def high(self) -> float:
        """The highest score of an allowed chunk, 0 if there is none."""
        if self._highest is None:
            self.best(1)
        return self._highest or 0.0

    @cached_property
    def low(self) -> float:
        """The lowest score of an allowed chunk: 0 unless every one of them holds a term."""
        count = int(np.count_nonzero(self.ranked if self.allowed is None else self.allowed))
        if sum(term_list.df for term_list in self.lists) < count or not count:
            return 0.0
        step = max(1, len(self.ranked) // _SAMPLE)
        sample = self.slots.of(step * np.flatnonzero(self.ranked[::step]))
        sample = sample if self.allowed is None else sample[self.allowed[sample]]
        if any(not self._of(part).all() for part in (sample[:_FEW], sample)):
            return 0.0
        allowed = self.slots.mask(self.ranked) if self.allowed is None else self.allowed
        return float(self._sums()[allowed].min())

    def _near(self, k: int) -> np.ndarray:
        """Slots among which those of the `k` best chunks are, ascending: few more than these."""
        if self._every is not None:
            scores = self._every if self.allowed is None else np.where(self.allowed, self._every, 0)
            near = np.flatnonzero(scores)
            if len(near) > k:
                values = scores[near]
                near = near[values >= np.partition(values, len(near) - k)[len(near) - k]]
            return near.astype(np.int32)
        partial = np.zeros(self.slots.count, dtype=np.float32)
        lists = sorted(self.lists, key=lambda t: (t.df, t.term))
        rest = most = sum(term_list.idf for term_list in lists)
        floor, top, spare = 0.0, np.zeros(0, dtype=np.int32), _ROUNDING * most
        while lists and floor <= rest + spare:
            term_list = lists.pop(0)
            rest -= term_list.idf
            for part in term_list.parts:
                places = (
                    slice(None)
                    if self.allowed is None
                    else np.flatnonzero(self.allowed[part.slots])
                )
                slots, impacts = part.slots[places], term_list.impacts(part, self.weights, places)
                impacts += partial.take(slots)
                partial[slots] = impacts
                is_above = np.flatnonzero(impacts > floor)
                if len(is_above) > k:
                    sums = impacts.take(is_above)
                    is_above = is_above[np.argpartition(sums, len(sums) - k)[len(sums) - k :]]
                top = np.union1d(top, slots[is_above])
            top = top[top_k(partial[top], k)]
            if len(top) == k:
                floor = float(partial[top[-1]])
        near = np.flatnonzero(partial > max(0.0, floor - max(rest, 0.0) - spare)).astype(np.int32)
        for term_list in lists:
            rest -= term_list.idf
            self._add(term_list, near, partial)
            sums = partial[near]
            if len(near) > k:
                floor = max(floor, float(np.partition(sums, len(near) - k)[len(near) - k]))
            near = near[sums > floor - max(rest, 0.0) - spare]
        return near

    def _add(self, term_list: _TermList, near: np.ndarray, partial: np.ndarray) -> None:
        """Add the impacts of a term to the sums of the slots `near`, and where that is less work to
        others.
        """
        for part in term_list.parts:
            if len(part.slots) < _LOOKED_UP * len(near):
                partial[part.slots] += term_list.impacts(part, self.weights)
            else:
                present, places = part.lookup(near)
                partial[near[present]] += term_list.impacts(part, self.weights, places)

    def _sums(self) -> np.ndarray:
        sums = np.zeros(self.slots.count, dtype=np.float32)
        for term_list in self.lists:
            for part in term_list.parts:
                sums[part.slots] += term_list.impacts(part, self.weights)
        return sums
