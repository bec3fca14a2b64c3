"""Files of a vault or documentation tree to the tables `documents` and `quarantine`: each file is
in one of them.

This module has formats, charsets, titles, tags, aliases and times. It finds no files; heading trees
are in `transforms.documents.nodes`, links in `transforms.documents.links`.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.documents.frontmatter import BOM_CHARACTER, Frontmatter, frontmatter
from transforms.documents.markdown import Markdown, MarkdownBlock, masked, parse
from transforms.documents.rst_markdown import rst_markdown
from transforms.errors import unread_because
from transforms.formats.converted import Converted, is_section
from transforms.formats.html_markdown import (
    canvas_markdown,
    html_charset,
    html_markdown,
    html_title,
)
from transforms.hashing import bytes_sha256, text_hash
from transforms.schemas.documents import DOCUMENTS
from transforms.schemas.operations import QUARANTINE
from transforms.settings.documents import (
    CODE_FORMATS,
    CONVERTED_FORMATS,
    DOCUMENT_FORMATS,
    PICTURE_FORMATS,
    PLAIN_FORMATS,
    WAYS_OUT,
    DocumentSettings,
)
from transforms.text.charsets import decode_text

WORD_LIST = "_keywords/words.md"
"""The path of a list of keywords of the folder around it, which search does not read."""
MAX_TITLE_CHARS = 1000
"""Characters of a title: every list of results repeats it."""
_MAX_RST_BYTES = 1 << 20
"""Bytes; a larger reStructuredText file is quarantined, as docutils is slow."""
_FORMATS = DOCUMENT_FORMATS | PICTURE_FORMATS | CODE_FORMATS
_CONVERTERS: dict[str, Callable[[str], Converted | None]] = {
    "html": html_markdown,
    "rst": rst_markdown,
    "canvas": canvas_markdown,
}
_TAG = re.compile(r"(?<!\S)#((?:[^\W\d]|[\d/-]+[^\W\d])[\w/-]*)")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CREATED = ("created", "created_at", "date created", "date_created", "date")
_MODIFIED = (
    "modified",
    "modified_at",
    "date modified",
    "date_modified",
    "updated",
    "lastmod",
    "last_modified",
)
_SPACED_ZONE = re.compile(r"\s+(?=[+-]\d|Z$)")
_NAMED_MONTH = re.compile(r"\d\d?-[A-Za-z]{3}-\d{4}")
_DAY = re.compile(r"((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d|\2\d)")
"""The day that the name of a journal's page or of a meeting's notes begins with."""


_PERMALINKS = " ¶\uf0c1"
"""Signs of a link to a heading, which programs put behind it."""
_DIVIDED = r"\s+(?:[-\u2013\u2014|\u00b7:\u00bb]\s+|(?=\())"
_REST = re.compile(rf"(?:$|{_DIVIDED})")
"""The end of a title, or a sign with blanks around it that divides it from the name of its site."""
_SITE = re.compile(rf"{_DIVIDED}$")
_FEW_PAGES = 2
"""Pages up to which a title that most pages of a partition have is not that of their site."""
_CHAPTER = re.compile(r"^\d[\d.]*\s+")
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True)
class RawFile:
    """The bytes of one file and its path below the root of the source, with forward slashes.

    A `fault` (`code: explanation`) says why the source did not take it; it goes to quarantine with
    it. `converted` is the Markdown of a file of `CONVERTED_FORMATS`.
    """

    path: str
    data: bytes
    fault: str | None = None
    converted: Converted | None = None


class DocumentTables(NamedTuple):
    """The tables of one partition, as declared in `transforms.schemas`."""

    documents: pa.Table
    quarantine: pa.Table


class _FileFaultError(Exception):
    """A file cannot become a document; the text is the reason, as `code: explanation`."""


def read_documents(
    files: Iterable[RawFile], *, source: str, partition: str, settings: DocumentSettings
) -> DocumentTables:
    """The documents of one partition in the order of their paths, and the quarantined files.

    The stored text of Markdown and plain text is the file's own, byte order mark and line ends
    included; that of other formats is the Markdown it was converted to. Files that are not UTF-8
    are decoded and say so in `defects`. Quarantined are files with a fault, of unknown format
    (`unknown_format`), over `max_document_bytes` (`too_large`), `binary`, `empty` or blank ones, a
    repeated path (`duplicate`), a path that is not Unicode (`bad_path`) and reStructuredText that
    cannot be read (`unreadable`). A title of HTML that most pages of the partition have is the name
    of their site: a page takes its next one, at last its file's name.
    """
    rows: list[dict[str, Any]] = []
    quarantine: list[dict[str, Any]] = []
    shared = {"source": source, "partition": partition}
    paths: set[str] = set()
    for file in sorted(files, key=lambda file: (file.path, file.data)):
        printable = file.path.encode("utf-8", "backslashreplace").decode()
        try:
            _check(file, printable, paths, settings)
            row = _document(file, source)
        except Exception as fault:  # noqa: BLE001 - one file never stops the others
            if not isinstance(fault, _FileFaultError):
                fault = _FileFaultError(unread_because(fault))
            byte_count, digest = len(file.data), bytes_sha256(file.data)
            row = {"place": printable, "reason": str(fault), "message_id": None}
            quarantine.append(shared | row | {"byte_count": byte_count, "bytes_sha256": digest})
            continue
        paths.add(file.path)
        rows.append(shared | row)
    return DocumentTables(DOCUMENTS.from_rows(_with_titles(rows)), QUARANTINE.from_rows(quarantine))


def _with_titles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the first of their `titles`; of HTML the first that most pages do not have."""
    pages = [row["titles"] for row in rows if row["format"] == "html"]
    counts = Counter(title for titles in pages for title in titles)
    most = max(len(pages) / 2, _FEW_PAGES)
    for row in rows:
        titles, is_html = row.pop("titles"), row["format"] == "html"
        title = next((name for name in titles if not is_html or counts[name] <= most), None)
        row["title"] = (title or file_name(row["path"]))[:MAX_TITLE_CHARS]
        row["has_own_title"] = bool(title)
    return rows


def separated(files: Iterable[RawFile]) -> Iterator[RawFile]:
    """Files whose parts are documents as a file for each, in a folder of the name of theirs; others
    as they are.
    """
    for file in files:
        paths = part_paths(file)
        if file.converted is None or not file.converted.parts or len(paths) < 2:
            yield file
            continue
        for path, (_, values) in zip(paths, file.converted.parts, strict=True):
            yield RawFile(path, file.data, converted=Converted(**values))


def part_paths(file: RawFile) -> list[str]:
    """The paths of the parts of a file; if it has several, they are those of documents."""
    folder, _, ending = file.path.rpartition(".")
    parts = file.converted.parts if file.converted else None
    names = ("".join(filter(str.isprintable, name)) for name, _ in parts or ())
    return [f"{folder}/{name.replace('/', '_').strip(' .')}.{ending}" for name in names]


def file_name(path: str) -> str:
    """The last segment of a path without the extension of a document format; of code with it.

    >>> file_name("notes/Release 2.0.md"), file_name("notes/Release 2.0"), file_name("a/run.py")
    ('Release 2.0', 'Release 2.0', 'run.py')
    """
    name = path.rpartition("/")[2]
    stem, dot, extension = name.rpartition(".")
    ending = extension.lower()
    return stem if dot and stem and ending in _FORMATS and ending not in CODE_FORMATS else name


def _check(file: RawFile, printable: str, paths: set[str], settings: DocumentSettings) -> None:
    if file.fault is not None:
        raise _FileFaultError(file.fault)
    if printable != file.path:
        raise _FileFaultError("bad_path: the file name is not valid Unicode; rename the file")
    if file.path in paths:
        raise _FileFaultError("duplicate: the path was given twice")
    kind = document_format(file.path)
    if kind is None:
        way_out = WAYS_OUT.get(file.path.rpartition(".")[2].lower())
        known = f"known extensions are {', '.join(_FORMATS)}"
        raise _FileFaultError(f"unknown_format: {way_out or known}")
    if len(file.data) > settings.max_document_bytes:
        raise _FileFaultError(
            f"too_large: {len(file.data)} bytes, the cap is {settings.max_document_bytes}"
        )
    if kind == "rst" and len(file.data) > _MAX_RST_BYTES:
        raise _FileFaultError(
            f"too_large: {len(file.data)} bytes of .rst, the cap is {_MAX_RST_BYTES}"
        )


def document_format(path: str) -> str | None:
    """The format of a file by the ending of its name; None for one that is not read.

    >>> document_format("notes/Plan.MD"), document_format("notes/plan")
    ('markdown', None)
    """
    _, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _FORMATS.get(extension.lower()) if dot else None


def _shown_text(value: str) -> str:
    """The shown text of a wiki link; any other text as it is."""
    return value.removeprefix("[[").removesuffix("]]").rpartition("|")[2]


def _document(file: RawFile, source: str) -> dict[str, Any]:
    """The row of one file with its `titles`, without the columns of its partition."""
    kind = document_format(file.path)
    assert kind is not None
    stored = _stored_text(file, kind)
    if not stored.text.strip("\ufeff \t\r\n\f\v"):
        raise _FileFaultError("empty: there is nothing but blanks in it")
    mark = len(BOM_CHARACTER.encode()) if stored.text.startswith(BOM_CHARACTER) else 0
    front = frontmatter(stored.text) if kind == "markdown" else Frontmatter({}, mark, None)
    parsed = (
        None
        if kind in PLAIN_FORMATS
        else parse(stored.text, front.body_start, notes=kind == "markdown")
    )
    faults = (front.defect, parsed.defect if parsed else None)
    defects = [*stored.defects, *(defect for defect in faults if defect)]
    header: dict[str, Any] | None = front.fields or stored.fields
    properties = {"created": stored.created, "modified": stored.modified, **(header or {})}
    fields = {name.lower(): value for name, value in properties.items()}
    created, modified = (_time(fields, names, defects) for names in (_CREATED, _MODIFIED))
    field = _text_field(fields.get("title"))
    titles = [field] if field else _titles(parsed, stored, kind, file.path)
    return {
        "doc_id": f"{source}:{file.path}",
        "path": file.path,
        "titles": titles,
        "format": kind,
        "doc_type": ", ".join(map(_shown_text, _listed(fields.get("type")))) or None,
        "description": _text_field(fields.get("description")),
        "tags": list(
            _tags(fields, stored.text, front.body_start, parsed if kind == "markdown" else None)
        ),
        "aliases": _listed(fields.get("aliases", fields.get("alias"))),
        "frontmatter": json.dumps(header, ensure_ascii=False) if header else None,
        "created_at": created or _named_day(file_name(file.path)),
        "modified_at": modified,
        "text": stored.text,
        "body_start": front.body_start,
        "page_starts": stored.page_starts,
        "picture": stored.picture,
        "content_hash": text_hash(stored.text),
        "defects": defects,
    }


def _stored_text(file: RawFile, kind: str) -> Converted:
    if kind in CONVERTED_FORMATS:
        if file.converted is None:
            raise _FileFaultError(f"unreadable: nobody read the {kind}")
        return file.converted
    text, defects = _decoded(file.data, html_charset(file.data) if kind == "html" else None)
    if kind not in _CONVERTERS:
        return Converted(text, defects)
    converted = _CONVERTERS[kind](text.removeprefix(BOM_CHARACTER))
    if converted is None:
        raise _FileFaultError(f"unreadable: it cannot be converted from {kind} to Markdown")
    title = html_title(text) if kind == "html" else None
    return converted._replace(defects=defects + converted.defects, title=title)


def _decoded(data: bytes, declared: str | None) -> tuple[str, list[str]]:
    """The text of the bytes, and how they were read if they are not UTF-8."""
    if data.startswith(_UTF16):
        try:
            text = data.decode("utf-16")
            text.encode()
        except UnicodeError:
            raise _FileFaultError("binary: it begins as UTF-16 and is none") from None
        return text.replace("\0", "\ufffd"), ["charset_detected:utf-16"]
    nul = data.find(b"\0")
    if nul >= 0:
        raise _FileFaultError(f"binary: there is a NUL byte at {nul}")
    try:
        return data.decode(), []
    except UnicodeDecodeError:
        pass
    controls = sum(1 for _ in _CONTROL.finditer(data))
    if controls * 20 > len(data):
        raise _FileFaultError("binary: it is not UTF-8, and over 5 % of it are control characters")
    decoded = decode_text(data, declared)
    return decoded.text, [f"charset_{decoded.outcome}"]


def _titles(parsed: Markdown | None, stored: Converted, kind: str, path: str) -> list[str]:
    """The titles that a file has, best first: the one that the format carries, else the heading of
    level 1, else the first of page one.

    The title of a file's properties may be its template's.
    """
    blocks = [] if parsed is None else [b for b in parsed.headings if b.text]
    headings = [(b.level, b.text.rstrip(_PERMALINKS)) for b in blocks]
    if kind == "html":
        title = stored.title if stored.title != path.rpartition("/")[2] else None
        return _page_titles(title, headings)
    if kind in CONVERTED_FORMATS and stored.title and _is_of(stored.title, path, stored.text):
        return [stored.title]
    top = min(headings, default=(1, ""))[0]
    if stored.page_starts and top > 1:
        names = _names_on_first_page(blocks, stored)
    else:
        names = [name for level, name in headings if level == top == 1]
    return [] if len(names) > 1 and is_section(names[0]) else names[:1]


def _names_on_first_page(blocks: Sequence[MarkdownBlock], stored: Converted) -> list[str]:
    """The first heading of page one, unless the first of all is that of a section."""
    if not blocks or is_section(blocks[0].text):
        return []
    starts = stored.page_starts or []
    end = starts[1] if len(starts) > 1 else len(stored.text.encode())
    return [block.text for block in blocks if block.start < end][:1]


def _page_titles(title: str | None, headings: Sequence[tuple[int, str]]) -> list[str]:
    """The titles of a page, best first: its only heading of level 1, its title element, both without
    the name of a site.

    A site's name is a heading of level 1 at an end of the title, or all behind one at its start, or
    behind the page's first heading in brackets.

    >>> _page_titles("Tests - The Book", [(1, "The Book"), (1, "Tests")])
    ['Tests']
    >>> _page_titles("Syntax: alter-table", [(1, "alter-table"), (2, "Syntax")])
    ['alter-table', 'Syntax: alter-table']
    """
    whole = " ".join((title or "").split())
    own = [text for level, text in headings if level == 1]
    first = [_CHAPTER.sub("", text) for _, text in headings[:1]]
    names = {text for name in own for text in (name, _CHAPTER.sub("", name)) if text}
    folded = whole.casefold()
    for name in sorted(names, key=len, reverse=True):
        if folded.startswith(name.casefold()) and _REST.match(whole, len(name)):
            return [name if len(name) < len(whole) else whole]
        before = whole[: -len(name)]
        if folded.endswith(name.casefold()) and (divider := _SITE.search(before)):
            return [before[: divider.start()]]
    if first and folded.startswith(f"{first[0].casefold()} ("):
        return [whole[: len(first[0])]]
    one = own if len(own) == 1 and not is_section(own[0]) else []
    return list(dict.fromkeys([*one, *filter(None, [whole])]))


def _is_of(title: str, path: str, text: str) -> bool:
    """True if a title is not the file's name, and a word of it is in the text, or it has no word of
    three letters.
    """
    words = _WORD.findall(title.casefold())
    is_name = title.casefold() == file_name(path).casefold()
    return not is_name and (not words or any(word in f"{path} {text}".casefold() for word in words))


def _text_field(value: Any) -> str | None:
    return " ".join(value.split()) or None if isinstance(value, str) else None


def _listed(value: Any) -> list[str]:
    """The names in a list or a comma-separated text, each once."""
    values = (
        value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    )
    names = (" ".join(v.split()) for v in values if isinstance(v, str))
    return list(dict.fromkeys(filter(None, names)))


def _tags(
    fields: dict[str, Any], text: str, body_start: int, parsed: Markdown | None
) -> Iterator[str]:
    """The tags of the frontmatter, then those in the text, the first spelling of each."""
    value = fields.get("tags", fields.get("tag"))
    if isinstance(value, str) and "," not in value and value.lstrip().startswith("#"):
        value = value.split()
    tags = [tag.lstrip("#").strip() for tag in _listed(value)]
    if parsed is not None and "#" in text:
        hidden_ranges = sorted([(0, body_start), *parsed.opaque, *parsed.comments])
        tags += [
            tag.rstrip("/") for tag in _TAG.findall(masked(text.encode(), hidden_ranges).decode())
        ]
    keys: set[str] = set()
    for tag in tags:
        if tag and tag.casefold() not in keys:
            keys.add(tag.casefold())
            yield tag


def _time(fields: dict[str, Any], names: tuple[str, ...], defects: list[str]) -> datetime | None:
    """The first of the fields that is a time; one without a zone is UTC."""
    for name in names:
        value = fields.get(name)
        if not isinstance(value, str) or not value.strip():
            continue
        iso = _SPACED_ZONE.sub("", value.strip().replace("/", "-"))
        try:
            is_named = _NAMED_MONTH.fullmatch(iso)
            time = datetime.strptime(iso, "%d-%b-%Y") if is_named else datetime.fromisoformat(iso)
            return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
        except (ValueError, OverflowError):
            defects.append(f"time_unreadable: {name}")
    return None


def _named_day(name: str) -> datetime | None:
    """The day with which the name of a file begins, at midnight UTC.

    >>> _named_day("2025_04_20").date().isoformat(), _named_day("20250231 Minutes")
    ('2025-04-20', None)
    """
    day = _DAY.match(name)
    try:
        return day and datetime(int(day[1]), int(day[3]), int(day[4]), tzinfo=UTC)
    except ValueError:
        return None
