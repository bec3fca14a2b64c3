"""Documents to chunks of 250 to 750 tokens that end where the topic may change: at headings.

This module has the state machine of the Information Graph. Headings are in
`transforms.documents.nodes`, the texts of a chunk in `transforms.documents.chunks.segments`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from transforms.chunks.table import ChunkTables
from transforms.documents.chunks.rows import ChunkRows
from transforms.documents.chunks.segments import Document, Omission, Segment, documents_of
from transforms.settings.documents import DocumentChunkSettings
from transforms.text.segments import splits

TOKENS_PER_WORD = 1.3
MAX_TOKEN_CHARS = 20
"""Characters per token beyond which a chunk is measured by its length: one long word, many empty
lines.
"""

_HEADING_LINE = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t\r]*$", re.MULTILINE)
_SPACE = np.zeros(256, dtype=bool)
_SPACE[[code for code in range(256) if chr(code).isspace()]] = True


class _Heading(NamedTuple):
    """A heading: the number of its line, its level and its title."""

    line: int
    level: int
    title: str


class _Chunk(NamedTuple):
    """Lines `[first, end)`, their tokens, and the headings above (strict: when it was sealed)."""

    first: int
    end: int
    tokens: int
    above: list[_Heading]


class _Lines(NamedTuple):
    """The lines of a text: where each begins, where the last ends, and the tokens before each."""

    starts: list[int]
    before: list[int]


def semantic_chunks(
    documents: pa.Table, nodes: pa.Table, settings: DocumentChunkSettings
) -> ChunkTables:
    """Chunks of documents of the kind `semantic_section`, and the exclusions.

    The algorithm of the Information Graph; sizes are the settings `semantic_*`. Tokens are
    estimated, int(words × 1.3) a line. A second h2 in a chunk that an h1 began seals it; a heading
    of a level that the chunk began with or has reached seals it from `semantic_min_tokens`, a
    deeper one from `semantic_deep_tokens`; a line that would pass `semantic_max_tokens` seals it
    first. A short last chunk joins the previous one, and a line longer than a chunk is split.

    With `strict` a heading is every line that looks like one, in code too, the headings above a
    chunk are those of its end, a last chunk under `semantic_min_tokens` is lost (exclusion
    `lost_rest`), and `text_embed` is the original's text: headings above, then the lines.
    """
    rows = ChunkRows("semantic_section", "semantic", settings)
    for document in documents_of(documents, nodes):
        if settings.strict:
            rows.add(document, *_strict_segments(document, settings))
        else:
            rows.add(document, semantic_segments(document, settings))
    return rows.tables()


def semantic_segments(document: Document, settings: DocumentChunkSettings) -> list[Segment]:
    """The segments of one document in order; they cover the text after the frontmatter."""
    limit = settings.semantic_max_tokens
    lines = _with_long_split(document.text, _lines(document.text, document.body_start), limit)
    headings = [
        _Heading(bisect_left(lines.starts, node.start), node.depth, node.title)
        for node in document.nodes
        if node.depth
    ]
    chunks = list(_sealed(lines, headings, settings))
    if len(chunks) > 1 and chunks[-1].tokens < settings.semantic_min_tokens:
        last = chunks.pop()
        chunks[-1] = chunks[-1]._replace(end=last.end)
    segments = []
    for first, end, _, _ in chunks:
        a, b = lines.starts[first], lines.starts[end]
        segments.append(Segment(a, b, document.innermost_node(a, b), under=document.section_at(a)))
    return segments


def _strict_segments(
    document: Document, settings: DocumentChunkSettings
) -> tuple[list[Segment], list[Omission], list[str]]:
    """The segments of the original algorithm, its omissions, and the texts it embeds."""
    text = document.text
    lines = _lines(text, document.body_start)
    matches = list(_HEADING_LINE.finditer(text, document.body_start))
    headings = [_Heading(bisect_left(lines.starts, m.start()), len(m[1]), m[2]) for m in matches]
    segments, omissions, embedded = [], [], []
    for first, end, tokens, above in _sealed(lines, headings, settings):
        a, b = lines.starts[first], lines.starts[end]
        if end == len(lines.starts) - 1 and tokens < settings.semantic_min_tokens:
            omissions.append(Omission(a, b, "lost_rest"))
            continue
        segments.append(Segment(a, b, document.innermost_node(a, b)))
        marks = [f"{'#' * heading.level} {heading.title}" for heading in above]
        embedded.append("\n".join([*marks, document.display(a, b)]))
    return segments, omissions, embedded


def _lines(text: str, start: int) -> _Lines:
    """The lines from a character on; a final newline does not begin another line."""
    data = np.frombuffer(text[start:].encode("latin-1", "replace"), dtype=np.uint8)
    space = _SPACE[data]
    words = ~space
    words[1:] &= space[:-1]
    starts = np.concatenate([[0], np.flatnonzero(data[:-1] == ord("\n")) + 1])
    word_count = np.append(0, np.cumsum(words, dtype=np.int64))
    counts = np.diff(word_count[np.append(starts, len(data))])
    tokens_before = np.cumsum((counts * TOKENS_PER_WORD).astype(np.int64))
    return _Lines([*(starts + start).tolist(), len(text)], [0, *tokens_before.tolist()])


def _with_long_split(text: str, lines: _Lines, limit: int) -> _Lines:
    """The lines, with those split that are longer than a chunk may be."""
    chars, tokens = np.diff(lines.starts), np.diff(lines.before)
    long = (chars > limit * MAX_TOKEN_CHARS) | (tokens > limit)
    if not long.any():
        return lines
    starts, token_counts = [], []
    for start, end, count, is_long in zip(
        lines.starts, lines.starts[1:], tokens.tolist(), long.tolist(), strict=False
    ):
        size = end - start
        token_count = max(count, size // MAX_TOKEN_CHARS)
        room = max(size * limit * 9 // (10 * token_count), 1) if is_long else size
        for a, b in pairwise([start, *splits(text, start, end, room), end]):
            starts.append(a)
            words = int(len(text[a:b].split()) * TOKENS_PER_WORD)
            token_counts.append(max(words, (b - a) // MAX_TOKEN_CHARS) if is_long else count)
    return _Lines([*starts, len(text)], [0, *accumulate(token_counts)])


def _sealed(
    lines: _Lines, headings: list[_Heading], settings: DocumentChunkSettings
) -> Iterator[_Chunk]:
    """The chunks in order. Between two headings only the size of the chunk can end it."""
    total = len(lines.starts) - 1
    before = lines.before
    first = level = deepest = 0
    has_h2 = False
    above: list[_Heading] = []
    for heading, following in pairwise([None, *headings, None]):
        at = heading.line if heading else 0
        if heading is not None:
            tokens = before[at] - before[first]
            is_deeper = heading.level > max(level, deepest)
            least = settings.semantic_deep_tokens if is_deeper else settings.semantic_min_tokens
            if tokens and ((level == 1 and heading.level == 2 and has_h2) or tokens >= least):
                yield _Chunk(first, at, tokens, _above(above, level))
                first, level, deepest, has_h2 = at, heading.level, heading.level, False
            elif not tokens:
                level = deepest = heading.level
            deepest, has_h2 = max(deepest, heading.level), has_h2 or heading.level == 2
            above = [h for h in above if h.level < heading.level] + [heading]
            at += 1
        end = following.line if following else total
        while (full := _full_at(lines, first, at, end, settings)) < end:
            yield _Chunk(first, full, before[full] - before[first], _above(above, level))
            first = at = full
            level = deepest = above[-1].level if above else 0
            has_h2 = False
    if first < total:
        yield _Chunk(first, total, before[total] - before[first], _above(above, level))


def _above(path: list[_Heading], level: int) -> list[_Heading]:
    return [heading for heading in path if heading.level < level]


def _full_at(lines: _Lines, first: int, at: int, end: int, settings: DocumentChunkSettings) -> int:
    """The line from `at` on with which the chunk would pass the limit, or `end`.

    A chunk takes its first line with a word however long it is.
    """
    limit, before = settings.semantic_max_tokens, lines.before
    full = bisect_right(before, before[first] + limit, first, end + 1) - 1
    behind_word = bisect_right(before, before[first], first, end + 1)
    if not settings.strict:
        long = lines.starts[first] + limit * MAX_TOKEN_CHARS
        full = min(full, max(bisect_right(lines.starts, long, first, end + 1) - 1, first + 1))
        behind_word = first + 1
    return min(max(full, at, behind_word), end)
