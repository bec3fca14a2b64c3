"""The protocol of ranking: the chunks of a published version get scores from its own arrays or the
service of an extra.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from dagster_project.extensions import load, ranking_at
from dagster_project.index.search.conditions.field_values import FieldConditions
from dagster_project.index.search.opened_version import OpenedVersion
from dagster_project.index.search.query_batch import Allow, QueryBatch
from transforms.retrieval import fusion
from transforms.settings.operations import IndexSettings

_CELLS_AT_ONCE = 1 << 25
_QUERIES_AT_ONCE = 64

_MOST_HIDDEN = 2000
"""Chunks that a mask hides up to which the HNSW index is asked for as many more: the turns of a chat
and no more, since it takes longer with each.
"""


class Near(NamedTuple):
    """How many chunks near to a vector are to be found, and how they are searched.

    With `in_view` vectors in view by the HNSW index, if there is one, which is asked for
    `overfetch` times as many; with 0 all vectors are compared.
    """

    limit: int
    in_view: int = 0
    overfetch: int = 1


class Ranking(Protocol):
    """Scores the chunks of a version; equal scores come in the order of the chunks' numbers."""

    vectors: Callable[[np.ndarray], np.ndarray] | None
    """The vectors of chunks by number, float32, zeros for a chunk without one; None if the arrays
    have them.
    """

    def batch(
        self,
        version: OpenedVersion,
        queries: Sequence[str],
        first: int,
        masks: Sequence[Allow],
        factors: Sequence[Mapping[str, float]],
        conditions: Sequence[FieldConditions | None],
    ) -> QueryBatch:
        """The batch of queries numbered from `first`; `conditions` say the same as masks, where
        fields say all of it.
        """

    def nearest(
        self, version: OpenedVersion, vectors: np.ndarray, masks: Sequence[Allow], near: Near
    ) -> Iterator[fusion.QueryScores]:
        """The cosines of each vector with the chunks that its mask allows, each valid until the
        next is computed.
        """


class FileRanking:
    """The arrays and the HNSW index of the version itself."""

    vectors: Callable[[np.ndarray], np.ndarray] | None = None

    def batch(
        self,
        version: OpenedVersion,
        queries: Sequence[str],
        first: int,
        masks: Sequence[Allow],
        factors: Sequence[Mapping[str, float]],
        conditions: Sequence[FieldConditions | None],
    ) -> QueryBatch:
        """The batch of queries, which the masks restrict."""
        return QueryBatch(version, queries, first, masks, factors)

    def nearest(
        self, version: OpenedVersion, vectors: np.ndarray, masks: Sequence[Allow], near: Near
    ) -> Iterator[fusion.QueryScores]:
        """The cosines of each vector: by the HNSW index if that is wanted, there and finds enough,
        else by all vectors.

        Vectors are multiplied a block at a time into the same memory: new memory for every block
        would cost as much as the product.
        """
        approximate = near.in_view > 0 and version.has_vector_index
        block = np.empty(
            (min(len(vectors), _QUERIES_AT_ONCE), version.chunk_count), dtype=np.float32
        )
        for number, (vector, mask) in enumerate(zip(vectors, masks, strict=True)):
            place = number % _QUERIES_AT_ONCE
            scores = self._by_hnsw(version, vector, mask, near) if approximate else None
            if scores is None and approximate:
                version.cosines(vector[np.newaxis], out=block[place : place + 1])
            elif scores is None and place == 0:
                some = vectors[number : number + _QUERIES_AT_ONCE]
                version.cosines(some, out=block[: len(some)])
            yield scores or fusion.ExactScores(block[place], mask)

    @staticmethod
    def _by_hnsw(
        version: OpenedVersion, vector: np.ndarray, mask: Allow, near: Near
    ) -> fusion.QueryScores | None:
        """The nearest chunks by the HNSW index; None if it returns fewer than there must be."""
        embedded = version.chunk_count - len(version.unembedded)
        hidden = 0 if mask is None else version.chunk_count - int(mask.sum())
        if hidden > _MOST_HIDDEN:
            return None
        # Past the asker's own turns, which are nearest to what it asks with.
        most = near.limit * near.overfetch + hidden
        scores = version.hnsw_scores(vector, min(most, embedded), near.in_view)
        if mask is not None:
            scores.nearest = scores.nearest[mask[scores.nearest]]
            embedded = int(mask.sum()) - int(mask[version.unembedded].sum())
        return scores if len(scores.nearest) >= min(near.limit, embedded) else None


BY_FILE = FileRanking()


def ranking_of(published: Path, settings: IndexSettings) -> Ranking:
    """The ranking of a published file: the service that `index.target` names if it has the file,
    else the file itself.

    SettingsError if the packages of that extra are missing.
    """
    offer = ranking_at(settings.target)
    ranking: Ranking | None = load(offer.opened)(published, settings) if offer else None
    return ranking or BY_FILE


def row_batches(
    ranking: Ranking,
    version: OpenedVersion,
    queries: Sequence[str],
    masks: Sequence[Allow],
    factors: Sequence[Mapping[str, float]] = (),
    conditions: Sequence[FieldConditions | None] = (),
) -> Iterator[QueryBatch]:
    """The queries in batches whose scores of all chunks fit into memory."""
    step = max(1, _CELLS_AT_ONCE // max(1, version.chunk_count))
    for first in range(0, len(queries), step):
        rows = slice(first, first + step)
        yield ranking.batch(
            version, queries[rows], first, masks[rows], factors[rows], conditions[rows]
        )
