"""HTML whose elements nest no deeper than a reader needs: the time of parsers grows with the square
of the depth.

Depth is counted with fewer rules than HTML has. An end tag that HTML may ignore closes nothing
here, so that the count is never too low; on a malformed page it may be too high.
"""

import re
from collections import Counter

MAX_LEVELS = 512
"""Elements inside each other; browsers stop there, too."""
MAX_FORMATS = 16
"""Elements of fonts that are open at once: HTML opens each of them again in every paragraph."""
MAX_INDENTS = 64
"""Quotes and lists inside each other: each line of such a text repeats the marks of all."""
MAX_ATTRIBUTES = 64
"""Attributes of an element: a parser compares each with all before it."""
_FEW_CHARS = 1024
"""A tag or page of fewer characters needs no second look."""

_BLANK = r"[ \t\n\f\r]"
_ATTRIBUTE = (
    rf"(?:{_BLANK}|/)*+[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
    rf"(?:{_BLANK}*+={_BLANK}*+(?:\"[^\"]*+\"|'[^']*+'|[^ \t\n\f\r\"'>][^ \t\n\f\r>]*+|(?=>)))?+"
)
_TAG = re.compile(r"<(?:(!--)|(/?)([A-Za-z][^ \t\n\f\r/>]*+))")
_ATTRIBUTES = re.compile(rf"(?:{_ATTRIBUTE})*+((?:{_BLANK}|/)*+)>")
_FIRST_ATTRIBUTES = re.compile(rf"(?:{_ATTRIBUTE}){{{MAX_ATTRIBUTES}}}")
_COMMENT_END = re.compile("--!?>")
_RAW = {
    name: re.compile(rf"</{name}(?=[ \t\n\f\r/>])", re.IGNORECASE | re.ASCII)
    for name in ("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes")
}
"""Elements whose content is not markup, and the tag that ends it."""

_VOID = frozenset(
    {
        "area",
        "base",
        "basefont",
        "bgsound",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "image",
        "img",
        "input",
        "keygen",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
        "html",
        "head",
        "body",
    }
)
"""Elements without an end, and those that a page has once."""
_FORMATS = frozenset(
    {
        "b",
        "big",
        "code",
        "em",
        "font",
        "i",
        "nobr",
        "s",
        "small",
        "strike",
        "strong",
        "tt",
        "u",
    }
)
_INDENTS = frozenset({"blockquote", "ul", "ol", "dl"})
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "details",
        "dialog",
        "dir",
        "div",
        "dl",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "header",
        "hgroup",
        "main",
        "menu",
        "nav",
        "ol",
        "pre",
        "listing",
        "section",
        "summary",
        "ul",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    }
)
_ITEMS = frozenset({"p", "li", "dd", "dt", "option"})
_CELLS = frozenset({"td", "th", "tr", "tbody", "thead", "tfoot"})
_ENDED_BY = {
    "p": {"p"},
    "li": {"p", "li"},
    "dd": {"p", "dd", "dt"},
    "dt": {"p", "dd", "dt"},
    "option": {"option"},
    "td": {"p", "td", "th"},
    "th": {"p", "td", "th"},
    "tr": {"p", "td", "th", "tr"},
    **dict.fromkeys(
        ("tbody", "thead", "tfoot"), {"p", "td", "th", "tr", "tbody", "thead", "tfoot"}
    ),
}
"""Elements that end where another begins."""
_DRAWINGS = frozenset({"svg", "math"})
_STRICT = frozenset({"svg", "math", "template", "select", "frameset"})
"""Elements with rules of their own: inside them nothing ends but the last element."""
_BARRIERS = _STRICT | {
    "table",
    "caption",
    "colgroup",
    "form",
    "button",
    "object",
    "applet",
    "marquee",
}
_SPECIAL = _BLOCKS | _ITEMS | _CELLS | _BARRIERS
_HTML = (_SPECIAL - _DRAWINGS) | _FORMATS | _VOID | {"ruby", "span", "sub", "sup", "var"}
"""Elements that end a drawing, or stand in one as HTML; behind them a slash closes nothing."""


def shallow_markup(markup: str) -> str:
    """`markup` without the tags that nest deeper than `MAX_LEVELS`; all text stays, and a line
    break for each block.

    An element keeps its first `MAX_ATTRIBUTES` attributes; the code of scripts is left out.

    >>> shallow_markup("<div>" * 513 + "text")[-13:]
    '<div><br>text'
    """
    if markup.count("<") < MAX_FORMATS and len(markup) < _FEW_CHARS:
        return markup
    parts: list[str] = []
    copied = at = 0
    nesting = _Nesting()
    while match := _TAG.search(markup, at):
        rest = _rest_of_tag(markup, match)
        if rest is None:
            break
        at = rest.end()
        if match[1]:
            continue
        name = match[3].lower() if match[3].isascii() else match[3]
        if match[2]:
            nesting.close(name)
            continue
        raw = _RAW.get(name) if not nesting.is_strict else None
        if raw is None and (substitute := nesting.open(name, is_empty="/" in rest[1])):
            parts += [markup[copied : match.start(3)], substitute]
            copied = match.end()
        if first := _first_of_many(markup, match.end(), at):
            parts += [markup[copied:first], ">"]
            copied = at
        if raw is None:
            continue
        if (text := raw.search(markup, at)) is None:
            break
        if name == "script":
            parts.append(markup[copied:at])
            copied = text.start()
        at = text.start()
    return "".join([*parts, markup[copied:]]) if parts else markup


def _rest_of_tag(markup: str, tag: re.Match[str]) -> re.Match[str] | None:
    """The end of a comment, or the attributes of a tag with the slash that ends it; None if it is
    open to the end of the text.
    """
    if tag[1]:
        return _COMMENT_END.search(markup, tag.end() - 2)
    return _ATTRIBUTES.match(markup, tag.end())


def _first_of_many(markup: str, start: int, end: int) -> int | None:
    """Where the first `MAX_ATTRIBUTES` attributes end, if there may be more of them."""
    if end - start <= _FEW_CHARS:
        return None
    first = _FIRST_ATTRIBUTES.match(markup, start, end)
    return None if first is None else first.end()


class _Nesting:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()
        self._formats = 0
        self._strict = 0
        self._is_drawing = False

    @property
    def is_strict(self) -> bool:
        """True inside an element with rules of its own."""
        return self._strict > 0

    def open(self, name: str, *, is_empty: bool) -> str | None:
        """Open an element; returns the text to write instead of its name if it may not be opened."""
        if self.is_strict or name in _STRICT:
            if self._is_ignored(name, is_empty=is_empty):
                return None
        elif name in _VOID or name in _CELLS and not self._counts["table"]:
            return None
        else:
            self._end_others(name)
        if self._is_too_deep(name):
            return "br" if name in _SPECIAL else "meta"
        self._open.append(name)
        self._counts[name] += 1
        self._formats += name in _FORMATS
        self._strict += name in _STRICT
        return None

    def _is_ignored(self, name: str, *, is_empty: bool) -> bool:
        """True for an element within a drawing or a list of options that opens nothing there."""
        if self.is_strict:
            self._is_drawing &= name not in _HTML
        else:
            self._is_drawing = name in _DRAWINGS
        if name == "option" and self._open[-1:] == ["select"]:
            return True
        return is_empty and self._is_drawing

    def _end_others(self, name: str) -> None:
        """Close the open elements that HTML ends if this one begins."""
        ended = _ENDED_BY.get(name, ())
        while self._open and self._open[-1] in ended:
            self._pop()

    def _is_too_deep(self, name: str) -> bool:
        if len(self._open) >= MAX_LEVELS or (name in _FORMATS and self._formats >= MAX_FORMATS):
            return True
        return name in _INDENTS and sum(self._counts[n] for n in _INDENTS) >= MAX_INDENTS

    def close(self, name: str) -> None:
        """Close an element, and those inside it that end with it."""
        if not self._counts[name]:
            return
        passed = _passed_by(name) if not self.is_strict else frozenset()
        depth = len(self._open) - 1
        while self._open[depth] != name:
            inner = self._open[depth]
            if inner in _SPECIAL and inner not in passed or self.is_strict:
                return
            depth -= 1
        self._formats -= name in _FORMATS
        while len(self._open) > depth:
            self._pop()

    def _pop(self) -> None:
        name = self._open.pop()
        self._counts[name] -= 1
        self._strict -= name in _STRICT


def _passed_by(name: str) -> frozenset[str]:
    """The special elements that end with an element of this name."""
    if name in _CELLS or name == "table":
        return _BLOCKS | _ITEMS | _CELLS
    return (
        _BLOCKS | _ITEMS if name in _BLOCKS else frozenset({"p"}) if name in _ITEMS else frozenset()
    )
