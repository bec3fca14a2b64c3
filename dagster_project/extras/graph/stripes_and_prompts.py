"""Answers of the published graph of documents without a vector: stripes, and questions by their
hash.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dagster_project.extras.graph.transforms.prompt_hashes import MOST_BITS, distances, simhash
from dagster_project.index.search.lookup import COMPARED_CHARS
from dagster_project.index.search.statements.sql import query_current
from transforms.errors import QueryError, UnknownIdError, shortened
from transforms.retrieval.query_language import checked_query

_NAMED = """
SELECT doc_id FROM documents
WHERE doc_id = $name OR path = $name OR ends_with(path, '/' || $name) ORDER BY doc_id = $name DESC, doc_id LIMIT 6
"""
_NEAREST = """
SELECT doc_id FROM documents ORDER BY list_max([
  jaro_winkler_similarity(lower(known), lower($name)) FOR known IN [doc_id, path, parse_filename(path)]
]) DESC, doc_id LIMIT 3
"""
_PROMPTED = """
SELECT p.question, p.asked_in, p.similarity, c.chunk_id, c.doc_id, c.parent_id AS node_id, c.title, c.text_display AS text
FROM prompt_hashes p JOIN chunks c USING (chunk_id) WHERE p.question IN (SELECT unnest($questions::VARCHAR[]))
"""


class Prompted(NamedTuple):
    """A chunk that belongs to a question near the query; `distance` in bits, `similarity` to the
    question.
    """

    distance: int
    question: str
    similarity: float
    chunk_id: str
    doc_id: str
    node_id: str | None
    title: str
    text: str


def stripe_of(
    folder: Path, document: str, count: int, baseline: str = "conceptual"
) -> list[dict[str, Any]]:
    """The first `count` chunks of a document's stripe in the index below `folder`, the baseline
    first.

    `document` is an id, a path, or the end of a path. Rows have the columns of the SQL macro
    `stripe` and doc_id. UnknownIdError if it names no document, or one without such a stripe;
    QueryError if it names several.
    """
    doc_id = _document(folder, document)
    rows = query_current(
        folder,
        "FROM stripe($name, $count, kind := $kind)",
        {"name": doc_id, "count": count, "kind": baseline},
    ).to_pylist()
    if not rows and count > 0:
        if not query_current(folder, "FROM stripe_orders LIMIT 1").num_rows:
            why = "the index holds no stripes: set `enabled = true` in [graph] and run `weft build`"
        else:
            why = f"{doc_id} has no {baseline} stripe: no chunk of it can be the baseline"
        raise UnknownIdError(why)
    return [{"doc_id": doc_id, **row} for row in rows]


def prompted(folder: Path, query: str, limit: int) -> list[Prompted]:
    """The chunks of stored questions that differ from the query by at most MOST_BITS, nearest
    first.

    The chunk that answers a question comes before its others.
    """
    query_hash = simhash(checked_query(query))
    stored = query_current(
        folder, "SELECT DISTINCT question, simhash FROM prompt_hashes ORDER BY question"
    )
    if not query_hash or not stored.num_rows:
        return []
    bits = distances(stored.column("simhash").to_numpy(), query_hash)
    names = stored.column("question").to_pylist()
    near = {names[place]: int(bits[place]) for place in np.flatnonzero(bits <= MOST_BITS)}
    rows = query_current(folder, _PROMPTED, {"questions": sorted(near)}).to_pylist()
    prompted_chunks = [
        Prompted(near[row["question"]], *(row[n] for n in Prompted._fields[1:])) for row in rows
    ]
    own = {row["chunk_id"] for row in rows if row["asked_in"] == row["doc_id"]}
    order = sorted(
        prompted_chunks,
        key=lambda p: (p.distance, p.chunk_id not in own, -p.similarity, p.chunk_id),
    )
    return list({p.chunk_id: p for p in reversed(order)}.values())[::-1][:limit]


def _document(folder: Path, name: str) -> str:
    """The one document that a name means."""
    doc_ids = query_current(folder, _NAMED, {"name": name}).column("doc_id").to_pylist()
    if doc_ids and (len(doc_ids) == 1 or doc_ids[0] == name):
        return str(doc_ids[0])
    if doc_ids:
        raise QueryError(f"{name!r} is the name of several documents: {', '.join(doc_ids)}")
    near = (
        query_current(folder, _NEAREST, {"name": name[:COMPARED_CHARS]})
        .column("doc_id")
        .to_pylist()
    )
    hint = f"; the nearest names are {', '.join(near)}" if near else ""
    raise UnknownIdError(f"the index holds no document {shortened(name)!r}{hint}")
