"""PDF to Markdown: the text layer in reading order, headings, paragraphs, and where each page
begins.
"""

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image

from transforms.formats.converted import (
    Converted,
    FormatError,
    heading,
    is_section,
    own_title,
    paged,
    plain,
)
from transforms.formats.pdf_lines import LIGATURES, SAME_BASELINE, Line, page_lines
from transforms.text.visible import Picture, picture_text

MAX_PAGES = 20_000
_PAGE_SIDES, _PAGE_QUALITY = (1200, 2400), 85
"""Pixels that such a picture is wide and high at most, and the quality of its JPEG."""
_SCAN_CHARS = 16
"""Letters of a page's text layer below which a page that shows a picture is a scan."""
_DPI = 300
"""Tesseract's documentation asks for at least this resolution."""
MAX_PIXELS = 30_000_000
"""Pixels of a page or picture that is given to OCR: A3 at 300 dpi twice over; a larger one is made
smaller.
"""
_RUNNING_PAGES = 3
"""Pages whose first or last line is the same from which the line is a running head and is kept
once.
"""
_FEW_LINES = 8
_NUMBER_LETTERS = 12
"""Letters and digits that a heading may have before its title in the outline, as `Chapter 12`."""
_TITLE_HEIGHT = 0.5
"""Part of the height of the first page's highest line above which its title is."""
_TITLE_LINES = 4
"""Lines that a heading of the outline may take up on its page."""
_HEADING_RATIO = 1.15
"""Size of a heading : size of most letters, in a document without an outline."""
_HEADING_CHARS = 150
_MOST_HEADINGS = 0.3
"""Share of lines from which large lines are no headings."""
_PARAGRAPH_GAP = 1.25
"""Distance to the line above : usual distance, from which a paragraph begins."""
_PAGES_OF_A_HEADING = 3
"""Pages of a document for each heading of its outline, from which its outline has few."""
_WITH_HEIGHT = (pdfium.PDFDEST_VIEW_XYZ, pdfium.PDFDEST_VIEW_FITH, pdfium.PDFDEST_VIEW_FITBH)
_OF_CONTENTS = re.compile(r"(?:\d[\d.]*|[A-Z]) .* \d+$")
_LEADERS = re.compile(r"(?:\. ?){4}")
_EDITION = re.compile(r"(?:version|release|edition|revision|v)[ .]*\d", re.IGNORECASE)
_NO_TITLE = re.compile(rf"(?i:{_EDITION.pattern})|[a-z]+[.,]?$")
_NEAR_SIZE = 0.8
"""Size of a title : size of a larger edition or lone word on its page, at least."""
_NOTE_MARKS = " ,*\u2217\u2020\u2021"
_WORD = re.compile(r"[^\W\d_]{2}")
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_LETTERS = re.compile(r"[^\W_]")
_TIME = re.compile(
    r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z|[+-]\d\d)'?(\d\d)?'?)?", re.ASCII
)
_PASSWORD = "password"


_Headings = dict[int, list[tuple[int, str, int]]]
"""Headings of a page by the line at which they begin: level, text, lines that it takes up (0 if it
is not printed).
"""
Ocr = Callable[[bytes], str]
"""The text of a picture (PNM), paragraphs with a blank line between them."""


def pdf_markdown(data: bytes, ocr: Ocr | None = None) -> Converted:
    """A PDF as Markdown with its pages; FormatError if it is encrypted, damaged or without any
    text.

    Headings are those of the outline, below the title; without an outline lines in larger letters.
    Running heads and page numbers are dropped but for the first of each. Pages without a text layer
    are read by `ocr`, if there is one.
    """
    with _opened(data) as document:
        return _markdown(document, ocr)


def pdf_page(data: bytes, number: int) -> Converted:
    """The page of a PDF with that number, from 1, as a `picture` alone; FormatError if the PDF
    lacks it.
    """
    with _opened(data) as document:
        if not 1 <= number <= len(document):
            raise FormatError(f"no_page: it has {len(document)} pages, and none is number {number}")
        page = document[number - 1]
        scale = min(
            side / max(size, 1) for side, size in zip(_PAGE_SIDES, page.get_size(), strict=True)
        )
        out = io.BytesIO()
        page.render(scale=scale).to_pil().convert("RGB").save(out, "JPEG", quality=_PAGE_QUALITY)
    return Converted("", [], picture=picture_text(Picture("image/jpeg", out.getvalue())))


@contextmanager
def _opened(data: bytes) -> Iterator[pypdfium2.PdfDocument]:
    try:
        with pypdfium2.PdfDocument(data) as document:
            if len(document) > MAX_PAGES:
                raise FormatError(f"too_large: {len(document)} pages, the cap is {MAX_PAGES}")
            yield document
    except pypdfium2.PdfiumError as error:
        if _PASSWORD in str(error).lower():
            raise FormatError("encrypted: it opens with a password only") from error
        raise FormatError(f"unreadable: {error}") from error


def _markdown(document: pypdfium2.PdfDocument, ocr: Ocr | None) -> Converted:
    pages: list[list[Line]] = []
    scans: dict[int, str] = {}
    missing: list[int] = []
    solid: set[str] = set()
    for number in range(len(document)):
        page = document[number]
        lines = page_lines(page, solid)
        pictures = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=3)
        if sum(len(_LETTERS.findall(line.text)) for line in lines) < _SCAN_CHARS and next(
            pictures, None
        ):
            if ocr is None:
                missing.append(number + 1)
            else:
                scans[number] = ocr(_picture(page))
        pages.append([] if number in scans else lines)
        page.close()
    if not any(pages) and not any(text.strip() for text in scans.values()):
        what = "OCR finds no text in them" if ocr else "set documents.ocr to read them"
        raise FormatError(f"no_text: its {len(pages)} pages have no text layer; {what}")
    pages = _without_running_lines(pages)
    pitch = _usual_pitch(pages)
    headings = _together(
        _outline_headings(document, pages), _size_headings(pages, pitch), len(pages)
    )
    texts = [
        f"{_page_text(lines, headings.get(number, {}), pitch)}\n\n{plain(scans.get(number, ''))}"
        for number, lines in enumerate(pages)
    ]
    defects = (
        [f"no_text_layer: pages {_ranges(missing)}; set documents.ocr to read them"]
        if missing
        else []
    )
    created, modified = (
        _time(document.get_metadata_value(name)) for name in ("CreationDate", "ModDate")
    )
    return paged(texts, defects, _title(document, pages))._replace(
        created=created, modified=modified
    )


def _time(value: str | None) -> str | None:
    """A time of PDF (ISO 32000, 7.9.4) as ISO 8601; None if it is none.

    >>> _time("D:20221217024144-01'30'"), _time("D:20221217024144Z")
    ('2022-12-17T02:41:44-01:30', '2022-12-17T02:41:44Z')
    """
    match = _TIME.match(value or "")
    if match is None:
        return None
    year, month, day, hour, minute, second, zone, of_zone = match.groups()
    offset = f"{zone}:{of_zone or '00'}" if zone and zone != "Z" else zone or ""
    return f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{offset}"


def _picture(page: pypdfium2.PdfPage) -> bytes:
    width, height = page.get_size()
    scale = min(_DPI / 72, math.sqrt(MAX_PIXELS / max(width * height, 1)))
    return pnm(page.render(scale=scale, grayscale=True).to_pil())


def pnm(image: Image.Image) -> bytes:
    """A picture as OCR takes it, grey and of at most MAX_PIXELS."""
    grey = image.convert("L")
    pixels = grey.width * grey.height
    if pixels > MAX_PIXELS:
        grey = grey.reduce(math.ceil(math.sqrt(pixels / MAX_PIXELS)))
    out = io.BytesIO()
    grey.save(out, "PPM")
    return out.getvalue()


def _without_running_lines(pages: list[list[Line]]) -> list[list[Line]]:
    """The pages without lines at their head and foot that others repeat but for numbers, the first
    of each kept.

    Page numbers alone are dropped everywhere.
    """
    edges = [_edges(lines) for lines in pages]
    counts = Counter(key for page in edges for key in {_key(line) for line in page})
    running = {key for key, count in counts.items() if count >= _RUNNING_PAGES}
    keys: set[str] = {"#"}
    result = []
    for lines, edge in zip(pages, edges, strict=True):
        dropped = {line for line in edge if (key := _key(line)) in running and key in keys}
        keys |= {_key(line) for line in edge} & running
        result.append([line for line in lines if line not in dropped])
    return result


def _edges(lines: list[Line]) -> list[Line]:
    """The highest and the lowest lines of a page; of a page with few lines those alone that are a
    number.
    """
    heights = [line.baseline for line in lines]
    return [
        line
        for line in lines
        if min(line.baseline - min(heights), max(heights) - line.baseline) < SAME_BASELINE
        and (len(lines) >= _FEW_LINES or _key(line) == "#")
    ]


def _key(line: Line) -> str:
    return " ".join(_NUMBER.sub("#", line.text).split())


def _outline_headings(
    document: pypdfium2.PdfDocument, pages: list[list[Line]]
) -> dict[int, _Headings]:
    """For each page its headings of the outline; one that it does not print is where the outline
    leads to.

    Headings that are numbers alone (`Page 1`, `Page 2`) only if the page prints them.
    """
    headings: dict[int, _Headings] = {}
    bookmarks = [
        (bookmark, bookmark.get_title() or "") for bookmark in document.get_toc(max_depth=8)
    ]
    counts = Counter(_NUMBER.sub("#", title) for _, title in bookmarks)
    for bookmark, title in bookmarks:
        destination = bookmark.get_dest()
        number = destination.get_index() if destination else None
        if (
            destination is None
            or number is None
            or not 0 <= number < len(pages)
            or not _letters(title)
        ):
            continue
        lines, of_page = pages[number], headings.setdefault(number, {})
        place = _place(_letters(title), lines, of_page)
        if place is None and counts[_NUMBER.sub("#", title)] >= _RUNNING_PAGES:
            continue
        at, count = place or (_below(destination, lines), 0)
        text = " ".join(line.text for line in lines[at : at + count]) or title
        if count or all(text != other for _, other, _ in of_page.get(at, ())):
            of_page.setdefault(at, []).append((bookmark.level + 2, text, count))
    return headings


def _below(destination: pypdfium2.PdfDest, lines: list[Line]) -> int:
    """The first line below the height to which a bookmark leads, the first of the page if it says
    none.
    """
    mode, values = destination.get_view()
    heights = values[1:2] if mode == pdfium.PDFDEST_VIEW_XYZ else values[:1]
    top = (heights[0] if heights and mode in _WITH_HEIGHT else 0.0) or math.inf
    return next((at for at, line in enumerate(lines) if line.baseline < top), len(lines))


def _place(title: str, lines: list[Line], headings: _Headings) -> tuple[int, int] | None:
    """The first line that begins with a title and the number of its lines; numbers of chapters
    before it may stand there.
    """
    for at in range(len(lines)):
        if any(count for *_, count in headings.get(at, ())):
            continue
        text = ""
        for count in range(1, _TITLE_LINES + 1):
            if at + count > len(lines):
                break
            text += _letters(lines[at + count - 1].text)
            before = len(text) - len(title)
            if text.endswith(title) and before <= min(
                _NUMBER_LETTERS, len(_letters(lines[at].text)) - 1
            ):
                return at, count
    return None


def _letters(text: str) -> str:
    return "".join(_LETTERS.findall(text)).casefold()


def _size_headings(pages: list[list[Line]], pitch: float) -> dict[int, _Headings]:
    """For each page its headings by size: lines in larger letters, and below them bold ones that
    stand alone.
    """
    places = _heading_places(pages, pitch)
    most = _MOST_HEADINGS * sum(map(len, pages)) + 1
    if len(places) > most:
        places = [place for place in places if place.size]
    if len(places) > most:
        return {}
    # Below a title are names and dates in sizes of their own.
    behind = {round(place.size) for place in places if place.page}
    usual = behind or {round(place.size) for place in places}
    title = max((place.size for place in places if place.page == 0), default=0.0)
    places = [place for place in places if round(place.size) in usual or place.size == title]
    sizes = sorted({round(place.size) for place in places}, reverse=True)
    headings: dict[int, _Headings] = {}
    last: _Place | None = None
    for place in places:
        page, text = headings.setdefault(place.page, {}), pages[place.page][place.line].text
        if place.size and last == place._replace(line=place.line - 1):  # a heading of two lines
            first, ((level, above, count),) = page.popitem()
            page[first] = [(level, f"{above} {text}", count + 1)]
        else:
            page[place.line] = [(2 + min(sizes.index(round(place.size)), 4), text, 1)]
        last = place
    return headings


class _Place(NamedTuple):
    """A line that may be a heading: its page, its number there, and its size; 0 for one in the
    size of the text.
    """

    page: int
    line: int
    size: float


def _heading_places(pages: list[list[Line]], pitch: float) -> list[_Place]:
    body = _usual_size(pages)
    places = []
    for number, lines in enumerate(pages):
        for at, line in enumerate(lines):
            is_larger = line.size >= body * _HEADING_RATIO
            if not is_larger and (line.size < body or not _stands_alone(lines, at, pitch)):
                continue
            if _may_be_heading(line.text):
                places.append(_Place(number, at, line.size if is_larger else 0.0))
    return places


def _may_be_heading(text: str) -> bool:
    """True for a short text with more than one letter that is not a line of a table of contents."""
    is_short = len(text) <= _HEADING_CHARS
    return is_short and not _LEADERS.search(text) and len(_LETTERS.findall(text)) > 1


def _together(
    outline: dict[int, _Headings], sizes: dict[int, _Headings], pages: int
) -> dict[int, _Headings]:
    """The headings of an outline; of one with few entries for its pages, as of a deck, below them
    those by size.
    """
    levels = [
        level for page in outline.values() for of_line in page.values() for level, *_ in of_line
    ]
    if len(levels) * _PAGES_OF_A_HEADING > pages:
        return outline
    printed = {
        _letters(text)
        for page in outline.values()
        for of_line in page.values()
        for _, text, _ in of_line
    }
    for number, page in sizes.items():
        of_page = outline.setdefault(number, {})
        taken = {
            at + n for at, of_line in of_page.items() for *_, count in of_line for n in range(count)
        }
        for at, ((level, text, count),) in page.items():
            if taken.isdisjoint(range(at, at + count)) and _letters(text) not in printed:
                of_page.setdefault(at, []).append((level + max(levels, default=1) - 1, text, count))
    return outline


def _stands_alone(lines: list[Line], at: int, pitch: float) -> bool:
    """True if a line is bold, ends no sentence, and begins a paragraph that is not bold."""
    line, below = lines[at], lines[at + 1] if at + 1 < len(lines) else None
    return (
        line.bold
        and line.text[-1] not in ".,;:"
        and not _OF_CONTENTS.match(line.text)
        and (at == 0 or _begins_paragraph(lines[at - 1], line, pitch))
        and (below is None or not below.bold)
    )


def _usual_size(pages: list[list[Line]]) -> float:
    letters: Counter[float] = Counter()
    for lines in pages:
        for line in lines:
            letters[line.size] += len(line.text)
    return letters.most_common(1)[0][0] if letters else 0.0


def _usual_pitch(pages: list[list[Line]]) -> float:
    """The distance of most lines to the line above."""
    distances = Counter(
        round(above.baseline - line.baseline, 0)
        for lines in pages
        for above, line in zip(lines, lines[1:], strict=False)
        if above.size == line.size and above.baseline > line.baseline
    )
    return distances.most_common(1)[0][0] if distances else 0.0


def _page_text(lines: list[Line], headings: _Headings, pitch: float) -> str:
    parts: list[str] = []
    end, above = 0, None
    for at in range(len(lines) + 1):
        for level, text, count in headings.get(at, ()):
            parts += ["", heading(level, text), ""]
            end, above = max(end, at + count), None
        if end <= at < len(lines):
            if above is not None and _begins_paragraph(above, lines[at], pitch):
                parts.append("")
            parts.append(plain(lines[at].text))
            above = lines[at]
    return "\n".join(parts)


def _begins_paragraph(above: Line, line: Line, pitch: float) -> bool:
    distance = above.baseline - line.baseline
    return distance < -1 or distance > max(pitch, line.size) * _PARAGRAPH_GAP


def _title(document: pypdfium2.PdfDocument, pages: list[list[Line]]) -> str | None:
    """The title of the metadata if no program made it, else the largest text in the upper part of
    the first page.
    """
    own = own_title((document.get_metadata_value("Title") or "").translate(LIGATURES)) or ""
    if _WORD.search(own) and not is_section(own):
        return own
    if title := _largest_text(pages):
        return title
    return None if is_section(own) else own or None


def _largest_text(pages: list[list[Line]]) -> str | None:
    """The lines in the largest letters in the upper part of the first page, if they may be a title."""
    lines = pages[0] if pages else []
    first = [line for line in lines if len(_LETTERS.findall(line.text)) > 2]
    lowest = max((line.baseline for line in first), default=0.0) * _TITLE_HEIGHT
    upper = [line for line in first if line.baseline >= lowest and not _NO_TITLE.match(line.text)]
    size = max((line.size for line in upper), default=0.0)
    if size <= max(_usual_size(pages), *(line.size * _NEAR_SIZE for line in first), 0):
        return None
    largest = next((n for n, line in enumerate(first) if line in upper and line.size == size), 0)
    begin = (line.text for line in takewhile(lambda line: line.size == size, first[largest:]))
    title = " ".join(takewhile(lambda text: not _EDITION.match(text), begin))
    if len(title) > _HEADING_CHARS or is_section(title):
        return None
    return title.rstrip(_NOTE_MARKS)


def _ranges(numbers: list[int]) -> str:
    """Page numbers in words, runs of them as `3-7`; at most ten runs."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    words = ["-".join(map(str, run)) for run in runs]
    return ", ".join(words[:10]) + (", …" if len(words) > 10 else "")
