"""The statement of an answer's completeness in one line; this module loads nothing that searches."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_FRESH = timedelta(days=1)
"""An age below which people look for the text that came last."""
_UNITS = (3600, "h"), (60, "min"), (0, "s")


def completeness_line(facts: Mapping[str, Any]) -> str:
    """The statement `Completeness`, as JSON has it, in one line, without counts of zero."""
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in facts["set_aside"].items())
    held, not_seen = facts["held"], facts["not_seen"]
    parts = (
        f"{facts[name]:,}{f' of {held[name]:,}' if held[name] > facts[name] else ''} {name}"
        for name in ("mails", "documents", "turns")
    )
    missing = {
        "without text": facts["without_text"],
        "waiting": facts["waiting"],
        "without vector": facts["without_vector"],
        f"set aside ({reasons})": sum(facts["set_aside"].values()),
        f"unread ({', '.join(facts['unread'])})": sum(facts["unread"].values()),
    }
    lost = ", ".join(f"{count:,} {name}" for name, count in missing.items() if count)
    times = {
        "published": facts["published_at"],
        "sources changed": facts["changed_at"],
        **{f"{source} not seen since": at for source, at in not_seen.items()},
        "sources seen": facts["looked_at"],
    }
    dated = [
        f"{what} {datetime.fromisoformat(at):%Y-%m-%d %H:%M} UTC"
        for what, at in times.items()
        if at
    ]
    newest = facts.get("newest_at")
    age = datetime.now(UTC) - datetime.fromisoformat(newest) if newest else _FRESH
    fresh = [f"newest text came {_words(age)} ago"] if age < _FRESH else []
    never = [f"{source} never seen" for source, at in not_seen.items() if at is None]
    gaps = [*([lost] if lost else []), *(f"without {leg}" for leg in facts["missing_legs"])]
    return "; ".join([f"searchable: {', '.join(parts)} of chats", *gaps, *fresh, *dated, *never])


def _words(age: timedelta) -> str:
    """An age below a day in its largest unit."""
    seconds = max(0, int(age.total_seconds()))
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= size)
    return f"{seconds // max(size, 1)} {unit}"
