"""The sentences that answer a question: chosen by their scores, unlike each other, within a number of words."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dagster_project.extras.answers.transforms.words import SentenceWord, language_for, words_of
from transforms.retrieval.diversity import marginal_order
from transforms.settings.search import TermSettings

MOST_WORDS = 120
_WHOLE_WORDS = 60
"""Words of a piece that is read as a whole; of a longer one each sentence counts for itself."""
_HIT, _COSINE = 2.0, 1.0
"""Weights of the score of the hit and of the cosine, beside that of the words of the question (the tuned half of
`benchmarks/answers.py` chose them).
"""
_DIVERSITY = 0.3
_LEAST = 0.9
"""Share of the relevance of the best from which on a further one is shown."""
_ALIKE = 0.6
"""Share of the words but numbers that two sentences on the same thing have in common."""


class Sentence(NamedTuple):
    """A sentence with its place: the number of its piece and of its hit, and its half-open bytes in the piece."""

    text: str
    piece: int
    hit: int
    start: int
    end: int


class ChangedValue(NamedTuple):
    """Two sentences, by number, that say the same with other numbers, the later one behind, and these numbers."""

    earlier: int
    later: int
    before: str
    after: str


def units(sentences: Sequence[Sentence]) -> list[list[int]]:
    """The sentences that are chosen together, by number: all of a short piece, one of a longer."""
    of_piece: dict[int, list[int]] = {}
    for number, sentence in enumerate(sentences):
        of_piece.setdefault(sentence.piece, []).append(number)
    results: list[list[int]] = []
    for numbers in of_piece.values():
        is_short = sum(len(sentences[n].text.split()) for n in numbers) <= _WHOLE_WORDS
        results += [numbers] if is_short else [[n] for n in numbers]
    return results


def relevance(shares: np.ndarray, cosines: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The relevance of units in 0 to 1: shares of the question's words, cosines with it, scores of their hits."""
    parts = [shares, _COSINE * np.maximum(cosines, 0.0), _HIT * scores]
    return np.asarray(sum(parts) / (1 + _COSINE + _HIT))


def chosen(
    lengths: Sequence[int], relevances: np.ndarray, vectors: np.ndarray, words: int = MOST_WORDS
) -> list[int]:
    """The numbers of the units to show, best first: by marginal relevance, as many as `words` hold.

    `lengths` are their words; the first is there in any case.
    """
    picked: list[int] = []
    room = words
    for number in marginal_order(relevances, vectors, _DIVERSITY) if len(lengths) else ():
        if picked and (
            relevances[number] < _LEAST * relevances[picked[0]] or lengths[number] > room
        ):
            continue
        picked.append(number)
        room -= lengths[number]
    return picked


def term_shares(
    question: Sequence[str], units_terms: Sequence[Sequence[str]], weights: Mapping[str, float]
) -> np.ndarray:
    """For each unit the share of the weight of the question's terms that it has."""
    whole = sum(weights[term] for term in set(question)) or 1.0
    return np.array(
        [sum(weights[t] for t in set(question) & set(terms)) / whole for terms in units_terms]
    )


def term_vectors(units_terms: Sequence[Sequence[str]]) -> np.ndarray:
    """Vectors of unit length of the terms of texts, for models whose vectors cost money."""
    places = {term: n for n, term in enumerate(sorted({t for terms in units_terms for t in terms}))}
    vectors = np.zeros((len(units_terms), max(1, len(places))), dtype=np.float32)
    for row, terms in enumerate(units_terms):
        for term in set(terms):
            vectors[row, places[term]] = 1.0
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def changes(
    texts: Sequence[str], times: Sequence[datetime | None], settings: TermSettings
) -> list[ChangedValue]:
    """The pairs of sentences that say the same with other numbers at other times.

    >>> from datetime import UTC
    >>> at = [datetime(2024, 3, 3, tzinfo=UTC), datetime(2024, 5, 12, tzinfo=UTC)]
    >>> changes(["The read latency is 250 ms.", "The read latency is 180 ms now."], at, TermSettings())
    [ChangedValue(earlier=0, later=1, before='250', after='180')]
    """
    read = [_values(text, settings) for text in texts]
    results = []
    for one, other in combinations(range(len(texts)), 2):
        first, second = times[one], times[other]
        if first is None or second is None or first == second:
            continue
        earlier, later = (one, other) if first < second else (other, one)
        (old_words, before), (new_words, after) = read[earlier], read[later]
        alike = len(old_words & new_words) / max(1, len(old_words | new_words))
        if before and len(before) == len(after) and before != after and alike >= _ALIKE:
            old = [b.text for b, a in zip(before, after, strict=True) if b.form != a.form]
            new = [a.text for b, a in zip(before, after, strict=True) if b.form != a.form]
            if old:
                results.append(ChangedValue(earlier, later, ", ".join(old), ", ".join(new)))
    return results


def content_words(text: str, settings: TermSettings) -> frozenset[str]:
    """The words of a sentence that say what it is on, without numbers and days."""
    return _values(text, settings)[0]


def _values(text: str, settings: TermSettings) -> tuple[frozenset[str], list[SentenceWord]]:
    """The words of a sentence but numbers, and its numbers in order."""
    words = words_of(text, language_for(text), settings)
    numbers = [word for word in words if word.kind == "number"]
    plain = (word.form for word in words if word.kind not in ("number", "date", "mark"))
    return frozenset(plain), numbers
