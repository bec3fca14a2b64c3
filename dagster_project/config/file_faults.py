"""Messages for settings files that are valid TOML and wrong settings: replaced keys, and faults of values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from pydantic import ValidationError

from dagster_project.config.replaced import REPLACED


def replaced_keys(path: Path, raw: dict[str, object]) -> list[str]:
    """One line per key that a settings file may no longer have, with its replacement."""
    return [f"{path}: {position}: {REPLACED[key]}" for position, key in _keys(raw) if key in REPLACED]


def _keys(value: object, position: str = "", key: str = "") -> Iterator[tuple[str, str]]:
    """Every key below `value`: its position in the file, and its name in REPLACED."""
    if isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _keys(inner, f"{position}.{number}", key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            here, dotted = f"{position}.{name}".lstrip("."), f"{key}.{name}".lstrip(".")
            # A profile changes keys of [search].
            yield here, re.sub(r"^profiles\.[^.]+\.", "search.", dotted)
            yield from _keys(inner, here, dotted)


def explain(path: Path, error: ValidationError, kinds: Collection[str]) -> str:
    """One line per fault: the file, the entry, the fault and, for unknown names, the known ones.

    `kinds` are the kinds of source.
    """
    lines = []
    for fault in error.errors():
        # Behind the number of a source, the library names the kind that it took it for.
        steps = [p for i, p in enumerate(fault["loc"]) if not (i == 2 and fault["loc"][0] == "sources")]
        position = ".".join(str(p) for p in steps) or "file"
        if fault["type"].startswith("union_tag") and fault["loc"][-1] == "fetch":
            lines.append(f"{path}: {position}.kind: must be one of git, http, imap, objects")
        elif fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            lines.append(f"{path}: {position}.kind: must be one of {', '.join(sorted(kinds))}")
        elif fault["type"] == "extra_forbidden":
            lines.append(f"{path}: {position}: unknown setting; docs/settings.md lists the known ones")
        else:
            lines.append(f"{path}: {position}: {fault['msg']}")
    return "\n".join(lines)
