"""HTML pages to Markdown, the input of nodes, links and chunks."""

from __future__ import annotations

import re

from html_to_markdown import ConversionError, ConversionOptions, convert
from selectolax.lexbor import LexborHTMLParser

from transforms.formats.converted import Converted
from transforms.text.shallow_markup import shallow_markup

_OPTIONS = ConversionOptions(extract_metadata=False, bullets="-")
_WITHOUT_PICTURES = ConversionOptions(extract_metadata=False, bullets="-", skip_images=True)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_PRESCAN_BYTES = 1024
"""Bytes in which a page says its charset (WHATWG HTML, 13.2.3.2)."""


def html_markdown(markup: str, *, has_pictures: bool = True) -> Converted | None:
    """The page as Markdown; None if the converter gives up. Scripts, styles and navigation are dropped."""
    try:
        result = convert(shallow_markup(markup), _OPTIONS if has_pictures else _WITHOUT_PICTURES)
    except ConversionError:
        return None
    defects = [w.message for w in result.warnings if str(w.kind) == "depth_limit_exceeded"]
    return Converted(result.content or "", [f"nesting_too_deep: {message}" for message in defects])


def html_title(markup: str) -> str | None:
    """The text of the page's title element, None if there is none."""
    node = LexborHTMLParser(shallow_markup(markup)).css_first("head > title")
    return None if node is None else " ".join(node.text().split()) or None


def html_charset(data: bytes) -> str | None:
    """The charset that the page declares, as written."""
    match = _CHARSET.search(data, 0, _PRESCAN_BYTES)
    return match[1].decode() if match else None
