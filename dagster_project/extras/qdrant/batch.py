"""Queries whose scores come from a collection of Qdrant: the two lists in one round trip, all
scores in the next.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from dagster_project.extras.qdrant.collection import DENSE, WHOLES, WORDS, Search
from dagster_project.extras.qdrant.points import NO_POINTS, Known, Listed, Points
from dagster_project.index.search.conditions.field_values import FieldConditions
from dagster_project.index.search.opened_version import OpenedVersion
from dagster_project.index.search.query_batch import Allow, QueryBatch
from dagster_project.index.search.ranking import Near
from transforms.retrieval import bm25, fusion
from transforms.settings.search import SearchSettings

_QUERIES_AT_ONCE = 64


class PointTermScores(bm25.TermScores):
    """BM25 scores from the collection; the weights of terms, and the counts of chunks, are of the
    file's dictionary.
    """

    nearest, top = np.zeros(0, dtype=np.int64), 0.0
    """The best allowed chunks, best first, and the score of the first."""
    known, known_wholes = NO_POINTS, NO_POINTS
    """The scores of the candidates and their threads, and of their mails and pages by the number of
    the document.
    """

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores above 0, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64 of single-precision sums."""
        return self.known.of(chunks, 0.0)

    @property
    def high(self) -> float:
        """The highest score of an allowed chunk, 0 if there is none."""
        return self.top

    def of_wholes(
        self, chunks: np.ndarray, wholes: bm25.WeighedWholes
    ) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the mails and pages of some chunks, ascending, and the BM25 score of each
        as a whole.
        """
        numbers = np.unique(wholes.document[self.slots.of(chunks)])
        return numbers, self.known_wholes.of(numbers, 0.0)


class PointScores:
    """The cosines of one query from the collection: the nearest chunks, best first, and the highest
    and lowest of all.
    """

    def __init__(self, nearest: np.ndarray, high: float, low: float):
        self.nearest, self.high, self.low = nearest, high, low
        self.known = NO_POINTS

    def best(self, k: int) -> np.ndarray:
        """The `k` nearest chunks, best first, ties by number."""
        return self.nearest[:k]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64; the lowest for a chunk without a vector."""
        return self.known.of(chunks, self.low)


class AskedScores(PointScores):
    """The same where the collection is asked for the scores of others when they are needed."""

    def __init__(
        self, points: Points, vector: np.ndarray, nearest: np.ndarray, high: float, low: float
    ):
        super().__init__(nearest, high, low)
        self.points, self.vector = points, vector

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64; the lowest for a chunk without a vector."""
        (scores,) = self.points.known([self.points.each(DENSE, self.vector, chunks)])
        return scores.of(chunks, self.low)


class PointRanking:
    """The points of one version, which score its chunks as its file would."""

    def __init__(self, points: Points):
        self.points = points
        self.vectors: Callable[[np.ndarray], np.ndarray] | None = points.vectors

    def batch(
        self,
        version: OpenedVersion,
        queries: Sequence[str],
        first: int,
        masks: Sequence[Allow],
        factors: Sequence[Mapping[str, float]],
        conditions: Sequence[FieldConditions | None],
    ) -> QueryBatch:
        """The batch of queries, restricted by conditions on fields where there are any, else by
        masks.
        """
        batch = PointsBatch(version, queries, first, masks, factors)
        batch.points, batch.conditions = self.points, conditions or [None] * len(queries)
        return batch

    def nearest(
        self, version: OpenedVersion, vectors: np.ndarray, masks: Sequence[Allow], near: Near
    ) -> Iterator[fusion.QueryScores]:
        """The cosines of each vector with the chunks that its mask allows, many vectors in one
        round trip.
        """
        for first in range(0, len(vectors), _QUERIES_AT_ONCE):
            searches = []
            some = vectors[first : first + _QUERIES_AT_ONCE]
            for vector, mask in zip(some, masks[first : first + len(some)], strict=True):
                allowed = self.points.allowed(mask)
                searches += [
                    Search(DENSE, vector, near.limit, allowed),
                    Search(DENSE, -vector, 1, allowed),
                ]
            lists = self.points.best(searches)
            for vector, closest, farthest in zip(some, lists[::2], lists[1::2], strict=True):
                yield AskedScores(self.points, vector, closest.chunks, *_edges(closest, farthest))


def _edges(near: Listed, far: Listed) -> tuple[float, float]:
    """The highest and the lowest score: of the nearest points to a vector and to its opposite."""
    low = -float(far.scores.max(initial=-np.inf))
    low = low if np.isfinite(low) else 0.0
    return float(near.scores.max(initial=low)), low


class PointsBatch(QueryBatch):
    """A batch that asks the collection of its version: two round trips, a third where a list ends
    in a tie.
    """

    _near: Sequence[PointScores] = ()
    _scores: tuple[str, list[PointTermScores]] | None = None

    points: Points
    conditions: Sequence[FieldConditions | None] = ()

    def candidates(self, settings: SearchSettings) -> pl.DataFrame:
        """The candidates (`fusion.FUSED`) of each query that has terms, one query after the other."""
        words = self._words(settings)
        is_exact = settings.vector_path(self.version.chunk_count, has_index=True) == "exact"
        self._near = self._lists(settings, words, is_exact)
        self._learn(settings, words)
        self.vector_path = "exact" if is_exact else "hnsw"
        return super().candidates(settings)

    def lexical(self, settings: SearchSettings) -> list[bm25.TermScores]:
        """BM25 scores of each query; those of candidates are known after `candidates`."""
        return [*self._words(settings)]

    def _words(self, settings: SearchSettings) -> list[PointTermScores]:
        key = bm25.lexical_key(settings)
        if self._scores is None or self._scores[0] != key:
            weights = self.version.weighed(settings)
            scores = [
                PointTermScores(words, self.version.postings, weights, mask)
                for words, mask in zip(self._counted(settings), self.masks, strict=True)
            ]
            self._scores = key, scores
        return self._scores[1]

    def _vector_scores(self, settings: SearchSettings) -> Iterator[fusion.QueryScores]:
        return iter(self._near)

    def _lists(
        self, settings: SearchSettings, words: Sequence[PointTermScores], is_exact: bool
    ) -> list[PointScores]:
        """Find the best of each query by its words, which get to know them, and by its vector."""
        points, searches = self.points, []
        for score, vector, mask, fields in zip(
            words, self.vectors, self.masks, self.conditions, strict=True
        ):
            allowed = points.allowed(mask, fields)
            searches += [
                Search(
                    WORDS,
                    points.vector({t.term: t.idf for t in score.lists}),
                    settings.candidates_lexical,
                    allowed,
                ),
                Search(DENSE, vector, settings.candidates_vector, allowed, is_exact),
                Search(DENSE, -vector, 1, allowed, is_exact),
            ]
        lists = points.best(searches)
        near = []
        for score, by_words, by_vector, farthest in zip(
            words, lists[::3], lists[1::3], lists[2::3], strict=True
        ):
            score.nearest, score.top = by_words.chunks, float(by_words.scores.max(initial=0.0))
            near.append(PointScores(by_vector.chunks, *_edges(by_vector, farthest)))
        return near

    def _learn(self, settings: SearchSettings, words: Sequence[PointTermScores]) -> None:
        """Ask for the scores of the hits and of the threads around them, and of mails and pages
        where they count.
        """
        points, places = self.points, self.version.arrays.places
        wholes = self.version.weighed_wholes(settings)
        searches = []
        for score, near, vector, mask in zip(
            words, self._near, self.vectors, self.masks, strict=True
        ):
            hits = np.union1d(
                score.best(settings.candidates_lexical), near.best(settings.candidates_vector)
            )
            around = np.sort(fusion.with_threads(hits, None, places)[0])
            compared = around if mask is None else around[mask[around]]
            whole = self._wholes(score, settings) is not None
            members = (
                [np.sort(places.mails_around(hits)), places.pages_of(hits)]
                if whole
                else [hits[:0]] * 2
            )
            searches += [
                points.each(
                    WORDS,
                    points.vector({t.term: t.idf for t in score.lists}),
                    np.union1d(around, members[1]),
                ),
                points.each(DENSE, vector, compared),
            ]
            for of_kind, chunks in zip(wholes, members, strict=True):
                firsts = chunks[np.unique(places.document[chunks], return_index=True)[1]]
                weights = {t.term: t.weight_in(of_kind) for t in score.lists} if len(firsts) else {}
                searches.append(points.each(WHOLES, points.vector(weights), firsts))
        scores = points.known(searches)
        for score, near, *parts in zip(
            words, self._near, *(scores[n::4] for n in range(4)), strict=True
        ):
            score.known, near.known, *by_first = parts
            chunks = np.concatenate([of_kind.chunks for of_kind in by_first])
            score.known_wholes = Known(
                places.document[chunks], np.concatenate([of_kind.scores for of_kind in by_first])
            )
