"""Document nodes to chunks: one chunk per node, neither split nor omitted (ra)."""

import re
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from transforms.chunks.table import ChunkTables, chunks_from_rows
from transforms.documents.chunks.rows import CODE_SHARE
from transforms.documents.chunks.segments import Document, documents_of
from transforms.documents.frontmatter import BOM_CHARACTER
from transforms.documents.nodes import BREADCRUMB_START
from transforms.hashing import parts_hash
from transforms.schemas.chunks import EXCLUSIONS

_INK = re.compile(r"\S")


def tree_chunks(documents: pa.Table, nodes: pa.Table) -> ChunkTables:
    """A chunk of the kind `node` for every node, and the exclusions: comments and empty sections.

    The text of a chunk is the node's own text, for the document node with the frontmatter; a node
    without own text is indexed by its title. `parent_id` is the node's id, `title` its breadcrumb,
    `heading_path` the titles down to it without the document's. Spans have the role own; those of a
    heading without own text cover the heading. Ids come from the document, the title and the text.
    """
    rows: list[dict[str, Any]] = []
    excluded: list[dict[str, Any]] = []
    bodies = _bodies(nodes)
    for document in documents_of(documents, nodes):
        crumbs, *places = zip(*bodies[document.doc_id], strict=True)
        in_characters = zip(crumbs, *map(document.offsets.chars, places), strict=True)
        chunk_bodies = [_Body(*body) for body in in_characters]
        numbers: dict[str, int] = {}
        for position, body in enumerate(chunk_bodies):
            row = _row(document, position, body)
            base = parts_hash((*row.pop("identity"), row["text_display"]))
            number = numbers[base] = numbers.get(base, -1) + 1
            row["chunk_id"] = parts_hash((base, str(number))) if number else base
            rows.append(row | {"chunk_count": len(chunk_bodies)})
        excluded += _exclusions(document, chunk_bodies)
    return ChunkTables(chunks_from_rows(rows), EXCLUSIONS.from_rows(excluded))


class _Body(NamedTuple):
    """A node's breadcrumb, the start of its heading, and its own text, in bytes or in characters."""

    breadcrumb: str
    heading: int
    start: int
    end: int


def _bodies(nodes: pa.Table) -> dict[str, list[_Body]]:
    """The nodes of each document in order, in bytes."""
    frame = pl.DataFrame(nodes)
    columns = ["doc_id", "breadcrumb", "heading_start", "byte_start", "body_end"]
    bodies: dict[str, list[_Body]] = {}
    for doc_id, *body in frame.sort("doc_id", "position").select(columns).iter_rows():
        bodies.setdefault(doc_id, []).append(_Body(*body))
    return bodies


def _row(document: Document, position: int, body: _Body) -> dict[str, Any]:
    node = document.nodes[position]
    start = max(body.start, int(document.text.startswith(BOM_CHARACTER)))
    display = document.display(start, body.end)
    prose = document.display(max(start, document.body_start), body.end)
    ranges = document.visible(start, body.end) if display else [(body.heading, body.start)]
    title = body.breadcrumb.removeprefix(BREADCRUMB_START)
    code = bool(document.code_shares([start], [body.end])[0] >= CODE_SHARE)
    flat = document.offsets.bytes([offset for span in ranges for offset in span])
    return {
        "identity": ("document", document.doc_id, "node", node.title),
        "source_kind": "document",
        "source": document.source,
        "partition": document.partition,
        "doc_id": document.doc_id,
        "parent_id": node.node_id,
        "chunk_kind": "node",
        "chunk_index": position,
        "heading_path": document.headings[position],
        "title": title,
        "text_display": display or node.title,
        "text_embed": "\n\n".join(filter(None, (document.embedded_trail(position), prose)))
        or title,
        "text_lex": "\n".join(filter(None, (display, *(document.names if not position else ())))),
        "spans": [
            {"byte_start": start, "byte_end": end, "role": "own"}
            for start, end in zip(flat[::2], flat[1::2], strict=True)
            if start < end
        ],
        "is_code": code,
        "content_class": "code" if code else "text",
        "chunker": "tree",
    }


def _exclusions(document: Document, bodies: list[_Body]) -> list[dict[str, Any]]:
    """Comments, and the headings without text below them, which are not nodes; `bodies` in
    characters.
    """
    nexts = [*(body.heading for body in bodies), len(document.text)][1:]
    ranges = [(start, end, "comment") for start, end in document.comments]
    ranges += [
        (body.end, following, "empty_section")
        for body, following in zip(bodies, nexts, strict=True)
        if _INK.search(document.text, body.end, following)
    ]
    starts = document.offsets.bytes([start for start, _, _ in ranges])
    ends = document.offsets.bytes([end for _, end, _ in ranges])
    shared = (document.doc_id, None, document.source, document.partition)
    rows = (
        (*shared, start, end, excluded[2])
        for start, end, excluded in zip(starts, ends, ranges, strict=True)
    )
    return [
        dict(zip(EXCLUSIONS.names, row, strict=True))
        for row in sorted(rows, key=lambda row: row[4])
    ]
