"""Quotes: lines that carry a quote mark, and their depth."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from transforms.mail.blocks import rules
from transforms.mail.blocks.lines import (
    AUTHOR,
    LETTER,
    QUOTE,
    VECTOR_STEPS,
    Lines,
    Mask,
    RowNos,
    byte_table,
    counts_before,
    next_at,
    rows_within,
)

MAX_FOLDED_LINES = 8
# How long the folded end of a quote's last line is.
LAST_FOLDED_BYTES = 32
FOLDED = byte_table(bytes(range(97, 123)) + b"(\"'0123456789")
_SENTENCE_END = byte_table(b".?!:;>")


class Marks(NamedTuple):
    """Lines that look like a quote and are none: `>>>>> "XY" == …` headings, and sessions of Python
    and R.
    """

    supercite: Mask
    python: Mask


def mark_quotes(lines: Lines) -> Marks:
    """Marks lines that begin with `>`, with the depth their marks say."""
    marked = (lines.byte == ord(">")) & (lines.indent <= 8)
    # A heading of supercite is above lines with initials, not among other quotes.
    alone = (
        marked & (lines.last == ord(":")) & ~(lines.shifted(marked, 1) | lines.shifted(marked, -1))
    )
    supercite = lines.matches(rules.SUPERCITE_HEADER, alone)
    supercite |= lines.matches(rules.GROUPWISE, marked & (lines.last == ord(">")))
    marked &= ~supercite
    marked &= ~lines.matches(rules.CLOSED_TAG, marked)
    near = lines.shifted(marked, 1) | lines.shifted(marked, -1)
    marked &= ~(lines.matches(rules.FROM_LINE, marked) & ~near)
    marked &= ~lines.matches(rules.GNATS, marked & LETTER[lines.pair & 255])
    python = _python_sessions(lines, marked)
    python |= _r_sessions(lines, marked & ~python)
    marked &= ~python
    lines.mark(marked, QUOTE)
    _count_marks(lines, np.flatnonzero(marked))
    _mark_folded(lines)
    return Marks(supercite, python)


def _python_sessions(lines: Lines, marked: Mask) -> Mask:
    """Statements behind `>>> ` in mails that quote nothing else."""
    third = lines.data[np.minimum(lines.heads + 3, len(lines.data) - 1)]
    python = lines.matches(rules.PYTHON_PROMPT, marked & (third == 32))
    if python.any():
        plain = counts_before(marked & (lines.pair != ord(">") * 257))
        python &= plain[lines.message_end] == plain[lines.message_start]
    return python


def _r_sessions(lines: Lines, marked: Mask) -> Mask:
    """Statements behind `> ` in runs where one is right above the unmarked output of R."""
    printed = lines.matches(rules.R_OUTPUT, lines.author() & ~marked & lines.shifted(marked, 1))
    if not printed.any():
        return printed
    prompts = lines.matches(rules.R_PROMPT, marked & lines.in_mails(printed))
    printed &= lines.shifted(prompts, 1)
    session = lines.in_mails(printed) & prompts
    opening = marked & ~lines.shifted(marked, 1)
    starts = np.flatnonzero(opening & session)
    stops = lines.until(~marked, starts)
    other = counts_before(marked & ~session)
    pure = other[stops] == other[starts]
    return rows_within(starts[pure], stops[pure], lines.n)


def _count_marks(lines: Lines, rows: RowNos) -> None:
    """Sets the depth of quoted lines; up to three blanks stand between two marks."""
    at, stops = lines.heads[rows], lines.stops[rows]
    gap = np.zeros(len(rows), dtype=np.int8)
    for _ in range(VECTOR_STEPS):
        byte = lines.data[at]
        mark = byte == ord(">")
        lines.depth[rows[mark]] += 1
        gap = np.where(mark, 0, gap + 1).astype(np.int8)
        at = at + 1
        inside = (mark | (((byte == 32) | (byte == 9)) & (gap <= 3))) & (at < stops)
        rows, at, stops, gap = rows[inside], at[inside], stops[inside], gap[inside]
        if not len(rows):
            return
    for row in rows.tolist():
        match = rules.QUOTE_MARKS.match(lines.view, int(lines.heads[row]), int(lines.stops[row]))
        lines.depth[row] = match.group().count(b">") if match else 1


def _mark_folded(lines: Lines) -> None:
    """Lines that a mailer folded: unmarked lines right between two quote lines of one depth.

    Either a paragraph that goes on in lower case where a long quote line stops inside its
    sentence, or one short line below a long one.
    """
    author, quote = lines.author(), lines.kind == QUOTE
    size = lines.stops - lines.starts
    inside = lines.shifted(quote & (size >= 60) & ~_SENTENCE_END[lines.last], 1)
    heads = inside & (lines.byte >= ord("a")) & (lines.byte <= ord("z"))
    below = lines.shifted(quote & (size >= 65), 1) & lines.shifted(quote, -1)
    heads |= below & (size <= 24) & FOLDED[lines.byte]
    rows = np.flatnonzero(heads & author)
    stops = np.minimum(next_at(~author, rows), lines.n - 1)
    same = (lines.depth[stops] == lines.depth[rows - 1]) | lines.matching(rules.EMPTY_QUOTE, stops)
    selected = quote[stops] & same & (stops - rows <= MAX_FOLDED_LINES)
    selected &= stops < lines.message_end[rows]
    _join_quote(lines, rows[selected], stops[selected])
    # The last line of a quote has no quote below it. That the program folds is known from the lines
    # above, or the line is the end of a sentence, with other text below.
    last = heads & lines.author() & (size <= LAST_FOLDED_BYTES)
    last &= lines.shifted(lines.blank, -1) & lines.shifted(quote, 1)
    answered = lines.next_filled > np.arange(lines.n)
    ends = lines.matches(rules.SENTENCE_REST, last & answered)
    last &= lines.in_mails(rows[selected]) | ends
    _join_quote(lines, np.flatnonzero(last), np.flatnonzero(last) + 1)


def _join_quote(lines: Lines, rows: RowNos, stops: RowNos) -> None:
    """Marks the rows of each interval as quotes of the depth of the line above it."""
    lines.mark(rows_within(rows, stops, lines.n), QUOTE, inferred=True)
    for row, stop in zip(rows.tolist(), stops.tolist(), strict=True):
        lines.depth[row:stop] = lines.depth[row - 1]


def mark_initials(lines: Lines, supercite: Mask) -> None:
    """Marks quotes behind initials (`XY> text`) or bars that a mail has twice, or whose owner the
    line above names; and a sentence behind initials with text below it.

    Bars beside each other count once: they may be a table or a command.
    """
    bar = lines.byte == ord("|")
    rows = np.flatnonzero(lines.author() & (LETTER[lines.byte] | bar) & (lines.indent <= 1))
    near = np.minimum(lines.heads[rows, None] + np.arange(1, 5), len(lines.data) - 1)
    names: dict[tuple[int, bytes], list[int]] = {}
    mail_numbers = set(lines.m[supercite].tolist())
    likely = (
        (lines.data[near] == ord(">")).any(axis=1) | bar[rows] | lines.in_mails(supercite)[rows]
    )
    for row in rows[likely].tolist():
        mark = rules.LONG_INITIALS if int(lines.m[row]) in mail_numbers else rules.INITIALS
        match = mark.match(lines.view, int(lines.heads[row]), int(lines.stops[row]))
        if match and (name := match[1] or b"|") not in rules.PROMPT_NAMES:
            names.setdefault((int(lines.m[row]), name), []).append(row)
    firsts = np.array([quote_rows[0] for quote_rows in names.values()], dtype=np.int64)
    filled = np.append(-1, np.flatnonzero(~lines.blank))
    above = filled[np.searchsorted(filled, firsts) - 1]
    named = above >= lines.message_start[firsts]
    named[named] = lines.matching(rules.VERB, above[named], tail=True)
    for ((mail, name), quote_rows), is_named in zip(names.items(), named.tolist(), strict=True):
        if name == b"|":
            text = [
                r
                for r in quote_rows
                if rules.BAR_TEXT.match(lines.view, lines.heads[r], lines.stops[r])
            ]
            places = sum(b > a + 1 for a, b in pairwise([-2, *text]))
        elif len(name) > 1 and _is_answered(lines, quote_rows[0]):
            places = 2
        else:
            places = len(quote_rows)
        if places >= 2 or is_named or mail in mail_numbers:
            lines.kind[quote_rows] = QUOTE
            lines.depth[quote_rows] = 1


def _is_answered(lines: Lines, row: int) -> bool:
    """True if a row is a sentence behind capital initials, and text of the author is below it."""
    below = lines.next_filled[row]
    sentence = rules.INITIALS_TEXT.match(lines.view, lines.heads[row], lines.stops[row])
    return sentence is not None and below > row and lines.kind[below] == AUTHOR
