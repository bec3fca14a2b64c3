"""PDF, office, book, notebook and picture files for tests, made byte by byte from the descriptions
of their formats.
"""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

_OFFICE = "http://schemas.openxmlformats.org"
_DOCUMENT = "application/vnd.openxmlformats-officedocument"
_RELATIONS = f"{_OFFICE}/officeDocument/2006/relationships"
_PACKAGE = f"{_OFFICE}/package/2006"


_BOLD = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>"


class Text(NamedTuple):
    """A line of a page: text, size in points, distance from the left and from the foot; `turned`
    goes upwards.
    """

    text: str
    size: float = 10
    x: float = 72
    y: float = 700
    turned: bool = False
    bold: bool = False


def picture(*lines: str, kind: str = "PNG") -> bytes:
    image = Image.new("L", (1400, 100 + 90 * len(lines)), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((60, 50 + 90 * number), line, fill=0, font=ImageFont.load_default(48))
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def page_of(*paragraphs: str, number: int | None = None, head: str | None = None) -> list[Text]:
    """A page with a running head, paragraphs of one line and a page number."""
    lines = [Text(head, y=760)] if head else []
    lines += [Text(text, y=650 - 30 * n) for n, text in enumerate(paragraphs)]
    return lines + ([Text(str(number), x=300, y=40)] if number is not None else [])


def pdf(
    pages: Sequence[Sequence[Text] | bytes],
    title: str | None = None,
    outline: Sequence[tuple[str, int]] = (),
    created: str = "",
) -> bytes:
    """A PDF whose pages hold lines of text, or a picture (JPEG); an outline of titles and page
    indices.
    """
    objects: list[bytes] = [b""] * 4
    kids = []
    for page in pages:
        if isinstance(page, bytes):
            with Image.open(io.BytesIO(page)) as image:
                size = b"/Width %d /Height %d" % image.size
            objects.append(
                _stream(
                    b"/Type /XObject /Subtype /Image /ColorSpace /DeviceGray /BitsPerComponent 8 "
                    b"/Filter /DCTDecode " + size,
                    page,
                )
            )
            content, used = (
                b"q 500 0 0 300 50 400 cm /I Do Q",
                b"/XObject << /I %d 0 R >>" % len(objects),
            )
        else:
            content, used = b"\n".join(map(_shown, page)), b""
        objects.append(_stream(b"", content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F 3 0 R /B %s >> %s >> >>" % (len(objects), _BOLD, used)
        )
        kids.append(len(objects))
    first = len(objects) + 1
    for at, (name, number) in enumerate(outline):
        link = b"/Next %d 0 R" % (first + at + 1) if at + 1 < len(outline) else b""
        objects.append(
            b"<< /Title (%s) /Parent 4 0 R /Dest [%d 0 R /Fit] %s >>"
            % (_escaped(name), kids[number], link)
        )
    objects[0] = (
        b"<< /Type /Catalog /Pages 2 0 R" + (b" /Outlines 4 0 R" if outline else b"") + b" >>"
    )
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (
        len(kids),
        b" ".join(b"%d 0 R" % k for k in kids),
    )
    objects[2] = (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    )
    objects[3] = b"<< /Type /Outlines /First %d 0 R /Last %d 0 R /Count %d >>" % (
        first,
        len(objects),
        len(outline),
    )
    if not outline:
        objects[3] = b"<< >>"
    objects.append(
        b"<< /Title (%s) /CreationDate (%s) >>" % (_escaped(title or ""), _escaped(created))
    )
    return _file(objects)


def _file(objects: Sequence[bytes]) -> bytes:
    data, places = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    at = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    data += b"".join(b"%010d 00000 n \n" % place for place in places)
    data += b"trailer << /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        len(objects),
        at,
    )
    return bytes(data)


def _stream(entries: bytes, data: bytes) -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(data), data)


def _shown(line: Text) -> bytes:
    matrix = b"0 1 -1 0" if line.turned else b"1 0 0 1"
    font = b"/B" if line.bold else b"/F"
    return b"BT %s %.1f Tf %s %.1f %.1f Tm (%s) Tj ET" % (
        font,
        line.size,
        matrix,
        line.x,
        line.y,
        _escaped(line.text),
    )


def _escaped(text: str) -> bytes:
    return text.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def zipped(members: Mapping[str, str | bytes], pack: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", pack) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content, pack)
    return out.getvalue()


def _relations(*targets: tuple[str, str]) -> str:
    entries = "".join(
        f'<Relationship Id="rId{n}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{entries}</Relationships>'


def _types(**parts: str) -> str:
    entries = "".join(
        f'<Override PartName="/{name}" ContentType="{_DOCUMENT}.{kind}+xml"/>'
        for name, kind in parts.items()
    )
    return (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
        f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{entries}</Types>'
    )


def docx(body: str, title: str = "", created: str = "", styles: str = "") -> bytes:
    """A text of Word with this body and further styles; `paragraph` makes its paragraphs."""
    word = f"{_OFFICE}/wordprocessingml/2006/main"
    return zipped(
        {
            "[Content_Types].xml": _types(
                **{"word/document.xml": "wordprocessingml.document.main"}
            ),
            "_rels/.rels": _relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="{word}"><w:body>{body}</w:body></w:document>',
            "word/styles.xml": f'<w:styles xmlns:w="{word}">'
            + "".join(
                f'<w:style w:type="paragraph" w:styleId="{style.replace(" ", "")}"><w:name w:val="{style}"/></w:style>'
                for style in ("Title", "heading 1", "heading 2")
            )
            + styles
            + "</w:styles>",
            "word/_rels/document.xml.rels": _relations(("styles", "styles.xml")),
            "docProps/core.xml": _core(title, created),
        }
    )


def _core(title: str, created: str) -> str:
    stamp = (
        f'<t:created xmlns:t="http://purl.org/dc/terms/">{created}</t:created>' if created else ""
    )
    return (
        f'<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title>{stamp}</cp:coreProperties>'
    )


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style.replace(" ", "")}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def word_table(rows: Sequence[Sequence[str]]) -> str:
    cells = ("".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def pptx(slides: Sequence[tuple[str, str]], notes: str = "") -> bytes:
    main, drawing = f"{_OFFICE}/presentationml/2006/main", f"{_OFFICE}/drawingml/2006/main"
    spaces = f'xmlns:p="{main}" xmlns:a="{drawing}" xmlns:r="{_RELATIONS}"'

    def shape(kind: str, text: str) -> str:
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:cNvSpPr/><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
            f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
        )

    members = {
        "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>"
        + "".join(f'<p:sldId id="{n}" r:id="rId{n}"/>' for n in range(1, len(slides) + 1))
        + "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations(
            *(("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1))
        ),
    }
    for number, (title, text) in enumerate(slides, 1):
        shapes = shape("body", text) + shape("sldNum", str(number)) + shape("title", title)
        members[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {spaces}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
    if notes:
        members["ppt/slides/_rels/slide1.xml.rels"] = _relations(
            ("notesSlide", "../notesSlides/notesSlide1.xml")
        )
        members["ppt/notesSlides/notesSlide1.xml"] = (
            f"<p:notes {spaces}><p:cSld><p:spTree>{shape('body', notes)}</p:spTree></p:cSld></p:notes>"
        )
    return zipped(members)


def xlsx(sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> bytes:
    main = f"{_OFFICE}/spreadsheetml/2006/main"
    members = {
        "[Content_Types].xml": _types(**{"xl/workbook.xml": "spreadsheetml.sheet.main"}),
        "_rels/.rels": _relations(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{_RELATIONS}"><sheets>'
        + "".join(
            f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>'
            for n, name in enumerate(sheets, 1)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _relations(
            *(("worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1))
        ),
    }
    for number, rows in enumerate(sheets.values(), 1):
        lines = ""
        for row, values in enumerate(rows, 1):
            cells = (
                f'<c r="{chr(65 + n)}{row}"><v>{value}</v></c>'
                if isinstance(value, int | float)
                else f'<c r="{chr(65 + n)}{row}" t="inlineStr"><is><t>{value}</t></is></c>'
                for n, value in enumerate(values)
            )
            lines += f'<row r="{row}">{"".join(cells)}</row>'
        members[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
        )
    return zipped(members)


def opendocument(body: str, title: str = "") -> bytes:
    """A file of LibreOffice with this body, as `<office:text>…</office:text>`."""
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(
        f'xmlns:{name}="{oasis}:{space}:1.0"'
        for name, space in (
            ("office", "office"),
            ("text", "text"),
            ("table", "table"),
            ("draw", "drawing"),
            ("presentation", "presentation"),
        )
    )
    return zipped(
        {
            "content.xml": f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>",
            "meta.xml": f'<office:document-meta {spaces} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
            f"<dc:title>{title}</dc:title></office:meta></office:document-meta>",
        }
    )


def epub(chapters: Mapping[str, str], title: str = "") -> bytes:
    """A book of chapters (XHTML) by their names."""
    items = "".join(
        f'<item id="c{n}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>'
        for n, name in enumerate(chapters)
    )
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        f'<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></metadata>'
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>'
        '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    return zipped(
        {"META-INF/container.xml": container, "OPS/book.opf": package}
        | {f"OPS/{name}": text for name, text in chapters.items()}
    )


def notebook(*cells: tuple[str, str], printed: str = "") -> bytes:
    """A notebook of cells of a kind (markdown, code, raw); the last one printed something."""
    rows: list[dict[str, object]] = [
        {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": []}
        for kind, source in cells
    ]
    if printed:
        rows[-1]["outputs"] = [{"output_type": "stream", "text": [printed]}]
    return json.dumps(
        {"cells": rows, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4}
    ).encode()
