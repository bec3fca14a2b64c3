"""Points and searches for a collection, without the client that sends them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from dagster_project.index.search.conditions.field_values import FieldConditions

WORDS, WHOLES, DENSE = "words", "wholes", "dense"
"""The vectors of a point: the terms of its chunk, those of its whole mail or page (on the first chunk), the embedding."""


class Point(NamedTuple):
    """The point of a chunk: its key, its vectors by name (a sparse one as numbers and values), and its payload."""

    key: int
    vectors: Mapping[str, Any]
    payload: Mapping[str, Any]


class Allowed(NamedTuple):
    """The points that a search may find: those of a publish, unless `number` is None, or those with some ids.

    Those with the ids in `but` are left out.
    """

    number: int | None = None
    ids: Sequence[str] | None = None
    but: Sequence[str] = ()
    fields: FieldConditions | None = None


class Search(NamedTuple):
    """One search, by a dense vector or by the weight of each number of a sparse one."""

    using: str
    vector: np.ndarray | Mapping[int, float]
    limit: int
    allowed: Allowed
    is_exact: bool = True


class ScoredKeys(NamedTuple):
    """The keys of the chunks of the points that were found (uint64), and their scores (float32), best first."""

    keys: np.ndarray
    scores: np.ndarray


def point_id(key: int, since: int) -> str:
    """The id of a point: 64 bits of the chunk's id, and the number of the publish that sent it.

    >>> point_id(0xABCD << 48, 7)
    'abcd0000-0000-0000-0000-000000000007'
    """
    return str(UUID(int=(key << 64) | since))
