"""The calls of `QdrantClient` that Weft makes, answered by Qdrant's own segments in this process:
qdrant-edge-py.

A shard is a collection. Indexes of graphs are built when `optimize` says so, as a server's
optimizers do by themselves.
"""

import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge as edge
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

_TYPES = {"integer": "Integer", "keyword": "Keyword", "datetime": "Datetime"}


class EdgeClient:
    """Collections below a folder. `m` is that of the graphs; 0: none is built, every search is
    exact.
    """

    def __init__(self, folder: Path, m: int = 0, full_scan: int = 1):
        self.folder, self.m, self.full_scan = folder, m, full_scan
        self.shards: dict[str, edge.EdgeShard] = {}
        self.aliases: dict[str, str] = {}
        self.trips, self._lock = 0, threading.Lock()

    def create_collection(self, name: str, vectors_config: Any, sparse_vectors_config: Any) -> None:
        dense = {
            vector: edge.EdgeVectorParams(size=p.size, distance=edge.Distance.Dot)
            for vector, p in vectors_config.items()
        }
        sparse = {
            vector: edge.EdgeSparseVectorParams(full_scan_threshold=p.index.full_scan_threshold)
            for vector, p in sparse_vectors_config.items()
        }
        hnsw = edge.HnswIndexConfig(m=self.m, ef_construct=128, full_scan_threshold=self.full_scan)
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=1 if self.m else 1 << 40)
        config = edge.EdgeConfig(
            vectors=dense,
            sparse_vectors=sparse,
            hnsw_config=hnsw,
            optimizers=optimizers,
            wal_enabled=False,
        )
        self.shards[name] = edge.EdgeShard.create(str(self.folder / name), config)

    def optimize(self) -> None:
        """Build what a server builds in the background."""
        for shard in self.shards.values():
            shard.optimize()

    def delete_collection(self, name: str) -> None:
        self._shard(name).close()
        del self.shards[name]
        shutil.rmtree(self.folder / name)

    def collection_exists(self, name: str) -> bool:
        return name in self.shards

    def get_collections(self) -> Any:
        return SimpleNamespace(collections=[SimpleNamespace(name=name) for name in self.shards])

    def update_collection_aliases(self, operations: list[Any]) -> None:
        for operation in operations:
            if isinstance(operation, models.CreateAliasOperation):
                created = operation.create_alias
                self.aliases[created.alias_name] = created.collection_name
            else:
                self.aliases.pop(operation.delete_alias.alias_name, None)

    def create_payload_index(self, name: str, field: str, kind: Any, wait: bool) -> None:
        schema = getattr(edge.PayloadSchemaType, _TYPES[kind.value])
        self._update(name, edge.UpdateOperation.create_field_index(field, schema))

    def upsert(self, name: str, points: list[models.PointStruct], wait: bool) -> None:
        sent = [
            edge.Point(p.id, {n: _vector(v) for n, v in p.vector.items()}, p.payload)
            for p in points
        ]
        self._update(name, edge.UpdateOperation.upsert_points(sent))

    def set_payload(self, name: str, payload: dict[str, Any], points: Any, wait: bool) -> None:
        if isinstance(points, models.Filter):
            self._update(name, edge.UpdateOperation.set_payload_by_filter(_filter(points), payload))
        else:
            self._update(name, edge.UpdateOperation.set_payload(points.points, payload))

    def delete(self, name: str, selector: models.FilterSelector, wait: bool) -> None:
        self._update(name, edge.UpdateOperation.delete_points_by_filter(_filter(selector.filter)))

    def count(self, name: str, count_filter: models.Filter, exact: bool) -> Any:
        request = edge.CountRequest(filter=_filter(count_filter), exact=exact)
        return SimpleNamespace(count=self._shard(name).count(request))

    def query_batch_points(self, name: str, requests: list[models.QueryRequest]) -> list[Any]:
        with self._lock:
            self.trips += 1
        queries = [
            edge.QueryRequest(
                limit=r.limit,
                query=edge.Query.Nearest(_vector(r.query), using=r.using),
                filter=_filter(r.filter),
                params=edge.SearchParams(exact=r.params.exact, hnsw_ef=r.params.hnsw_ef),
                with_payload=False,
            )
            for r in requests
        ]
        found = self._shard(name).query_batch(edge.QueryBatchRequest(queries))
        return [SimpleNamespace(points=points) for points in found]

    def retrieve(
        self, name: str, ids: list[str], with_payload: bool, with_vectors: list[str]
    ) -> list[Any]:
        with self._lock:
            self.trips += 1
        return list(self._shard(name).retrieve(ids, with_payload, with_vectors))

    def _update(self, name: str, operation: edge.UpdateOperation) -> None:
        self._shard(name).update(operation)

    def _shard(self, name: str) -> edge.EdgeShard:
        if name not in self.shards:
            raise UnexpectedResponse(
                404, "Not Found", f"Collection `{name}` doesn't exist!".encode(), None
            )
        return self.shards[name]


def _vector(vector: Any) -> Any:
    if isinstance(vector, models.SparseVector):
        return edge.SparseVector(vector.indices, vector.values)
    return vector


def _filter(given: models.Filter) -> edge.Filter:
    must, must_not = ([_condition(c) for c in part or ()] for part in (given.must, given.must_not))
    return edge.Filter(must=must or None, must_not=must_not or None)


def _condition(given: Any) -> Any:
    if isinstance(given, models.HasIdCondition):
        return edge.HasIdCondition(set(given.has_id))
    if isinstance(given, models.Filter):
        return _filter(given)
    if given.match is not None:
        return edge.FieldCondition(given.key, match=edge.MatchAny(given.match.any))
    edges = given.range.model_dump(exclude_none=True)
    if isinstance(given.range, models.DatetimeRange):
        times = {name: at.isoformat() for name, at in edges.items()}
        return edge.FieldCondition(given.key, range=edge.RangeDateTime(**times))
    return edge.FieldCondition(
        given.key, range=edge.RangeFloat(**{n: float(v) for n, v in edges.items()})
    )
