"""Stored texts as HTML: every character escaped, cited bytes marked, links to other texts and to
the web; Markdown, too.

Offsets are UTF-8 bytes of the stored text. Nothing that a text says becomes an element or an
attribute of its own.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from markupsafe import Markup, escape
from pyromark import events_with_range

from dagster_project.extras.web.question import CITED, PICTURES, file_of
from transforms.documents.markdown import DIALECT, parse

_ADDRESS = re.compile(rb"(?<![\w/])https?://[^\s<>\"'\x00-\x1f]*[^\s<>\"'\x00-\x1f.,;:!?)\]}]")
_FOLLOWED = re.compile(r"(?:https?://|mailto:)[^\s\x00-\x1f]+", re.IGNORECASE)
_OWN = re.compile(
    r"/(?:[acdmpt]|open)/[\w.~%-]+(?:\?[\w.~%=&+-]*)?(?:#[\w.~%/-]*)?|#[^\s\\\x00-\x1f]*", re.ASCII
)
"""As `page_of` writes addresses, and an anchor. Browsers take `/\\host` and `/<tab>/host` for
`//host`, so what else begins with a slash is not known to stay on this server.
"""


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


class Marked:
    """A stored text with its cited range and its links; in a printed one, as of a PDF, `*` and `_`
    are letters.
    """

    def __init__(
        self,
        text: str,
        cited: tuple[int, int] | None = None,
        links: Sequence[Address] = (),
        *,
        is_printed: bool = False,
    ):
        self.data, self.is_printed = text.encode(), is_printed
        self.cited = None if cited is None else self._whole_letters(*cited)
        in_text = (
            Address(*m.span(), m[0].decode(errors="replace")) for m in _ADDRESS.finditer(self.data)
        )
        self.links: list[Address] = []
        for link in sorted([*links, *in_text], key=lambda s: (s.start, -s.end)):
            if not self.links or link.start >= self.links[-1].end:
                self.links.append(link)
        self._is_anchored = False

    def html(self, start: int, end: int, *, has_links: bool = True) -> str:
        """HTML of the bytes from `start` to `end`; the first cited byte that is shown has the
        anchor `CITED`.
        """
        first = bisect_right(self.links, start, key=attrgetter("end"))
        last = bisect_left(self.links, end, key=attrgetter("start")) if has_links else 0
        if first >= last and not self.holds_cited(start, end):
            return str(escape(self.data[start:end].decode(errors="replace")))
        links = self.links[first:last]
        edges = {start, end, *(e for link in links for e in link[:2])} | set(self.cited or ())
        cuts = sorted(edge for edge in edges if start <= edge <= end)
        return "".join(
            self._piece(a, b, links) for a, b in zip(cuts, cuts[1:], strict=False) if b > a
        )

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
        before, after = (
            len(part.decode(errors="ignore").encode())
            for part in (self.data[:start], self.data[end:])
        )
        return before, len(self.data) - after


def linked(html: Markup, address: str) -> Markup:
    """A link to a page or an anchor of this server, or to an address that `followed` allows; else
    the text alone.

    Every link that a text names passes here.
    """
    if _OWN.fullmatch(address):
        return Markup('<a href="{}">{}</a>').format(address, html)
    if not followed(address):
        return html
    return Markup('<a class="away" rel="noopener noreferrer nofollow" href="{}">{}</a>').format(
        address, html
    )


def highlighted(text: str, ranges: Sequence[Sequence[int]]) -> Markup:
    """A text with the characters of some half-open ranges, which ascend, marked."""
    parts, at = [], 0
    for start, end in ranges:
        parts += [escape(text[at:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])


_CALLOUT = re.compile(rb">[ \t]*\[!([A-Za-z-]{1,20})\][+-]?[ \t]*(\r?\n)?")
"""The mark of a callout: its kind, and the end of the line if no title follows."""
_SIZE = re.compile(r"\d+(?:x\d+)?")
"""The text behind the bar of an embedded picture that is not a name: its width, or width and
height.
"""
_BESIDE = re.compile(
    rf"(?![a-z][a-z0-9+.-]*:|//)[^\x00-\x1f\\]+(?:{'|'.join(map(re.escape, PICTURES))})",
    re.IGNORECASE,
)
"""A picture in the source of the document: no scheme, no host."""
_TAGS = {
    "Paragraph": ("<p>", "</p>\n"),
    "BlockQuote": ("<blockquote>", "</blockquote>\n"),
    "Item": ("<li>", "</li>\n"),
    "Emphasis": ("<em>", "</em>"),
    "Strong": ("<strong>", "</strong>"),
    "Strikethrough": ("<del>", "</del>"),
    "CodeBlock": ("<pre><code>", "</code></pre>\n"),
    "HtmlBlock": ('<pre class="raw">', "</pre>"),
    "Table": ('<div class="wide"><table>', "</tbody></table></div>"),
    "TableRow": ("<tr>", "</tr>\n"),
    "TableHead": ("<thead><tr>", "</tr></thead><tbody>"),
    "DefinitionList": ("<dl>", "</dl>\n"),
    "DefinitionListTitle": ("<dt>", "</dt>\n"),
    "DefinitionListDefinition": ("<dd>", "</dd>\n"),
}
"""The tags before and behind what an element of Markdown holds."""
_EMPHASIS = {"Emphasis", "Strong", "Strikethrough"}
"""Elements that a printed text does not have: it shows the marks before and behind them."""


def markdown_html(
    text: Marked,
    slugs: Mapping[int, str] = {},
    targets: Mapping[int, str] = {},
    shown_of: str | None = None,
    span: tuple[int, int] | None = None,
    embeds: Mapping[int, Markup] = {},
) -> Markup:
    """The HTML of a stored text, or of a span of its bytes.

    `slugs` has the anchor of the heading that begins at a byte, `targets` the page that the link at
    a byte leads to, empty if it leads nowhere, `embeds` what to show below the block with the embed
    at a byte. Pictures beside the document `shown_of` are shown; all others are links, as all are
    if it is None. A text that nests too deep to be parsed is shown as it is.
    """
    first, last = span or (0, len(text.data))
    body = text.data[first:last].decode()
    if parse(body).defect:
        return Markup("<pre>{}</pre>").format(Markup(text.html(first, last)))
    writer = _Writer(text, slugs, targets, shown_of, embeds)
    for event, place in events_with_range(body, options=DIALECT):
        writer.add(event, place["start"] + first, place["end"] + first)
    return Markup("".join([*writer.parts, *writer.below]))


@dataclass
class _Writer:
    text: Marked
    slugs: Mapping[int, str]
    targets: Mapping[int, str]
    shown_of: str | None
    embeds: Mapping[int, Markup]
    parts: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    links: list[tuple[str, str, list[str]]] = field(default_factory=list)
    read_to: int = 0
    in_head: bool = False
    in_callout_title: bool = False

    def add(self, event: Any, start: int, end: int) -> None:
        """Write one event, whose source is the range of bytes."""
        if isinstance(event, str):
            self._mark(event, start)
            return
        ((kind, value),) = event.items()
        name, details = next(iter(value.items())) if isinstance(value, dict) else (value, None)
        match kind:
            case "Start" | "End" if name in _EMPHASIS and self.text.is_printed:
                length = 2 if name == "Strong" or self.text.data.startswith(b"~~", start) else 1
                at = start if kind == "Start" else end - length
                self.parts.append(self._plain(at, at + length))
            case "Start":
                self._open(name, details, start)
            case "End":
                self._close(name, details)
            case "Code":
                self._code(value, start, end)
            case "TaskListMarker":
                self.parts.append("☑ " if value else "☐ ")
            case "FootnoteReference":
                self.parts.append(f"<sup>{escape(value)}</sup>")
            case "Html" | "InlineHtml":
                self.parts.append(f'<span class="raw">{self.text.html(start, end)}</span>')
            case _:
                self._text(str(value), start, end)

    def _mark(self, event: str, start: int) -> None:
        """Write a break or a rule; the first break of a callout ends its title."""
        if event == "SoftBreak" and start < self.read_to:
            return
        if event == "SoftBreak" and self.in_callout_title:
            event, self.in_callout_title = "HardBreak", False
        self.parts.append({"SoftBreak": "\n", "HardBreak": "<br>", "Rule": "<hr>"}.get(event, ""))

    def _text(self, value: str, start: int, end: int) -> None:
        """A text; where the source says it in other letters, as entities do, the cited range is
        that of the source.
        """
        if start < self.read_to:
            if end > self.read_to:
                self.parts.append(self._plain(self.read_to, end))
        elif self.text.data[start:end] == value.encode():
            self.parts.append(self._plain(start, end))
        elif self.text.holds_cited(start, end):
            self.parts.append(f"<mark>{escape(value)}</mark>")
        else:
            self.parts.append(str(escape(value)))

    def _plain(self, start: int, end: int) -> str:
        return self.text.html(start, end, has_links=not self.links)  # no link is in a link

    def _code(self, value: str, start: int, end: int) -> None:
        at = self.text.data.find(value.encode(), start, end)
        inside = self._plain(at, at + len(value.encode())) if at >= 0 else str(escape(value))
        self.parts.append(f"<code>{inside}</code>")

    def _open(self, name: str, details: Any, start: int) -> None:
        match name:
            case "Heading":
                self._open_heading(int(str(details["level"])[1]), start)
            case "Link" | "Image":
                name_in_text = str(details["dest_url"])
                self.links.append((self.targets.get(start, name_in_text), name_in_text, self.parts))
                self.below += [self.embeds[start]] if start in self.embeds else []
                self.parts = []
            case "List":
                self.parts.append("<ul>" if details is None else f'<ol start="{int(details)}">')
            case "TableCell":
                self.parts.append("<th>" if self.in_head else "<td>")
            case "FootnoteDefinition":
                self.parts.append(f'<div class="footnote"><sup>{escape(details)}</sup> ')
            case "BlockQuote":
                self._open_quote(start)
            case _ if name in _TAGS:
                self.in_head = self.in_head or name == "TableHead"
                self.parts.append(_TAGS[name][0])

    def _open_heading(self, level: int, start: int) -> None:
        line = self.text.data.rfind(b"\n", 0, start) + 1
        slug = self.slugs.get(start) or self.slugs.get(line)
        anchor = f' id="{escape(slug)}"' if slug else ""
        self.parts.append(f"<h{min(6, level + 1)}{anchor}>")

    def _open_quote(self, start: int) -> None:
        """Begin a quote, or a callout of Obsidian with its kind."""
        match = _CALLOUT.match(self.text.data, start)
        self.in_callout_title = match is not None and match[2] is None
        if match is None:
            self.parts.append(_TAGS["BlockQuote"][0])
            return
        self.read_to = match.end()
        kind, titled = match[1].decode(), "" if match[2] else " titled"
        start_tag = f'<blockquote class="callout{titled} callout-{kind.lower()}">'
        self.parts.append(f'{start_tag}<span class="kind">{kind}</span>')

    def _close(self, name: str, details: Any) -> None:
        match name:
            case "Heading":
                self.parts.append(f"</h{min(6, int(str(details)[1]) + 1)}>\n")
            case "Link" | "Image":
                self._close_link(is_image=name == "Image")
            case "List":
                self.parts.append("</ol>" if details else "</ul>")
            case "TableCell":
                self.parts.append("</th>" if self.in_head else "</td>")
            case "FootnoteDefinition":
                self.parts.append("</div>")
            case "Item":
                below, self.below = self.below, []
                self.parts += [*below, _TAGS[name][1]]
            case "Paragraph":
                below, self.below = self.below, []
                self.parts += [_TAGS[name][1], *below]
            case _ if name in _TAGS:
                self.in_head = self.in_head and name != "TableHead"
                self.parts.append(_TAGS[name][1])

    def _close_link(self, *, is_image: bool) -> None:
        address, name_in_text, before = self.links.pop()
        text = Markup("".join(self.parts))
        if not text or (is_image and _SIZE.fullmatch(text)):
            text = escape(name_in_text)
        html = str(text) if self.links else str(linked(text, address))
        if not address:
            html = f'<span class="missing">{html}</span>'
        if is_image and self.shown_of and _BESIDE.fullmatch(name_in_text):
            source = escape(file_of("document", self.shown_of, name_in_text))
            alt = text.striptags()
            html = f'<img class="picture" loading="lazy" src="{source}" alt="{alt}">'
        is_picture = is_image and not self.below
        self.parts = [*before, f'<span class="image">{html}</span>' if is_picture else html]
