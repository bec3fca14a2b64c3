"""Books (EPUB) and notebooks of Jupyter to Markdown."""

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from transforms.formats.converted import DC, Converted, FormatError, Zipped
from transforms.formats.html_markdown import html_markdown
from transforms.text.charsets import decode_text, percent_decoded

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"
_PAGES = {"application/xhtml+xml", "text/html"}
_FENCE = re.compile(r"^`{3,}", re.MULTILINE)
_OUTPUT_CHARS = 4000
"""Characters of one output of a cell that are kept: logs of training run to megabytes."""


def epub_markdown(data: bytes) -> Converted:
    """A book as Markdown: the chapters in the order of its spine, without the table of contents."""
    zipped = Zipped(data)
    rootfile = zipped.xml("META-INF/container.xml").find(f".//{_CONTAINER}rootfile")
    package_name = "" if rootfile is None else rootfile.get("full-path", "")
    package = zipped.xml(package_name)
    items = {item.get("id"): item for item in package.iterfind(f"{_OPF}manifest/{_OPF}item")}
    parts, defects = [], []
    for reference in package.iterfind(f"{_OPF}spine/{_OPF}itemref"):
        item = items.get(reference.get("idref"))
        is_page = item is not None and item.get("media-type") in _PAGES
        if item is None or not is_page or "nav" in item.get("properties", "").split():
            continue
        place = posixpath.join(
            posixpath.dirname(package_name), percent_decoded(item.get("href", ""))
        )
        name = posixpath.normpath(place)
        if name not in zipped.names:
            defects.append(f"missing_chapter: {name}")
            continue
        converted = html_markdown(decode_text(zipped.read(name), "utf-8").text, has_pictures=False)
        if converted is None:
            defects.append(f"unreadable_chapter: {name}")
            continue
        parts.append(converted.text.strip())
        defects += converted.defects
    converted = Converted("\n\n".join(filter(None, parts)) + "\n", defects)
    return zipped.described(
        converted, package_name, {"title": f"{DC}title", "created": f"{DC}date"}
    )


def notebook_markdown(data: bytes) -> Converted:
    """A notebook as Markdown: its texts, its code in fences, and its output as text; no pictures."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        metadata = notebook.get("metadata", {})
        names = (
            metadata.get("language_info", {}).get("name"),
            metadata.get("kernelspec", {}).get("language"),
        )
        language = next(filter(None, names), "")
        text = "\n\n".join(
            part for cell in cells for part in _cell(cell, str(language)) if part.strip()
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise FormatError(
            f"unreadable: it is no notebook ({type(error).__name__}: {error})"
        ) from error
    title = metadata.get("title")
    return Converted(text + "\n", [], title if isinstance(title, str) else None)


def _cell(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") in ("markdown", "heading"):
        yield (
            f"{'#' * int(cell.get('level', 1))} {source}"
            if cell["cell_type"] == "heading"
            else source
        )
    elif cell.get("cell_type") == "code":
        yield _fenced(source, language)
        for output in cell.get("outputs", ()):
            text = (
                output.get("text")
                or output.get("data", {}).get("text/plain")
                or output.get("evalue")
                or ""
            )
            yield _fenced(_joined(text)[:_OUTPUT_CHARS], "text")
    else:
        yield _fenced(source, "")


def _fenced(text: str, language: str) -> str:
    """A text as code; empty if it is blank."""
    if not text.strip():
        return ""
    fence = max(["```", *(f"{run}`" for run in _FENCE.findall(text))], key=len)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _joined(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)
