"""Pieces of stored texts that one person wrote at one time, with their places in bytes."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from transforms.text.passages import commit_message

_TURN = re.compile(
    r"## Message \d+\n\*\*Author:\*\* (?P<author>.*)\n\*\*Timestamp:\*\* (?P<at>[\d-]+ [\d:]+).*\n\n"
    r"(?P<text>(?s:.*?))(?=\n+## Message \d|\s*\Z)"
)


class TextPiece(NamedTuple):
    """A piece of a text: its first byte there, the text, and of a turn of a chat who said it when."""

    start: int
    text: str
    speaker: str | None = None
    at: datetime | None = None


def turns_in(window: str) -> Iterator[TextPiece]:
    r"""The turns of a window of a conversation.

    >>> next(turns_in("## Message 3\n**Author:** Ada\n**Timestamp:** 2025-01-02 10:00\n\nYes.\n")).text
    'Yes.'
    """
    for turn in _TURN.finditer(window):
        start = len(window[: turn.start("text")].encode())
        at = datetime.strptime(turn["at"][:16], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        yield TextPiece(start, turn["text"], turn["author"], at)


def turns_at(window: str, start: int, end: int) -> list[TextPiece]:
    """The parts of the turns of a window that are within a half-open range of its bytes."""
    results, data = [], window.encode()
    for turn in turns_in(window):
        first, last = max(turn.start, start), min(turn.start + len(turn.text.encode()), end)
        if first < last:
            text = data[first:last].decode(errors="replace")
            results.append(turn._replace(start=first, text=text))
    return results


def without_diff(piece: TextPiece) -> TextPiece:
    r"""The piece without a diff and the trailers above it.

    >>> without_diff(TextPiece(4, "Fix it.\n\nFixes: 1ab4\ndiff --git a/a.c b/a.c\n+int a;\n")).text
    'Fix it.'
    """
    message = commit_message(piece.text)
    place = piece.text.find(message)
    return piece._replace(start=piece.start + len(piece.text[:place].encode()), text=message)
