"""Files of code as data: their definitions, by which they are cut and named.

Python is read by its own grammar; other languages by lines: a keyword that begins a definition, or
a name with parameters before a brace. Levels are those of the indentation.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from transforms.documents.markdown import MarkdownBlock
from transforms.documents.python_source import syntax_tree
from transforms.text.spans import Offsets

_MAX_LEVEL = 6
"""The deepest level of a heading."""
_TAB = 4
"""Columns of a tab in an indentation."""
_MODIFIERS = (
    r"(?:(?:pub(?:\([\w: ]+\))?|public|private|protected|internal|static|final|abstract|export|default|async|"
    r"unsafe|extern(?:[ ]\"\w+\")?|const|inline|virtual|override|open|sealed|data|partial|friend|typedef|"
    r"template[ ]?<[^\n{};]*>)\s+)*"
)
_KEYWORDS = (
    "fn|func|fun|function|def|class|struct|union|enum(?:[ ]class)?|trait|interface|impl(?:<[^\\n{]*?>)?|module|"
    "namespace|record|object|protocol|extension|macro_rules!|sub"
)
_NOT_NAMES = (
    "return|if|else|for|foreach|while|switch|catch|new|throw|do|case|goto|using|delete|await|yield|assert|"
    "synchronized|with|match|elif|unless|until|when|try|sizeof|typeof"
)
_MACRO = r"(?:[A-Z][A-Z0-9_]+(?:\([^()\n]*\))?\s+(?=\w))?"
_BY_KEYWORD = (
    rf"{_MODIFIERS}(?:{_KEYWORDS})\s+(?:\([^()\n]*\)\s*)?{_MACRO}(?P<named>[\w$:~]++)(?:<[^\n{{]*?>)?"
    r"(?P<of>[ ]for[ ][\w:]++)?(?![^\n{(]*;)"
)
_BY_BRACE = (
    rf"(?!(?:{_NOT_NAMES})\b)(?:[\w:<>,\[\]~@?.]++[ \t*&]++)*?(?P<called>[~\w$:]++(?<!:))[ \t]*"
    r"\((?:[^;{}()]|\([^;{}()]{0,500}\)){0,1000}+\)[^;{}=()]{0,500}(?::[^;{}]{0,1000})?\{"
)
"""Bounds of characters: a file of open parentheses takes time in proportion to its lines."""
_DEFINITION = re.compile(rf"^(?P<indent>[ \t]*)(?:{_BY_KEYWORD}|{_BY_BRACE})", re.M)
_ABOVE = re.compile(
    r"[ \t]*(?:///?|/\*|\*|#\[|@\w|#(?!\w|\s*(?:include|define|if|endif|else|pragma)\b))"
)
"""A line of comment, attribute or decorator, which belongs to the definition below it."""


class _Definition(NamedTuple):
    """A definition: the number of its first line, the columns before it, and its name."""

    line: int
    indent: int
    name: str


def definitions(text: str, path: str) -> list[MarkdownBlock]:
    """The definitions of a file of code as headings, in order: each begins with the comments,
    attributes and decorators above it, and its level is how many hold it.

    >>> [(d.text, d.level) for d in definitions("class A:\\n    def b(self):\\n        pass\\n", "a.py")]
    [('A', 1), ('b', 2)]
    >>> [d.text for d in definitions("int add(int a, int b)\\n{\\n  if (a) {\\n  }\\n}\\n", "a.c")]
    ['add']
    """
    lines = text.splitlines(keepends=True)
    begins = _of_python(text) if path.lower().endswith(".py") else None
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    if begins is None:
        begins = list(_by_lines(text, starts))
    blocks: list[MarkdownBlock] = []
    around: list[int] = []
    for definition in begins:
        first = _first_above(lines, definition.line)
        if blocks and starts[first] < blocks[-1].end:
            first = definition.line
        while around and around[-1] >= definition.indent:
            around.pop()
        around.append(definition.indent)
        level = min(len(around), _MAX_LEVEL)
        span = starts[first], starts[definition.line + 1]
        blocks.append(MarkdownBlock("heading", *span, level=level, text=definition.name))
    flat = Offsets(text).bytes([edge for block in blocks for edge in (block.start, block.end)])
    spans = zip(flat[::2], flat[1::2], strict=True)
    return [
        block._replace(start=start, end=end)
        for block, (start, end) in zip(blocks, spans, strict=True)
    ]


def _of_python(text: str) -> list[_Definition] | None:
    """The classes and functions of a module; None if it is not of this version of the language."""
    try:
        tree = syntax_tree(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return [
        _Definition(node.lineno - 1, node.col_offset, node.name)
        for node in sorted(nodes, key=lambda node: node.lineno)
    ]


def _by_lines(text: str, starts: Sequence[int]) -> Iterator[_Definition]:
    line = 0
    for match in _DEFINITION.finditer(text):
        name = (match["named"] or match["called"]).strip(":") + (match["of"] or "")
        while starts[line + 1] <= match.start():
            line += 1
        indent = len(match["indent"].expandtabs(_TAB))
        yield _Definition(line, indent, name)


def _first_above(lines: Sequence[str], line: int) -> int:
    """The first of the lines of comments, attributes and decorators right above a line."""
    while line and _ABOVE.match(lines[line - 1]):
        line -= 1
    return line
