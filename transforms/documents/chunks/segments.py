"""One document as chunkers read it, and the segments they cut.

This module has characters and bytes, sections, code and the texts of a chunk. The chunkers decide
where to cut (`transforms.documents.chunks.sections`, `transforms.documents.chunks.semantic`).
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.documents.markdown import Outline, outline, unread_ranges
from transforms.documents.nodes import BREADCRUMB_JOINT, BREADCRUMB_START, crumb
from transforms.text.spans import Offsets

_VISIBLE = re.compile(r"[^\r\n]")
_FENCES = ("```", "~~~")


class Segment(NamedTuple):
    """A half-open range of characters that a chunker cut.

    The `lead` characters before it repeat the end of the previous segment. `node` is the index, in
    the document's list of nodes, of the node that it is cited by; `under` that of the node whose
    headings stand above it, if that is another node.
    """

    start: int
    end: int
    node: int
    lead: int = 0
    under: int | None = None


class Omission(NamedTuple):
    """A half-open range of characters that a chunker omits, and the reason."""

    start: int
    end: int
    reason: str


class Node(NamedTuple):
    """A heading, or the document: the index of its parent, and the first character of its heading.

    `trail` is the breadcrumb without its opening mark.
    """

    node_id: str
    title: str
    trail: str
    depth: int
    parent: int
    start: int


@dataclass
class Document:
    """A document and its nodes, offsets in characters.

    `nodes` are in document order, the document itself first; the section of a node runs from its
    heading to the next. `text` has blanks where comments, icons and badges stand, which search must not find.
    """

    doc_id: str
    source: str
    partition: str
    path: str
    title: str
    has_own_title: bool
    names: list[str]
    text: str
    body_start: int
    nodes: list[Node]
    offsets: Offsets
    outline: Outline
    comments: list[tuple[int, int]]

    @cached_property
    def section_starts(self) -> list[int]:
        """Where the section of each node begins."""
        return [node.start for node in self.nodes]

    @cached_property
    def _last_descendant(self) -> list[int]:
        """The index of the last node below each node, or its own."""
        last = list(range(len(self.nodes)))
        for index in range(len(last) - 1, 0, -1):
            parent = self.nodes[index].parent
            last[parent] = max(last[parent], last[index])
        return last

    def section_at(self, position: int) -> int:
        """The node whose section holds a character."""
        return max(bisect_right(self.section_starts, position) - 1, 0)

    def innermost_node(self, start: int, end: int) -> int:
        """The innermost node that contains the range, subsections included."""
        node, last = self.section_at(start), self.section_at(end - 1)
        while self._last_descendant[node] < last:
            node = self.nodes[node].parent
        return node

    def main_section(self, start: int, end: int) -> int:
        """The node whose section, from its heading to the next, holds most of the range; of equal
        ones the first.
        """
        first = self.section_at(start)
        last = max(first, self.section_at(end - 1))
        edges = [start, *self.section_starts[first + 1 : last + 1], end]
        return first + max(range(last - first + 1), key=lambda n: edges[n + 1] - edges[n])

    @cached_property
    def headings(self) -> list[list[str]]:
        """The titles of the headings down to each node, without the document's own, as a breadcrumb
        has them: each chunk has all of them.
        """
        paths: list[list[str]] = [[]]
        for node in self.nodes[1:]:
            paths.append([*paths[node.parent], crumb(node.title)])
        return paths

    def embedded_trail(self, node: int) -> str:
        """The titles down to a node; without the file's name, so that a renamed file keeps its
        vectors.
        """
        return (
            self.nodes[node].trail
            if self.has_own_title
            else BREADCRUMB_JOINT.join(self.headings[node])
        )

    def visible(self, start: int, end: int) -> list[tuple[int, int]]:
        """A range without the comments in it."""
        if not self.comments:
            return [(start, end)]
        ranges = []
        for index in range(
            bisect_right(self.comments, start, key=itemgetter(1)), len(self.comments)
        ):
            comment_start, comment_end = self.comments[index]
            if comment_start >= end:
                break
            ranges.append((start, comment_start))
            start = min(comment_end, end)
        return [(a, b) for a, b in [*ranges, (start, end)] if a < b]

    def display(self, start: int, end: int) -> str:
        """The visible text of a range: without comments and surrounding blank lines."""
        display = self.text[start:end]
        if self.comments:
            display = "".join(self.text[a:b] for a, b in self.visible(start, end))
        return display.strip("\r\n").rstrip()

    def code_shares(self, starts: Sequence[int], ends: Sequence[int]) -> np.ndarray:
        """Lines of code : lines with text in each of several ranges, without the lines of fences
        (Information Graph).
        """
        if not self.outline.code:
            return np.zeros(len(starts))
        code, other = self._line_counts
        first = np.searchsorted(self._line_starts, starts, side="right") - 1
        end = np.searchsorted(self._line_starts, ends)
        inside, outside = code[end] - code[first], other[end] - other[first]
        return inside / np.maximum(inside + outside, 1)

    @cached_property
    def _line_starts(self) -> np.ndarray:
        return np.append(0, np.flatnonzero(self._latin1 == ord("\n")) + 1)

    @cached_property
    def _latin1(self) -> np.ndarray:
        """The text with one byte for each character; a character outside Latin-1 is a question
        mark.
        """
        return np.frombuffer(self.text.encode("latin-1", "replace"), np.uint8)

    @cached_property
    def _line_counts(self) -> tuple[np.ndarray, np.ndarray]:
        """How many lines of code, and of other text, stand before each line; fences count as
        neither.
        """
        has_ink = np.append(self._latin1 > ord(" "), False)
        line_has_ink = np.logical_or.reduceat(has_ink, self._line_starts)
        starts, ends, fenced = (np.array(side) for side in zip(*self.outline.code, strict=True))
        first = np.searchsorted(self._line_starts, starts, side="right") - 1
        end = np.searchsorted(self._line_starts, ends)
        edges = np.zeros(len(line_has_ink) + 1, dtype=np.int64)
        np.add.at(edges, first, 1)
        np.add.at(edges, end, -1)
        is_code = edges.cumsum()[:-1] > 0
        closed = [
            self.text[max(a, b - 9) : b].rstrip().endswith(_FENCES) for a, b, _ in self.outline.code
        ]
        is_fence = np.zeros(len(line_has_ink), dtype=bool)
        is_fence[first[fenced]] = True
        is_fence[end[fenced & np.array(closed)] - 1] = True
        counts = (line_has_ink & is_code & ~is_fence, line_has_ink & ~is_code)
        code, other = (np.concatenate([[0], np.cumsum(lines)]) for lines in counts)
        return code, other


def documents_of(documents: pa.Table, nodes: pa.Table) -> Iterator[Document]:
    """The documents of two tables (`documents`, `document_nodes`) in order of their ids."""
    rows = pl.DataFrame(documents).sort("doc_id")
    columns = ["node_id", "parent_id", "title", "breadcrumb", "depth", "heading_start"]
    tree = pl.DataFrame(nodes.select(["doc_id", "position", *columns])).sort("doc_id", "position")
    runs = tree["doc_id"].rle().struct.unnest()
    ends = runs["len"].cum_sum().to_list()
    row_ranges = {d: (e - n, e) for d, e, n in zip(runs["value"], ends, runs["len"], strict=True)}
    lists = [tree[name].to_list() for name in columns]
    names = (
        "doc_id",
        "source",
        "partition",
        "path",
        "title",
        "has_own_title",
        "format",
        "tags",
        "aliases",
        "text",
        "body_start",
    )
    for values in zip(*(rows[name].to_list() for name in names), strict=True):
        row = dict(zip(names, values, strict=True))
        first, last = row_ranges.get(row["doc_id"], (0, 0))
        yield _document(row, [column[first:last] for column in lists])


def _document(row: dict[str, Any], columns: list[list[Any]]) -> Document:
    text, body_start = row["text"], row["body_start"]
    offsets = Offsets(text)
    comment_ranges: list[tuple[int, int]] = []
    blocks = Outline([], [], [])
    if row["format"] == "code":
        blocks.code.append((body_start, len(text.encode()), False))
    elif row["format"] != "text":
        blocks = outline(text, body_start)
    if row["format"] == "markdown":
        byte_ranges = unread_ranges(
            text, body_start, [(start, end) for start, end, _ in blocks.code]
        )
        flat = offsets.chars([index for span in byte_ranges for index in span])
        comment_ranges = [*zip(flat[::2], flat[1::2], strict=True)]
    ids, parents, titles, crumbs, depths, starts = columns
    body = offsets.chars([body_start])[0]
    index_by_id = {node_id: index for index, node_id in enumerate(ids)}
    parent_indexes = [index_by_id.get(parent, 0) for parent in parents]
    trails = [crumb.removeprefix(BREADCRUMB_START) for crumb in crumbs]
    begins = [max(start, body) for start in offsets.chars(starts)]
    node_list = [*map(Node, ids, titles, trails, depths, parent_indexes, begins)]
    if not node_list:
        node_list = [Node(row["doc_id"], row["title"], row["title"], 0, 0, body)]
    code = blocks.code
    if code:
        sides = [offsets.chars([c[side] for c in code]) for side in (0, 1)]
        code = list(zip(*sides, [c[2] for c in code], strict=True))
    return Document(
        doc_id=row["doc_id"],
        source=row["source"],
        partition=row["partition"],
        path=row["path"],
        title=row["title"],
        has_own_title=row["has_own_title"],
        names=[*(row["tags"] or ()), *(row["aliases"] or ())],
        text=_blanked(text, comment_ranges),
        body_start=body,
        nodes=node_list,
        offsets=offsets,
        outline=Outline(offsets.chars(blocks.starts), blocks.kinds, code),
        comments=comment_ranges,
    )


def _blanked(text: str, ranges: list[tuple[int, int]]) -> str:
    texts, at = [], 0
    for start, end in ranges:
        texts += [text[at:start], _VISIBLE.sub(" ", text[start:end])]
        at = end
    return "".join([*texts, text[at:]]) if texts else text
