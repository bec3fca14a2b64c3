"""Texts, slides and sheets of office programs (docx, pptx, odt, odp, xlsx, ods) to Markdown."""

import io
import posixpath
import re
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from xml.etree.ElementTree import Element, tostring
from xml.parsers.expat import ExpatError
from zipfile import BadZipFile

import mammoth
import python_calamine

from transforms.formats.converted import (
    DC,
    Converted,
    FormatError,
    Zipped,
    as_table,
    heading,
    paged,
    plain,
)
from transforms.formats.html_markdown import html_markdown

_STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_OUTLINE = f"{_W}pPr/{_W}outlineLvl"
_MAX_STYLES = 2000
_BODY_LEVEL = 9
"""The level of text that is not a heading (ECMA-376, 17.3.1.20)."""
_DOCUMENT, _STYLE_OF = "word/document.xml", f"{_W}pStyle"
_OUTLINE_STYLE = "WeftOutline"
_OUTLINE_RULES = [f"p.{_OUTLINE_STYLE}{n} => h{min(n + 1, 6)}:fresh" for n in range(_BODY_LEVEL)]
_STYLE_ID = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
"""Names that a rule of mammoth may hold as they are."""
_MAMMOTH_FAULTS = (
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    NotImplementedError,
    OSError,
    BadZipFile,
    ExpatError,
    zlib.error,
)
"""Exceptions of mammoth on malformed documents."""

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_PROPERTIES = {"title": f"{DC}title", "created": f"{_META}creation-date", "modified": f"{DC}date"}
_TITLES = ("title", "ctrTitle")
_MAX_BLANKS = 100
"""Blanks, or cells of a table, that one element of OpenDocument may repeat."""


def docx_markdown(data: bytes) -> Converted:
    """A text of Word as Markdown: headings by their styles, lists, tables, links, notes;
    FormatError if it is none.
    """
    zipped = Zipped(data)
    styles = "\n".join([_STYLES, *_own_headings(zipped), *_OUTLINE_RULES])
    try:
        html = mammoth.convert_to_html(
            io.BytesIO(_with_outline_styles(zipped, data)),
            style_map=styles,
            convert_image=mammoth.images.img_element(lambda image: {}),
        ).value
    except _MAMMOTH_FAULTS as error:
        raise FormatError(
            f"unreadable: it is no text of Word ({type(error).__name__}: {error})"
        ) from error
    converted = html_markdown(html, has_pictures=False)
    if converted is None:
        raise FormatError("unreadable: it cannot be converted to Markdown")
    return zipped.with_core_properties(converted)


def _with_outline_styles(zipped: Zipped, data: bytes) -> bytes:
    """A text of Word whose paragraphs with a level of the outline of their own have the style of
    `_OUTLINE_RULES`, by which mammoth knows headings; as it is without such paragraphs.
    """
    document = zipped.xml(_DOCUMENT) if _DOCUMENT in zipped.names else Element("none")
    headings = [p for p in document.iter(f"{_W}p") if _level(p.find(_OUTLINE)) is not None]
    if not headings:
        return data
    for paragraph in headings:
        properties, level = paragraph[0], _level(paragraph.find(_OUTLINE))
        for style in properties.findall(_STYLE_OF):
            properties.remove(style)
        properties.insert(0, Element(_STYLE_OF, {f"{_W}val": f"{_OUTLINE_STYLE}{level}"}))
    return zipped.replaced(_DOCUMENT, tostring(document))


def _level(element: Element | None) -> int | None:
    """The level of a heading, from 0, that an element of the outline names; None for other text."""
    value = "" if element is None else element.get(f"{_W}val", "")
    level = int(value) if value.isdecimal() else _BODY_LEVEL
    return level if level < _BODY_LEVEL else None


def _own_headings(zipped: Zipped) -> Iterator[str]:
    """The rules of mammoth for styles of a level of the outline, of their own or of the style that
    they stand on.
    """
    if "word/styles.xml" not in zipped.names:
        return
    levels: dict[str, int | None] = {}
    above: dict[str, str] = {}
    for style in list(zipped.xml("word/styles.xml").iter(f"{_W}style"))[:_MAX_STYLES]:
        name, level, base = (
            style.get(f"{_W}styleId", ""),
            style.find(_OUTLINE),
            style.find(f"{_W}basedOn"),
        )
        value = "" if level is None else level.get(f"{_W}val", "")
        levels[name] = int(value) if value.isdecimal() else None
        above[name] = "" if base is None else base.get(f"{_W}val", "")
    for name in levels:
        at, chain = name, {"", name}
        while levels.get(at) is None and above.get(at, "") not in chain:
            chain.add(at := above[at])
        if (
            (depth := levels.get(at)) is not None
            and depth < _BODY_LEVEL
            and _STYLE_ID.fullmatch(name)
        ):
            yield f"p.{name} => h{min(depth + 1, 6)}:fresh"


def pptx_markdown(data: bytes) -> Converted:
    """A presentation of PowerPoint as Markdown: a page for each slide with its title, texts, tables
    and notes.
    """
    zipped = Zipped(data)
    targets = _targets(zipped, "ppt/presentation.xml")
    slides = zipped.xml("ppt/presentation.xml").iterfind(f"{_P}sldIdLst/{_P}sldId")
    names = [
        targets[slide.get(f"{_R}id", "")] for slide in slides if slide.get(f"{_R}id") in targets
    ]
    return zipped.with_core_properties(paged((_slide(zipped, name) for name in names), [], None))


def _targets(zipped: Zipped, name: str) -> dict[str, str]:
    """The members that a member refers to, by the ids of its relationships."""
    folder, _, file = name.rpartition("/")
    relations = f"{folder}/_rels/{file}.rels"
    if relations not in zipped.names:
        return {}
    return {
        relation.get("Id", ""): posixpath.normpath(
            posixpath.join("/", folder, relation.get("Target", ""))
        ).lstrip("/")
        for relation in zipped.xml(relations)
        if relation.get("TargetMode") != "External"
    }


def _slide(zipped: Zipped, name: str) -> str:
    tree = zipped.xml(name).find(f"{_P}cSld/{_P}spTree")
    parts = [] if tree is None else list(_shapes(tree))
    for target in _targets(zipped, name).values():
        if "/notesSlides/" in target and target in zipped.names:
            notes = [
                plain(text)
                for shape in zipped.xml(target).iter(f"{_P}sp")
                if _place(shape) == "body"
                for text in _paragraphs(shape)
            ]
            parts += ["Notes:", *notes] if notes else []
    return "\n\n".join(parts)


def _shapes(tree: Element) -> Iterator[str]:
    """The texts and tables of a slide in the order of its shapes, the title first as a heading."""
    shapes = _each(tree, f"{_P}sp", f"{_P}graphicFrame")
    for shape in sorted(shapes, key=lambda shape: _place(shape) not in _TITLES):
        place = _place(shape)
        if place in _TITLES:
            if title := " ".join(_paragraphs(shape)):
                yield heading(2, title)
        elif shape.tag == f"{_P}graphicFrame":
            for grid in shape.iter(f"{_A}tbl"):
                yield as_table(
                    [" ".join(_paragraphs(cell)) for cell in row.iter(f"{_A}tc")]
                    for row in grid.iter(f"{_A}tr")
                )
        elif place not in ("sldNum", "dt", "ftr") and (texts := list(_paragraphs(shape))):
            yield "\n".join(plain(text) for text in texts)


def _place(shape: Element) -> str:
    """The purpose of a shape: title, body, …; empty without one."""
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return "" if placeholder is None else placeholder.get("type", "body")


def _paragraphs(shape: Element) -> Iterator[str]:
    for paragraph in shape.iter(f"{_A}p"):
        parts = [
            "\n" if e.tag == f"{_A}br" else e.text or ""
            for e in _each(paragraph, f"{_A}t", f"{_A}br")
        ]
        if text := "".join(parts).strip():
            yield text


def opendocument_markdown(data: bytes) -> Converted:
    """A text or presentation of LibreOffice as Markdown: headings, lists, tables; a page for each
    slide.
    """
    zipped = Zipped(data)
    root = zipped.xml("content.xml")
    body = root.find(f"{_OFFICE}body")
    if body is None:
        raise FormatError("unreadable: content.xml has no body")
    slides = list(body.iter(f"{_DRAW}page"))
    if slides:
        converted = paged(
            ("\n\n".join(_blocks(slide, is_slide=True)) for slide in slides), [], None
        )
    else:
        titles = {"Title"}
        for style in root.iter(f"{_STYLE}style"):
            if style.get(f"{_STYLE}parent-style-name") == "Title":
                titles.add(style.get(f"{_STYLE}name", ""))
        for paragraph in body.iter(f"{_TEXT}p"):
            if paragraph.get(f"{_TEXT}style-name") in titles:
                paragraph.tag = f"{_TEXT}h"
        text = body.find(f"{_OFFICE}text")
        converted = Converted("\n\n".join(_blocks(body if text is None else text)) + "\n", [])
    return zipped.described(converted, "meta.xml", _PROPERTIES)


def _blocks(parent: Element, *, is_slide: bool = False) -> Iterator[str]:
    """Headings, paragraphs, lists and tables below an element in their order."""
    for element in parent:
        is_title = is_slide and element.get(f"{_PRESENTATION}class") == "title"
        if element.tag == f"{_TEXT}h":
            level = element.get(f"{_TEXT}outline-level", "1")
            yield from _heading(int(level) if level.isdecimal() else 1, _inline(element))
        elif element.tag == f"{_TEXT}p":
            if text := _inline(element).strip():
                yield plain(text)
            for box in element.iter(f"{_DRAW}text-box"):
                yield from _blocks(box)
        elif element.tag == f"{_TEXT}list":
            yield "\n".join(_items(element, ""))
        elif element.tag == f"{_TABLE}table":
            yield as_table(_cells(row) for row in element.iter(f"{_TABLE}table-row"))
        elif is_title:
            yield from _heading(2, " ".join(_inline(p) for p in element.iter(f"{_TEXT}p")))
        elif element.tag != f"{_TEXT}tracked-changes":
            yield from _blocks(element, is_slide=is_slide)


def _heading(level: int, text: str) -> Iterator[str]:
    if text := text.strip():
        yield heading(level, text)


def _items(items: Element, indent: str) -> Iterator[str]:
    for item in items:
        mark = "- "
        for child in item:
            if child.tag == f"{_TEXT}list":
                yield from _items(child, indent + "  ")
            elif text := _inline(child).strip():
                yield indent + mark + plain(text)
                mark = "  "


def _cells(row: Element) -> list[str]:
    cells: list[str] = []
    for cell in row.iter(f"{_TABLE}table-cell"):
        repeated = cell.get(f"{_TABLE}number-columns-repeated", "1")
        count = min(int(repeated), _MAX_BLANKS) if repeated.isdecimal() else 1
        cells += [" ".join(_inline(p) for p in _each(cell, f"{_TEXT}p", f"{_TEXT}h"))] * count
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _each(element: Element, *tags: str) -> Iterator[Element]:
    """The elements of some tags below an element, in their order."""
    return (below for below in element.iter() if below.tag in tags)


def _inline(element: Element) -> str:
    """The text of a paragraph; notes in brackets, without frames and comments."""
    parts = [element.text or ""]
    for child in element:
        if child.tag == f"{_TEXT}s":
            count = child.get(f"{_TEXT}c", "1")
            parts.append(" " * min(int(count) if count.isdecimal() else 1, _MAX_BLANKS))
        elif child.tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
            parts.append("\t" if child.tag == f"{_TEXT}tab" else "\n")
        elif child.tag == f"{_TEXT}note":
            body = child.find(f"{_TEXT}note-body")
            parts.append("" if body is None else f" [{' '.join(_inline(p).strip() for p in body)}]")
        elif child.tag not in (f"{_DRAW}frame", f"{_OFFICE}annotation"):
            parts.append(_inline(child))
        parts.append(child.tail or "")
    return re.sub(r"[ \t]*\n[ \t]*", "\n", "".join(parts))


_OLD = b"\xd0\xcf\x11\xe0"
"""How workbooks from before 2007 begin, which are no zip files."""


def sheets_markdown(data: bytes) -> Converted:
    """A workbook (xlsx, xlsm, xlsb, xls, ods) as Markdown: values as they are stored, formulas as
    their last result.

    FormatError if it is none. Rows and columns without a value are left out.
    """
    zipped = None if data.startswith(_OLD) else Zipped(data)
    try:
        with python_calamine.load_workbook(io.BytesIO(data)) as workbook:
            sheets = [
                (name, workbook.get_sheet_by_name(name).to_python())
                for name in workbook.sheet_names
            ]
    except python_calamine.PasswordError as error:
        raise FormatError("encrypted: it opens with a password only") from error
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise FormatError(f"unreadable: it is no workbook ({error})") from error
    parts: list[str] = []
    for name, rows in sheets:
        texts = [row for row in ([_cell_text(value) for value in row] for row in rows) if any(row)]
        filled = zip_longest(*texts, fillvalue="")
        if columns := [column for column in filled if any(column)]:
            parts += [heading(2, name), as_table(zip(*columns, strict=True))]
    converted = Converted("\n\n".join(parts) + "\n", [])
    return zipped.with_core_properties(converted) if zipped else converted


def _cell_text(value: object) -> str:
    """The text of a cell: whole numbers without a fraction, times as ISO 8601."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
