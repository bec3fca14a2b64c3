"""What is near to something that the published index holds, in the shape of a search."""

from __future__ import annotations

import time

import numpy as np
import polars as pl

from dagster_project.resources.qdrant.searches import DENSE, Search
from dagster_project.resources.search.filters import Understood
from dagster_project.resources.search.hit_table import RankedHits, SearchResult, described
from dagster_project.resources.search.index_faults import faults_translated
from dagster_project.resources.search.lookup import asking, resolved_name
from dagster_project.resources.search.search_index import SearchIndex
from transforms.embedding.vectors import stacked
from transforms.errors import QueryError
from transforms.retrieval import labels
from transforms.retrieval.hits import DROPPED
from transforms.retrieval.pipeline import RANKED
from transforms.schemas.search import SEARCH_HITS

_AT_FIRST = 4
"""Chunks that a collection is asked for at first for each document that is wanted."""
_OF_DOCUMENT = "SELECT chunk_no, doc_id FROM chunks WHERE doc_id = $id"
_CHUNKS_OF = {
    "chunk": "SELECT chunk_no, doc_id FROM chunks WHERE chunk_id = $id",
    "message": _OF_DOCUMENT,
    "document": _OF_DOCUMENT,
    "conversation": _OF_DOCUMENT,
    "attachment": "SELECT chunk_no, doc_id FROM chunks WHERE attachment_id = $id",
    "thread": "SELECT chunk_no, doc_id FROM chunks JOIN thread_tree ON message_id = doc_id WHERE thread_id = $id",
    "node": """
SELECT c.chunk_no, c.doc_id FROM chunks c JOIN nodes n USING (doc_id)
WHERE n.node_id = $id AND list_bool_or([s.byte_start < n.byte_end AND s.byte_end > n.heading_start FOR s IN c.spans])
""",
}

_NEAREST = """
SELECT chunk_no, cosine FROM (
  SELECT e.chunk_no, c.doc_id, array_cosine_similarity(e.vector, $vector::FLOAT[{dimensions}]) AS cosine
  FROM embeddings e JOIN chunks c USING (chunk_no) WHERE c.doc_id NOT IN (SELECT unnest($own::VARCHAR[]))
)
QUALIFY row_number() OVER (PARTITION BY doc_id ORDER BY cosine DESC, chunk_no) = 1
ORDER BY cosine DESC, chunk_no LIMIT $limit
"""


def similar(index: SearchIndex, name: str, limit: int) -> SearchResult:
    """The `limit` nearest mails, documents and windows to what a name means, each by its best chunk.

    Compared is the mean of the vectors of its chunks, by cosine with all others; the document that it stands in (for a
    thread all its mails) is left out. UnknownIdError or QueryError as `lookup.resolved_name`; QueryError if it has no chunk.
    """
    with faults_translated(index.path):
        return _similar(index, name, limit)


def _similar(index: SearchIndex, name: str, limit: int) -> SearchResult:
    start = time.perf_counter()
    kind, id_ = resolved_name(asking(index.connection), name)
    own = index.connection.execute(_CHUNKS_OF[kind], {"id": id_}).fetchall()
    if not own:
        raise QueryError(f"the {kind} {id_} has no chunk to compare; the view `readiness` says why")
    rows = (_of_file if index.points is None else _of_points)(index, own, limit)
    label = "PASS" if rows else labels.NOTHING
    ranked = RankedHits(_ranked(rows), pl.DataFrame(schema=DROPPED), (label,), "exact")
    hits = SEARCH_HITS.from_rows(described(index, ranked, [[]], index.settings))
    understood = (Understood(name, [], "score", None),)
    return SearchResult(hits, ranked.labels, understood, ranked.vector_path, time.perf_counter() - start)


def _of_points(index: SearchIndex, own: list[tuple[int, str]], limit: int) -> list[tuple[int, float]]:
    """Number and cosine of the nearest chunk of each of the `limit` nearest documents, as the collection finds them."""
    assert index.points is not None
    document = index.arrays.places.document
    chunks = np.array([number for number, _ in own])
    embedded = np.setdiff1d(chunks, index.unembedded)
    if not len(embedded):
        return []
    mean = index.vectors.of(embedded).mean(axis=0, dtype=np.float64)
    vector = (mean / (np.linalg.norm(mean) or 1.0)).astype(np.float32)
    allowed = index.points.allowed(~np.isin(document, document[chunks]))
    count = _AT_FIRST * limit
    while True:
        (found,) = index.points.best([Search(DENSE, vector, count, allowed)])
        _, firsts = np.unique(document[found.chunks], return_index=True)
        if len(firsts) >= limit or len(found.chunks) < count:
            places = np.sort(firsts)[:limit]
            return list(zip(found.chunks[places].tolist(), found.scores[places].tolist(), strict=True))
        count *= _AT_FIRST


def _of_file(index: SearchIndex, own: list[tuple[int, str]], limit: int) -> list[tuple[int, float]]:
    """The same by all vectors of the file."""
    return index.connection.execute(
        _NEAREST.format(dimensions=int(index.manifest["dimensions"])),
        {
            "vector": _mean(index, [number for number, _ in own]).tolist(),
            "own": sorted({doc_id for _, doc_id in own}),
            "limit": limit,
        },
    ).fetchall()


def _mean(index: SearchIndex, chunks: list[int]) -> np.ndarray:
    """The mean of the vectors of some chunks, float64."""
    table = index.connection.execute(
        "SELECT vector FROM embeddings WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[])) ORDER BY chunk_no",
        {"chunks": chunks},
    ).to_arrow_table()
    mean = stacked(table, int(index.manifest["dimensions"])).mean(axis=0, dtype=np.float64)
    return np.asarray(mean)


def _ranked(rows: list[tuple[int, float]]) -> pl.DataFrame:
    """Chunk numbers and cosines, best first, as the columns of RANKED."""
    cosine = [value for _, value in rows]
    place = range(1, len(rows) + 1)
    columns = {
        "query": [0] * len(rows),
        "rank": place,
        "chunk_no": [number for number, _ in rows],
        **dict.fromkeys(("score", "fused_score", "vector_score"), cosine),
        **dict.fromkeys(("thread_score", "lexical_score", "support"), [0.0] * len(rows)),
        "vector_rank": place,
    }
    return pl.DataFrame({name: columns.get(name, [None] * len(rows)) for name in RANKED}, schema=RANKED)
