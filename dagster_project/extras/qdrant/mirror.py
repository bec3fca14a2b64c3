"""A publish to a collection of Qdrant, which it keeps as the published file is: all points, or the
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from qdrant_client import QdrantClient

from dagster_project.extras.qdrant.builds import (
    COLLECTION_LAYOUT,
    PointBuild,
    PointUpdate,
    unsent_of,
)
from dagster_project.extras.qdrant.collection import (
    DENSE,
    WHOLES,
    WORDS,
    Collection,
    Point,
    request_faults,
)
from dagster_project.extras.qdrant.points import (
    Mirrored,
    PointIds,
    Points,
    mirrored,
    write_mirrored,
)
from dagster_project.extras.qdrant.transforms import sparse_vectors
from dagster_project.index.files.arrays import SearchArrays, folder_of, open_arrays
from dagster_project.index.files.segments import read_terms, segments_of
from dagster_project.index.publish.version_inputs import UnfitBaseError
from dagster_project.system.sql_files import literal
from transforms.embedding.vectors import from_fixed_point
from transforms.hashing import parts_hash
from transforms.retrieval import bm25
from transforms.settings.search import SearchSettings

FORMAT = "2"
MEAN_DRIFT = 0.01
"""Share by which the mean length of chunks or wholes may have moved since a collection was filled;
beyond it, it is filled again. No score of a term changes by a larger share than the mean length
does.
"""
_CHUNKS_AT_ONCE = 20_000


class QdrantMirror:
    """Sends published versions to collections of a service, which `alias` names; `search` has the
    weights of fields.
    """

    full_build, update, layout = PointBuild, PointUpdate, COLLECTION_LAYOUT

    def __init__(self, client: QdrantClient, alias: str, search: SearchSettings, address: str = ""):
        self.client, self.alias, self.search, self.address = client, alias, search, address

    def require_answer(self) -> str:
        """The service in words; IndexUnavailableError unless it answers."""
        with request_faults(self.alias):
            self.client.get_collections()
        return f"Qdrant at {self.address}"

    def state_of(self, published: Path) -> str | None:
        """The state of the collection of a published file, in words; None if nothing says where its
        points are.

        IndexUnavailableError if it lacks some of them.
        """
        if (stored := mirrored(published)) is None:
            return None
        facts, ids = stored
        Points(Collection(self.client, facts.collection), facts, ids)
        return f"{facts.collection} has all points; the mean length moved by {facts.drift:.2%} since it was filled"

    def holds(self, published: Path) -> bool:
        """True if the points of a published file are all there."""
        stored = mirrored(published)
        if stored is None:
            return False
        facts, ids = stored
        return Collection(self.client, facts.collection).count(facts.number) == len(ids.keys)

    def publish(self, new: Path, before: Path | None) -> dict[str, Any]:
        """Send the changes of the file `new` from `before`, the current one; all of it if that is
        not mirrored.

        Returns the collection, the points sent and superseded, and the drift of the mean length.
        New points count for readers of `new` alone, and removed ones go on counting for those of
        `before`. UnfitBaseError if all points would have to be sent, and the vectors that `before`
        has too are not beside the file.
        """
        with closing(duckdb.connect(str(new), read_only=True)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            version = _Version(connection, new, self.search)
            stored = None if before is None else mirrored(before)
            if (
                before is not None
                and stored is not None
                and version.fits(stored[0])
                and self.holds(before)
            ):
                sent, old, facts = self._update(version, before, *stored)
            else:
                facts = version.first(f"{self.alias}-{version.name}")
                sent, old = self._fill(version, facts), 0
        collection = Collection(self.client, facts.collection)
        collection.put_first(self.alias)
        collection.forget(facts.number - 1)
        collection.drop_others(self.alias, [stored[0].collection] if stored else [])
        return {
            "collection": facts.collection,
            "points_sent": sent,
            "points_superseded": old,
            "mean_length_drift": round(facts.drift, 6),
        }

    def _fill(self, version: _Version, facts: Mirrored) -> int:
        """Fill a new collection; how many points it has."""
        here = len(version.unsent[0]) if version.unsent else 0
        if not version.arrays.vectors.segments and here < version.chunk_count:
            raise UnfitBaseError(
                "a collection of its own needs all vectors, and the file was made of another"
            )
        collection = Collection(self.client, facts.collection)
        collection.create(int(version.manifest["dimensions"]))
        since = np.full(version.chunk_count, facts.number, dtype=np.int32)
        sent = version.send(collection, facts, np.arange(version.chunk_count))
        write_mirrored(version.file, facts, PointIds(version.keys, since))
        return sent

    def _update(
        self, version: _Version, before: Path, facts: Mirrored, ids: PointIds
    ) -> tuple[int, int, Mirrored]:
        """Send new points and end removed ones: the number of each, and the places of all now."""
        facts = version.next_of(facts, before)
        collection = Collection(self.client, facts.collection)
        collection.undo(facts.number)
        documents = changed_documents(version.file, before)
        came = chunks_of(version.connection, documents)
        with closing(duckdb.connect(str(before), read_only=True)) as earlier:
            went = chunks_of(earlier, documents)
        since = np.full(version.chunk_count, facts.number, dtype=np.int32)
        stays = np.setdiff1d(np.arange(version.chunk_count), came)
        since[stays] = ids.since[np.searchsorted(ids.keys, version.keys[stays])]
        version.sent = lambda chunks: collection.dense(
            ids.of(np.searchsorted(ids.keys, version.keys[chunks]))
        )
        sent = version.send(collection, facts, came)
        collection.supersede(ids.of(went), facts.number)
        write_mirrored(version.file, facts, PointIds(version.keys, since))
        return sent, len(went), facts


class _Version:
    """A version that is published, as its points are made of it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, file: Path, search: SearchSettings):
        self.connection, self.file = connection, file
        self.manifest = dict(connection.execute("FROM manifest").fetchall())
        self.arrays: SearchArrays = open_arrays(connection, file, self.manifest)
        keys = connection.execute("SELECT chunk_key FROM chunks ORDER BY chunk_no").fetchnumpy()
        self.keys = keys["chunk_key"]
        self.name, self.chunk_count = self.manifest["version"], len(self.keys)
        self.layout = parts_hash(
            [
                FORMAT,
                bm25.lexical_key(search),
                *(self.manifest[k] for k in ("layout", "model", "dimensions")),
            ]
        )
        self.weights = bm25.weighed(self.arrays.postings, search)
        self.wholes = self.arrays.places.weighed(self.arrays.postings, search)
        unsent = unsent_of(file)
        self.unsent = [
            np.load(unsent / f"{n}.npy", mmap_mode="r")
            for n in ("chunks", "vectors")
            if unsent.exists()
        ]
        self.sent: Callable[[np.ndarray], np.ndarray] = self.arrays.vectors.of
        """The vectors of chunks that are where they were sent to before."""
        self.terms = [read_terms(segment) for segment in segments_of(folder_of(file))]

    @property
    def _means(self) -> tuple[float, ...]:
        """The mean length of chunks, of mails and of pages."""
        return self.weights.mean, *(of_kind.mean for of_kind in self.wholes)

    def drift(self, facts: Mirrored) -> float:
        """The share by which the mean length of chunks, mails or pages is another than the
        collection's, the largest.
        """
        now_and_then = zip(self._means, (facts.chunks, *facts.wholes), strict=True)
        return float(max(abs(now / then - 1) if then else now > 0 for now, then in now_and_then))

    def fits(self, facts: Mirrored) -> bool:
        """True if a collection can hold this version, too."""
        return facts.layout == self.layout and self.drift(facts) <= MEAN_DRIFT

    def dense(self, chunks: np.ndarray) -> np.ndarray:
        """The vectors of some chunks, which ascend, float32; zeros for a chunk without one."""
        if self.arrays.vectors.segments or not self.unsent:
            return self.arrays.vectors.of(chunks)
        here, stored = self.unsent
        vectors = np.zeros((len(chunks), stored.shape[1]), dtype=np.float32)
        is_here = np.isin(chunks, here)
        vectors[is_here] = from_fixed_point(stored[np.searchsorted(here, chunks[is_here])])
        elsewhere = np.flatnonzero(~is_here & ~np.isin(chunks, self.arrays.vectors.absent))
        if len(elsewhere):
            vectors[elsewhere] = self.sent(chunks[elsewhere])
        return vectors

    def first(self, collection: str) -> Mirrored:
        """Where the version is in a collection of its own."""
        moved = sparse_vectors.moved_terms(self._every_term(), {})
        return Mirrored(collection, 1, self.layout, self._means[0], self._means[1:], moved)

    def next_of(self, facts: Mirrored, before: Path) -> Mirrored:
        """Where the version is in the collection of the version before."""
        with closing(duckdb.connect(str(before), read_only=True)) as connection:

            def was_there(term: str) -> bool:
                return bool(connection.execute("FROM terms WHERE term = ?", [term]).fetchone())

            moved = sparse_vectors.moved_terms(self._every_term(), facts.moved, was_there)
        return replace(facts, number=facts.number + 1, moved=moved, drift=self.drift(facts))

    def send(self, collection: Collection, facts: Mirrored, chunks: np.ndarray) -> int:
        """Send the points of some chunks, those of whole documents; how many they are."""
        numbers = [
            np.array([sparse_vectors.term_number(t, facts.moved) for t in terms], dtype=np.uint32)
            for terms in self.terms
        ]
        weights = sparse_vectors.with_mean(self.weights, facts.chunks)
        wholes = list(map(sparse_vectors.with_mean, self.wholes, facts.wholes))
        document = self.arrays.places.document[chunks]
        chunks = chunks[np.argsort(document, kind="stable")]
        document = np.sort(document)
        start = 0
        while start < len(chunks):
            # A mail or page is sent as a whole, as the vector of all of it is.
            last = document[min(start + _CHUNKS_AT_ONCE, len(chunks)) - 1]
            end = int(np.searchsorted(document, last, side="right"))
            points = self._points(np.sort(chunks[start:end]), numbers, weights, wholes)
            collection.upsert(points, facts.number)
            start = end
        return len(chunks)

    def _points(
        self,
        chunks: np.ndarray,
        numbers: list[np.ndarray],
        weights: bm25.Weighed,
        wholes: Sequence[bm25.WeighedWholes],
    ) -> list[Point]:
        postings, places = self.arrays.postings, self.arrays.places
        words = sparse_vectors.chunk_vectors(postings, weights, numbers, chunks)
        whole_of: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for of_kind, mask in zip(wholes, (places.is_mail, places.is_page), strict=True):
            own = chunks[mask[chunks]]
            documents, whole = sparse_vectors.whole_vectors(postings, of_kind, numbers, own)
            _, firsts = np.unique(places.document[own], return_index=True)
            whole_of |= {chunk: whole.of(n) for n, chunk in enumerate(own[firsts].tolist())}
        dense = self.dense(chunks)
        absent = set(np.intersect1d(chunks, self.arrays.vectors.absent).tolist())
        points = []
        for row, (chunk, payload) in enumerate(
            zip(chunks.tolist(), self._payloads(chunks), strict=True)
        ):
            vectors: dict[str, Any] = {WORDS: words.of(row)}
            if chunk in whole_of:
                vectors[WHOLES] = whole_of[chunk]
            if chunk not in absent:
                vectors[DENSE] = dense[row].tolist()
            points.append(Point(int(self.keys[chunk]), vectors, payload))
        return points

    def _payloads(self, chunks: np.ndarray) -> list[dict[str, Any]]:
        """The payloads of the points of some chunks, by number."""
        self.connection.register(
            "wanted", pl.DataFrame({"chunk_no": chunks.astype(np.int32)}).to_arrow()
        )
        table = self.connection.execute(POINTS).to_arrow_table().drop_columns(["chunk_no"])
        self.connection.unregister("wanted")
        rows = table.to_pylist()
        for row in rows:
            row |= {name: row[name] and row[name].isoformat() for name in ("at", "ended_at")}
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def _every_term(self) -> list[str]:
        rows = self.connection.execute("SELECT term FROM terms ORDER BY term")
        return [term for (term,) in rows.fetchall()]


_KEYS = {
    "chunks": "doc_id",
    "embedding_refusals": "doc_id",
    "chunk_context": "(SELECT doc_id FROM {version}.chunks c WHERE c.chunk_id = t.chunk_id)",
    "inferred_quotes": "message_id",
    "memberships": "message_id",
    "messages": "message_id",
    "documents": "doc_id",
    "conversation_windows": "doc_id",
}
"""The inputs of the points of a document: the tables, and the document of a row. Numbers of chunks
say nothing of it.
"""
_PRINTS = "SELECT {key} AS doc_id, hash({columns})::HUGEINT AS print FROM {version}.{table} t"

POINTS = """
SELECT c.chunk_no, c.chunk_id, c.doc_id, c.source, c.source_kind AS kind, l.lists, d.tags,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.first_at) AS at,
  coalesce(m.effective_at, d.modified_at, d.created_at, w.last_at) AS ended_at
FROM chunks c SEMI JOIN wanted USING (chunk_no)
LEFT JOIN messages m ON m.message_id = c.doc_id
LEFT JOIN documents d USING (doc_id)
LEFT JOIN conversation_windows w USING (doc_id)
LEFT JOIN (
  SELECT message_id, list(DISTINCT list_id ORDER BY list_id) AS lists FROM memberships WHERE list_id IS NOT NULL
  GROUP BY message_id
) l ON l.message_id = c.doc_id
ORDER BY c.chunk_no
"""
"""The payloads of the chunks whose numbers are in `wanted`."""


def changed_documents(new: Path, before: Path) -> pa.Table:
    """Column doc_id: the documents that only one of the versions in `new` and `before` has, or that
    differ in them.
    """
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, file in (("now", new), ("earlier", before)):
            connection.execute(f"ATTACH {literal(file)} AS {name} (READ_ONLY)")
        rows = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'now' ORDER BY column_index"
        ).fetchall()
        sides = []
        for version, sign in (("now", 1), ("earlier", -1)):
            for table, key in _KEYS.items():
                columns = [f'"{name}"' for of, name in rows if of == table and name != "chunk_no"]
                prints = _PRINTS.format(
                    key=key.format(version=version),
                    columns=", ".join(columns),
                    version=version,
                    table=table,
                )
                sides.append(
                    f"SELECT doc_id, '{table}' AS part, {sign} AS side, print FROM ({prints})"
                )
        return connection.execute(
            f"SELECT DISTINCT doc_id FROM (SELECT doc_id FROM ({' UNION ALL '.join(sides)}) GROUP BY doc_id, part "
            "HAVING sum(print * side) <> 0 OR sum(side) <> 0) WHERE doc_id IS NOT NULL"
        ).to_arrow_table()


def chunks_of(connection: duckdb.DuckDBPyConnection, documents: pa.Table) -> np.ndarray:
    """The numbers of the chunks of some documents, a table with doc_id, in order."""
    connection.register("wanted", documents)
    rows = connection.execute(
        "SELECT chunk_no FROM chunks SEMI JOIN wanted USING (doc_id) ORDER BY chunk_no"
    )
    numbers = rows.fetchnumpy()["chunk_no"]
    connection.unregister("wanted")
    return np.asarray(numbers)
