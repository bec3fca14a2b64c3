"""Texts near to one that the published index holds, in the shape of a search."""

import time

import numpy as np
import polars as pl

from dagster_project.index.search.filters import Resolved, Understood
from dagster_project.index.search.hit_table import RankedHits, SearchResult
from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.lookup import asking, resolved_name
from dagster_project.index.search.ranking import Near
from dagster_project.index.search.search_index import SearchIndex
from transforms.errors import QueryError
from transforms.retrieval import labels
from transforms.retrieval.hits import nothing_dropped
from transforms.retrieval.pipeline import RANKED

_AT_FIRST = 4
"""Chunks that are looked for at first for each document that is needed; further rounds look for as
many times more.
"""
_OF_DOCUMENT = "SELECT chunk_no, doc_id FROM chunks WHERE doc_id = $id"
_CHUNKS_OF = {
    "chunk": "SELECT chunk_no, doc_id FROM chunks WHERE chunk_id = $id",
    **dict.fromkeys(("message", "document", "conversation"), _OF_DOCUMENT),
    "attachment": "SELECT chunk_no, doc_id FROM chunks WHERE attachment_id = $id",
    "thread": "SELECT chunk_no, doc_id FROM chunks JOIN thread_tree ON message_id = doc_id WHERE thread_id = $id",
    "node": """
SELECT c.chunk_no, c.doc_id FROM chunks c JOIN nodes n USING (doc_id)
WHERE n.node_id = $id AND list_bool_or([s.byte_start < n.byte_end AND s.byte_end > n.heading_start FOR s IN c.spans])
""",
}


def similar(index: SearchIndex, name: str, limit: int) -> SearchResult:
    """The `limit` nearest mails, documents and windows to the thing that a name means, each by its
    best chunk.

    Compared is the mean of the vectors of its chunks, by cosine with all others; the document that
    it is in (for a thread all its mails) is left out. UnknownIdError or QueryError as
    `lookup.resolved_name`; QueryError if it has no chunk.
    """
    with faults_translated(index.path):
        start = time.perf_counter()
        kind, id_ = resolved_name(asking(index.connection), name)
        own = index.connection.execute(_CHUNKS_OF[kind], {"id": id_}).fetchall()
        if not own:
            raise QueryError(
                f"the {kind} {id_} has no chunk to compare; the view `readiness` says why"
            )
        rows = _nearest(index, np.array([number for number, _ in own]), 2 * limit)
        label = "PASS" if rows else labels.NOTHING
        lacking = () if rows else (f"vectors (of the {kind})",)
        ranked = RankedHits(_ranked(rows), nothing_dropped(), (label,), "exact", lacking)
        resolved = [Resolved("", None, Understood(name, [], "score", None))]
        return index.shown(resolved, ranked, limit, index.settings, start)


def _nearest(index: SearchIndex, chunks: np.ndarray, limit: int) -> list[tuple[int, float]]:
    """Number and cosine of the nearest chunk of each of the `limit` documents nearest to the mean
    of some chunks.
    """
    document = index.arrays.places.document
    embedded = np.setdiff1d(chunks, index.unembedded)
    if not len(embedded):
        return []
    mean = index.vectors.of(embedded).mean(axis=0, dtype=np.float64)
    vectors = (mean / (np.linalg.norm(mean) or 1.0)).astype(np.float32)[np.newaxis]
    masks, count = [~np.isin(document, document[chunks])], _AT_FIRST * limit
    while True:
        (scores,) = index.ranking.nearest(index, vectors, masks, Near(count))
        hits = scores.best(count)
        _, firsts = np.unique(document[hits], return_index=True)
        if len(firsts) >= limit or len(hits) < count:
            best = hits[np.sort(firsts)[:limit]]
            return list(zip(best.tolist(), scores.of(best).tolist(), strict=True))
        count *= _AT_FIRST


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
    return pl.DataFrame(
        {name: columns.get(name, [None] * len(rows)) for name in RANKED}, schema=RANKED
    )
