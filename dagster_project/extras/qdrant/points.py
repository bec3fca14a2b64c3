"""The points of a published version: their places, their chunks, and the answers of the collection."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dagster_project.extras.qdrant.collection import (
    Allowed,
    Collection,
    ScoredKeys,
    Search,
    point_id,
)
from dagster_project.extras.qdrant.transforms.sparse_vectors import term_number
from dagster_project.index.files.arrays import folder_of
from dagster_project.index.search.conditions.field_values import FieldConditions
from transforms.errors import IndexUnavailableError
from transforms.languages import OR

_FACTS, _SINCE, _KEYS = "collection.json", "point_since.npy", "point_keys.npy"


@dataclass(frozen=True)
class Mirrored:
    """The collection of a version, and the number of the publish that it is there.

    `layout` is equal for versions that one collection can hold. `chunks` and `wholes` (of mails, of
    pages) are the mean lengths that its vectors were made with, `drift` the share by which those of
    this version are others, `moved` the terms with numbers of their own
    (`sparse_vectors.moved_terms`).
    """

    collection: str
    number: int
    layout: str
    chunks: float
    wholes: Sequence[float]
    moved: Mapping[str, int]
    drift: float = 0.0


class PointIds(NamedTuple):
    """The ids of the points of a version by chunk number: the keys of chunks, which ascend, and
    since which publish.
    """

    keys: np.ndarray
    since: np.ndarray

    def of(self, chunks: np.ndarray) -> list[str]:
        """The ids of the points of these chunks."""
        pairs = zip(self.keys[chunks].tolist(), self.since[chunks].tolist(), strict=True)
        return [point_id(key, since) for key, since in pairs]


def mirrored(published: Path) -> tuple[Mirrored, PointIds] | None:
    """Where the points of a published file are; None if they are nowhere."""
    folder = folder_of(published)
    try:
        facts = Mirrored(**json.loads((folder / _FACTS).read_text()))
        return facts, PointIds(*(np.load(folder / name, mmap_mode="r") for name in (_KEYS, _SINCE)))
    except (OSError, ValueError, TypeError):
        return None


def write_mirrored(published: Path, facts: Mirrored, ids: PointIds) -> None:
    """Write the places of a file's points beside it; last the facts, by which they count as there."""
    folder = folder_of(published)
    np.save(folder / _KEYS, ids.keys)
    np.save(folder / _SINCE, ids.since)
    (folder / _FACTS).write_text(json.dumps(vars(facts)))


_SPARE = 30
"""Points asked for beyond those that are taken, as ties are broken by number here and otherwise
there.
"""
_MORE = 8
"""How many times as many are asked for where even these end in a tie."""


class Listed(NamedTuple):
    """Chunks and their scores, best first, ties by number."""

    chunks: np.ndarray
    scores: np.ndarray


class Known:
    """Scores of some chunks (or documents) of one query: their numbers ascend."""

    def __init__(self, chunks: np.ndarray, scores: np.ndarray):
        order = np.argsort(chunks)
        self.chunks, self.scores = chunks[order], scores[order]

    def of(self, chunks: np.ndarray, otherwise: float) -> np.ndarray:
        """The scores of these chunks, float64; `otherwise` of those that have none."""
        if not len(self.chunks):
            return np.full(len(chunks), otherwise)
        places = np.minimum(np.searchsorted(self.chunks, chunks), len(self.chunks) - 1)
        return np.where(self.chunks[places] == chunks, self.scores[places], otherwise).astype(
            np.float64
        )


NO_POINTS = Known(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))


class Points:
    """The points of one published version; IndexUnavailableError if the collection does not have
    all of them.
    """

    def __init__(self, collection: Collection, facts: Mirrored, ids: PointIds):
        self.collection, self.facts, self.ids = collection, facts, ids
        if (count := self.collection.count(facts.number)) != len(ids.keys):
            raise IndexUnavailableError(
                f"the collection {facts.collection} of Qdrant has {count:,} of the {len(ids.keys):,} points of this "
                "version: `weft build` sends them again"
            )

    def allowed(self, mask: np.ndarray | None, fields: FieldConditions | None = None) -> Allowed:
        """The points of this version that a mask of chunks lets through, by `fields` if these say
        the same.
        """
        number = self.facts.number
        if fields is not None:
            return Allowed(number, fields=fields)
        if mask is None:
            return Allowed(number)
        if 2 * np.count_nonzero(mask) <= len(mask):
            return Allowed(ids=self.ids.of(np.flatnonzero(mask)))
        return Allowed(number, but=self.ids.of(np.flatnonzero(~mask)))

    def vector(self, weights: Mapping[str, float]) -> dict[int, float]:
        """The weight of each number, from those of terms; terms with OR between them each have that
        weight.
        """
        moved = self.facts.moved
        return {
            term_number(name, moved): weights[term] for term in weights for name in term.split(OR)
        }

    def each(
        self, using: str, vector: np.ndarray | Mapping[int, float], chunks: np.ndarray
    ) -> Search:
        """The search for the scores of some chunks."""
        return Search(using, vector, len(chunks), Allowed(ids=self.ids.of(chunks)))

    def known(self, searches: Sequence[Search]) -> list[Known]:
        """The scores that some searches find."""
        return [
            Known(self._chunks(result), result.scores)
            for result in self.collection.search(searches)
        ]

    def vectors(self, chunks: np.ndarray) -> np.ndarray:
        """The vectors of some chunks, float32; zeros for a chunk without one."""
        return self.collection.dense(self.ids.of(chunks))

    def best(self, searches: Sequence[Search]) -> list[Listed]:
        """The first of each search; ties by number, for which more are asked for than are returned."""
        results = self.collection.search([s._replace(limit=s.limit + _SPARE) for s in searches])
        # Those that end amid chunks with the score of the last one that is taken.
        tied = [
            n
            for n, (s, f) in enumerate(zip(searches, results, strict=True))
            if len(f.scores) == s.limit + _SPARE and f.scores[s.limit - 1] == f.scores[-1]
        ]
        wider = [searches[n]._replace(limit=_MORE * (searches[n].limit + _SPARE)) for n in tied]
        for number, more in zip(tied, self.collection.search(wider), strict=True):
            results[number] = more
        listed = []
        for search, result in zip(searches, results, strict=True):
            chunks = self._chunks(result)
            order = np.lexsort((chunks, -result.scores))[: search.limit]
            listed.append(Listed(chunks[order], result.scores[order]))
        return listed

    def _chunks(self, result: ScoredKeys) -> np.ndarray:
        numbers = np.searchsorted(self.ids.keys, result.keys)
        numbers[numbers == len(self.ids.keys)] = 0
        if not (self.ids.keys[numbers] == result.keys).all():
            raise IndexUnavailableError(
                f"the collection {self.facts.collection} of Qdrant has points of another version: "
                "`weft build` sends all again"
            )
        return numbers
