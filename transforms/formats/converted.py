"""The common parts of readers of formats: members of zipped documents, the result, the fault, safe
Markdown.
"""

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from xml.etree import ElementTree

PAGE = "page "
"""A kind that begins so asks for the picture of one page of a PDF; the number of the page follows.
"""

_MARKUP = re.compile(
    r"^\s*(?=#{1,6}(?:\s|$)|=+\s*$|-+\s*$|`{3}|~{3}|>|<[!?/a-zA-Z]|\[[^\]]+\]:)|(?<!^)(?=<!--)",
    re.MULTILINE,
)
_JUNK_TITLE = re.compile(
    r"untitled\b|(?:microsoft )?(?:powerpoint|word|excel)\b|(?:presentation|document|slide|new page)[ \d]*$"
    r"|.*\.(?:docx?|pptx?|xlsx?|odt|odp|tex|dvi|e?ps|html?|txt|vsd|dwg|fm|indd|qxd|rtf|pdf)$",
    re.IGNORECASE,
)
_SECTIONS = re.compile(
    r"1\.? .*|abstract|(?:table of )?contents|copyright|description|introduction|license|logo|motivation|name|overview|"
    "preface|rationale|summary|synopsis",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n{3,}")


class Converted(NamedTuple):
    """A file as Markdown, its defects as short codes with an explanation, and the title that its
    format carries.

    `page_starts` are the bytes of the text at which its pages (slides of a presentation) begin;
    None without pages. `created` and `modified` are the times of its properties, as ISO 8601 writes
    them. `picture` is a picture that is to have a vector, made small, as `transforms.text.visible`
    writes it. `fields` are its properties by name. `parts` are the documents in a file of several,
    each its name and the values of a `Converted`.
    """

    text: str
    defects: list[str]
    title: str | None = None
    page_starts: list[int] | None = None
    created: str | None = None
    modified: str | None = None
    picture: str | None = None
    fields: dict[str, Any] | None = None
    parts: list[tuple[str, dict[str, Any]]] | None = None


class FormatError(Exception):
    """A file cannot be read; the text is the reason, as `code: explanation`."""


def plain(text: str) -> str:
    r"""Text with a backslash where Markdown would take the beginning of a line, or a comment, for
    markup.

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
    """True if a heading is one that parts of any text have: it names the whole only as the only
    heading.

    >>> is_section("Abstract"), is_section("Abstract nonsense")
    (True, False)
    """
    return bool(_SECTIONS.fullmatch(heading))


def as_table(rows: Iterable[Iterable[object]]) -> str:
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


DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_CORE = {"title": f"{DC}title", "created": f"{_TERMS}created", "modified": f"{_TERMS}modified"}
MAX_BYTES = 256 << 20
"""Bytes of all members of a document when unpacked."""
_MAX_MEMBERS = 20_000
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    OSError,
    ValueError,
)


class Zipped:
    """The members of a document by name; FormatError if it is none, encrypted, damaged or a
    compression bomb.
    """

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise FormatError(f"unreadable: it is no zip file ({error})") from error
        members = self._zip.infolist()
        # A member never gives more than it declares.
        size = sum(member.file_size for member in members)
        if size > MAX_BYTES or len(members) > _MAX_MEMBERS:
            raise FormatError(
                f"compression_bomb: {len(data):,} bytes hold {len(members):,} members of {size:,} bytes, the caps are "
                f"{_MAX_MEMBERS:,} and {MAX_BYTES:,}"
            )
        self.names = {member.filename for member in members}

    def read(self, name: str) -> bytes:
        """The bytes of a member."""
        try:
            return self._zip.read(name)
        except KeyError:
            raise FormatError(f"unreadable: it has no {name}") from None
        except RuntimeError as error:
            raise FormatError("encrypted: it opens with a password only") from error
        except _BROKEN as error:
            raise FormatError(f"unreadable: {name}: {error}") from error

    def replaced(self, name: str, data: bytes) -> bytes:
        """The document with other bytes for one of its members."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as zipped:
            for member in sorted(self.names):
                zipped.writestr(member, data if member == name else self.read(member))
        return out.getvalue()

    def xml(self, name: str) -> ElementTree.Element:
        """The root of a member that is XML; entities of its own are none of the parser's."""
        try:
            return ElementTree.fromstring(self.read(name))
        except ElementTree.ParseError as error:
            raise FormatError(f"unreadable: {name}: {error}") from error

    def described(self, converted: Converted, member: str, names: Mapping[str, str]) -> Converted:
        """A document with title, created and modified as the elements of these names in a member
        say them.
        """
        if member not in self.names:
            return converted
        root = self.xml(member)
        texts = {field: root.findtext(f".//{name}") for field, name in names.items()}
        return converted._replace(
            title=own_title(texts["title"]),
            created=texts["created"],
            modified=texts.get("modified"),
        )

    def with_core_properties(self, converted: Converted) -> Converted:
        """An office document of Microsoft's kind with its title and times."""
        return self.described(converted, "docProps/core.xml", _CORE)
