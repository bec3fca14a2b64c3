"""BM25 over the inverted index: postings in, scores out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from transforms.retrieval.top_k import top_k
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
_MARKED = 16
"""Postings that are compared with marked chunks in the time in which one chunk is looked up among them."""
_ROUNDING = 1e-5
"""What sums of single-precision impacts may be off, as a share of the highest score there could be."""


class TermNumbers(Protocol):
    """The numbers of the terms of an index."""

    def get(self, term: str, /) -> int | None:
        """The number of a term, in the order of the terms; None if no chunk holds it."""


@dataclass(frozen=True)
class Postings:
    """The inverted index as arrays.

    The postings of the term with number t are `chunks[starts[t]:starts[t + 1]]` (int32, ascending) and the
    same slice of `codes`, the row of `counts` that says how often the term stands in each of FIELDS.
    `lengths` has a row per field: the terms that each chunk holds in it.
    """

    numbers: TermNumbers
    starts: np.ndarray
    chunks: np.ndarray
    codes: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return int(self.lengths.shape[1])

    def df(self, term: str) -> int:
        """How many chunks hold the term."""
        number = self.numbers.get(term)
        return 0 if number is None else int(self.starts[number + 1] - self.starts[number])


@dataclass(frozen=True)
class Weighed:
    """What the weights of some settings make of an index: frequencies by code, and the norm of each chunk."""

    frequency: np.ndarray
    norm: np.ndarray


def field_weights(settings: SearchSettings) -> dict[str, float]:
    """Weight of one occurrence of a term in each field; parent context counts as quoted text, and what a diff removes,
    or names, less than what it adds."""
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
    """What a term weighs that `df` of the chunks hold; more than any chunk can score with it."""
    return math.log(1 + (chunk_count - df + 0.5) / (df + 0.5))


def weighed(postings: Postings, settings: SearchSettings) -> Weighed:
    """Frequencies and lengths as sums over the fields, each times its weight, float32.

    As in BM25F without length normalisation per field (Robertson, Zaragoza and Taylor 2004). The norm is
    what BM25 adds to the frequency in its denominator.
    """
    weights = field_weights(settings)
    frequency = np.zeros(len(postings.counts), dtype=np.float32)
    length = np.zeros(postings.chunk_count, dtype=np.float32)
    for column, field in enumerate(FIELDS):
        frequency += weights[field] * postings.counts[:, column].astype(np.float32)
        length += weights[field] * postings.lengths[column].astype(np.float32)
    average = float(length.mean(dtype=np.float64)) if length.size else 0.0
    if not average:
        return Weighed(np.zeros_like(frequency), np.ones_like(length))
    return Weighed(frequency, K1 * (1 - B + B * length / average))


_IN_MAILS = {"quote": 0.5, "context": 0.0, "rest": 1.0}
"""Weights of fields in a whole mail that differ from those in a chunk."""


@dataclass(frozen=True)
class WeighedMails:
    """The same of whole mails: frequencies by code, those of titles apart, as each chunk of a mail has its title.

    `document` is the number of the mail of each chunk, -1 for what is of none; norms are by that number, and `count` is the
    number of mails.
    """

    body: np.ndarray
    title: np.ndarray
    document: np.ndarray
    norm: np.ndarray
    count: int


def weighed_mails(
    postings: Postings, settings: SearchSettings, document: np.ndarray, is_mail: np.ndarray
) -> WeighedMails:
    """Frequencies and lengths of whole mails as sums over their chunks; `document` and `is_mail` are by chunk."""
    weights = field_weights(settings) | _IN_MAILS
    of_body = np.array([weights[field] * (field != "title") for field in FIELDS], dtype=np.float32)
    of_title = np.array([weights[field] * (field == "title") for field in FIELDS], dtype=np.float32)
    length, title = np.zeros((2, int(document.max(initial=-1)) + 1))
    np.add.at(length, document[is_mail], (of_body @ postings.lengths)[is_mail])
    np.maximum.at(title, document[is_mail], (of_title @ postings.lengths)[is_mail])
    length += title
    count = int(np.count_nonzero(length))
    norm = K1 * (1 - B + B * length * count / (length.sum() or 1.0))
    numbers = np.where(is_mail, document, -1).astype(np.int32)
    return WeighedMails(postings.counts @ of_body, postings.counts @ of_title, numbers, norm, count)


@dataclass(frozen=True)
class _TermList:
    """The postings of one term."""

    number: int
    idf: float
    chunks: np.ndarray
    codes: np.ndarray

    def impacts(self, weighed: Weighed, places: np.ndarray | slice = slice(None)) -> np.ndarray:
        """What the term adds to the scores of its chunks (those at `places`), float32."""
        codes = self.codes[places]
        divisor = weighed.norm.take(self.chunks[places])
        divisor += weighed.frequency.take(codes)
        # What a code stands for is weighed once, and not for each posting.
        return np.divide((np.float32(self.idf) * weighed.frequency).take(codes), divisor, out=divisor)

    def mails(self, mails: WeighedMails) -> int:
        """How many mails hold the term."""
        with_term = np.zeros(len(mails.norm) + 1, dtype=bool)
        with_term[mails.document[self.chunks]] = True
        return int(np.count_nonzero(with_term[:-1]))

    def lookup(self, chunks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of some chunks (int32, as the list's own, which would else be copied) are in the list, and where."""
        places = np.searchsorted(self.chunks, chunks)
        places[places == len(self.chunks)] = 0
        present = np.flatnonzero(self.chunks.take(places) == chunks)
        return present, places[present]


def _lists(terms: Sequence[str] | Mapping[str, float], postings: Postings) -> list[_TermList]:
    """The postings of those of the terms that any chunk holds, by number; a mapping says what each one counts."""
    counts = terms if isinstance(terms, Mapping) else dict.fromkeys(terms, 1.0)
    numbered = {n: c for term, c in counts.items() if (n := postings.numbers.get(term)) is not None}
    count, lists = postings.chunk_count, []
    for number in sorted(numbered):
        place = slice(int(postings.starts[number]), int(postings.starts[number + 1]))
        weight = numbered[number] * idf(place.stop - place.start, count)
        lists.append(_TermList(number, weight, postings.chunks[place], postings.codes[place]))
    return lists


def terms_by_query(query_terms: pa.Table, query_count: int) -> list[list[str]]:
    """The terms of each query, of a table with the columns query and term."""
    by_query: list[list[str]] = [[] for _ in range(query_count)]
    for query, term in zip(*(query_terms.column(c).to_pylist() for c in ("query", "term")), strict=True):
        by_query[query].append(term)
    return by_query


class TermScores:
    """The BM25 scores of one query, computed where they are needed.

    The formula is Lucene's (idf = ln(1 + (N - df + 0.5) / (df + 0.5)), no (k1 + 1) factor) over the frequencies and
    lengths of `weighed`.

    The best chunks are found term by term, the rarest first: once the terms that are left could not lift
    a chunk with none of the others among the best, only chunks that are near them are looked up in the
    long lists of common terms (MaxScore, Turtle and Flood 1995). `allowed` masks the chunks that count.
    `terms` may say how much each one counts, by term.
    """

    def __init__(
        self,
        terms: Sequence[str] | Mapping[str, float],
        postings: Postings,
        weights: Weighed,
        allowed: np.ndarray | None,
    ):
        self.lists = _lists(terms, postings)
        self.most = sum(idf(postings.df(term), postings.chunk_count) for term in terms)
        """More than any chunk can score with terms that count in full, those that no chunk holds included."""
        self.weights, self.allowed, self.chunk_count = weights, allowed, postings.chunk_count
        self._known: tuple[int, np.ndarray] | None = None
        self._highest: float | None = None

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores above 0, best first, ties by number."""
        if self._known is None or self._known[0] < k:
            near = self._near(k)
            scores = self.of(near)
            places = top_k(scores, k)
            self._known = k, near[places]
            self._highest = float(scores[places[0]]) if len(places) else 0.0
        return self._known[1][:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks (ascending or not), float64 of single-precision sums."""
        scores = np.zeros(len(chunks), dtype=np.float32)
        for term_list, present, places in self._occurrences(chunks):
            scores[present] += term_list.impacts(self.weights, places)
        return scores.astype(np.float64)

    def support(self, chunks: np.ndarray) -> np.ndarray:
        """The share of the terms that stand in each of these chunks, rare ones weighing more (idf), 0 to 1."""
        weight = np.zeros(len(chunks))
        for term_list, present, places in self._occurrences(chunks):
            weight[present] += term_list.idf * (self.weights.frequency.take(term_list.codes[places]) > 0)
        return weight / (self.most or 1.0)

    def of_mails(self, chunks: np.ndarray, mails: WeighedMails) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the mails of some chunks, ascending, and the BM25 score of each as a whole.

        `chunks` are all chunks of these mails.
        """
        numbers, of_chunk = np.unique(mails.document[chunks], return_inverse=True)
        norm, scores = mails.norm[numbers], np.zeros(len(numbers))
        for term_list, present, places in self._occurrences(chunks):
            codes, mail = term_list.codes[places], of_chunk[present]
            body, title = np.zeros((2, len(numbers)))
            np.add.at(body, mail, mails.body[codes])
            np.maximum.at(title, mail, mails.title[codes])
            frequency = body + title
            scores += idf(term_list.mails(mails), mails.count) * frequency / (frequency + norm)
        return numbers, scores

    @property
    def is_scattered(self) -> bool:
        """True if no chunk holds most of what the terms are worth: what is looked for is said in several places."""
        return 0 < self.high < _TOGETHER * self.most

    def _occurrences(self, chunks: np.ndarray) -> Iterator[tuple[_TermList, np.ndarray, np.ndarray]]:
        """Each term's list, which of the chunks are in it, and their places there."""
        numbers = chunks.astype(np.int32)
        marks = None
        for term_list in self.lists:
            if _MARKED * len(numbers) < max(len(term_list.chunks), self.chunk_count >> 4):
                yield term_list, *term_list.lookup(numbers)
                continue
            if marks is None:
                marks = np.full(self.chunk_count, -1, dtype=np.int32)
                marks[numbers] = np.arange(len(numbers), dtype=np.int32)
            marked = marks.take(term_list.chunks)
            places = np.flatnonzero(marked >= 0)
            yield term_list, marked[places], places

    @property
    def high(self) -> float:
        """The highest score of an allowed chunk, 0 if there is none."""
        if self._highest is None:
            self.best(1)
        return self._highest or 0.0

    @cached_property
    def low(self) -> float:
        """The lowest score of an allowed chunk: 0 unless every one of them holds a term."""
        count = self.chunk_count if self.allowed is None else int(np.count_nonzero(self.allowed))
        if sum(len(term_list.chunks) for term_list in self.lists) < count or not count:
            return 0.0
        allowed = range(self.chunk_count) if self.allowed is None else np.flatnonzero(self.allowed)
        sample = np.asarray(allowed[:: max(1, count // _SAMPLE)])
        if any(not self.of(part).all() for part in (sample[:_FEW], sample)):
            return 0.0
        return float(self._sums(self.lists)[np.asarray(allowed)].min())

    def _near(self, k: int) -> np.ndarray:
        """Chunks among which the `k` best are, ascending: few more than these."""
        partial = np.zeros(self.chunk_count, dtype=np.float32)
        lists = sorted(self.lists, key=lambda t: (len(t.chunks), t.number))
        rest = most = sum(term_list.idf for term_list in lists)
        floor, top, spare = 0.0, np.zeros(0, dtype=np.int32), _ROUNDING * most
        while lists and floor <= rest + spare:
            term_list = lists.pop(0)
            rest -= term_list.idf
            chunks, impacts = self._allowed_of(term_list)
            partial[chunks] += impacts
            above = chunks[partial[chunks] > floor]
            if len(above) > k:
                above = above[np.argpartition(partial[above], len(above) - k)[len(above) - k :]]
            top = np.union1d(top, above)
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
        """Add what a term adds to the sums of the chunks `near`, and where that is less work to others."""
        if len(term_list.chunks) < _LOOKED_UP * len(near):
            partial[term_list.chunks] += term_list.impacts(self.weights)
        else:
            present, places = term_list.lookup(near)
            partial[near[present]] += term_list.impacts(self.weights, places)

    def _allowed_of(self, term_list: _TermList) -> tuple[np.ndarray, np.ndarray]:
        if self.allowed is None:
            return term_list.chunks, term_list.impacts(self.weights)
        places = np.flatnonzero(self.allowed[term_list.chunks])
        return term_list.chunks[places], term_list.impacts(self.weights, places)

    def _sums(self, lists: Sequence[_TermList]) -> np.ndarray:
        sums = np.zeros(self.chunk_count, dtype=np.float32)
        for term_list in lists:
            sums[term_list.chunks] += term_list.impacts(self.weights)
        return sums
