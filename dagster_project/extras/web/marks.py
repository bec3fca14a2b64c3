"""Stored texts as HTML: every character escaped, cited bytes marked, links to other texts and to the web.

Offsets are UTF-8 bytes of the stored text. Nothing that a text says becomes an element or an attribute of its own.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from dagster_project.extras.web.question import CITED

_ADDRESS = re.compile(rb"(?<![\w/])https?://[^\s<>\"'\x00-\x1f]*[^\s<>\"'\x00-\x1f.,;:!?)\]}]")
_FOLLOWED = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
_OWN = re.compile(
    r"/(?:[acdmpt]|open)/[\w.~%-]+(?:\?[\w.~%=&+-]*)?(?:#[\w.~%/-]*)?|#[^\s\\\x00-\x1f]*", re.ASCII
)
"""As `page_of` writes addresses, and an anchor. Browsers take `/\\host` and `/<tab>/host` for `//host`, so what else begins
with a slash is not known to stay on this server."""


class Address(NamedTuple):
    """A half-open range of bytes that leads to an address."""

    start: int
    end: int
    address: str


def followed(address: str) -> bool:
    """True for an address of the web or of a mailbox; every other scheme stays text.

    >>> [followed(a) for a in ("https://x.org/", "mailto:a@b", "javascript:alert(1)", " data:text/html,x")]
    [True, True, False, False]
    """
    return _FOLLOWED.fullmatch(address) is not None


def web_addresses(data: bytes) -> list[Address]:
    """The addresses of the web that stand in a text."""
    return [Address(m.start(), m.end(), m[0].decode(errors="replace")) for m in _ADDRESS.finditer(data)]


class Marked:
    """A stored text with its cited range and its links."""

    def __init__(self, text: str, cited: tuple[int, int] | None = None, links: Sequence[Address] = ()):
        self.data = text.encode()
        self.cited = None if cited is None else self._whole_letters(*cited)
        self.links = _apart(sorted([*links, *web_addresses(self.data)], key=lambda s: (s.start, -s.end)))
        self._starts = [link.start for link in self.links]
        self._ends = [link.end for link in self.links]
        self._is_anchored = False

    def html(self, start: int, end: int, *, has_links: bool = True) -> str:
        """HTML of the bytes from `start` to `end`; the first cited byte that is shown has the anchor `CITED`."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end) if has_links else 0
        if first >= last and not self.holds_cited(start, end):
            return str(escape(self.data[start:end].decode(errors="replace")))
        links = self.links[first:last]
        edges = {start, end, *(e for link in links for e in link[:2])} | set(self.cited or ())
        cuts = sorted(edge for edge in edges if start <= edge <= end)
        return "".join(self._piece(a, b, links) for a, b in zip(cuts, cuts[1:], strict=False) if b > a)

    def holds_cited(self, start: int, end: int) -> bool:
        """True if cited bytes lie in the range."""
        return self.cited is not None and self.cited[0] < end and self.cited[1] > start

    def _piece(self, start: int, end: int, links: Sequence[Address]) -> Markup:
        html = escape(self.data[start:end].decode(errors="replace"))
        if self.holds_cited(start, end):
            anchor = "" if self._is_anchored else f' id="{CITED}"'
            self._is_anchored = True
            html = Markup("<mark{}>{}</mark>").format(Markup(anchor), html)
        for link in links:
            if link.start <= start and end <= link.end:
                return linked(html, link.address)
        return html

    def _whole_letters(self, start: int, end: int) -> tuple[int, int]:
        """A range in the text that cuts no letter."""
        end = min(end, len(self.data))
        start = min(start, end)
        while start and start < len(self.data) and self.data[start] & 0xC0 == 0x80:
            start -= 1
        while end < len(self.data) and self.data[end] & 0xC0 == 0x80:
            end += 1
        return start, end


def linked(html: Markup, address: str) -> Markup:
    """A link to a page or an anchor of this server, or to an address that `followed` allows; else the text alone.

    Every link that a text names passes here.
    """
    if _OWN.fullmatch(address):
        return Markup('<a href="{}">{}</a>').format(address, html)
    if not followed(address):
        return html
    return Markup('<a class="away" rel="noopener noreferrer nofollow" href="{}">{}</a>').format(address, html)


def highlighted(text: str, ranges: Sequence[Sequence[int]]) -> Markup:
    """A text with the characters of some half-open ranges, which ascend, marked."""
    parts, at = [], 0
    for start, end in ranges:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


def _apart(links: Sequence[Address]) -> list[Address]:
    """The links without those that overlap an earlier one."""
    result: list[Address] = []
    for link in links:
        if not result or link.start >= result[-1].end:
            result.append(link)
    return result
