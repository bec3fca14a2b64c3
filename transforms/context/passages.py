"""Passages, and how they are written: as related posts of the egregora design, as a block of
context, as a thread.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from transforms.documents.markdown import closing_fence

_SEED_HEAD = (
    "\n\n## Related Previous Posts (for continuity and linking):\n"
    "You can reference these posts in your writing to maintain conversation continuity.\n\n"
)
HEAD = "# Context\n"
_ESCAPED = re.compile(
    r"^(?= {0,3}(?:#{1,6}(?:\s|$)|(?:=+|-+)[ \t]*$|<(?:[!?]|(?:script|pre|style|textarea)\b)))",
    re.I | re.M,
)
"""Where a line begins a heading, makes one of the line before it, or begins raw HTML that no empty
line ends.
"""
_QUOTED_BLANK = re.compile(r"^[ \t]*>[> \t]*\n", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")
_LINE_ENDS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that some reader takes for the end of a line; text behind them would be on its own
line, not quoted.
"""
_BRACKET = re.compile("[\u27e8\u27e9]")
_NOISE = re.compile(r"\{[^{}]*\}|\b(?:ok(?:ay)?|mm|mhm|hmm?|uh|huh|um|oh|ah)\b|[\W_]", re.I)
"""Text that says nothing in a turn of a chat."""
_APART = 3
"""Turns of a chat that are no further apart are read as one stretch, with one citation."""


@dataclass(frozen=True)
class Passage:
    """A chunk as it is displayed: its text and position.

    `start` and `end` are bytes of the document `doc_id`; `around` is the section or mail it is in,
    with the bytes of that, where there is one. `tags` are the document's, `page_starts` the bytes
    at which its pages begin. `turn` is the number of a turn of a chat in its window, whose text
    begins with a line that names speaker and time. `lines` and `around_lines` are the first and
    last line that these bytes touch, from 1. `answers` is the Message-ID of the mail that a mail
    answers. `cut` are the characters that are shown of a text that
    does not fit as a whole.
    """

    chunk_id: str
    doc_id: str
    place: str
    source_kind: str
    title: str
    date: datetime | None
    tags: tuple[str, ...]
    text: str
    start: int
    end: int
    around: str | None = None
    around_start: int = 0
    around_end: int = 0
    page_starts: tuple[int, ...] = ()
    lines: tuple[int, int] = (1, 1)
    around_lines: tuple[int, int] = (1, 1)
    similarity: float | None = None
    score: float | None = None
    expanded: bool = False
    cut: int | None = None
    turn: int | None = None
    answers: str | None = None

    @cached_property
    def alone(self) -> str:
        """The passage as a block writes it by itself, without the heading above."""
        return render_stretch([self], is_first=False)

    @cached_property
    def heading(self) -> str:
        """The heading under which the passage is in a block."""
        date = f" ({self.date:%Y-%m-%d})" if self.date else ""
        return f"## {_name(self.title)}{date}\n\n"

    @cached_property
    def shown(self) -> tuple[str, int, int]:
        """Text and bytes: of the passage, or of its surroundings if it is expanded."""
        if self.expanded and self.around is not None:
            return self.around, self.around_start, self.around_end
        text = self.text[: self.cut]
        return text, self.start, self.start + len(text.encode()) if self.is_exact else self.end

    @property
    def is_cut(self) -> bool:
        """True if the text goes on behind what is shown."""
        return not self.expanded and self.cut is not None

    @property
    def shown_lines(self) -> tuple[int, int]:
        """The first and last line that is shown."""
        if self.expanded and self.around is not None:
            return self.around_lines
        if self.cut is None or not self.is_exact:
            return self.lines
        return self.lines[0], self.lines[0] + self.text[: self.cut].rstrip("\n").count("\n")

    @cached_property
    def is_exact(self) -> bool:
        """True if the text is these bytes of the document, and neither parts of them nor text
        around them.
        """
        return not self.expanded and len(self.text.encode()) == self.end - self.start


def related_posts(passages: Sequence[Passage], passage_chars: int = 400) -> str:
    """The block of related posts of the egregora design; empty without passages.

    Lines of a text that begin a heading, or HTML without an end, get a backslash, and code that is
    cut off is closed, so that no text can pass for a post of its own or hide the next one.
    """
    if not passages:
        return ""
    texts = [_SEED_HEAD]
    for passage in passages:
        date = f"{passage.date:%Y-%m-%d}" if passage.date else "no date"
        text = (
            _ESCAPED.sub(r"\\", _LINE_ENDS.sub("\n", passage.text.rstrip()[:passage_chars])) + "..."
        )
        if fence := closing_fence(text):
            text = f"{text}\n{fence}"
        tags = ", ".join(_one_line(t) for t in passage.tags) or "none"
        texts.append(f"### [{_one_line(passage.title)}] ({date})\n{text}\n- Tags: {tags}\n")
        similarity = 0.0 if passage.similarity is None else passage.similarity
        texts.append(f"- Similarity: {similarity:.2f}\n\n")
    return "".join(texts)


def edges(passage: Passage) -> set[tuple[str, int]]:
    """The edges where another passage joins this one: its number as a turn, else the bytes of both
    ends of its text.
    """
    if passage.turn is not None:
        return {(passage.doc_id, passage.turn)}
    _, start, end = passage.shown
    return {(passage.place, start), (passage.place, end)} if passage.is_exact else set()


def joins(passage: Passage, others: Set[tuple[str, int]]) -> bool:
    """True if a passage is a turn near one of the `edges` of others, or if its text goes on where
    one of theirs ends.
    """
    if (turn := passage.turn) is None:
        return not others.isdisjoint(edges(passage))
    return any((passage.doc_id, near) in others for near in range(turn - _APART, turn + _APART + 1))


def stretches(chosen: Sequence[Passage]) -> list[list[Passage]]:
    """The passages as a block shows them: those under one heading together, where the first of them
    was, in the order of their document; turns of a chat that are near each other, and texts that
    touch, are one stretch.
    """
    keys = [(passage.doc_id, passage.heading) for passage in chosen]
    places = {key: number for number, key in reversed(list(enumerate(keys)))}
    order = sorted(range(len(chosen)), key=lambda n: (places[keys[n]], chosen[n].shown[1]))
    groups: list[list[Passage]] = []
    for passage in (chosen[n] for n in order):
        if groups and joins(passage, edges(groups[-1][-1])):
            groups[-1].append(passage)
        else:
            groups.append([passage])
    return groups


def render_block(chosen: Sequence[Passage]) -> str:
    """The block of these passages; none of their text can pass for a line of Weft's.

    Passages under one heading follow each other, and the first has it. Every line of theirs begins
    with `> `, whichever sign ends it, and their brackets of citations get a backslash: those
    without are Weft's.
    """
    ordered = stretches(chosen)
    before = [None, *((stretch[0].doc_id, stretch[0].heading) for stretch in ordered)]
    rendered = (
        render_stretch(stretch, is_first=(stretch[0].doc_id, stretch[0].heading) != last)
        for stretch, last in zip(ordered, before, strict=False)
    )
    return "\n".join([HEAD, *rendered]) if chosen else ""


def render_stretch(stretch: Sequence[Passage], *, is_first: bool = True) -> str:
    """A passage, or several that are read together, with the citation below, and the heading above
    the first.
    """
    first, start, end = stretch[0], stretch[0].shown[1], stretch[-1].shown[2]
    page = f" page {bisect_right(first.page_starts, start)}" if first.page_starts else ""
    is_chat = first.turn is not None
    text = _conversation(stretch) if is_chat else "".join(p.shown[0] for p in stretch)
    text = as_quote(text.rstrip() + " …" if stretch[-1].is_cut else text)
    return f"{first.heading if is_first else ''}{text}\n\n\u27e8{_name(first.place)}{page} bytes {start}-{end}\u27e9\n"


def _conversation(turns: Sequence[Passage]) -> str:
    """Turns that follow each other, each with its speaker, and its time where that is new."""
    lines: list[str] = []
    for before, turn in zip([None, *turns], turns, strict=False):
        if before is not None and turn.turn != (before.turn or 0) + 1:
            lines.append("[\u2026]")
        lines.append(turn_line(turn, said_at(before) if before else ""))
    return "\n".join(lines)


def turn_line(turn: Passage, before: str) -> str:
    """A turn with its speaker, and with its time if that differs from `before`, the time of the
    turn above.

    Further lines are set in, so that none of them can pass for a turn.
    """
    first, _, text = turn.shown[0].partition("\n")
    at, day = said_at(turn), before.partition(" ")[0]
    when = at.removeprefix(f"{day} ") if day else at
    speaker = first.removesuffix(f", {at}") + ("" if at == before else f", {when}")
    return f"{speaker}: {_LINE_ENDS.sub(chr(10), text)}".replace("\n", "\n  ")


def said_at(turn: Passage) -> str:
    """The time of a turn, as its first line ends with it."""
    return turn.shown[0].partition("\n")[0].rpartition(", ")[2]


def is_noise(passage: Passage) -> bool:
    """True for a turn of a chat that says nothing by itself, such as "ok"."""
    return passage.turn is not None and not _NOISE.sub("", passage.text.partition("\n")[2])


def render_thread(mails: Iterable[Mapping[str, Any]]) -> str:
    """The mails of a thread below their headers; no text of theirs can pass for a header, or for a
    mail, of another.

    `mails` have message_id, author, effective_at, subject and body, where all but the first may be
    None. Bodies are quoted as passages of a block are.
    """
    return "\n".join(map(_render_mail, mails))


def _render_mail(mail: Mapping[str, Any]) -> str:
    at, subject = mail["effective_at"], mail["subject"]
    headers = [
        f"From: {_name(mail['author'] or 'not in the archives')}",
        f"Message-ID: <{_name(mail['message_id'])}>",
        *([f"Date: {at:%Y-%m-%d %H:%M}"] if at else []),
        *([f"Subject: {_name(subject)}"] if subject is not None else []),
    ]
    return "\n".join([*headers, "", *([as_quote(mail["body"]), ""] if mail["body"] else [])])


def as_quote(text: str) -> str:
    """`text` with `> ` before each line, whichever sign ends it, and a backslash before brackets of
    citations; without quoted blank lines, and with one blank line for several.

    >>> print(as_quote("> Is it set?\\n>\\n> Or not?\\n\\n\\nIt is."))
    > > Is it set?
    > > Or not?
    >
    > It is.
    """
    filled = _BLANK_LINES.sub("\n\n", _QUOTED_BLANK.sub("", _LINE_ENDS.sub("\n", text)))
    lines = _escape_brackets(filled).strip("\n").split("\n")
    return "\n".join([f"> {line}".rstrip() for line in lines])


def _name(text: str) -> str:
    """A title or a name as it is in a line of Weft's."""
    return _escape_brackets(_one_line(text))


def _escape_brackets(text: str) -> str:
    """`text` with a backslash before the brackets that begin and end a citation."""
    return _BRACKET.sub(r"\\\g<0>", text)


def _one_line(text: str) -> str:
    return " ".join(text.split())
