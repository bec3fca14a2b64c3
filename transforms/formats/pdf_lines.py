"""The lines of a page of a PDF: text in reading order with the blanks that one sees, and its place."""

import ctypes
import math
import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

SAME_BASELINE = 1.0
"""Points by which baselines may differ for texts to stand beside each other."""
_COLUMN_LINES = 3
"""Lines that a column of a table has at least."""
_CELL_CHARS = 24
"""Characters of the cells of a table at the mean; columns of prose have more."""
_LONG_WORD = re.compile(r"[^\s\ufffe\0\U00010000-\U0010ffff]{5,}")
LIGATURES = {
    at + n: text for at in (0x0B, 0x1B) for n, text in enumerate(("ff", "fi", "fl", "ffi", "ffl"))
}
"""The characters of TeX's fonts in the place of control characters (OT1 and T1), in files that do
not say so.
"""
_UNSHOWN = dict.fromkeys(map(ord, "\ufffe\0\xad")) | LIGATURES
_BOLD = re.compile(rb"bold|black|heavy|demi|-medi", re.IGNORECASE)
_FONT_NAME_BYTES = 128
_BOLD_CHARS = 80
"""Characters of a line at most that counts as bold."""
_WORD_GAP = 0.15
"""Distance of two glyphs : size of the letters, from which a blank is between them."""
_LEAST_SIZE = 2.0
"""Points below which the size of a font says nothing, as of fonts that are pictures (Type 3)."""
_OF_SIZE = 0.7
"""Height of letters as `h` : size of a font."""
_TALL = frozenset("ABCDEFGHIKLMNPRSTUVWXYZbdhkl")
_SPACED_LETTERS = 3
"""Letters for each gap in a word at least; one with more gaps is spaced out."""


class Line(NamedTuple):
    """A line of a page: its text, size of its letters, height of its baseline above the page's
    foot, all in points.

    `bold` is true if its first and its last letter are.
    """

    text: str
    size: float
    baseline: float
    bold: bool = False


def page_lines(page: pypdfium2.PdfPage, solid: set[str]) -> list[Line]:
    """The lines of a page in the order of its text layer; a word that is parted at the end of a
    line is whole.

    Cells of a table that stand beside each other and come after each other are one line. `solid`
    are words of earlier pages that are one word, and gets those of this page.
    """
    lines: list[Line] = []
    turned: set[int] = set()
    text_page = page.get_textpage()
    at = 0
    for text in text_page.get_text_range().split("\r\n"):
        if text and not text.isspace():
            size, baseline, is_turned = _letters(text_page, at, text)
            spaced = _spaced(text_page, at, text, size, solid).translate(_UNSHOWN)
            if content := " ".join(spaced.split()):
                if is_turned:
                    turned.add(len(lines))
                bold = len(content) <= _BOLD_CHARS and _is_bold_line(text_page, at, text)
                lines.append(Line(content, size, baseline, bold))
        at += _LINE_END + _utf16_units(text)
    text_page.close()
    if len(turned) * 2 < len(lines):  # a stamp in the margin is not a heading, however large it is
        lines = [line._replace(size=0.0) if n in turned else line for n, line in enumerate(lines)]
    return _rows_of_columns(_joined_cells(lines))


_LINE_END = 2
"""Characters between two lines of a text layer."""


def _utf16_units(text: str) -> int:
    """The length of a text as PDFium counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _letters(text_page: pypdfium2.PdfTextPage, at: int, text: str) -> tuple[float, float, bool]:
    """The size of the first letter of a line, its baseline in points, and whether it is turned."""
    x, y, matrix = ctypes.c_double(), ctypes.c_double(), pdfium.FS_MATRIX()
    first = at + len(text) - len(text.lstrip())
    index = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, first)
    pdfium.FPDFText_GetCharOrigin(text_page, index, x, y)
    scale, is_turned = 1.0, False
    if pdfium.FPDFText_GetMatrix(text_page, index, matrix):
        scale = math.hypot(matrix.c, matrix.d) or 1.0
        is_turned = abs(matrix.b) > abs(matrix.a)
    size = round(pdfium.FPDFText_GetFontSize(text_page, index) * scale, 1)
    if size < _LEAST_SIZE:
        size = _drawn_size(text_page, index, len(text)) or size
    return size, y.value, is_turned


def _is_bold_line(text_page: pypdfium2.PdfTextPage, at: int, text: str) -> bool:
    """True if the first and the last letter of a line are bold."""
    first, last = len(text) - len(text.lstrip()), len(text.rstrip()) - 1
    return _is_bold(text_page, at + first) and _is_bold(text_page, at + last)


def _joined_cells(lines: list[Line]) -> list[Line]:
    """Lines in which those on one baseline that come after each other are one."""
    rows: list[Line] = []
    for line in lines:
        if rows and abs(rows[-1].baseline - line.baseline) < SAME_BASELINE:
            above = rows[-1]
            text = f"{above.text} {line.text}"
            rows[-1] = above._replace(text=text, bold=above.bold and line.bold)
        else:
            rows.append(line)
    return rows


def _drawn_size(text_page: pypdfium2.PdfTextPage, index: int, count: int) -> float:
    """The size of letters that are drawn, by the height of most of the tall ones of a line, in
    whole points.
    """
    heights: Counter[int] = Counter()
    edges = [ctypes.c_double() for _ in range(4)]
    for n in range(index, index + count):
        if chr(pdfium.FPDFText_GetUnicode(text_page, n)) in _TALL:
            pdfium.FPDFText_GetCharBox(text_page, n, *edges)
            heights[round((edges[3].value - edges[2].value) / _OF_SIZE)] += 1
    return float(heights.most_common(1)[0][0]) if heights else 0.0


def _is_bold(text_page: pypdfium2.PdfTextPage, at: int) -> bool:
    """True if the name of the font says so in which the letter at a place of the page's text is
    printed.
    """
    name, flags = ctypes.create_string_buffer(_FONT_NAME_BYTES), ctypes.c_int()
    index = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, at)
    pdfium.FPDFText_GetFontInfo(text_page, index, name, _FONT_NAME_BYTES, flags)
    return bool(_BOLD.search(name.value))


def _spaced(
    text_page: pypdfium2.PdfTextPage, at: int, line: str, size: float, solid: set[str]
) -> str:
    """A line that begins at a place of the page's text, with blanks where its glyphs are apart.

    Programs that place each word by itself leave them out.
    """
    box = pdfium.FS_RECTF()

    def parted(word: re.Match[str]) -> str:
        text, before = word[0], line[: word.start()]
        if text in solid:
            return text
        units = (
            len(before)
            if before.isascii()
            else len(before.encode("utf-16-le", "surrogatepass")) // 2
        )
        index = pdfium.FPDFText_GetCharIndexFromTextIndex(text_page, at + units)
        gaps, end = [], math.inf
        for n in range(len(text)):
            pdfium.FPDFText_GetLooseCharBox(text_page, index + n, box)
            gaps.append(box.left - end > size * _WORD_GAP)
            end = box.right
        if 0 < sum(gaps) * _SPACED_LETTERS <= len(text):
            return "".join(
                f" {char}" if gap else char for char, gap in zip(text, gaps, strict=True)
            )
        solid.add(text)
        return text

    return _LONG_WORD.sub(parted, line)


def _rows_of_columns(lines: list[Line]) -> list[Line]:
    """`lines` with tables whose text layer goes down column by column put back into rows, cells
    divided by ` | `.

    Columns are runs of short lines on the same heights, one run after another; columns of prose
    have long lines.
    """
    starts = [
        n
        for n in range(len(lines))
        if n == 0 or lines[n].baseline > lines[n - 1].baseline + SAME_BASELINE
    ]
    runs = [lines[a:b] for a, b in pairwise([*starts, len(lines)])]
    result: list[Line] = []
    columns: list[list[Line]] = []
    for run in runs:
        if columns and not _stand_beside(columns[0], run):
            result += _joined(columns)
            columns = []
        columns.append(run)
    return result + _joined(columns)


def _stand_beside(first: list[Line], second: list[Line]) -> bool:
    """True if two runs of lines are columns of one table."""
    return (
        len(first) == len(second) >= _COLUMN_LINES
        and all(
            abs(a.baseline - b.baseline) < SAME_BASELINE for a, b in zip(first, second, strict=True)
        )
        and sum(len(line.text) for line in (*first, *second)) <= _CELL_CHARS * 2 * len(first)
    )


def _joined(columns: list[list[Line]]) -> list[Line]:
    """The lines of one run, or of several beside each other the rows."""
    return [
        row[0]._replace(text=" | ".join(cell.text for cell in row))
        for row in zip(*columns, strict=True)
    ]
