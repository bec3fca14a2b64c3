"""Headers: attributions above quotes, pasted header blocks with the history below them, and
headings of trackers and git.
"""

from typing import NamedTuple

import numpy as np
import polars as pl

from transforms.mail.blocks import rules
from transforms.mail.blocks.lines import (
    AUTHOR,
    CODE,
    HEADER,
    QUOTE,
    Lines,
    Mask,
    RowNos,
    counts_before,
    last_true,
    next_at,
    next_true,
    rows_within,
)

# Lines that an attribution is folded over, the first not counted.
FOLDS = 3
# Rows of a pasted header block, blank ones included.
BLOCK_LINES = 24
# Rows of a header of Lotus Notes that are no addresses, and those with the addresses of a large
# meeting.
NOTES_LINES = 12
ADDRESS_LINES = 200
# How long the rest of a folded attribution is where nothing but its verb is left.
VERB_BYTES = 24
# Fields that may stand above the sender's in a pasted header block.
SENDER_LINES = 2


class Openings(NamedTuple):
    """Rows where history may begin: the ends of attributions, and the first rows of header blocks."""

    dated: Mask
    blocks: Mask


def mark_headers(lines: Lines, supercite: Mask) -> Openings:
    """Marks header lines; where unmarked history may begin below them."""
    header, dated = _attributions(lines)
    blocks, openings = _field_blocks(lines)
    header |= _trackers(lines) | supercite | lines.matches(rules.SCISSORS, lines.author())
    openings |= _notes_blocks(lines, blocks) | _spread_blocks(lines, blocks)
    openings |= _receiver_blocks(lines, blocks)
    # Single lines that open history: a banner with a name or a date in it, or all fields in one
    # line.
    author = lines.author()
    lone = lines.matches(rules.WROTE_BANNER, author) | lines.matches(rules.FIELDS_IN_LINE, author)
    lone |= lines.matches(rules.GROUPWISE, supercite)
    header, openings = header | lone, openings | lone
    above = lines.shifted(openings, -1) | (
        lines.shifted(openings, -2) & lines.shifted(lines.blank, -1)
    )
    if above.any():
        header |= lines.matches(rules.ABOVE_BLOCK, above & author & ~header & ~blocks)
    rest = lines.shifted(lines.matches(rules.OPEN_BANNER, blocks), 1)
    header |= lines.matches(rules.BANNER_REST, rest & author & ~blocks)
    lines.mark((header | blocks) & author | supercite, HEADER)
    above = lines.author() & (lines.kind[lines.next_filled] == HEADER)
    lines.mark(lines.matches(rules.ABOVE_ATTRIBUTION, above), HEADER)
    _mark_other_quotes(lines, dated)
    return Openings(dated, openings)


def _mark_other_quotes(lines: Lines, dated: Mask) -> None:
    """Marks as quotes the lines that begin with `|`, `:` or `%` right below an attribution, and those
    with the same `:` or `%` in the rest of its mail.

    Anywhere else such lines are tables, commands and sources of TeX.
    """
    marked = lines.matches(rules.OTHER_MARK, lines.author())
    if not marked.any():
        return
    above = lines.author() & lines.shifted(marked & ~lines.shifted(marked, 1), -1)
    speakers = lines.matches(rules.SAID_ABOVE_MARK, above)
    lines.mark(speakers, HEADER)
    starts = np.flatnonzero(marked & lines.at(lines.next_filled[dated | speakers]))
    quoted = rows_within(starts, lines.until(~marked, starts), lines.n)
    for mark in b":%":
        of_mark = lines.byte == mark
        quoted |= marked & of_mark & lines.in_mails(starts[of_mark[starts]])
    lines.mark(quoted, QUOTE)
    lines.depth[quoted] = 1


def _attributions(lines: Lines) -> tuple[Mask, Mask]:
    """Rows of attributions, and the last rows of those that need no quote below to be known."""
    author, quote = lines.author(), lines.kind == QUOTE
    above_quote = quote[lines.next_filled] & author
    colon = author & np.isin(lines.last, rules.COLON_ENDS)
    verb = lines.matches(rules.VERB, colon, tail=True)
    short = colon & ~verb & (lines.stops - lines.heads <= VERB_BYTES) & lines.shifted(author, 1)
    rest = lines.matches(rules.LONE_VERB, short)
    last = verb | (colon & above_quote) | rest
    near = last.copy()
    for step in range(1, FOLDS + 1):
        near |= lines.shifted(last, -step)
    start = lines.matches(rules.DATED_START, near & author)
    with_name = lines.matches(rules.NAMED_START, near & author & ~start)
    header = above_quote & (verb | lines.matches(rules.ATTRIBUTION, colon & above_quote & ~verb))
    header |= lines.matches(rules.NAMED_ATTRIBUTION, above_quote & ~colon)
    header |= lines.matches(rules.NEWS_ATTRIBUTION, above_quote & ~verb)
    header |= lines.matches(rules.ON_WEEKDAY, author & lines.shifted(quote, -1))
    opening = lines.matches(rules.OPENED_START, start & verb)
    folded = _folded(lines, last & ~opening, start)
    dated = (verb | rest) & (start | with_name | folded) | lines.matches(
        rules.ADDRESSED, colon & author
    )
    return header | dated | folded, dated


def _folded(lines: Lines, last: Mask, start: Mask) -> Mask:
    """Rows of attributions that end in `last` and begin in a line above: a dated one, or its
    paragraph's first.

    The longest of them counts, so that the date and the name are not divided.
    """
    author = lines.author()
    ends = np.flatnonzero(last)
    above = ends - last_true(~author | lines.first)[ends]
    opening = author & (lines.first | ~lines.shifted(author, 1))
    reach = np.where(opening[ends - above], above, above - 1)
    header = np.zeros(lines.n, dtype=bool)
    for step in range(FOLDS, 0, -1):
        candidates = ends[(reach >= step)]
        candidates = candidates[(start | opening)[candidates - step] & ~header[candidates]]
        matching = lines.spans_matching(rules.FOLDED_ATTRIBUTION, candidates - step, candidates)
        last_rows = candidates[
            matching & ~lines.spans_matching(rules.SENTENCE_BREAK, candidates - step, candidates)
        ]
        header |= rows_within(last_rows - step, last_rows + 1, lines.n)
    return header


def _trackers(lines: Lines) -> Mask:
    """Headings that bug trackers and review tools write above one comment."""
    author = lines.author()
    rule = lines.matches(rules.NEAR_RULE, author)
    near = rule | lines.shifted(rule, -1) | lines.shifted(rule, -2) | lines.shifted(rule, 1)
    return lines.matches(rules.TRACKER, author & near)


def _field_blocks(lines: Lines) -> tuple[Mask, Mask]:
    """Rows of pasted header blocks (Outlook's, git's, forwarded ones), and where history begins
    below.
    """
    author = lines.author()
    openings = np.zeros(lines.n, dtype=bool)
    original = lines.matches(rules.ORIGINAL, author)
    sender = lines.matches(rules.FIELD_FROM, author)
    git = lines.matches(rules.GIT_FROM, author)
    above_sender = lines.shifted(sender, -1) | lines.shifted(
        sender & lines.shifted(lines.blank, 1), -2
    )
    original |= lines.matches(rules.TITLE, author & above_sender)
    if not (original | sender | git).any():
        return openings, openings.copy()
    author &= lines.in_mails(original | sender | git)
    field = lines.matches(rules.FIELD, author)
    run = field | original | git
    continued = _continued(lines, author, field)
    above = lines.shifted(field, 1) | lines.shifted(field, 2)
    below = lines.shifted(field, -1) | lines.shifted(field, -2)
    run |= continued | (above & below & author)
    starts = run & (~lines.shifted(run, 1) | lines.first)
    rows = np.flatnonzero(starts)
    stop = lines.until(~run | (lines.first & ~starts), rows)
    total = counts_before(field)
    fields = total[stop] - total[rows]
    origin = (original | lines.shifted(original, 1))[rows]
    top = last_true(~lines.blank & lines.first)[rows] == rows
    addressed = counts_before(lines.matches(rules.FIELD_TO, field))
    sender_at = next_at(sender, rows)
    near = (sender_at < stop) & (sender_at <= rows + SENDER_LINES)
    addressed_here = addressed[stop] > addressed[rows]
    near |= lines.matching(rules.FIELD_TRANSPORT, rows) & (sender_at < stop)
    outlook = original[rows] | (near & (fields >= 3) & addressed_here)
    selected = outlook | git[rows] | (sender[rows] & top & (fields <= 3)) | (origin & (fields >= 1))
    openings[rows[outlook & ~top]] = True
    return rows_within(rows[selected], stop[selected], lines.n) & author, openings


def _continued(lines: Lines, author: Mask, field: Mask) -> Mask:
    """Rows of indented lines and of lines of addresses alone below a field, which go on with it."""
    folded = author & (lines.indent > 0) | lines.matches(rules.ADDRESS_LINE, author & ~field)
    folded &= ~lines.first
    return folded & field[np.maximum(last_true(~folded), 0)]


def _receiver_blocks(lines: Lines, blocks: Mask) -> Mask:
    """Adds to `blocks` paragraphs of fields from To or Cc to a subject without a sender; where they begin."""
    author = lines.author() & ~blocks
    receiver = lines.matches(rules.FIELD_RECEIVER, author & lines.shifted(lines.blank, 1))
    if not receiver.any():
        return receiver
    author &= lines.in_mails(receiver)
    field = lines.matches(rules.FIELD, author)
    rows = np.flatnonzero(receiver & field)
    stop = lines.until(~(field | _continued(lines, author, field)), rows)
    subjects = counts_before(lines.matches(rules.FIELD_SUBJECT, field))
    ended = (stop < lines.message_end[rows]) & lines.blank[np.minimum(stop, lines.n - 1)]
    selected = ended & (subjects[stop] > subjects[rows])
    blocks |= rows_within(rows[selected], stop[selected], lines.n)
    return lines.at(rows[selected])


def _spread_blocks(lines: Lines, blocks: Mask) -> Mask:
    """Adds to `blocks` the fields below a banner that blank lines divide; where such blocks begin."""
    openings = np.zeros(lines.n, dtype=bool)
    original = lines.matches(rules.ORIGINAL, blocks)
    following = lines.next_filled
    rows = np.flatnonzero(original)
    near = rows_within(rows, np.minimum(rows + BLOCK_LINES + 1, lines.message_end[rows]), lines.n)
    field = lines.matches(rules.FIELD, lines.author() & ~blocks & near)
    for row in rows.tolist():
        at = int(following[row])
        while field[at] or (blocks[at] and at > row and not original[at]):
            blocks[at] = True
            openings[row] = True
            if following[at] == at or at - row > BLOCK_LINES:
                break
            at = int(following[at])
    return openings


def _notes_blocks(lines: Lines, blocks: Mask) -> Mask:
    """Adds to `blocks` the headers of Lotus Notes: a name, a date line, then To and Subject; their
    date lines.
    """
    author = lines.author() & ~blocks
    dates = np.zeros(lines.n, dtype=bool)
    digits = (lines.last >= ord("0")) & (lines.last <= ord("9")) | (lines.last == ord("M"))
    to = lines.matches(rules.NOTES_TO, author)
    if not to.any():
        return dates
    rows = np.flatnonzero(to)
    near = rows_within(
        np.maximum(rows - NOTES_LINES // 2, lines.message_start[rows]), rows, lines.n
    )
    date = lines.matches(rules.NOTES_DATE, author & near & digits)
    subject = np.append(next_true(lines.matches(rules.NOTES_SUBJECT, author)), lines.n)
    next_to = np.append(next_true(to), lines.n)
    paragraph = last_true(~author)
    addresses = counts_before(lines.matches(rules.ADDRESSES, author & lines.in_mails(date)))
    for row in np.flatnonzero(date).tolist():
        receiver, topic = int(next_to[row]), 0
        if receiver < lines.message_end[row]:
            topic = int(subject[receiver])
        count = min(int(addresses[topic] - addresses[receiver]), ADDRESS_LINES)
        if not row < receiver < topic < min(row + NOTES_LINES + count, int(lines.message_end[row])):
            continue
        begin = max(int(paragraph[row]) + 1, row - 3, int(lines.message_start[row]))
        blocks[begin : topic + 1] |= author[begin : topic + 1]
        dates[row] = True
    return dates


LONG_HISTORY = 8
"""Lines; more of them below the header of another mail are a text that a mail passes on, not one
that a reply answers.
"""


def mark_history(lines: Lines, openings: Openings, diff: Mask, lists_too: bool) -> None:
    """Marks as inferred quotes the text below an Outlook header, or below an attribution without
    quotes.

    A reply answers it: a word of the sender is above it, below a header block it is short
    (`LONG_HISTORY`), and no banner says that it was forwarded. An attribution counts only below
    text that is more than a salutation, in a mail that marks no quotes behind it. A mail that names
    a list counts only if `lists_too`: there the parent is at hand, and its words tell history from
    an answer below it.
    """
    rows = _answered(lines, openings, diff)
    if not lists_too:
        rows = rows[~_listed(lines, rows)]
    own = lines.kind == AUTHOR
    spoken = counts_before(own)
    greeted = counts_before(own & lines.matches(rules.HELLO, own & lines.in_mails(rows)))
    least = np.where(openings.dated[rows], greeted[rows] - greeted[lines.message_start[rows]], 0)
    rows = rows[spoken[rows] - spoken[lines.message_start[rows]] > least]
    text = rows_within(rows, lines.message_end[rows], lines.n) & _is_text(lines)
    lines.mark(text, QUOTE, inferred=True)
    lines.depth[text] = 1


def _answered(lines: Lines, openings: Openings, diff: Mask) -> RowNos:
    """The openings below which the rest of a mail may be a text that it answers."""
    end = lines.message_end
    quote = lines.kind == QUOTE
    rows = np.flatnonzero(openings.blocks | openings.dated)
    rows = rows[next_at(diff, rows) >= end[rows]]
    filled = next_at(~lines.blank & (lines.kind != HEADER), rows + 1)
    below = np.minimum(np.minimum(filled, end[rows]), lines.n - 1)
    dated = openings.dated[rows] & (next_at(quote, rows) >= end[rows])
    rows = rows[openings.blocks[rows] & ~quote[below] | dated]
    forwarded = counts_before(_forwarded(lines))
    rows = rows[forwarded[rows + 1] == forwarded[lines.message_start[rows]]]
    total = counts_before(_is_text(lines))
    first = np.searchsorted(rows, lines.message_start[rows])
    is_short = total[end[rows]] - total[rows[first]] <= LONG_HISTORY if len(rows) else first > 0
    return rows[openings.dated[rows] | is_short]


PASTED: dict[str, type[pl.DataType]] = {
    "row": pl.Int64,
    "byte_start": pl.Int64,
    "is_below_words": pl.Boolean,
    "is_above_quotes": pl.Boolean,
    "is_forwarded": pl.Boolean,
}
"""The columns of `pasted_headers`."""


def pasted_headers(lines: Lines, openings: Openings, diff: Mask) -> pl.DataFrame:
    """The headers of other mails that are pasted in mails, without those above a diff: `row` of the mail,
    `byte_start` of the header in it, and what is around.

    `is_below_words`: the sender's words are above it; `is_above_quotes`: the text below it begins with
    quotes that have marks; `is_forwarded`: a banner down to it says that it was forwarded.
    """
    rows = np.flatnonzero(openings.blocks)
    rows = rows[next_at(diff, rows) >= lines.message_end[rows]]
    own, first = counts_before(lines.kind == AUTHOR), lines.message_start[rows]
    below = next_at(~lines.blank & (lines.kind != HEADER), rows + 1)
    forwarded = counts_before(_forwarded(lines))
    return pl.DataFrame(
        {
            "row": lines.m[rows],
            "byte_start": lines.starts[rows] - lines.starts[first],
            "is_below_words": own[rows] > own[first],
            "is_above_quotes": (lines.kind == QUOTE)[np.minimum(below, lines.n - 1)],
            "is_forwarded": forwarded[rows + 1] > forwarded[first],
        },
        schema=PASTED,
    )


def _forwarded(lines: Lines) -> Mask:
    """Rows of banners that say that what is below them was forwarded."""
    banner = (lines.kind == HEADER) & np.isin(lines.byte, rules.BANNER_MARKS)
    return lines.matches(rules.FORWARDED, banner)


def _is_text(lines: Lines) -> Mask:
    return (lines.kind == AUTHOR) | (lines.kind == CODE)


def _listed(lines: Lines, openings: RowNos) -> Mask:
    """For each of these rows, whether its mail names a mailing list anywhere."""
    mentions = lines.matches(rules.LISTED, lines.in_mails(openings) & ~lines.blank)
    return lines.in_mails(mentions & ~lines.matches(rules.OFFICE_TAG, mentions))[openings]
