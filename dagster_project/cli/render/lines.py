"""Facts in one line; this module loads only modules of Python."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def minute(at: str | None) -> str | None:
    """A time in ISO 8601 to the minute."""
    return at and f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M}"


def reading_line(text: Mapping[str, Any]) -> str:
    """The kind, position, title, author and date of a text (`Reading.as_json`) in one line."""
    start = text["byte_start"]
    facts = [
        f"{text['kind']} {text['id']}",
        None if start is None else f"bytes {start}-{text['byte_end']}",
        text["title"],
        text.get("from_name") or text.get("from_addr"),
        minute(text.get("effective_at")),
    ]
    return " · ".join(fact for fact in facts if fact)
