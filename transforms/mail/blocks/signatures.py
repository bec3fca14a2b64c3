"""Signatures: of authors, with or without a mark, and the lines that lists, devices and PGP add
below a text.
"""

import numpy as np

from transforms.mail.blocks import rules
from transforms.mail.blocks.last_paragraphs import last_paragraphs
from transforms.mail.blocks.lines import (
    BLANK,
    HEADER,
    QUOTE,
    SIGNATURE,
    Counts,
    Lines,
    Mask,
    RowNos,
    Words,
    counts_before,
    last_true,
    next_at,
    next_true,
    rows_within,
)

_DEVICE_ENDS = np.frombuffer(b"ei)]*", dtype=np.uint8)
# A footer has at most this many lines, and names its list within this many lines.
_FOOTER_LINES = 40
FOOTER_WORD_LINES = 9
# Lines below a closing rule, at the end of the mail and above a quote.
CLOSING_LINES = 8
CLOSING_LINES_ABOVE_QUOTE = 4
# Lines of a notice between two rules, and below a short mark.
BOX_LINES = 6
SHORT_MARK_LINES = 8
# Small words from which a line below a short mark is prose; a motto may have one such line.
PROSE_WORDS = 5
# Lines of text that may follow a disclaimer.
DISCLAIMER_LINES = 12
_MAX_SIGNATURE_LINES = 12
"""Lines behind a signature mark; a longer tail is not a signature."""


def mark_signatures(lines: Lines, words: Words, diff: Mask) -> None:
    """Marks signatures and footers, from their mark to the next quote, header, diff or end of the
    mail.
    """
    author = lines.author()
    filled = counts_before(~lines.blank)
    section = (lines.kind == QUOTE) | (lines.kind == HEADER) | (diff & ~lines.blank) | lines.first
    ends = lines.behind(section & ~_mottos(lines, author, filled))
    remaining = filled[ends] - filled[np.arange(1, lines.n + 1)]
    dashes = lines.matches(rules.DASHES, author)
    drawn = _drawn_rules(lines, author & ~lines.matches(rules.PGP, author))
    footer, reach = _footers(
        lines, author, dashes | drawn | lines.matches(rules.CUT, author), ends, remaining
    )
    footer |= _closing(lines, author, drawn, ends, remaining) | lines.matches(
        rules.BROADCAST, author
    )
    next_footer = np.minimum(lines.behind(footer), ends)
    own = filled[next_footer] - filled[np.arange(1, lines.n + 1)]
    dashes &= own <= _MAX_SIGNATURE_LINES
    dashes &= (next_footer == ends) | footer[np.minimum(next_footer, lines.n - 1)]
    marks = np.flatnonzero((dashes | footer) & ~lines.first)
    signature = rows_within(marks, np.where(dashes, ends, reach)[marks], lines.n)
    short = author & (lines.stops - lines.heads <= rules.DEVICE_BYTES)
    short &= ~(lines.shifted(author, 1) & lines.shifted(author, -1))
    signature |= lines.matches(rules.DEVICE, short) | lines.matches(rules.TIP, author)
    signature |= lines.matches(
        rules.DEVICE_ENDED, short & ((lines.last >= 0x80) | np.isin(lines.last, _DEVICE_ENDS))
    )
    signature |= _armour(lines, author) | _boxes(lines, drawn)
    signature |= _disclaimers(lines, author & ~signature, ends)
    signature |= _below_short_marks(lines, words, author & ~signature, ends, remaining)
    signature |= last_paragraphs(lines, words, author, signature & author)
    signature &= author | lines.blank | (lines.kind == QUOTE)
    lines.mark(signature, SIGNATURE)
    lines.depth[signature] = 0
    # Blank lines behind a signature are blank again, unless the mail ends there.
    lines.kind[
        lines.blank & (lines.kind == SIGNATURE) & (lines.kind[lines.next_filled] != SIGNATURE)
    ] = BLANK


def _drawn_rules(lines: Lines, author: Mask) -> Mask:
    """Lines drawn with signs, but not those of tables."""
    rule = lines.matches(rules.RULE_LINE, author)
    table = lines.matches(
        rules.COLUMN_MARK, author & (lines.shifted(rule, 1) | lines.shifted(rule, -1))
    )
    return rule & ~(lines.shifted(table, 1) | lines.shifted(table, -1))


def _footers(
    lines: Lines, author: Mask, marks: Mask, ends: RowNos, remaining: RowNos
) -> tuple[Mask, RowNos]:
    """Marks with words of list footers below them, and where each ends.

    A footer in the middle of a long text ends with the paragraph of those words.
    """
    here = np.arange(lines.n)
    rows = np.flatnonzero(marks)
    near = rows_within(rows, np.minimum(ends[rows], rows + FOOTER_WORD_LINES + 1), lines.n)
    word = lines.behind(lines.matches(rules.FOOTER_WORDS, author & near))
    footer = marks & (word <= here + FOOTER_WORD_LINES) & (word < ends)
    paragraph_end = np.append(next_true(~author), lines.n)[np.minimum(word, lines.n)]
    return footer, np.where(remaining <= _FOOTER_LINES, ends, np.minimum(paragraph_end, ends))


def _closing(lines: Lines, author: Mask, drawn: Mask, ends: RowNos, remaining: RowNos) -> Mask:
    """Rules with a few lines below that end a mail or stand above its quotes; no underlined title."""
    size = lines.stops - lines.heads
    above = np.append(0, size[:-1])
    title = (np.abs(above - size) <= 3) & lines.shifted(author, 1) & rules.UNDERLINE[lines.byte]
    most = np.where(ends == lines.message_end, CLOSING_LINES, CLOSING_LINES_ABOVE_QUOTE)
    return drawn & lines.shifted(author, -1) & (remaining >= 1) & (remaining <= most) & ~title


def _boxes(lines: Lines, drawn: Mask) -> Mask:
    """Notices of a program between two rules, wherever they stand."""
    rows = np.flatnonzero(drawn)
    close = lines.behind(drawn)[rows]
    fits = (close - rows <= BOX_LINES) & (close < lines.message_end[rows])
    rows, close = rows[fits], close[fits]
    notice = counts_before(
        lines.matches(rules.AUTOMATIC, rows_within(rows, close, lines.n) & lines.author())
    )
    selected = notice[close] > notice[rows]
    return rows_within(rows[selected], close[selected] + 1, lines.n)


def _disclaimers(lines: Lines, author: Mask, ends: RowNos) -> Mask:
    """Paragraphs near the end of a text, below others, that say who may read it, with a short rule
    above.

    A title or rule in such a paragraph begins the notice: text above it is the author's.
    """
    long = author & (lines.stops - lines.heads >= 40)
    total = counts_before(author)
    near = total[ends] - total[:-1] <= DISCLAIMER_LINES
    rows = np.flatnonzero(lines.matches(rules.DISCLAIMER, long & near))
    starts = last_true(~author | lines.first)[rows] + 1
    starts = np.where(lines.first[starts - 1] & author[starts - 1], starts - 1, starts)
    starts = np.maximum(starts, last_true(lines.matches(rules.NOTICE_TITLE, author))[rows])
    stops = lines.until(~author, rows)
    below = total[starts] > total[lines.message_start[rows]]
    out = rows_within(starts[below], stops[below], lines.n)
    short = lines.matches(rules.SHORT_RULE, author & lines.shifted(out, -1) & ~out)
    return out | short


def _below_short_marks(
    lines: Lines, words: Words, author: Mask, ends: RowNos, remaining: RowNos
) -> Mask:
    """A few lines below a short rule at the end, if the first names somebody or how to reach them."""
    size = lines.stops - lines.heads
    title = lines.shifted(author, 1) & (np.abs(np.append(0, size[:-1]) - size) <= 3)
    mark = author & (remaining >= 1) & (remaining <= SHORT_MARK_LINES) & ~title & ~lines.first
    at_end = (ends == lines.message_end) | np.isin(
        lines.kind[np.minimum(ends, lines.n - 1)], (QUOTE, HEADER)
    )
    rows = np.flatnonzero(lines.matches(rules.SHORT_MARK, mark & at_end))
    below = lines.next_filled[rows]
    is_name = np.zeros(len(rows), dtype=bool)
    for rule in (rules.PERSON_NAME, rules.REACH, rules.SIGNED_LINE):
        is_name |= lines.matching(rule, below)
    is_name &= ~lines.matching(rules.GREETING, below)
    prose = counts_before(author & (words.small > PROSE_WORDS))
    rows = rows[is_name & author[below] & (prose[ends[rows]] - prose[rows] <= 1)]
    return rows_within(rows, ends[rows], lines.n)


def _mottos(lines: Lines, author: Mask, filled: Counts) -> Mask:
    """Quotes that stand inside a short signature, with no blank line above: a motto, not a reply."""
    following = np.append(np.arange(1, lines.n), lines.n - 1)
    ends = lines.behind((lines.kind == HEADER) | lines.matches(rules.BROADCAST, author))
    size = filled[ends] - filled[following]
    blank_behind = lines.data[np.minimum(lines.stops, len(lines.data) - 1)] == 32
    marks = lines.matches(rules.DASHES, author & (lines.indent == 0) & blank_behind)
    marks &= size <= _MAX_SIGNATURE_LINES
    rows = np.flatnonzero(marks)
    quote = lines.kind == QUOTE
    first_quote = np.minimum(np.append(next_true(quote), lines.n)[1:], lines.n - 1)[rows]
    selected = ~lines.blank[first_quote - 1] & (first_quote < ends[rows])
    return quote & rows_within(rows[selected], ends[rows][selected], lines.n)


def _armour(lines: Lines, author: Mask) -> Mask:
    armour = lines.matches(rules.PGP, author)
    begin = np.flatnonzero(lines.matches(rules.PGP_BEGIN, armour))
    signed = lines.matches(rules.PGP_SIGNED, armour)
    signed |= lines.matches(rules.PGP_HASH, author & lines.shifted(signed, 1))
    if not len(begin):
        return signed
    end = np.minimum(
        next_at(lines.matches(rules.PGP_END, armour), begin) + 1, lines.message_end[begin]
    )
    return signed | rows_within(begin, end, lines.n)
