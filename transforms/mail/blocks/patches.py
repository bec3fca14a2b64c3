"""Patches: unified hunks by their line counts, context diffs, binary patches, and what frames them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.blocks import code_rules, rules
from transforms.mail.blocks.lines import CODE, SPACE, Lines, Mask, byte_table, next_at, rows_within

STAT_END = byte_table(b"0123456789+-)s")
CONTEXT_MARK = byte_table(b" !+-")


def mark_patches(lines: Lines) -> Mask:
    """Marks the lines of diffs; the rows of them, blank ones inside included."""
    author = lines.author()
    head = lines.matches(code_rules.DIFF, author & (lines.indent <= 1))
    head |= lines.matches(code_rules.MONTICELLO, author)
    head |= lines.matches(code_rules.DIFFSTAT, author & (lines.indent == 1) & STAT_END[lines.last])
    adjacent = lines.shifted(head, 1) | lines.shifted(head, -1) | lines.shifted(head, 2)
    head |= lines.matches(code_rules.DOUBLE_RULE, author & adjacent)
    diff = head | _hunks(lines, head & (lines.pair == ord("@") * 257)) | _context_hunks(lines, head)
    cut = lines.matches(rules.CUT, author)
    diff |= cut & (lines.shifted(head, -1) | lines.shifted(head, -2))
    diff |= _binary_patches(lines, diff)
    diff |= _git_version(lines, diff)
    diff &= ~lines.blank | diff[lines.next_filled]
    lines.mark(diff & (author | lines.blank), CODE)
    return diff


def _hunks(lines: Lines, heads: Mask) -> Mask:
    """Rows of unified hunks, by the line counts in their headers."""
    rows = np.flatnonzero(heads & (lines.indent == 0))
    if not len(rows):
        return heads
    counts = pc.extract_regex(lines.head_texts.take(pa.array(2 * rows)), code_rules.HUNK)
    valid = counts.is_valid().to_numpy(zero_copy_only=False)
    rows, counts = rows[valid], counts.drop_null()
    if not len(rows):
        return heads
    old, new = (_line_counts(counts.field(name), lines.n) for name in ("old", "new"))
    byte = lines.data[lines.starts]
    minus, plus, note = byte == ord("-"), byte == ord("+"), byte == ord("\\")
    plain = (byte == 32) | (byte == 9) | lines.blank
    olds = np.cumsum(plain | minus, dtype=np.int32)
    news = np.cumsum(plain | plus, dtype=np.int32)
    stop = next_at(~(plain | minus | plus | note), np.minimum(rows + 1, lines.n - 1))
    last = np.maximum(np.searchsorted(olds, olds[rows] + old), np.searchsorted(news, news[rows] + new))
    ends = np.minimum(np.minimum(last + 1, stop), lines.message_end[rows])
    return rows_within(rows, np.maximum(ends, rows + 1), lines.n)


def _line_counts(texts: pa.Array, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Counts of a hunk header; a missing one is 1, and none is larger than the batch."""
    filled = pc.if_else(pc.equal(pc.binary_length(texts), 0), b"1", texts)
    numbers = filled.cast(pa.string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.minimum(numbers, most)


def _context_hunks(lines: Lines, head: Mask) -> Mask:
    """Rows of context diffs: what follows their rules and line numbers and carries their marks."""
    context = lines.matches(code_rules.CONTEXT_HUNK, head)
    if not context.any():
        return context
    second = lines.data[np.minimum(lines.starts + 1, len(lines.data) - 1)]
    body = lines.author() & CONTEXT_MARK[lines.data[lines.starts]] & SPACE[second] | lines.blank
    stop = ~(body | context)
    stop |= lines.first
    rows = np.flatnonzero(context)
    following = np.minimum(rows + 1, lines.n - 1)
    return rows_within(rows, np.minimum(next_at(stop, following), lines.message_end[rows]), lines.n)


def _binary_patches(lines: Lines, diff: Mask) -> Mask:
    """The base-85 lines of a GIT binary patch."""
    heads = lines.matches(code_rules.BINARY_PATCH, diff)
    if not heads.any():
        return heads
    rows = np.flatnonzero(heads)
    body = lines.matches(code_rules.BINARY_LINE, lines.author()) | lines.blank
    following = np.minimum(rows + 1, lines.n - 1)
    return rows_within(rows, np.minimum(next_at(~body, following), lines.message_end[rows]), lines.n)


def _git_version(lines: Lines, diff: Mask) -> Mask:
    """`-- ` and the version of git, with which format-patch ends a patch: part of it, nobody's signature."""
    below = lines.shifted(diff, 1) | (lines.shifted(diff, 2) & lines.shifted(lines.blank, 1))
    dashes = lines.matches(rules.DASHES, below)
    version = lines.matches(rules.GIT_VERSION, lines.shifted(dashes, 1))
    return version | lines.shifted(version, -1)
