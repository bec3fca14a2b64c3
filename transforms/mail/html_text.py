"""HTML of a mail to the plain text a mail program would have written, quotes marked with `> `."""

import re
from collections.abc import Iterator
from itertools import islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from transforms.text.shallow_markup import shallow_markup

_BEFORE = re.compile(r"[-+]?|\d{1,7}|\.{3}|…")
_ADDED = re.compile(
    r"(?:^|[\s_-])(?:add(?:ed|ition)?|new|ins(?:ert(?:ed|ion)?)?|plus)(?:$|[\s_-])", re.I
)
_REMOVED = re.compile(
    r"(?:^|[\s_-])(?:del(?:eted?|etion)?|old|rem(?:oved?)?|minus)(?:$|[\s_-])", re.I
)
_CHANGED = re.compile(f"{_ADDED.pattern}|{_REMOVED.pattern}", re.I)


def diff_lines(table: LexborNode) -> list[str]:
    """The lines of the diff that `table` shows, as git writes them; none if it shows something
    else.

    Cells before the text have nothing but the line's numbers or its sign. If the text has no sign,
    the class of its cell or row says whether the line was added or removed.
    """
    rows = [cells for row in table.css("tr") if (cells := _cells(row))]
    before = [_text(cell).strip() for cells in rows for cell in cells[:-1]]
    if not any(text.isdigit() for text in before) or not all(
        _BEFORE.fullmatch(text) for text in before
    ):
        return []
    hunk = any(_text(cells[-1]).lstrip().startswith("@@ -") for cells in rows)
    if not hunk and not any(_CHANGED.search(_classes(cells[-1])) for cells in rows):
        return []
    return [line for cells in rows for line in _lines(cells)]


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter(include_text=False) if cell.tag in ("td", "th")]


def _text(cell: LexborNode) -> str:
    return cell.text(deep=True).replace("\xa0", " ").replace("\r", "")


def _classes(cell: LexborNode) -> str:
    nodes = (cell, cell.parent) if cell.parent else (cell,)
    return " ".join(node.attributes.get("class") or "" for node in nodes)


def _lines(cells: list[LexborNode]) -> list[str]:
    text = _text(cells[-1]).strip("\n").split("\n")
    if len(cells) == 1 or text[0].lstrip().startswith("@@"):
        return [line.strip() for line in text if line.strip()]
    sign = "".join(_text(cell).strip() for cell in cells[:-1]).strip("0123456789.…")
    if not sign and text[0][:1] not in ("+", "-"):
        classes = _classes(cells[-1])
        sign = "+" if _ADDED.search(classes) else "-" if _REMOVED.search(classes) else ""
        sign = sign or " " * (not text[0].startswith(" "))
    return [sign + line for line in text]


_DROPPED = {
    "script",
    "style",
    "head",
    "title",
    "meta",
    "link",
    "template",
    "noscript",
    "svg",
    "object",
    "-comment",
}
_PARAGRAPHS = {
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "pre",
    "table",
    "blockquote",
    "hr",
}
_BLOCKS = _PARAGRAPHS | {
    "div",
    "li",
    "tr",
    "dl",
    "dt",
    "dd",
    "section",
    "article",
    "header",
    "footer",
    "form",
    "center",
    "address",
    "fieldset",
    "figure",
    "main",
    "nav",
    "aside",
    "caption",
    "body",
    "html",
}
_MAX_DEPTH = 50
_BLANKS = re.compile(r"[ \t\r\n\f\xa0]+")
_BORDER_LEFT = re.compile(r"border-left:\s*(?!none|0)[^;]*(?:solid|\d(?:px|pt))", re.I)
_BORDER_TOP = re.compile(r"border:\s*none;\s*border-top:\s*solid", re.I)
_HIDDEN = re.compile(r"display:\s*none|mso-hide:\s*all", re.I)
_STYLE_CHARS = 2000
"""Characters of a style that are looked at: the patterns may look at each several times."""
_NO_BORDER = re.compile(r"border(?:-left)?:\s*(?:none|0)", re.I)


def html_text(markup: str) -> str:
    """`markup` as plain text: block elements on lines of their own, links by their text, pictures
    by theirs.

    A row of a table of values is a line, its cells divided by ` | `; a table that only lays out is
    its blocks, and one in which a web view of git shows a diff is that diff.

    A blockquote, a Gmail quote and a block with a left border stand behind `> `; so does everything
    from the block with Outlook's top border (its From/Sent lines) to the end. Scripts, styles and
    hidden elements are dropped.
    """
    root = LexborHTMLParser(shallow_markup(markup)).root
    if root is None:
        return ""
    writer = _Writer()
    frames = [_Frame(root, 0)]
    while frames:
        node = next(frames[-1].children, None)
        if node is None:
            _close(frames.pop(), writer)
        elif node.tag == "-text":
            writer.text(node.text_content or "")
        elif node.tag == "br" and writer.tables:
            writer.fragments.append(" ")
        elif node.tag == "br":
            writer.line_end(keep_empty=True)
        elif node.tag and node.tag not in _DROPPED and not _HIDDEN.search(_style(node)):
            frames.append(_open(node, frames, writer))
    return writer.result()


class _Frame:
    """An open element: its children still to read, and the state to return to behind it."""

    def __init__(self, node: LexborNode, depth: int) -> None:
        self.node = node
        self.depth = depth
        self.children: Iterator[LexborNode] = node.iter(include_text=True)
        self.is_data = False


class _Writer:
    """Lines under construction, each with the quote depth it began at."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fragments: list[str] = []
        self.depth = 0
        self.preformatted = 0
        self.tables = 0
        """Tables of values that are open: a row of theirs is a line."""

    def text(self, text: str) -> None:
        if not self.preformatted:
            self.fragments.append(_BLANKS.sub(" ", text))
            return
        first, *others = text.replace("\r\n", "\n").split("\n")
        self.fragments.append(first)
        for other in others:
            self.line_end(keep_empty=True)
            self.fragments.append(other)

    def line_end(self, keep_empty: bool = False) -> None:
        line = "".join(self.fragments)
        self.fragments.clear()
        line = line.rstrip() if self.preformatted else re.sub(r" {2,}", " ", line).strip()
        if line or keep_empty:
            self.lines.append((("> " * min(self.depth, _MAX_DEPTH)) + line).rstrip())

    def verbatim(self, lines: list[str]) -> None:
        """Writes lines as they are."""
        self.line_end()
        mark = "> " * min(self.depth, _MAX_DEPTH)
        self.lines.extend(f"{mark}{line}".rstrip() for line in lines)

    def blank_line(self) -> None:
        self.line_end()
        mark = ("> " * min(self.depth, _MAX_DEPTH)).rstrip()
        if self.lines and self.lines[-1].strip("> ") and self.lines[-1] != mark:
            self.lines.append(mark)

    def end_quote(self) -> None:
        while self.lines and self.lines[-1] and not self.lines[-1].strip("> "):
            self.lines.pop()

    def result(self) -> str:
        self.line_end()
        self.end_quote()
        lines: list[str] = []
        for line in self.lines:
            if line or (lines and lines[-1]):
                lines.append(line)
        return "\n".join(lines).strip("\n") + "\n" if any(lines) else ""


def _open(node: LexborNode, frames: list[_Frame], writer: _Writer) -> _Frame:
    tag = node.tag or ""
    frame = _Frame(node, writer.depth)
    if tag == "img":
        writer.text(_picture(node))
    _separate(tag, writer)
    if writer.tables and tag not in ("td", "th", "tr"):
        return frame
    if tag == "table":
        _open_table(node, frame, writer)
    if _begins_history(node, tag):
        writer.line_end()
        _quote_the_rest(frames, frame, writer)
    elif _is_quote(node):
        writer.depth += 1
    if tag == "pre":
        writer.preformatted += 1
    elif tag == "li":
        writer.text("- ")
    return frame


def _separate(tag: str, writer: _Writer) -> None:
    """Write what parts an element from the text before it; within a table of data all is one line."""
    if tag in ("td", "th"):
        writer.text(" | " if writer.tables and writer.fragments else " ")
    elif writer.tables and tag != "tr":
        writer.text(" " if tag in _BLOCKS else "")
    elif tag in _PARAGRAPHS:
        writer.blank_line()
    elif tag in _BLOCKS:
        writer.line_end()


def _open_table(node: LexborNode, frame: _Frame, writer: _Writer) -> None:
    if diff := diff_lines(node):
        writer.verbatim(diff)
        frame.children = iter(())
    frame.is_data = _is_data(node)
    writer.tables += frame.is_data


def _begins_history(node: LexborNode, tag: str) -> bool:
    """True for the element that Outlook puts above the mail that is answered."""
    if tag != "div":
        return False
    return node.attributes.get("id") == "divRplyFwdMsg" or bool(_BORDER_TOP.search(_style(node)))


def _close(frame: _Frame, writer: _Writer) -> None:
    tag = frame.node.tag or ""
    writer.tables -= frame.is_data
    if writer.tables and tag != "tr":
        return
    if tag in _BLOCKS:
        writer.line_end()
    if tag == "pre":
        writer.preformatted -= 1
    if writer.depth > frame.depth:
        writer.line_end()
        writer.end_quote()
        writer.depth = frame.depth
    if tag in _PARAGRAPHS:
        writer.blank_line()


def _quote_the_rest(frames: list[_Frame], frame: _Frame, writer: _Writer) -> None:
    """Raise the depth to the end of the innermost element that holds more than this block."""
    writer.depth += 1
    frame.depth += 1
    for outer in reversed(frames):
        if len(list(islice(outer.node.iter(include_text=False), 2))) > 1:
            return
        outer.depth += 1


def _is_data(table: LexborNode) -> bool:
    """True for a table of values, not of layout: two rows of two cells or more, without a block in
    a cell.
    """
    if (table.attributes.get("role") or "") == "presentation":
        return False
    rows = 0
    for part in table.iter(include_text=False):
        for row in (
            part.iter(include_text=False) if part.tag in ("thead", "tbody", "tfoot") else (part,)
        ):
            cells = [cell for cell in row.iter(include_text=False) if cell.tag in ("td", "th")]
            rows += len(cells) > 1
            if any(
                inner.tag in _LAYOUT for cell in cells for inner in cell.iter(include_text=False)
            ):
                return False
    return rows > 1


_LAYOUT = {"table", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "img"}
_NO_WORDS = re.compile(r"(?:image|img|cid:|logo)?[\s\d._:@-]*(?:png|jpe?g|gif|bmp)?", re.I)


def _picture(node: LexborNode) -> str:
    """The text in place of a picture: `[a chart of sales]`, or a smiley; empty for a pixel that
    counts readers.
    """
    attributes = node.attributes
    text = _BLANKS.sub(" ", attributes.get("alt") or "").strip()
    if _NO_WORDS.fullmatch(text) or "1" in (attributes.get("width"), attributes.get("height")):
        return ""
    return f"[{text}]" if text[0].isascii() else text


def _style(node: LexborNode) -> str:
    return (node.attributes.get("style") or "")[:_STYLE_CHARS]


def _is_quote(node: LexborNode) -> bool:
    attributes = node.attributes
    style = _style(node)
    if node.tag == "blockquote":
        # Mail programs indent with a blockquote styled to show no border.
        return (
            attributes.get("type") == "cite"
            or not _NO_BORDER.search(style)
            or "gmail_quote" in (attributes.get("class") or "")
        )
    if node.tag != "div":
        return False
    if _BORDER_LEFT.search(style):
        return True
    return (
        "gmail_quote" in (attributes.get("class") or "").split()
        and node.css_first("blockquote") is None
    )
