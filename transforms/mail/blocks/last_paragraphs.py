"""Last paragraphs: footers of lists and forums, and who wrote, at the end of a mail without any
mark.
"""

import numpy as np

from transforms.mail.blocks import rules
from transforms.mail.blocks.code import TRAILER
from transforms.mail.blocks.lines import (
    AUTHOR,
    HEADER,
    QUOTE,
    Lines,
    Mask,
    RowNos,
    Rule,
    Words,
    byte_table,
    next_at,
    rows_within,
)
from transforms.toml_file import toml_file

_MOST_WORDS = 6
_SIGNS = " \t,.!/~*_-\u3002\uff0c\u3001\uff01"
_CLOSINGS = {name: tuple(words) for name, words in toml_file(__name__, "closings.toml").items()}


def closes(line: str) -> bool:
    """True if a line is nothing but a closing.

    >>> closes("Kind regards,"), closes("Με εκτίμηση"), closes("Thanks to everybody who came.")
    (True, True, False)
    """
    text = line.strip(_SIGNS).casefold()
    return (
        text.startswith(_CLOSINGS["beginnings"])
        and len(text.split()) <= _MOST_WORDS
        and "?" not in text
        and not text.startswith(_CLOSINGS["others"])
    )


# Paragraphs that one signature may have, and the lines of each: of a name with its addresses, of a
# footer.
PARAGRAPHS = 3
NAME_LINES = 12
_FOOTER_LINES = 8
# Share of lines that say how to reach somebody, from which a paragraph without a name is a
# signature.
_MOSTLY = 0.6
# How wide the lines of a name and its title are.
NAME_BYTES = 64
# How wide those of a company are, and a closing above them.
TITLE_BYTES = 90
CLOSING_BYTES = 80
ON_BEHALF = (b"i. A.", b"i.A.", b"i. V.", b"i.V.", b"ppa", b"im Auftrag")
QUESTION_END = byte_table(b"?!:;")
# The first two letters of an address that begins with www.
WEB = ord("w") * 257


class Paragraphs:
    """Some paragraphs, and questions about the lines of each."""

    def __init__(self, lines: Lines, starts: RowNos, stops: RowNos) -> None:
        self.lines, self.starts, self.stops = lines, starts, stops
        self.size = stops - starts
        self.edges = np.cumsum(self.size) - self.size
        self.rows = np.arange(self.size.sum()) + np.repeat(starts - self.edges, self.size)

    def rows_of(self, chosen: Mask) -> Mask:
        """The lines of the chosen paragraphs."""
        return np.repeat(chosen, self.size)

    def count(self, of_rows: Mask) -> RowNos:
        """How many lines of each paragraph are true."""
        return np.add.reduceat(of_rows, self.edges, dtype=np.int64)

    def matching(self, rule: Rule, among: Mask | None = None) -> Mask:
        """Which of the lines match."""
        out = np.zeros(len(self.rows), dtype=bool)
        chosen = np.arange(len(self.rows)) if among is None else np.flatnonzero(among)
        out[chosen] = self.lines.matching(rule, self.rows[chosen])
        return out

    def first_matching(self, rule: Rule, among: Mask) -> Mask:
        """Which of the paragraphs `among` these begin with a line that matches."""
        out = among.copy()
        out[among] = self.lines.matching(rule, self.starts[among])
        return out


def last_paragraphs(lines: Lines, words: Words, author: Mask, signature: Mask) -> Mask:
    """Rows of last paragraphs that are a footer or say who wrote: of a mail, above a header, above the quotes
    that end a mail.

    Those are a name with the ways to reach its owner, only such ways, links of a forum, who owns
    the company, or a full name with a title below it; and the closing above a name. Below a known
    `signature` the text counts as ended.
    """
    text = author & ~signature
    begins = np.flatnonzero(text & ~lines.shifted(text, 1))
    ends = np.flatnonzero(text & ~lines.shifted(text, -1))
    filled = np.append(-1, np.flatnonzero(~lines.blank))
    behind = np.minimum(next_at(~lines.blank & ~signature, ends + 1), lines.message_end[ends])
    final = lines.at(ends[behind == lines.message_end[ends]])
    kind_behind = lines.kind[np.minimum(behind, lines.n - 1)]
    above_quotes = (kind_behind == QUOTE) & (next_at(text, ends + 1) >= lines.message_end[ends])
    ended = final[ends] | (kind_behind == HEADER) | above_quotes
    lasts = ends[ended & (ends - begins <= NAME_LINES)]
    out = np.zeros(lines.n, dtype=bool)
    for step in range(PARAGRAPHS):
        if not len(lasts):
            break
        starts, stops = _ended(
            lines,
            words,
            Paragraphs(lines, _at_most(begins, lasts), lasts + 1),
            final[lasts],
            step == 0,
        )
        out |= rows_within(starts, stops, lines.n)
        above = _at_most(filled, starts - 1)
        inside = above >= lines.message_start[starts]
        above = above[inside]
        final[above] = final[stops[inside] - 1]
        above = above[text[above]]
        lasts = above[above - _at_most(begins, above) <= NAME_LINES]
    return out | _closings(lines, text & ~out, out)


def _closings(lines: Lines, text: Mask, names: Mask) -> Mask:
    """Rows of `text` that are a closing right above `names`, and the blank ones between."""
    rows = np.flatnonzero(text & names[lines.next_filled])
    below = lines.next_filled[rows]
    pairs = zip(rows.tolist(), below.tolist(), strict=True)
    chosen = [_closes(lines, row) and _names(lines.text(name)) for row, name in pairs]
    selected = np.array(chosen, dtype=bool)
    return rows_within(rows[selected], below[selected], lines.n)


def _at_most(rows: RowNos, values: RowNos) -> RowNos:
    """For each of `values` the last of the ascending `rows` that is not behind it."""
    return rows[np.searchsorted(rows, values, side="right") - 1]


def _ended(
    lines: Lines, words: Words, paragraphs: Paragraphs, final: Mask, lowest: bool
) -> tuple[RowNos, RowNos]:
    """Where those paragraphs begin and end that are no text; a footer has an address or is short."""
    signs = _has_signs(lines, words, paragraphs.rows)
    contact = paragraphs.count(paragraphs.matching(rules.CONTACT, signs)) > 0
    selected = (
        final & (paragraphs.size <= _FOOTER_LINES) & (contact | (lowest & (paragraphs.size <= 2)))
    )
    selected &= (
        paragraphs.count(paragraphs.matching(rules.FOOTER_WORDS, paragraphs.rows_of(selected))) > 0
    )
    several = selected & (paragraphs.size > 2)
    selected[several] = ~_spoken(lines, paragraphs.starts[several])
    others = ~selected & (paragraphs.size <= NAME_LINES)
    selected |= paragraphs.count(paragraphs.matching(rules.LEGAL, paragraphs.rows_of(others))) > 0
    selected |= final & (
        _forum_links(paragraphs, contact & final)
        | (paragraphs.size == 1) & lines.matching(rules.LONE_RULE, paragraphs.starts)
    )
    greeting = paragraphs.first_matching(rules.GREETING, paragraphs.size > 1)
    bodies = Paragraphs(lines, paragraphs.starts + greeting, paragraphs.stops)
    selected |= (bodies.size <= NAME_LINES) & _names_writer(lines, words, contact, bodies)
    starts = bodies.starts.copy()
    for number in np.flatnonzero(~selected & _may_name(lines, words, paragraphs)).tolist():
        below = _below_closing(lines, int(paragraphs.starts[number]), int(paragraphs.stops[number]))
        selected[number], starts[number] = below is not None, below or starts[number]
    return starts[selected], bodies.stops[selected]


def _has_signs(lines: Lines, words: Words, rows: RowNos) -> Mask:
    """Which of the rows may hold a way to reach somebody."""
    return (words.symbols[rows] > 0) | (lines.pair[rows] == WEB)


def _may_name(lines: Lines, words: Words, paragraphs: Paragraphs) -> Mask:
    """Whether each paragraph is short lines without a sentence, as a name with its title or company
    is.
    """
    rows = paragraphs.rows
    talk = (words.small[rows] > 3) | (lines.stops[rows] - lines.heads[rows] > TITLE_BYTES)
    talk |= QUESTION_END[lines.last[rows]]
    talk |= paragraphs.matching(TRAILER, words.symbols[rows] > 0)
    return (paragraphs.count(talk) == 0) & (paragraphs.size > 1) & (paragraphs.size <= NAME_LINES)


def _below_closing(lines: Lines, start: int, stop: int) -> int | None:
    """The first of two or more lines below a closing such as "Kind regards," in a paragraph or
    above it; None if none.
    """
    first = start + _closes(lines, start)
    above = start - 1
    while first == start and above > lines.message_start[start] and lines.blank[above]:
        above -= 1
    is_inside = above >= lines.message_start[start]
    is_below = first > start or (
        is_inside and lines.kind[above] == AUTHOR and _closes(lines, above)
    )
    return first if is_below and stop - first > 1 and _names(lines.text(first)) else None


def _names(line: bytes) -> bool:
    """True if a line begins with a capital, a letter outside ASCII, or a word that Germans put
    before a name.
    """
    return line[:1].isupper() or line[:1] > b"~" or line.startswith(ON_BEHALF)


def _closes(lines: Lines, row: int) -> bool:
    text = lines.text(row)
    return len(text) <= CLOSING_BYTES and closes(text.decode("utf-8", "replace"))


def _spoken(lines: Lines, starts: RowNos) -> Mask:
    """Whether each of these paragraphs, though it names a list, is text: right below a salutation,
    or a list of patches.
    """
    filled = np.append(-1, np.flatnonzero(~lines.blank))
    above = _at_most(filled, starts - 1)
    below_hello = above >= lines.message_start[starts]
    below_hello[below_hello] = lines.matching(rules.HELLO, above[below_hello])
    return below_hello | lines.matching(rules.NUMBERED, starts)


def _forum_links(paragraphs: Paragraphs, among: Mask) -> Mask:
    """Whether each paragraph `among` these is words like "View:" and the links they announce, and
    nothing else.
    """
    link = paragraphs.matching(rules.LINK, paragraphs.rows_of(among))
    behind = paragraphs.matching(rules.LINK_BEHIND, paragraphs.rows_of(among) & ~link)
    word = paragraphs.matching(
        rules.FORUM_LINK, paragraphs.rows_of(paragraphs.count(link | behind) > 0)
    )
    linked = paragraphs.count(link | behind & word) > 0
    return (
        (paragraphs.count(word | link) == paragraphs.size) & (paragraphs.count(word) > 0) & linked
    )


def _names_writer(lines: Lines, words: Words, contact: Mask, paragraphs: Paragraphs) -> Mask:
    """Whether each paragraph says who wrote: a name, a title, ways to reach somebody, no prose."""
    rows = paragraphs.rows
    prose = paragraphs.count(words.small[rows] > 3)
    inside = paragraphs.starts > lines.message_start[paragraphs.starts]
    inside &= paragraphs.count(paragraphs.matching(TRAILER, words.symbols[rows] > 0)) == 0
    plain = (prose == 0) & inside
    size = lines.stops[rows] - lines.heads[rows]
    talk = paragraphs.count(
        (size > NAME_BYTES) | (words.gaps[rows] > 6) | rules.SPOKEN_END[lines.last[rows]]
    )
    many = plain & (paragraphs.size > 1)
    signs = _has_signs(lines, words, rows)
    dense = plain & (paragraphs.count(signs) >= _MOSTLY * paragraphs.size)
    ways = dense & (
        paragraphs.count(paragraphs.matching(rules.REACH, paragraphs.rows_of(dense) & signs))
        >= _MOSTLY * paragraphs.size
    )
    reached = paragraphs.first_matching(rules.PERSON_NAME, many & contact & ~ways)
    titled = paragraphs.first_matching(rules.FULL_NAME, many & (talk == 0) & ~ways)
    closes = inside & (prose <= 1) & contact & (talk <= np.maximum(paragraphs.size // 2, 1))
    signed = paragraphs.first_matching(rules.SIGNED_LINE, (plain & ~many | closes) & ~ways)
    return ways | reached | titled | signed
