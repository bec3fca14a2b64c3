"""Which earlier issue one repeats: the likeliest three, each with a score, a confidence and the
passages that agree.

A score adds the cosine of the words' TF-IDF, that of the titles' words and that of the vectors.
Words that most issues share, as those of a template, count next to nothing by their IDF. The
meaning of scores differs by collection: in one on a single subject all issues are near each other.
So the confidence is a logistic function of a score's distance to the usual score of the third
nearest there, which is seldom a repeat; it is fitted by `benchmarks/triage.py`. Likeness is not
evidence: each field in which the two contradict each other halves it, and so do passages that share
no second word.
"""

import math
from typing import NamedTuple

import numpy as np
import polars as pl

from dagster_project.extras.triage.transforms.items import pieces, weights
from transforms.settings.search import TermSettings
from transforms.text.terms import counted_terms

MOST = 3
"""Earlier issues that are named."""
_WORDS, _TITLE, _VECTORS = 0.5, 0.2, 0.3
"""Weights of the cosines in a score."""
_USUAL, _USUAL_ITEMS = 0.2, 5
"""Score of the third nearest where there is none yet, and how many items that counts for."""
_COMMON = (50, 0.1)
"""A term that more texts have than this, and than this share of them, takes long to compare and
says little.
"""
_PIECES = 60
"""Passages of a text that are compared, those with the rarest words."""
CALIBRATION = (-4.13, 5.57)
"""Constant, and the weight of the excess."""
_TELLING_WORDS = 2
"""Words that two passages share at least if they are evidence."""


class Repeat(NamedTuple):
    """An earlier item that a later one may repeat, both by their rows.

    `excess` is the logarithm of the score as a multiple of the usual one of the third nearest.
    """

    row: int
    earlier: int
    rank: int
    score: float
    excess: float = 0.0

    def confidence(self, calibration: tuple[float, float] = CALIBRATION) -> float:
        """How likely it is that the one repeats the other, from 0 to 1."""
        return 1 / (1 + math.exp(-(calibration[0] + calibration[1] * self.excess)))


class Agreement(NamedTuple):
    """Two passages that say the same, each with its first byte in its text.

    `words` is how many they share, `share` their part in the rare words of both, from 0 to 1.
    """

    passage: str
    byte_start: int
    earlier_passage: str
    earlier_start: int
    words: int
    share: float


def supported(confidence: float, agreed: Agreement | None, contradictions: int) -> float:
    """A confidence by likeness alone, less where the texts speak against it or say nothing for it."""
    lacks = agreed is None or agreed.words < _TELLING_WORDS
    return confidence / 2 ** (contradictions + lacks)


def repeats(
    titles: pl.Series, texts: pl.Series, vectors: np.ndarray, settings: TermSettings
) -> list[Repeat]:
    """The likeliest earlier items of each, at most `MOST`, best first; items are in the order in
    which they came.

    `vectors` has a row of unit length, or of zeros, for each item.
    """
    words = _Cosines(weights(titles + "\n" + texts, settings), len(texts))
    names = _Cosines(weights(titles, settings), len(titles))
    result = []
    for row in range(1, len(texts)):
        alike = np.maximum(vectors[:row] @ vectors[row], 0)
        scores = np.round(_WORDS * words.of(row) + _TITLE * names.of(row) + _VECTORS * alike, 6)
        near = (
            np.flatnonzero(scores >= np.partition(scores, -MOST)[-MOST])
            if row > MOST
            else np.arange(row)
        )
        best = near[np.argsort(-scores[near], kind="stable")][:MOST]
        result += [
            Repeat(row, int(e), n, float(scores[e])) for n, e in enumerate(best, 1) if scores[e] > 0
        ]
    third = [repeat.score for repeat in result if repeat.rank == MOST]
    middle = math.log(float(np.median(third))) if third else 0.0
    usual = (len(third) * middle + _USUAL_ITEMS * math.log(_USUAL)) / (len(third) + _USUAL_ITEMS)
    return [repeat._replace(excess=math.log(repeat.score) - usual) for repeat in result]


class _Cosines:
    """The cosines of sparse rows of unit length with those before them."""

    def __init__(self, weighed: pl.DataFrame, count: int):
        """`weighed` is the result of `weights` for `count` texts."""
        most = max(_COMMON[0], int(_COMMON[1] * count))
        coded = weighed.filter(pl.len().over("term") <= most).with_columns(
            code=pl.col("term").rank("dense") - 1
        )
        by_row, by_term = coded.sort("row", "code"), coded.sort("code", "row")
        self._terms = by_row["code"].to_numpy(), by_row["weight"].to_numpy()
        self._of_row = np.searchsorted(by_row["row"].to_numpy(), np.arange(count + 1))
        self._postings = by_term["row"].to_numpy(), by_term["weight"].to_numpy()
        codes = int(coded["code"].max() or 0) + 2  # type: ignore[arg-type]
        self._of_term = np.searchsorted(by_term["code"].to_numpy(), np.arange(codes))

    def of(self, row: int) -> np.ndarray:
        """The cosines of a row with rows 0 to `row` - 1."""
        cosines = np.zeros(row)
        own = slice(*self._of_row[row : row + 2])
        for code, weight in zip(self._terms[0][own], self._terms[1][own], strict=True):
            first, end = self._of_term[code : code + 2]
            rows = self._postings[0][first:end]
            earlier = np.searchsorted(rows, row)
            cosines[rows[:earlier]] += weight * self._postings[1][first : first + earlier]
        return cosines


class Agreements:
    """Finds the passages in which two of some texts agree most."""

    def __init__(self, texts: pl.Series, settings: TermSettings):
        cut = pieces(texts)
        idf = dict(weights(texts, settings).select("term", "idf").unique().iter_rows())
        words: list[set[str]] = [set() for _ in range(len(cut))]
        for number, term in counted_terms(cut["piece"], settings).select("row", "term").iter_rows():
            words[number].add(term)
        self._idf = idf
        self._pieces: dict[int, list[tuple[str, int, set[str], float]]] = {}
        for (row, piece, start), terms in zip(cut.iter_rows(), words, strict=True):
            self._pieces.setdefault(row, []).append((piece, start, terms, self._sum(terms)))
        for row, own in self._pieces.items():
            self._pieces[row] = sorted(own, key=lambda one: -one[3])[:_PIECES]

    def _sum(self, terms: set[str]) -> float:
        return sum(self._idf.get(term, 0.0) for term in terms)

    def of(self, row: int, earlier: int) -> Agreement | None:
        """Where two texts agree most: in how many rare words, and in how large a share of both;
        None if in no word.
        """
        best, most = None, 0.0
        for piece, start, terms, total in self._pieces.get(row, ()):
            for other, other_start, other_terms, other_total in self._pieces.get(earlier, ()):
                common = terms & other_terms
                shared = self._sum(common)
                if shared and (agreed := shared * shared / math.sqrt(total * other_total)) > most:
                    share = shared / math.sqrt(total * other_total)
                    best = Agreement(piece, start, other, other_start, len(common), share)
                    most = agreed
        return best
