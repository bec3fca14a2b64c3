"""Documents to sections of about one size: cut at headings, then between blocks, then inside them.

This module decides where to cut. Headings are in `transforms.documents.nodes`, blocks in
`transforms.documents.markdown`, the texts of a chunk in `transforms.documents.chunks.segments`.
"""

import re
from bisect import bisect_right
from itertools import pairwise

import pyarrow as pa

from transforms.chunks.table import ChunkTables
from transforms.documents.chunks.rows import ChunkRows
from transforms.documents.chunks.segments import Document, Node, Segment, documents_of
from transforms.settings.documents import DocumentChunkSettings
from transforms.text.segments import splits

_PARAGRAPH = re.compile(r"\n(?:[ \t\r]*\n)+")
_BOUNDARY = re.compile(r"\n|(?:[.?!;:] )|[。！？]")
_BLANK = re.compile(r"\s")


def section_chunks(
    documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings
) -> ChunkTables:
    """Sections of documents as chunks of the kind `section`, and the exclusions.

    The SecondBrain design: headings bound the chunks; lists and fenced code stay together if they
    fit into `target_chars`; short blocks are gathered; larger ones are split at paragraphs, list
    items, lines, sentences and words, in this order, and a part begins with up to `overlap_chars`
    of the text before it. Sections under `min_chars` join a neighbour of their branch. The spans
    with the role own are disjoint and, with the exclusions, cover the text.
    """
    rows = ChunkRows("section", "sections", settings)
    for document in documents_of(documents, nodes):
        rows.add(document, _section_segments(document, settings))
    return rows.tables()


def _section_segments(document: Document, settings: DocumentChunkSettings) -> list[Segment]:
    """The segments of one document in order: together they cover the text after the frontmatter
    once, leads apart.
    """
    text, last = document.text, len(document.text)
    headings = {node.start for node in document.nodes if node.depth}
    headings.update(
        s
        for s, kind in zip(document.outline.starts, document.outline.kinds, strict=True)
        if kind == "heading"
    )
    paragraphs = (match.end() for match in _PARAGRAPH.finditer(text, document.body_start))
    edges = sorted({*(document.outline.starts or paragraphs), *headings, last})
    segments: list[Segment] = []
    for start, end in _branches(document, settings.min_chars):
        inside = edges[bisect_right(edges, start) : bisect_right(edges, end)]
        cuts = _cuts(text, [start, *inside], headings, settings)
        previous = start
        for a, b in pairwise([*cuts, end]):
            before = max(previous, a - settings.overlap_chars)
            lead = 0 if a == start or a in headings else _lead(text, before, a)
            segments.append(Segment(a, b, document.main_section(a, b), lead))
            previous = a
    return segments


def _branches(document: Document, min_chars: int) -> list[tuple[int, int]]:
    """Ranges of neighbouring sections: one section each, but for those under `min_chars`.

    A short section goes with the next one if that is its child or sibling, else with the one before
    it, else alone.
    """
    starts = [*document.section_starts, len(document.text)]
    ranges: list[tuple[int, int]] = []
    first: Node | None = None
    for node, (start, end) in zip(document.nodes, pairwise(starts), strict=True):
        if first is not None and node.depth >= first.depth:
            ranges[-1] = (ranges[-1][0], end)
        else:
            if first is not None:
                _join_last(ranges)
            ranges.append((start, end))
            first = node
        if (
            ranges[-1][1] - ranges[-1][0] >= min_chars
            and not document.text[slice(*ranges[-1])].isspace()
        ):
            first = None
    if first is not None:
        _join_last(ranges)
    return ranges


def _join_last(ranges: list[tuple[int, int]]) -> None:
    """Join the last range to the one before it, if there is one."""
    if len(ranges) > 1:
        _, end = ranges.pop()
        ranges[-1] = (ranges[-1][0], end)


def _cuts(
    text: str, edges: list[int], headings: set[int], settings: DocumentChunkSettings
) -> list[int]:
    """Where the segments of the blocks between `edges` begin.

    Blocks are gathered up to `target_chars`. A heading stays with the block behind it, a short
    opening or ending with its neighbour, which may then pass the target by `min_chars`.
    """
    target, limit = settings.target_chars, settings.target_chars + settings.min_chars
    cuts = [edges[0]]
    if edges[-1] - edges[0] <= target:
        return cuts
    chunk_start, has_body = edges[0], False
    for start, end in pairwise(edges):
        if end - chunk_start > target:
            if has_body and start - chunk_start >= settings.min_chars:
                cuts.append(start)
                chunk_start = start
            if end - chunk_start > (target if chunk_start == start else limit):
                cuts.extend(splits(text, chunk_start, end, target))
                chunk_start = cuts[-1]
            has_body = False
        has_body = has_body or start not in headings
    end = edges[-1]
    if len(cuts) > 1 and end - cuts[-1] < settings.min_chars and end - cuts[-2] <= limit:
        cuts.pop()
    return cuts


def _lead(text: str, low: int, at: int) -> int:
    """Characters between the first sentence, line or word that begins behind `low` and `at`."""
    if low >= at:
        return 0
    boundary = _BOUNDARY.search(text, low, at)
    if boundary is None or boundary.end() == at:
        boundary = _BLANK.search(text, low, at)
    lead_start = low if boundary is None or boundary.end() == at else boundary.end()
    return 0 if text[lead_start:at].isspace() else at - lead_start
