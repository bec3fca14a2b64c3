"""A collection of Qdrant as Weft uses it: points with versions, searched in batches.

A point is a chunk as one publish had it. Its id is the first half of the chunk's id and the number
of that publish; the payload says from which publish on (`since`) and up to which (`until`) it
counts, so that a reader of one version sees all of it and nothing else while the next is written.
"""

import atexit
import os
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from dagster_project.index.search.conditions.field_values import FieldConditions
from transforms.errors import IndexUnavailableError

WORDS, WHOLES, DENSE = "words", "wholes", "dense"
"""The vectors of a point: the terms of its chunk, those of its whole mail or page (on the first
chunk), the embedding.
"""
KEY_VARIABLE = "QDRANT_API_KEY"
NEVER = 1 << 40
"""The value of `until` of a point that counts."""
_KEPT_SECONDS = 600
"""For how long points stay that the current version does not have, for readers of the version
before.
"""
_SUFFIX = "-[0-9a-f]{16}"
_POINTS_AT_ONCE = 200
_IDS_AT_ONCE = 5_000
_VECTORS_AT_ONCE = 2_000
_EF = 256
"""Neighbours that a search by HNSW keeps in view: recall@10 of 300,000 vectors is .98."""
_SECONDS = 60
_INDEXED = {
    "since": "integer",
    "until": "integer",
    "gone_at": "integer",
    "source": "keyword",
    "kind": "keyword",
    "lists": "keyword",
    "tags": "keyword",
    "at": "datetime",
    "ended_at": "datetime",
}
"""The fields of the payload that conditions name, and their types."""
_NAMES = {"l": "lists", "tag": "tags"}
"""How the payload calls fields that queries call otherwise."""


class Point(NamedTuple):
    """The point of a chunk: its key, its vectors by name (a sparse one as numbers and values), and
    its payload.
    """

    key: int
    vectors: Mapping[str, Any]
    payload: Mapping[str, Any]


class Allowed(NamedTuple):
    """The points that a search may find: those of a publish, unless `number` is None, or those with
    some ids.

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
    """The keys of the chunks of the points that were found (uint64), and their scores (float32),
    best first.
    """

    keys: np.ndarray
    scores: np.ndarray


def point_id(key: int, since: int) -> str:
    """The id of a point: 64 bits of the chunk's id, and the number of the publish that sent it.

    >>> point_id(0xABCD << 48, 7)
    'abcd0000-0000-0000-0000-000000000007'
    """
    return str(UUID(int=(key << 64) | since))


@lru_cache(4)
def connected(url: str) -> QdrantClient:
    """The service at an address, with the key of the environment; a `file:` address is a folder,
    for trials.
    """
    if url.startswith("file:"):
        # It compares every vector, and says so at each request.
        warnings.filterwarnings("ignore", "(Local mode performs|Payload indexes have no effect)")
        folder = url.removeprefix("file:").removeprefix("//")
        try:
            client = QdrantClient(path=folder)
        except RuntimeError as error:
            raise IndexUnavailableError(
                f"{folder}: another process has this folder of Qdrant open"
            ) from error
        atexit.register(client.close)
        return client
    key = os.environ.get(KEY_VARIABLE, "").strip() or None
    return QdrantClient(url=url, api_key=key, timeout=_SECONDS, check_compatibility=False)


@contextmanager
def request_faults(name: str) -> Iterator[None]:
    """IndexUnavailableError if Qdrant refuses a request, or if nobody answers."""
    try:
        yield
    except (ApiException, ValueError, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise IndexUnavailableError(
            f"the collection {name} of Qdrant does not answer ({reason}): see that the service of `index.target` runs and "
            f'that {KEY_VARIABLE} is its key, or let a file rank: `index.target = "duckdb"` and `weft build`'
        ) from error


def _filter(allowed: Allowed) -> models.Filter:
    number = allowed.number
    valid = [] if number is None else [_range("since", lte=number), _range("until", gt=number)]
    ids = [] if allowed.ids is None else [models.HasIdCondition(has_id=list(allowed.ids))]
    others = [models.HasIdCondition(has_id=list(allowed.but))] if allowed.but else None
    fields = [] if allowed.fields is None else _fields(allowed.fields)
    return models.Filter(must=[*valid, *ids, *fields], must_not=others)


def _fields(conditions: FieldConditions) -> list[models.FieldCondition]:
    matches = [
        models.FieldCondition(key=_NAMES.get(field, field), match=models.MatchAny(any=list(values)))
        for field, values in conditions.values.items()
    ]
    dated = [
        models.FieldCondition(key=field, range=models.DatetimeRange(**{edge: at}))
        for field, edge, at in (
            ("ended_at", "gte", conditions.since),
            ("at", "lt", conditions.until),
        )
        if at is not None
    ]
    return [*matches, *dated]


def _range(field: str, **edges: int) -> models.FieldCondition:
    return models.FieldCondition(key=field, range=models.Range(**edges))


class Collection:
    """One collection of a service, which a layout, a model and a fill have made."""

    def __init__(self, client: QdrantClient, name: str):
        self.client, self.name = client, name

    def create(self, dimensions: int) -> None:
        """Make the collection, empty; one that a killed publish left goes."""
        with request_faults(self.name):
            if self.client.collection_exists(self.name):
                self.client.delete_collection(self.name)
            sparse = models.SparseVectorParams(
                index=models.SparseIndexParams(full_scan_threshold=0)
            )
            # Vectors of unit length: their product is the cosine, and none is normalised a second
            # time.
            self.client.create_collection(
                self.name,
                vectors_config={
                    DENSE: models.VectorParams(size=dimensions, distance=models.Distance.DOT)
                },
                sparse_vectors_config={WORDS: sparse, WHOLES: sparse},
            )
            for field, kind in _INDEXED.items():
                self.client.create_payload_index(
                    self.name, field, models.PayloadSchemaType(kind), wait=True
                )

    def upsert(self, points: Sequence[Point], since: int) -> None:
        """Send points that count from a publish on."""
        facts = {"since": since, "until": NEVER}
        structs = [
            models.PointStruct(
                id=point_id(p.key, since),
                vector={name: _stored(vector) for name, vector in p.vectors.items()},
                payload={**p.payload, **facts},
            )
            for p in points
        ]
        with request_faults(self.name):
            for start in range(0, len(structs), _POINTS_AT_ONCE):
                self.client.upsert(self.name, structs[start : start + _POINTS_AT_ONCE], wait=True)

    def supersede(self, ids: Sequence[str], until: int) -> None:
        """Say of points that they do not count from a publish on."""
        facts = {"until": until, "gone_at": int(time.time())}
        with request_faults(self.name):
            for start in range(0, len(ids), _IDS_AT_ONCE):
                part = models.PointIdsList(points=list(ids[start : start + _IDS_AT_ONCE]))
                self.client.set_payload(self.name, facts, points=part, wait=True)

    def undo(self, number: int) -> None:
        """Take back the changes of an unfinished publish with this number, or a later one."""
        came = models.Filter(must=[_range("since", gte=number)])
        went = models.Filter(must=[_range("until", gte=number, lt=NEVER)])
        with request_faults(self.name):
            self.client.delete(self.name, models.FilterSelector(filter=came), wait=True)
            self.client.set_payload(self.name, {"until": NEVER}, points=went, wait=True)

    def forget(self, number: int) -> None:
        """Delete points that count neither in this publish nor in the one before, once readers had
        time to go on.
        """
        before = int(time.time()) - _KEPT_SECONDS
        old = models.Filter(must=[_range("until", lt=number), _range("gone_at", lt=before)])
        with request_faults(self.name):
            self.client.delete(self.name, models.FilterSelector(filter=old), wait=True)

    def count(self, number: int) -> int:
        """How many points count in a publish; 0 if the collection does not exist."""
        with request_faults(self.name):
            if not self.client.collection_exists(self.name):
                return 0
            valid = _filter(Allowed(number))
            return int(self.client.count(self.name, count_filter=valid, exact=True).count)

    def search(self, searches: Sequence[Search]) -> list[ScoredKeys]:
        """The points that each search finds, in one round trip; none for one without a number or a
        point to look at.
        """
        numbers = [
            number for number, search in enumerate(searches) if len(search.vector) and search.limit
        ]
        requests = [
            models.QueryRequest(
                query=_query(search.vector),
                using=search.using,
                limit=search.limit,
                filter=_filter(search.allowed),
                params=models.SearchParams(exact=search.is_exact, hnsw_ef=_EF),
                with_payload=False,
            )
            for search in (searches[number] for number in numbers)
        ]
        with request_faults(self.name):
            answers = self.client.query_batch_points(self.name, requests) if requests else []
        results = [_scored([])] * len(searches)
        for number, answer in zip(numbers, answers, strict=True):
            results[number] = _scored(answer.points)
        return results

    def dense(self, ids: Sequence[str]) -> np.ndarray:
        """The dense vectors of some points, float32, a row for each id; zeros for a point without
        one.

        IndexUnavailableError if a point is not there.
        """
        with request_faults(self.name):
            by_id: dict[str, Any] = {
                str(point.id): point.vector
                for start in range(0, len(ids), _VECTORS_AT_ONCE)
                for point in self.client.retrieve(
                    self.name,
                    list(ids[start : start + _VECTORS_AT_ONCE]),
                    with_payload=False,
                    with_vectors=[DENSE],
                )
            }
        if missing := [id_ for id_ in ids if id_ not in by_id]:
            raise IndexUnavailableError(
                f"the collection {self.name} of Qdrant lacks {len(missing):,} points of this version, as {missing[0]}: "
                "`weft build` sends all again"
            )
        rows = [(by_id[id_] or {}).get(DENSE) for id_ in ids]
        width = max((len(row) for row in rows if row), default=0)
        vectors = np.zeros((len(ids), width), dtype=np.float32)
        for place, row in enumerate(rows):
            if row:
                vectors[place] = row
        return vectors

    def put_first(self, alias: str) -> None:
        """Let an alias mean this collection, and none other."""
        create = models.CreateAliasOperation(
            create_alias=models.CreateAlias(collection_name=self.name, alias_name=alias)
        )
        delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        with request_faults(self.name):
            self.client.update_collection_aliases([delete, create])

    def drop_others(self, alias: str, keep: Sequence[str]) -> None:
        """Delete the collections that were made for an alias, but this one and those to keep."""
        with request_faults(self.name):
            names = [collection.name for collection in self.client.get_collections().collections]
            for name in names:
                if re.fullmatch(re.escape(alias) + _SUFFIX, name) and name not in (
                    self.name,
                    *keep,
                ):
                    self.client.delete_collection(name)


def _query(vector: np.ndarray | Mapping[int, float]) -> Any:
    if isinstance(vector, np.ndarray):
        return vector.tolist()
    numbers = sorted(vector)
    return models.SparseVector(
        indices=numbers, values=[float(np.float32(vector[n])) for n in numbers]
    )


def _stored(vector: Any) -> Any:
    """A dense vector as it is, numbers and values as a sparse one."""
    if isinstance(vector, tuple):
        numbers, values = vector
        return models.SparseVector(indices=numbers.tolist(), values=values.tolist())
    return vector


def _scored(points: Sequence[Any]) -> ScoredKeys:
    keys = np.fromiter(
        (int(str(p.id).replace("-", "")[:16], 16) for p in points), np.uint64, len(points)
    )
    return ScoredKeys(keys, np.fromiter((p.score for p in points), np.float32, len(points)))
