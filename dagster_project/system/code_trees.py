"""Modules as definitions: of each the hash of its syntax tree, without comments, docstrings and
layout, and the names and data files that it uses.
"""

import ast
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from transforms.documents.python_source import syntax_tree

EFFECTS = ""
"""The name of the statements of a module that define nothing: an import runs them all."""
_LEFT_OUT = frozenset({"ctx", "kind", "type_comment"})
_FILE_NAME = re.compile(r"[\w./:-]{1,100}").fullmatch
_TYPES_ONLY, _PROGRAM = "TYPE_CHECKING", "__main__"
_SETTING = "Field"
"""Declares a setting; its description is a docstring."""


@dataclass
class Definition:
    """The statements that define one name: `hash` of their trees, the dotted `names` that they use,
    `texts` that may be names of files, and `imports` inside of them.

    An import is a module and a name in it, "" for the module itself.
    """

    hash: str = ""
    names: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass
class ModuleCode:
    """The definitions of a module by name, and its imports by the names that they have in it."""

    definitions: dict[str, Definition]
    imports: dict[str, tuple[str, str]]


def module_code(source: bytes, package: str) -> ModuleCode:
    """The definitions of a module in `package`; SyntaxError if it is not Python."""
    imports: dict[str, tuple[str, str]] = {}
    by_name: dict[str, list[ast.stmt]] = defaultdict(list)
    for statement in _statements(syntax_tree(source).body):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports |= _imported(statement, package)
        else:
            for name in _bound(statement) or [EFFECTS]:
                by_name[name].append(statement)
    return ModuleCode(
        {name: _definition(statements, package) for name, statements in by_name.items()}, imports
    )


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that an import of it runs, docstrings left out."""
    for statement in body:
        if isinstance(statement, ast.If):
            tested = ast.dump(statement.test)
            if _TYPES_ONLY in tested or _PROGRAM in tested:
                continue
        if isinstance(statement, ast.If | ast.Try):
            # Each of its imports is one of the module; the whole is what its other names mean.
            inner = [s for s in ast.walk(statement) if isinstance(s, ast.Import | ast.ImportFrom)]
            yield from inner
        if not _is_docstring(statement):
            yield statement


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imported(statement: ast.Import | ast.ImportFrom, package: str) -> dict[str, tuple[str, str]]:
    if isinstance(statement, ast.Import):
        named = ((a.asname or a.name.partition(".")[0], a) for a in statement.names)
        return {name: (a.name if a.asname else name, "") for name, a in named}
    above = package.split(".")[: 1 - statement.level or None] if statement.level else []
    module = ".".join([*above, *([statement.module] if statement.module else [])])
    return {a.asname or a.name: (module, a.name) for a in statement.names}


def _bound(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module defines or changes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets: list[Any] = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        defining = (
            s for s in ast.walk(statement) if s is not statement and isinstance(s, ast.stmt)
        )
        return sorted({name for s in defining for name in _bound(s)})
    names = []
    for target in targets:
        inner = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        for node in inner:
            while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
                node = node.value
            names += [node.id] if isinstance(node, ast.Name) else []
    return names


def _definition(statements: Iterable[ast.stmt], package: str) -> Definition:
    result, parts = Definition(), list[str]()
    for statement in statements:
        _read(statement, result, parts, package)
    result.hash = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return result


def _read(node: Any, result: Definition, parts: list[str], package: str) -> None:
    """Add the tree below `node` to `parts` as text, and its names, texts and imports to `result`.

    Fields without a value are left out, so that versions of Python with further fields agree.
    """
    if isinstance(node, list):
        parts.append("[")
        for inner in node:
            if not _is_docstring(inner):
                _read(inner, result, parts, package)
        parts.append("]")
    elif isinstance(node, ast.Constant):
        parts.append(repr(node.value))
        if isinstance(node.value, str) and _FILE_NAME(node.value):
            result.texts.add(node.value)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        result.imports |= _imported(node, package)
    elif isinstance(node, ast.AST):
        parts.append(type(node).__name__)
        if isinstance(node, ast.Name | ast.Attribute) and (dotted := _dotted(node)):
            result.names.add(dotted)
            parts.append(dotted)
            return
        for name in node._fields:
            value = _value(node, name)
            if value is not None and value != [] and name not in _LEFT_OUT:
                parts.append(name)
                _read(value, result, parts, package)
    else:
        parts.append(repr(node))


def _value(node: ast.AST, name: str) -> Any:
    """A field of a node; the arguments of a setting come without its description."""
    value = getattr(node, name, None)
    if name == "keywords" and _dotted(getattr(node, "func", node)) == _SETTING:
        return [argument for argument in value or [] if argument.arg != "description"]
    return value


def _dotted(node: Any) -> str:
    """A name with its attributes; "" for attributes of something else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""
