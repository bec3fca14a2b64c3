"""Text of format=flowed bodies (RFC 3676) with its soft line breaks undone, for any span of a stored body.

The stored body keeps every character of the mail, because all offsets point into it. What is shown,
embedded or indexed of a flowed body is made from spans of it here.
"""

from __future__ import annotations

import re

FLOWED_FORMATS = frozenset({"flowed", "flowed_delsp"})
"""Values of `messages.body_format` whose text has soft line breaks; `flowed_delsp` stands for DelSp=yes."""

SIGNATURE_SEPARATOR = "-- "

# The quote marks of a line (RFC 3676 section 4.5), between them blanks as some programs write them; the
# blank that stuffs it (section 4.4); its text; its end.
_LINE = re.compile(r"(?: (?=>))?((?:>(?: (?=>))?)*) ?([^\n]*)(\n?)")


def span_text(body: str, start: int, end: int, body_format: str) -> str:
    """The characters `[start, end)` of a body of any `messages.body_format` as they were written."""
    if body_format not in FLOWED_FORMATS:
        return body[start:end]
    return flowed_text(body, start, end, del_sp=body_format == "flowed_delsp")


def flowed_text(body: str, start: int, end: int, *, del_sp: bool = False) -> str:
    """The characters `[start, end)` of a flowed `body` as their author wrote them.

    A line that ends in a blank goes on in the next line of the same quote depth; with `del_sp` its
    last blank goes too (RFC 3676 section 4.2, 4.3). The blank that stuffs a line is taken off. Quote
    marks stay on the first line of a joined paragraph, one blank behind them. The signature
    separator `-- ` joins neither way. A soft break before a line of another depth stays a line end.

    Two things are taken other than the RFC has them, because real archives show what is meant. A line
    of nothing but blanks joins nothing: most are empty lines of a quoted diff. A line that is stuffed
    and then begins with `>` is a quoted one: such lines are quotes that were pasted.
    """
    fragments: list[str] = []
    open_depth: int | None = None
    end = min(end, len(body))
    at = body.rfind("\n", 0, start) + 1
    while at < end:
        line = _LINE.match(body, at, end)
        assert line is not None, "the pattern matches the empty text too"
        marks, text, line_end = line.groups()
        depth, is_separator = marks.count(">"), text == SIGNATURE_SEPARATOR
        if start > at:  # the span begins inside the line
            marks, text = "", body[max(start, line.start(2)) : line.end(2)]
        if open_depth != depth or is_separator:
            fragments.append("" if open_depth is None else "\n")
            fragments.append(f"{marks} " if marks and text else marks)
        is_soft = bool(line_end) and text.endswith(" ") and not text.isspace() and not is_separator
        fragments.append(text[:-1] if is_soft and del_sp else text)
        fragments.append("" if is_soft else line_end)
        open_depth = depth if is_soft else None
        at = line.end()
    return "".join(fragments) + ("" if open_depth is None else "\n")
