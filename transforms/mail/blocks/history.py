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


def mark_history(lines: Lines, openings: Openings, diff: Mask, lists_too: bool) -> None:
    """Marks as inferred quotes the text below an Outlook header, or below an attribution without quotes.

    An attribution counts only below text that is more than a salutation, in a mail that marks no quotes
    behind it. A mail that names a list counts only if `lists_too`: there the parent is at hand, and its words
    tell history from an answer below it. What somebody forwards is no history.
    """
    end = lines.message_end
    quote = lines.kind == QUOTE
    rows = np.flatnonzero(openings.blocks | openings.dated)
    rows = rows[next_at(diff, rows) >= end[rows]]
    filled = next_at(~lines.blank & (lines.kind != HEADER), rows + 1)
    below = np.minimum(np.minimum(filled, end[rows]), lines.n - 1)
    blocks = openings.blocks[rows] & ~quote[below]
    blocks[blocks] = ~lines.matching(rules.FORWARDED, rows[blocks])
    rows = rows[blocks | openings.dated[rows] & (next_at(quote, rows) >= end[rows])]
    if not lists_too:
        rows = rows[~_listed(lines, rows)]
    if not len(rows):
        return
    opening = np.zeros(lines.n, dtype=bool)
    opening[rows] = True
    own = lines.kind == AUTHOR
    spoken = counts_before(own & ~lines.matches(rules.HELLO, own & lines.in_mails(opening)))
    rows = rows[spoken[rows] > spoken[lines.message_start[rows]]]
    text = rows_within(rows, end[rows], lines.n) & ((lines.kind == AUTHOR) | (lines.kind == CODE))
    lines.mark(text, QUOTE, inferred=True)
    lines.depth[text] = 1


def _listed(lines: Lines, openings: Rows) -> Mask:
    """For each of these rows, whether its mail names a mailing list anywhere."""
    if not len(openings):
        return np.zeros(0, dtype=bool)
    opening, found = np.zeros(lines.n, dtype=bool), np.zeros(lines.n, dtype=bool)
    opening[openings] = True
    named = lines.matches(rules.LISTED, lines.in_mails(opening) & ~lines.blank)
    found[lines.message_start[named & ~lines.matches(rules.OFFICE_TAG, named)]] = True
    return found[lines.message_start[openings]]
