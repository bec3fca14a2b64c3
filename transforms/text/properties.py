"""Values in the frontmatter of documents, by their keys."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from transforms.errors import shortened


def documents_with(frontmatters: Iterable[tuple[str, str]], key: str, pattern: str) -> list[str]:
    """The ids of documents of whose frontmatter (JSON) a value at a key matches a pattern.

    `a.b` is the key b below a; case of keys does not matter; of a list one value is enough.
    KeyError with the known keys if none has the key.

    >>> documents_with([("n", '{"status": ["open", 2]}')], "Status", "^open$")
    ['n']
    """
    parts, matcher = key.casefold().split("."), re.compile(pattern)
    documents: list[str] = []
    keys: set[str] = set()
    has_key = False
    for document, frontmatter in frontmatters:
        fields = json.loads(frontmatter)
        values = list(_values(fields, parts))
        keys |= set(fields)
        has_key |= bool(values)
        if any(map(matcher.match, values)):
            documents.append(document)
    if not has_key:
        raise KeyError(
            f"no frontmatter has {shortened(key)!r}; the index holds {', '.join(sorted(keys)[:20]) or 'none'}"
        )
    return documents


def _values(value: Any, parts: list[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _values(item, parts)
    elif isinstance(value, dict):
        for key, below in value.items():
            name = key.casefold().split(".")
            if parts[: len(name)] == name:
                yield from _values(below, parts[len(name) :])
    elif not parts:
        yield json.dumps(value) if isinstance(value, bool) else str(value or "")
