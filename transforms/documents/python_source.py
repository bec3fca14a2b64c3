"""Python source as a syntax tree, from any thread."""

import ast
import threading

_PARSER = threading.Lock()
"""Python 3.11 counts the depth of a tree in one place for all threads: two at once may end in
`SystemError: AST constructor recursion depth mismatch`.
"""


def syntax_tree(source: str | bytes) -> ast.Module:
    """The syntax tree of a module; what `ast.parse` raises if it is not Python of this version."""
    with _PARSER:
        return ast.parse(source)
