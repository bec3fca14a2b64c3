"""The YAML before a document's text: its values as plain data, within limits."""

import re
from typing import Any, NamedTuple

import yaml

MAX_FRONTMATTER_CHARS = 64 << 10
MAX_FRONTMATTER_VALUES = 5000
"""Values of a frontmatter after its aliases are followed."""
MAX_FRONTMATTER_DEPTH = 32

BOM_CHARACTER = "\ufeff"
_OPENING = re.compile(r"\ufeff?---[ \t]*(?:\r\n|\n|\r)")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)", re.MULTILINE)


class Frontmatter(NamedTuple):
    """The fields of a frontmatter, the first byte behind it, and its defect.

    Scalars are texts as written, but for true, false and null. `body_start` is the first byte
    behind the closing line, or behind a byte order mark if the frontmatter is missing or malformed;
    a malformed one is content, one that is too large is set aside. `defect` is a short code with a
    colon and the explanation, or None.
    """

    fields: dict[str, Any]
    body_start: int
    defect: str | None


def frontmatter(text: str) -> Frontmatter:
    """The YAML frontmatter of a text.

    It is there if the first line, behind a byte order mark, is `---` and a later line `---` or
    `...`. A defect is `frontmatter_malformed`, `frontmatter_not_a_mapping` or
    `frontmatter_too_large` (more bytes, values or nesting than the limits above, aliases followed).
    Lines between two rules that are not `name: value` are content, however many.
    """
    body_start = len(BOM_CHARACTER.encode()) if text.startswith(BOM_CHARACTER) else 0
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening is None or closing is None:
        return Frontmatter({}, body_start, None)
    source = text[opening.end() : closing.start()]
    behind = len(text[: closing.end()].encode())
    if len(source) > MAX_FRONTMATTER_CHARS:
        limit = f"{len(source)} characters, the limit is {MAX_FRONTMATTER_CHARS}"
        start = behind if _is_mapping(source[:MAX_FRONTMATTER_CHARS]) else body_start
        return Frontmatter({}, start, f"frontmatter_too_large: {limit}")
    try:
        _refuse_depth(source)
        values = yaml.load(source, _Loader)
        fields = {} if values is None else _plain(values, [MAX_FRONTMATTER_VALUES])
    except (yaml.YAMLError, ValueError) as error:
        return Frontmatter(
            {}, body_start, f"frontmatter_malformed: {' '.join(str(error).split())[:200]}"
        )
    except (_TooLargeError, RecursionError):
        limit = f"over {MAX_FRONTMATTER_VALUES} values or {MAX_FRONTMATTER_DEPTH} levels"
        return Frontmatter({}, behind, f"frontmatter_too_large: {limit}")
    if not isinstance(fields, dict):
        return Frontmatter(
            {}, body_start, "frontmatter_not_a_mapping: it has no `name: value` lines"
        )
    return Frontmatter(fields, behind, None)


def _is_mapping(head: str) -> bool:
    """True if the lines of the beginning of a frontmatter are `name: value`, and not text between
    two rules.
    """
    lines = head[: head.rfind("\n") + 1] or head
    try:
        _refuse_depth(lines)
        return isinstance(yaml.load(lines, _Loader), dict)
    except (yaml.YAMLError, ValueError, _TooLargeError, RecursionError):
        return False


class _TooLargeError(Exception):
    """A frontmatter holds more values or levels than the limits."""


class _Loader(yaml.CSafeLoader):
    """Safe YAML in which numbers and dates stay as they are written."""


_Loader.yaml_implicit_resolvers = {}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:[Tt]rue|[Ff]alse)$"), ["t", "T", "f", "F"]
)


def _refuse_depth(source: str) -> None:
    """Raise `_TooLargeError` before the loader, whose recursion in C no Python limit bounds, sees
    it.
    """
    depth = 0
    for event in yaml.parse(source, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_FRONTMATTER_DEPTH:
                raise _TooLargeError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _plain(value: Any, budget: list[int], depth: int = 0) -> Any:
    """`value` with texts as keys; `budget` counts down the values, which aliases can multiply."""
    budget[0] -= 1
    if budget[0] < 0 or depth > MAX_FRONTMATTER_DEPTH:
        raise _TooLargeError
    if isinstance(value, dict):
        return {str(k): _plain(v, budget, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(v, budget, depth + 1) for v in value]
    return value if value is None or isinstance(value, bool) else str(value).replace("\0", "\ufffd")
