"""Calendars (iCalendar, RFC 5545) to Markdown."""

from datetime import date, datetime
from typing import Any

from icalendar import Calendar, Component, vCalAddress, vDDDTypes

from transforms.formats.converted import Converted, FormatError, heading, own_title, plain
from transforms.text.charsets import decode_text

_PARTS = ("VEVENT", "VTODO", "VJOURNAL")


def calendar_markdown(data: bytes) -> Converted:
    """A calendar as Markdown: by start a section for each event, task and note, with its time, place, people and text.

    A recurrence is its rule, and is not expanded. A file of one event has its title and its time, and the people as
    `fields`."""
    try:
        calendars = Calendar.from_ical(decode_text(data, None).text, multiple=True)
        if not calendars:
            raise FormatError("unreadable: it ends before its END:VCALENDAR")
        parts = [part for calendar in calendars for part in calendar.walk() if part.name in _PARTS]
    except ValueError as error:
        raise FormatError("unreadable: its lines are not those of a calendar") from error
    defects = sorted({f"broken_property: {name}" for part in parts for name, _ in part.errors})
    facts = [_facts(part) for part in parts]
    order = sorted(range(len(parts)), key=lambda n: facts[n].get("When", ""))
    text = "\n".join(_section(parts[n], facts[n]) for n in order)
    if len(parts) != 1:
        return Converted(text, defects, own_title(_text(calendars[0], "X-WR-CALNAME")))
    fields = {n.lower(): value for n, value in facts[0].items() if n in ("Where", "Organizer", "With")}
    starts = [at.dt.isoformat() for at in _values(parts[0], "DTSTART") if _is_time(at)]
    title, start = own_title(_text(parts[0], "SUMMARY")), next(iter(starts), None)
    return Converted(text, defects, title, created=start, fields=fields)


def _section(part: Component, facts: dict[str, str]) -> str:
    title = heading(2, _text(part, "SUMMARY") or "No title")
    lines = [f"{name}: {value}" for name, value in facts.items()]
    return (
        "\n\n".join(filter(None, (title, plain("  \n".join(lines)), plain(_text(part, "DESCRIPTION")))))
        + "\n"
    )


def _facts(part: Component) -> dict[str, str]:
    """The facts of an event that it has: its time, rule, place, people and state."""
    ends = (_time(part, name) for name in ("DTSTART", "DTEND", "DUE"))
    rules = [rule.to_ical().decode() for rule in _values(part, "RRULE")]
    facts = {
        "When": " to ".join(filter(None, ends)), "Repeats": "; ".join(rules), "Where": _text(part, "LOCATION"),
        "Organizer": ", ".join(map(_person, _values(part, "ORGANIZER"))),
        "With": ", ".join(map(_person, _values(part, "ATTENDEE"))), "Status": _text(part, "STATUS"),
    }  # fmt: skip
    return {name: " ".join(value.split()) for name, value in facts.items() if value}


def _values(part: Component, name: str) -> list[Any]:
    return part[name] if isinstance(part.get(name), list) else [part[name]] if name in part else []


def _text(part: Component, name: str) -> str:
    return "\n".join(map(str, _values(part, name))).strip()


def _person(address: Any) -> str:
    """A name with its address, as mail writes them."""
    place = str(address).removeprefix("mailto:").removeprefix("MAILTO:")
    name = str(address.params.get("CN", "")) if isinstance(address, vCalAddress) else ""
    return f"{name} <{place}>" if name and name != place else place


def _is_time(value: Any) -> bool:
    return isinstance(value, vDDDTypes) and isinstance(value.dt, date)


def _time(part: Component, name: str) -> str:
    """A time as `2026-11-28 10:00 Europe/Berlin` or `2026-11-28`; as it is written if it is not one."""
    value: Any = next(iter(_values(part, name)), "")
    at = value.dt if _is_time(value) else value
    if not isinstance(at, datetime):
        return str(at)
    return f"{at:%Y-%m-%d %H:%M} {value.params.get('TZID') or ('UTC' if at.tzinfo else '')}".strip()
