"""What a reader of a format returns, the fault it raises, and text as it must stand in Markdown to be shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

VERSION = "4"
"""Version of all readers of formats."""

_MARKUP = re.compile(
    r"^\s*(?=#{1,6}(?:\s|$)|=+\s*$|-+\s*$|`{3}|~{3}|>|<[!?/a-zA-Z]|\[[^\]]+\]:)|(?<!^)(?=<!--)", re.MULTILINE
)
_JUNK_TITLE = re.compile(
    r"untitled\b|(?:microsoft )?(?:powerpoint|word|excel)\b|(?:presentation|document|slide)[ \d]*$"
    r"|.*\.(?:docx?|pptx?|xlsx?|odt|odp|tex|dvi|indd|qxd|rtf|pdf)$",
    re.IGNORECASE,
)
_SECTIONS = re.compile(
    "abstract|contents|copyright|description|introduction|license|logo|motivation|name|overview|preface|rationale|"
    "summary|synopsis",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n{3,}")


class Converted(NamedTuple):
    """A file as Markdown, its defects as short codes with an explanation, and the title that its format carries.

    `page_starts` are the bytes of the text at which its pages (slides of a presentation) begin; None without pages.
    `created` and `modified` are the times of its properties, as ISO 8601 writes them. `picture` is a picture that is to
    have a vector, made small, as `transforms.text.pictures` writes it. `fields` are its properties by name.
    """

    text: str
    defects: list[str]
    title: str | None = None
    page_starts: list[int] | None = None
    created: str | None = None
    modified: str | None = None
    picture: str | None = None
    fields: dict[str, str] | None = None


class FormatError(Exception):
    """A file cannot be read; the text is the reason, as `code: explanation`."""


def plain(text: str) -> str:
    r"""Text with a backslash where Markdown would take the beginning of a line, or a comment, for markup.

    >>> plain("# apt install weft")
    '\\# apt install weft'
    """
    return _MARKUP.sub(r"\\", text)


def heading(level: int, text: str) -> str:
    """A heading of Markdown, of level 1 to 6, on one line."""
    return f"{'#' * max(1, min(level, 6))} {' '.join(text.split())}"


def own_title(text: str | None) -> str | None:
    """A title of a file's properties on one line; None for one that a program made.

    >>> own_title("Microsoft Word - letter.doc"), own_title(" Yearly  report ")
    (None, 'Yearly report')
    """
    title = " ".join((text or "").split())
    return title if title and not _JUNK_TITLE.match(title) else None


def is_section(heading: str) -> bool:
    """True if a heading is one that parts of any text have, so that it is the title of the whole only if it stands alone.

    >>> is_section("Abstract"), is_section("Abstract nonsense")
    (True, False)
    """
    return bool(_SECTIONS.fullmatch(heading))


def table(rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table, the first row its head; empty without any text. Cells are on one line."""
    lines = [[" ".join(str(cell).split()).replace("|", r"\|") for cell in row] for row in rows]
    if not any(map(any, lines)):
        return ""
    width = max(map(len, lines))
    filled = [row + [""] * (width - len(row)) for row in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in [filled[0], ["---"] * width, *filled[1:]])


def paged(pages: Iterable[str], defects: list[str], title: str | None) -> Converted:
    """The texts of pages below each other, a blank line between them, and where each begins."""
    parts: list[str] = []
    starts: list[int] = []
    at = 0
    for page in pages:
        part = _BLANK_LINES.sub("\n\n", page.strip("\n"))
        part = part + "\n\n" if part else ""
        starts.append(at)
        parts.append(part)
        at += len(part.encode())
    return Converted("".join(parts), defects, title, starts)
