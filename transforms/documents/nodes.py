"""Documents to the table `document_nodes`: the tree of their headings, with stable ids.

This module has slugs, spans, the hierarchy and breadcrumbs (ra). `transforms.documents.markdown`
finds headings, `transforms.documents.chunks.headings` turns nodes into chunks.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from transforms.documents.code import definitions
from transforms.documents.markdown import MarkdownBlock, parse
from transforms.schemas.documents import DOCUMENT_NODES
from transforms.schemas.table import rows_of

BREADCRUMB_START = "> "
BREADCRUMB_JOINT = " › "

MAX_CRUMB_CHARS = 200
"""Characters of one title in a breadcrumb, which every node below repeats."""
MAX_SLUG_CHARS = 500

_INK = re.compile(rb"\S")
_JOINTS = re.compile(r"[ -]+")


def document_nodes(documents: pa.Table) -> pa.Table:
    """The nodes of all documents, conforming to `schemas.DOCUMENT_NODES`, each document's in its
    order.

    The first node of a document is the document itself. The headings of code are its definitions.
    A heading under which nothing but blanks is before the next heading of its level or above is not
    a node and does not use a slug. The span of a node covers its children; its own text is
    `[byte_start, byte_end)` up to `body_end`.
    """
    columns: dict[str, list[Any]] = {name: [] for name in DOCUMENT_NODES.names}
    names = ("doc_id", "title", "format", "text", "body_start")
    for doc_id, title, kind, text, body_start in rows_of(documents, *names):
        match kind:
            case "text":
                headings = []
            case "code":
                headings = definitions(text, doc_id)
            case _:
                headings = parse(text, body_start, notes=kind == "markdown").headings
        rows = _rows(doc_id, title, text.encode(), headings)
        children = Counter(row[2] for row in rows)
        for row in rows:
            for column, value in zip(columns.values(), (*row, children[row[2]]), strict=True):
                column.append(value)
    return DOCUMENT_NODES.from_columns(columns)


def slug_base(title: str) -> str:
    """The fragment identifier of a heading before duplicates get a number.

    The slug has letters of all scripts with their marks in lower case, digits and `_`; a run of
    blanks and hyphens becomes one hyphen, none at either end; other characters are dropped. An
    empty slug becomes `heading`. The result is GitHub's with runs collapsed, cut at 500 characters.

    >>> slug_base("What's new in 2.0?")
    'whats-new-in-20'
    >>> slug_base("Über C++")
    'über-c'
    >>> slug_base("???")
    'heading'
    """
    letters = "".join(
        c for c in title if c.isalnum() or c in "_ -" or unicodedata.category(c)[0] == "M"
    )
    slug = _JOINTS.sub("-", letters).strip("-").lower()
    return slug[:MAX_SLUG_CHARS].rstrip("-") or "heading"


class Slugs:
    """The slugs of one document in document order, each unique.

    >>> slugs = Slugs()
    >>> slugs.slug("Notes"), slugs.slug("Notes")
    ('notes', 'notes-1')
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: Counter[str] = Counter()

    def slug(self, title: str) -> str:
        """The next slug for a heading of this title: a repeated base gets the first free suffix of
        `-1`, `-2`, ….
        """
        base = slug_base(title)
        count = self._counts[base]
        slug = f"{base}-{count}" if count else base
        while slug in self._used:
            count += 1
            slug = f"{base}-{count}"
        self._counts[base] = count + 1
        self._used.add(slug)
        return slug


def _rows(
    doc_id: str, title: str, data: bytes, headings: list[MarkdownBlock]
) -> list[tuple[Any, ...]]:
    """The rows of a document and of every heading that is a node, without their last column."""
    trail, size = BREADCRUMB_START + crumb(title), len(data)
    preamble_end = headings[0].start if headings else size
    rows: list[tuple[Any, ...]] = [
        (doc_id, doc_id, None, 0, 0, title, None, trail, 0, 0, size, preamble_end)
    ]
    slugs, above = Slugs(), [(0, doc_id, trail)]
    for heading, end, body_end in _spans(headings, size):
        if not _INK.search(data, heading.end, end):
            continue
        while above[-1][0] >= heading.level:
            above.pop()
        _, parent, trail = above[-1]
        if len(rows) > 1 or crumb(heading.text) != crumb(title):
            trail += BREADCRUMB_JOINT + crumb(heading.text)
        slug, depth = slugs.slug(heading.text), heading.level
        node = f"{doc_id}#{slug}"
        place = heading.start, heading.end, end, body_end
        rows.append((node, doc_id, parent, depth, len(rows), heading.text, slug, trail, *place))
        above.append((depth, node, trail))
    return rows


def crumb(title: str) -> str:
    """A title at the length at which it is repeated below it."""
    return title if len(title) <= MAX_CRUMB_CHARS else title[: MAX_CRUMB_CHARS - 1] + "…"


def _spans(headings: list[MarkdownBlock], size: int) -> Iterator[tuple[MarkdownBlock, int, int]]:
    """Every heading with the end of its span, the next heading of its level or above, and of its
    own text, the next.
    """
    ends = [size] * len(headings)
    open_headings: list[int] = []
    for at, heading in enumerate(headings):
        while open_headings and headings[open_headings[-1]].level >= heading.level:
            ends[open_headings.pop()] = heading.start
        open_headings.append(at)
    return zip(headings, ends, [*(heading.start for heading in headings), size][1:], strict=True)
