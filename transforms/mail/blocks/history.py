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
    counts_before,
    next_true,
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
    diffless = next_true(diff) >= end
    quoteless = diffless & (next_true(quote) >= end)
    below = np.minimum(lines.behind(~lines.blank & (lines.kind != HEADER)), lines.n - 1)
    blocks = openings.blocks & ~quote[below] & ~lines.matches(rules.FORWARDED, openings.blocks)
    opening = blocks & diffless | openings.dated & quoteless
    if not opening.any():
        return
    if not lists_too:
        opening &= ~_listed(lines, opening)[lines.message_start]
    own = lines.kind == AUTHOR
    spoken = counts_before(own & ~lines.matches(rules.HELLO, own & lines.in_mails(opening)))
    rows = np.flatnonzero(opening)
    rows = rows[spoken[rows] > spoken[lines.message_start[rows]]]
    text = rows_within(rows, end[rows], lines.n) & ((lines.kind == AUTHOR) | (lines.kind == CODE))
    lines.mark(text, QUOTE, inferred=True)
    lines.depth[text] = 1


def _listed(lines: Lines, opening: Mask) -> Mask:
    """First rows of the mails with an `opening` that name a mailing list anywhere."""
    found = np.zeros(lines.n, dtype=bool)
    named = lines.matches(rules.LISTED, lines.in_mails(opening) & ~lines.blank)
    found[lines.message_start[named & ~lines.matches(rules.OFFICE_TAG, named)]] = True
    return found
