"""The words of Markdown as a reader sees them: no marks, no targets of links."""

import re

from pyromark import events

from transforms.documents.markdown import DIALECT

_CALLOUT = re.compile(r"(?m)^\[!(\w+)\][+-]?[ \t]*")
_INLINE = ("Link", "Image", "Emphasis", "Strong", "Strikethrough")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


def plain_text(markdown: str) -> str:
    r"""The text without marks of emphasis, links, lists, tables and code; a text without words
    besides stays as it is.

    >>> plain_text("> [!tip] See [Rec](rec.md) and `a < b`\n\n- **now**\n  - on\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    'tip: See Rec and a < b\n\nnow\non\n\na | b\n1 | 2'
    """
    parts: list[str] = []
    for event in events(markdown, options=DIALECT):
        if isinstance(event, str):  # a break, or a rule
            parts.append("\n")
            continue
        (kind, value), *_ = event.items()
        if kind in ("Text", "Code", "InlineHtml", "Html"):
            parts.append(str(value))
        elif kind == "End" and value == "TableCell":
            parts.append(" | ")
        elif (
            kind == "Start" and isinstance(value, dict) and "List" in value
        ):  # one in an item goes on below its text
            parts.append("\n")
        elif kind == "End" and value not in _INLINE:
            parts.append("\n" if value in ("Item", "TableRow", "TableHead") else "\n\n")
    text = _COMMENT.sub("", "".join(parts))
    text = re.sub(r"(?: \| )+\n", "\n", _CALLOUT.sub(r"\1: ", text))
    return re.sub(r"\n{3,}", "\n\n", text).strip() or markdown
