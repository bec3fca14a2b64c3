"""History: text below a header that a mail program pasted there, though no line of it is marked."""

from __future__ import annotations

import numpy as np

from transforms.mail.blocks import rules
from transforms.mail.blocks.headers import Openings
from transforms.mail.blocks.lines import (
    AUTHOR,
    CODE,
    HEADER,
    QUOTE,
    Lines,
    Mask,
    Rows,
    counts_before,
    next_at,
    rows_within,
)

LONG_HISTORY = 8
"""Lines; more of them below the header of another mail are what a mail passes on, not what a reply answers."""


def mark_history(lines: Lines, openings: Openings, diff: Mask, lists_too: bool) -> None:
    """Marks as inferred quotes the text below an Outlook header, or below an attribution without quotes.

    It is what a reply answers: there is a word of the sender above it, below a header block it is short
    (`LONG_HISTORY`), and no banner says that it was forwarded. An attribution counts only below text that is more than
    a salutation, in a mail that marks no quotes behind it. A mail that names a list counts only if `lists_too`: there
    the parent is at hand, and its words tell history from an answer below it.
    """
    rows = _answered(lines, openings, diff)
    if not lists_too:
        rows = rows[~_listed(lines, rows)]
    if not len(rows):
        return
    opening = np.zeros(lines.n, dtype=bool)
    opening[rows] = True
    own = lines.kind == AUTHOR
    spoken = counts_before(own)
    greeted = counts_before(own & lines.matches(rules.HELLO, own & lines.in_mails(opening)))
    least = np.where(openings.dated[rows], greeted[rows] - greeted[lines.message_start[rows]], 0)
    rows = rows[spoken[rows] - spoken[lines.message_start[rows]] > least]
    text = rows_within(rows, lines.message_end[rows], lines.n) & _is_text(lines)
    lines.mark(text, QUOTE, inferred=True)
    lines.depth[text] = 1


def _answered(lines: Lines, openings: Openings, diff: Mask) -> Rows:
    """The openings below which the rest of a mail may be what it answers."""
    end = lines.message_end
    quote = lines.kind == QUOTE
    rows = np.flatnonzero(openings.blocks | openings.dated)
    rows = rows[next_at(diff, rows) >= end[rows]]
    filled = next_at(~lines.blank & (lines.kind != HEADER), rows + 1)
    below = np.minimum(np.minimum(filled, end[rows]), lines.n - 1)
    dated = openings.dated[rows] & (next_at(quote, rows) >= end[rows])
    rows = rows[openings.blocks[rows] & ~quote[below] | dated]
    banner = (lines.kind == HEADER) & np.isin(lines.byte, rules.BANNER_MARKS)
    forwarded = counts_before(lines.matches(rules.FORWARDED, banner))
    rows = rows[forwarded[rows + 1] == forwarded[lines.message_start[rows]]]
    total = counts_before(_is_text(lines))
    first = np.searchsorted(rows, lines.message_start[rows])
    is_short = total[end[rows]] - total[rows[first]] <= LONG_HISTORY if len(rows) else first > 0
    return rows[openings.dated[rows] | is_short]


def _is_text(lines: Lines) -> Mask:
    return (lines.kind == AUTHOR) | (lines.kind == CODE)


def _listed(lines: Lines, openings: Rows) -> Mask:
    """For each of these rows, whether its mail names a mailing list anywhere."""
    if not len(openings):
        return np.zeros(0, dtype=bool)
    opening, found = np.zeros(lines.n, dtype=bool), np.zeros(lines.n, dtype=bool)
    opening[openings] = True
    named = lines.matches(rules.LISTED, lines.in_mails(opening) & ~lines.blank)
    found[lines.message_start[named & ~lines.matches(rules.OFFICE_TAG, named)]] = True
    return found[lines.message_start[openings]]
