"""Documents to the table `document_nodes`: the tree of their headings, with stable ids.

This module has slugs, spans, the hierarchy and breadcrumbs (ra). `transforms.documents.markdown` finds
headings, `transforms.documents.chunks.headings` turns nodes into chunks."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.documents.markdown import MarkdownBlock, parse
from transforms.schemas.documents import DOCUMENT_NODES
from transforms.schemas.table import rows_of

VERSION = "2"

BREADCRUMB_START = "> "
BREADCRUMB_JOINT = " › "

MAX_CRUMB_CHARS = 200
"""Characters of one title in a breadcrumb, which every node below repeats."""
MAX_SLUG_CHARS = 500

_INK = re.compile(rb"\S")
_JOINTS = re.compile(r"[ -]+")


def document_nodes(documents: pa.Table) -> pa.Table:
    """The nodes of all documents, conforming to `schemas.DOCUMENT_NODES`, each document's in its order.

    The first node of a document is the document itself. A heading under which nothing but blanks
    is before the next heading of its level or above is not a node and does not use a slug. The span of a
    node covers its children; its own text is `[byte_start, byte_end)` up to `body_end`."""
    columns: dict[str, list[Any]] = {name: [] for name in DOCUMENT_NODES.names}
    names = ("doc_id", "title", "format", "text", "body_start")
    for doc_id, title, kind, text, body_start in rows_of(documents, *names):
        notes = kind == "markdown"
        headings = parse(text, body_start, notes=notes).headings if kind != "text" else []
        _Tree(doc_id, title, text.encode(), headings).append_to(columns)
    return DOCUMENT_NODES.from_columns(columns)


def slug_base(title: str) -> str:
    """The fragment identifier of a heading before duplicates get a number.

    The slug has letters of all scripts with their marks in lower case, digits and `_`; a run of blanks and hyphens
    becomes one hyphen, none at either end; other characters are dropped. An empty slug becomes `heading`. The result
    is GitHub's with runs collapsed, cut at 500 characters.

    >>> slug_base("What's new in 2.0?")
    'whats-new-in-20'
    >>> slug_base("Über C++")
    'über-c'
    >>> slug_base("???")
    'heading'"""
    letters = "".join(c for c in title if c.isalnum() or c in "_ -" or unicodedata.category(c)[0] == "M")
    slug = _JOINTS.sub("-", letters).strip("-").lower()
    return slug[:MAX_SLUG_CHARS].rstrip("-") or "heading"


class Slugs:
    """The slugs of one document in document order, each unique.

    >>> slugs = Slugs()
    >>> slugs.slug("Notes"), slugs.slug("Notes")
    ('notes', 'notes-1')"""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: Counter[str] = Counter()

    def slug(self, title: str) -> str:
        """The next slug for a heading of this title: a repeated base gets the first free suffix of `-1`, `-2`, …."""
        base = slug_base(title)
        count = self._counts[base]
        slug = f"{base}-{count}" if count else base
        while slug in self._used:
            count += 1
            slug = f"{base}-{count}"
        self._counts[base] = count + 1
        self._used.add(slug)
        return slug


class _Span(NamedTuple):
    """A heading that is a node: the end of its span, the end of its own text."""

    heading: MarkdownBlock
    end: int
    body_end: int


class _Tree:
    """The nodes of one document."""

    def __init__(self, doc_id: str, title: str, data: bytes, headings: list[MarkdownBlock]) -> None:
        self.doc_id = doc_id
        self.title = title
        self.size = len(data)
        self.preamble_end = headings[0].start if headings else len(data)
        self.spans = [s for s in _spans(headings, len(data)) if _INK.search(data, s.heading.end, s.end)]

    def append_to(self, columns: dict[str, list[Any]]) -> None:
        """Append a row for the document and one for every heading that is a node."""
        crumb = BREADCRUMB_START + _crumb(self.title)
        root = _Open(self.doc_id, 0, crumb)
        parents = [None, *(self._rows(root, columns))]
        children = Counter(parents)
        columns["parent_id"] += parents
        columns["sibling_count"] += [children[parent] for parent in parents]

    def _rows(self, root: _Open, columns: dict[str, list[Any]]) -> list[str]:
        """Append the columns that need no look ahead; the parents of the headings."""
        document = (root.node_id, 0, self.title, None, root.breadcrumb, 0, 0, self.size, self.preamble_end)
        self._append(columns, 0, document)
        slugs, ancestors, parents = Slugs(), [root], []
        for position, (heading, end, body_end) in enumerate(self.spans, 1):
            while ancestors[-1].depth >= heading.level:
                ancestors.pop()
            parent, slug = ancestors[-1], slugs.slug(heading.text)
            repeats_title = position == 1 and heading.text == self.title
            crumb = parent.breadcrumb + ("" if repeats_title else BREADCRUMB_JOINT + _crumb(heading.text))
            node = _Open(f"{self.doc_id}#{slug}", heading.level, crumb)
            place = heading.start, heading.end, end, body_end
            self._append(columns, position, (node.node_id, node.depth, heading.text, slug, crumb, *place))
            ancestors.append(node)
            parents.append(parent.node_id)
        return parents

    def _append(self, columns: dict[str, list[Any]], position: int, row: tuple[Any, ...]) -> None:
        names = ("node_id", "depth", "title", "slug", "breadcrumb", "heading_start", "byte_start", "byte_end")
        columns["doc_id"].append(self.doc_id)
        columns["position"].append(position)
        for name, value in zip((*names, "body_end"), row, strict=True):
            columns[name].append(value)


class _Open(NamedTuple):
    """A node that later headings may belong to."""

    node_id: str
    depth: int
    breadcrumb: str


def _crumb(title: str) -> str:
    return title if len(title) <= MAX_CRUMB_CHARS else title[: MAX_CRUMB_CHARS - 1] + "…"


def _spans(headings: list[MarkdownBlock], size: int) -> list[_Span]:
    """The span of every heading: to the next heading of its level or above, its own text to the next."""
    ends = [size] * len(headings)
    open_headings: list[int] = []
    for at, heading in enumerate(headings):
        while open_headings and headings[open_headings[-1]].level >= heading.level:
            ends[open_headings.pop()] = heading.start
        open_headings.append(at)
    starts = [*(heading.start for heading in headings), size][1:]
    return [_Span(h, end, body_end) for h, end, body_end in zip(headings, ends, starts, strict=True)]
