"""Markdown as data: the blocks, links and comments of one text, with UTF-8 byte offsets.

This module makes one pass over the events of a CommonMark parser. Other modules build
tables of documents, heading trees and chunks from the results of `parse`.
"""

import re
from bisect import bisect_right
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
from pyromark import Options, events_with_range

DIALECT = (
    Options.ENABLE_TABLES
    | Options.ENABLE_FOOTNOTES
    | Options.ENABLE_STRIKETHROUGH
    | Options.ENABLE_TASKLISTS
    | Options.ENABLE_WIKILINKS
)
"""CommonMark with the additions of GitHub and Obsidian. Metadata blocks stay off: `frontmatter`
reads them.
"""

MAX_NESTING = 1000
"""Quotes and lists one line may open; the parser's time grows with lines times depth."""

_KINDS = {
    "Paragraph": "paragraph",
    "Heading": "heading",
    "BlockQuote": "quote",
    "CodeBlock": "code",
    "HtmlBlock": "html",
    "List": "list",
    "Item": "item",
    "Table": "table",
    "FootnoteDefinition": "footnote",
}
_CONTAINERS = frozenset({"quote", "list", "item", "footnote"})
_CODE_SIGNS = (b"    ", b"```", b"~~~", b"\t")
_NESTED_LINKS = 4
"""Nested images that get a text; each level repeats the text of the levels inside."""
_BREAKS = frozenset({"SoftBreak", "HardBreak"})
_TOO_DEEP = re.compile(
    rb"^(?:[ \t]*(?:>|[-+*][ \t]|\d{1,9}[.)][ \t])){%d}" % MAX_NESTING, re.MULTILINE
)
_COMMENT = re.compile(
    rb"^%%[ \t]*\r?\n(?:.*\n)*?.*%%[ \t]*(?=\r?\n|\Z)|%%(?:[^%\r\n]++|%(?!%)|\r?\n(?![ \t]*\r?\n))*+%%",
    re.MULTILINE,
)
_NOT_NEWLINE = re.compile(rb"[^\r\n]")
_BADGE = (
    rb"\[?!\[[^\]\r\n]{0,200}\]\([^)\r\n]{0,300}?(?:badge|shields\.io)[^)\r\n]{0,300}\)"
    rb"(?:\]\([^)\r\n]{0,300}\))?[ \t]{0,8}"
)
_DECORATION = re.compile(
    rb"`[^`\r\n]{1,200}`|(?P<sign>"
    rb"<(?P<tag>span|i|svg)\b[^<>]{0,200}\bclass=[\"'][^<>\"']{0,100}\bicon\b[^<>]{0,200}>[^<>]{0,80}</(?P=tag)>"
    rb"|!\[\[[^\]|\r\n]{1,200}#icon[^\]\r\n]{0,100}\]\]"
    rb"|^[ \t]{0,3}(?:" + _BADGE + rb"){1,30}(?=\r?$))",
    re.MULTILINE,
)
"""Inline code, or a sign that is not text: an icon of HTML or of a note, a line of badges."""
_OF_DECORATIONS = ("icon", "badge", "shields.io")
"""One of these is in each sign."""


class MarkdownBlock(NamedTuple):
    """One block of a text.

    `kind` is heading, paragraph, list, item, quote, code, table, html, rule or footnote. The range
    is half-open. That of a heading, and of every block that is in no other (`depth` 0), covers
    whole lines, line end included; that of a block inside a list, item, quote or footnote begins
    behind the marks of those. `depth` counts the blocks around it. `level` is 1 to 6 for headings,
    else 0. `text` is the plain text of a heading with its code spans, the info string of a code
    block, the label of a footnote, else empty. `fenced` says how a code block is written.
    """

    kind: str
    start: int
    end: int
    depth: int = 0
    level: int = 0
    text: str = ""
    fenced: bool = False


class Link(NamedTuple):
    """One link or image, and the half-open byte range of all of it.

    `kind` is wiki, embed (`![[…]]`), markdown, image or url (an autolink). `target` is the
    destination as the parser unescapes it, `text` the plain text or alternative text.
    """

    kind: str
    start: int
    end: int
    target: str
    text: str


class Markdown(NamedTuple):
    """A parsed text.

    `blocks` in document order, containers before their content; `links` by where they begin.
    `opaque` are the ranges of code, HTML, links and images, in which tags and comments do not
    count; `comments` those of Obsidian's `%%…%%` and of HTML's `<!--…-->`. Headings and links
    inside comments are left out. `defect` is `nesting_too_deep` for a text that is returned as one
    paragraph, else None.
    """

    blocks: list[MarkdownBlock]
    links: list[Link]
    opaque: list[tuple[int, int]]
    comments: list[tuple[int, int]]
    defect: str | None = None

    @property
    def headings(self) -> list[MarkdownBlock]:
        """The headings in document order."""
        return [block for block in self.blocks if block.kind == "heading"]


def parse(text: str, body_start: int = 0, *, notes: bool = True) -> Markdown:
    """The blocks, links and comments of `text` from byte `body_start` on; offsets count from byte
    0.

    Blocks are found by pulldown-cmark (CommonMark 0.31, tables, footnotes, task lists). Without
    `notes` it looks for no wiki links, embeds and `%%comments%%`, as in text that nobody wrote for
    Obsidian.
    """
    data = text.encode()
    body = data[body_start:]
    if _is_too_deep(body):
        paragraph = MarkdownBlock("paragraph", body_start, len(data))
        return Markdown([paragraph], [], [], [], "nesting_too_deep")
    scan = _Scan(data, body_start)
    scan.run(
        body.decode() if body_start else text,
        DIALECT if notes else DIALECT & ~Options.ENABLE_WIKILINKS,
    )
    comments = _html_comments(data, scan.html)
    if notes:
        plain = masked(data, scan.opaque) if data.count(b"%%", body_start) > 1 else b""
        of_notes = [match.span() for match in _COMMENT.finditer(plain, body_start)]
        comments = sorted(
            [*(span for span in comments if not _inside(span[0], of_notes)), *of_notes]
        )
    blocks, links = scan.blocks, scan.links
    links.sort(key=lambda link: (link.start, -link.end))
    if comments:
        blocks = [b for b in blocks if b.kind != "heading" or not _inside(b.start, comments)]
        links = [link for link in links if not _inside(link.start, comments)]
    return Markdown(blocks, links, scan.opaque, comments)


class Outline(NamedTuple):
    """The outermost blocks of a text, and its code.

    `starts` are the bytes at which the outermost blocks begin, on whole lines, `kinds` their kinds
    (see `MarkdownBlock`). `code` are the half-open ranges of all code blocks, outermost or not,
    each with True if it is fenced.
    """

    starts: list[int]
    kinds: list[str]
    code: list[tuple[int, int, bool]]


def _begun(event: Any) -> tuple[str | None, Any]:
    """The kind and the tag of a block that an event begins, if it begins one."""
    if type(event) is str:
        return ("rule" if event == "Rule" else None), None
    tag = event.get("Start")
    return (_KINDS.get(tag if type(tag) is str else next(iter(tag))) if tag else None), tag


def outline(text: str, body_start: int = 0) -> Outline:
    """The outermost blocks of `text` from byte `body_start` on, as `parse` finds them, in a fifth
    of the time.

    It passes over the inside of a block by its range; it looks only into a list, quote or footnote
    that holds a fence or an indented line, for the code in it.
    """
    data = text.encode()
    body = data[body_start:]
    result = Outline([], [], [])
    if _is_too_deep(body):
        return result
    skip_to = inner_end = 0
    for event, span in events_with_range(body.decode() if body_start else text, options=DIALECT):
        start = span["start"]
        if start < skip_to:
            continue
        kind, tag = _begun(event)
        if kind is None:
            continue
        end = span["end"]
        if kind == "code":
            result.code.append(
                (start + body_start, end + body_start, type(tag["CodeBlock"]) is dict)
            )
        if start >= inner_end:
            while start and body[start - 1] not in b"\r\n":
                start -= 1
            result.starts.append(start + body_start)
            result.kinds.append(kind)
            if kind in _CONTAINERS and any(
                body.find(sign, start, end) >= 0 for sign in _CODE_SIGNS
            ):
                inner_end = end
        if start >= inner_end or kind not in _CONTAINERS:
            skip_to = end
    return result


def closing_fence(text: str) -> str:
    """The line that closes the fenced code at whose end a text was cut off; empty if none is open
    there.
    """
    data, blocks = text.encode(), outline(text)
    if not blocks.kinds or blocks.kinds[-1] != "code" or not blocks.code[-1][2]:
        return ""
    first, *lines = data[blocks.starts[-1] :].decode().lstrip(" ").splitlines()
    fence = first[: len(first) - len(first.lstrip(first[0]))]
    last = lines[-1].strip() if lines else ""
    return "" if last.startswith(fence) and not last.strip(fence[0]) else fence


def unread_ranges(text: str, body_start: int, code: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges behind byte `body_start` that are not text: comments, as `parse` gives them, icons
    and lines of badges.

    `code` are the ranges of code blocks. The text is parsed only if something outside them looks
    like a comment; inline code, for instance, can only make them fewer.
    """
    plain = masked(text.encode(), code)
    has_comments = "<!--" in text or (
        text.count("%%") > 1 and _COMMENT.search(plain, body_start) is not None
    )
    ranges = parse(text, body_start).comments if has_comments else []
    if not any(word in text for word in _OF_DECORATIONS):
        return ranges
    signs = (match.span("sign") for match in _DECORATION.finditer(plain, body_start))
    own = [(start, end) for start, end in signs if start >= 0 and not _inside(start, ranges)]
    return sorted([*ranges, *(span for span in own if not _inside(span[1] - 1, ranges))])


def _is_too_deep(body: bytes) -> bool:
    """True if a line opens more than `MAX_NESTING` quotes and lists; it has to be that long at
    least.
    """
    edges = np.flatnonzero(np.frombuffer(body + b"\n", np.uint8) == ord("\n"))
    longest = max(int(edges[0]), int((edges[1:] - edges[:-1]).max(initial=0)))
    return longest >= MAX_NESTING and _TOO_DEEP.search(body) is not None


def masked(data: bytes, ranges: list[tuple[int, int]]) -> bytes:
    """`data` with the ranges, which are in order, blanked out; its length and line ends stay."""
    out, at = [], 0
    for start, end in ranges:
        if end > at:
            start = max(start, at)
            out.append(data[at:start])
            out.append(_NOT_NEWLINE.sub(b" ", data[start:end]))
            at = end
    out.append(data[at:])
    return b"".join(out)


class _Scan:
    """One pass over the parser's events."""

    def __init__(self, data: bytes, shift: int) -> None:
        self.data = data
        self.shift = shift
        self.blocks: list[MarkdownBlock] = []
        self.links: list[Link] = []
        self.opaque: list[tuple[int, int]] = []
        self.html: list[tuple[int, int]] = []
        self.open_links: list[tuple[str, str, list[str]]] = []
        self.heading: list[str] | None = None
        self.depth = 0
        self.covered = 0

    def run(self, body: str, dialect: Options) -> None:
        """All events of `body`, whose first byte is byte `shift` of the data."""
        shift = self.shift
        for event, span in events_with_range(body, options=dialect):
            if isinstance(event, str):
                if event in _BREAKS:
                    self._inline(" ")
                elif event == "Rule":
                    self._block("rule", span["start"] + shift, span["end"] + shift, None)
                continue
            kind, value = next(iter(cast("dict[str, Any]", event).items()))
            if kind == "Text":
                if self.heading is not None or self.open_links:
                    self._inline(value)
            elif kind == "Start":
                self._start(value, span["start"] + shift, span["end"] + shift)
            elif kind == "End":
                self._end(value, span["start"] + shift, span["end"] + shift)
            elif kind == "Code":
                self._inline(value)
                self.opaque.append((span["start"] + shift, span["end"] + shift))
            elif kind == "InlineHtml":
                self.opaque.append((span["start"] + shift, span["end"] + shift))
                self.html.append(self.opaque[-1])

    def _inline(self, text: str) -> None:
        if self.heading is not None:
            self.heading.append(text)
        for _, _, texts in self.open_links[:_NESTED_LINKS]:
            texts.append(text)

    def _start(self, value: Any, start: int, end: int) -> None:
        name, detail = _name_and_detail(value)
        if name in ("Link", "Image"):
            if not self.open_links:
                self.opaque.append((start, end))
            self.open_links.append((_link_kind(name, detail["link_type"]), detail["dest_url"], []))
        elif (kind := _KINDS.get(name)) is not None:
            if kind == "heading":
                self.heading = []
            elif kind in ("code", "html"):
                self.opaque.append((start, end))
                self.html += [(start, end)] if kind == "html" else []
            if kind != "heading":
                self._block(kind, start, end, detail)
            if kind in _CONTAINERS:
                self.depth += 1

    def _end(self, value: Any, start: int, end: int) -> None:
        name, detail = _name_and_detail(value)
        if name in ("Link", "Image"):
            kind, target, texts = self.open_links.pop()
            self.links.append(Link(kind, start, end, target, " ".join("".join(texts).split())))
        elif name == "Heading":
            text = " ".join("".join(self.heading or ()).split())
            self.heading = None
            start, end = self._whole_lines(start, end)
            self.blocks.append(
                MarkdownBlock("heading", start, end, self.depth, int(detail[1]), text)
            )
        elif _KINDS.get(name) in _CONTAINERS:
            self.depth -= 1

    def _block(self, kind: str, start: int, end: int, detail: Any) -> None:
        if not self.depth:
            start, end = self._whole_lines(start, end)
            if start < self.covered:  # a second footnote on one line is part of the first
                return
            self.covered = end
        fenced = kind == "code" and isinstance(detail, dict)
        info = detail["Fenced"] if fenced else detail if kind == "footnote" else ""
        self.blocks.append(MarkdownBlock(kind, start, end, self.depth, 0, info, fenced))

    def _whole_lines(self, start: int, end: int) -> tuple[int, int]:
        """The range widened to whole lines; a carriage return alone ends a line too (CommonMark
        2.1).
        """
        data = self.data
        while start > self.shift and data[start - 1] not in b"\r\n":
            start -= 1
        while end < len(data) and data[end - 1] not in b"\r\n":
            end += 1
        if data[end - 1 : end + 1] == b"\r\n":
            end += 1
        return start, end


def _name_and_detail(value: Any) -> tuple[str, Any]:
    """The name and the detail of a tag, which is a name alone or a dictionary with one key."""
    return (value, None) if isinstance(value, str) else next(iter(value.items()))


def _link_kind(name: str, link_type: Any) -> str:
    if isinstance(link_type, dict):
        return "wiki" if name == "Link" else "embed"
    if link_type in ("Autolink", "Email"):
        return "url"
    return "markdown" if name == "Link" else "image"


def _html_comments(data: bytes, html: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans = []
    for start, end in html:
        # One that nothing closes is looked through once: a pattern would start again behind each
        # opening.
        while (begin := data.find(b"<!--", start, end)) >= 0 and (
            close := data.find(b"-->", begin + 4, end)
        ) >= 0:
            start = close + 3
            spans.append((begin, start))
    return spans


def _inside(offset: int, ranges: list[tuple[int, int]]) -> bool:
    """True if the place is in one of the ranges, which are in order and disjoint."""
    at = bisect_right(ranges, offset, key=itemgetter(1))
    return at < len(ranges) and ranges[at][0] <= offset
