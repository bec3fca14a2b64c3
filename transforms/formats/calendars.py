"""Calendars (iCalendar, RFC 5545) to Markdown."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime, tzinfo
from typing import Any

from icalendar import Calendar, Component, Timezone, vCalAddress, vDDDTypes
from icalendar.timezone import tzp
from icalendar.timezone.zoneinfo import ZONEINFO

from transforms.formats.converted import Converted, FormatError, heading, own_title, plain
from transforms.text.charsets import decode_text

_PARTS = ("VEVENT", "VTODO", "VJOURNAL")
_ZONE_RULE = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYMONTHDAY", "BYDAY"}
"""Parts of the rules of time zones: an onset a year (RFC 5545, section 3.6.5)."""
_MAX_RULE_VALUES = 12
"""Values of one part of such a rule: seven days of a month, of which one is a Sunday, or all months."""
_MAX_ZONE_RULES = 100
"""Rules in the time zones of one calendar: a zone has two, or a dozen with its history."""
_MAX_ZONE_CHARS = 100
_Event = tuple[Component, dict[str, str]]
"""An event, task or note, and its facts by name."""


def calendar_markdown(data: bytes) -> Converted:
    """A calendar as Markdown: by start a section for each event, task and note, with its time,
    place, people and text.

    A recurrence is its rule, and is not expanded. The `parts` are the events by UID; exceptions of
    a series are of its part. A file of one has also its title, its time, and its facts as `fields`.
    """
    zones = _BoundedZones()
    tzp.use(zones)
    try:
        calendars = Calendar.from_ical(decode_text(data, None).text, multiple=True)
        if not calendars:
            raise FormatError("unreadable: it ends before its END:VCALENDAR")
        events: dict[str, list[_Event]] = {}
        for calendar in calendars:
            for part in calendar.walk():
                if part.name in _PARTS:
                    event = part, _facts(part, _text(calendar, "METHOD").upper() == "CANCEL")
                    uid = _text(part, "UID") or f"{_start(event)} {_text(part, 'SUMMARY')}"
                    events.setdefault(uid, []).append(event)
    except ValueError as error:
        raise FormatError("unreadable: its lines are not those of a calendar") from error
    parts = {uid: _converted(sorted(own, key=_start), zones.defects) for uid, own in events.items()}
    if len(parts) < 2:
        (uid, one), *_ = (*parts.items(), ("", Converted("", [])))
        return one._replace(parts=[(uid, one._asdict())])
    everything = sorted((event for own in events.values() for event in own), key=_start)
    text = _converted(everything, []).text
    title = own_title(_text(calendars[0], "X-WR-CALNAME"))
    defects = sorted({defect for part in parts.values() for defect in part.defects})
    return Converted(
        text, defects, title, parts=[(uid, part._asdict()) for uid, part in parts.items()]
    )


class _BoundedZones(ZONEINFO):
    """The time zones of one calendar, since those of another may have the same names.

    A zone is asked for each time in the file, and goes through the onsets of its rules: a rule that
    names each second would take minutes. Such a rule is not followed, and is in `defects`.
    """

    def __init__(self) -> None:
        self.defects: list[str] = []
        self._count = 0

    def create_timezone(self, tz: Timezone) -> tzinfo:
        """The zone of a component, whose other rules have their first onset alone."""
        for part in tz.subcomponents:
            for name in ("RRULE", "EXRULE"):
                rules = _values(part, name)
                self._count += len(rules)
                if rules and (self._count > _MAX_ZONE_RULES or not all(map(_is_yearly, rules))):
                    del part[name]
                    self.defects.append(f"time_zone_rule: {_text(tz, 'TZID')[:_MAX_ZONE_CHARS]}")
        return super().create_timezone(tz)


def _is_yearly(rule: Any) -> bool:
    """True if a rule of a time zone has few onsets in a year."""
    parts = dict(rule) if isinstance(rule, Mapping) else {}
    return (
        parts.keys() <= _ZONE_RULE
        and parts.get("FREQ") == ["YEARLY"]
        and all(int(interval) > 0 for interval in parts.get("INTERVAL", [1]))
        and all(len(values) <= _MAX_RULE_VALUES for values in parts.values())
    )


def _start(event: _Event) -> str:
    return event[1].get("When", "")


def _converted(events: list[_Event], of_zones: Iterable[str]) -> Converted:
    """Events below each other; the title and facts are those of the series."""
    broken = {f"broken_property: {name}" for part, _ in events for name, _ in part.errors}
    defects = sorted(broken.union(of_zones))
    text = "\n".join(_section(part, facts) for part, facts in events)
    part, facts = next((event for event in events if "RECURRENCE-ID" not in event[0]), events[0])
    at = _value(part, "DTSTART")
    start = at.dt.isoformat() if _is_time(at) else None
    fields = {name.lower(): value for name, value in facts.items()}
    return Converted(text, defects, own_title(_text(part, "SUMMARY")), None, start, fields=fields)


def _section(part: Component, facts: dict[str, str]) -> str:
    title = heading(2, _text(part, "SUMMARY") or "No title")
    lines = [f"{name}: {value}" for name, value in facts.items()]
    texts = title, plain("  \n".join(lines)), plain(_text(part, "DESCRIPTION"))
    return "\n\n".join(filter(None, texts)) + "\n"


def _facts(part: Component, is_cancelled: bool) -> dict[str, str]:
    """The facts of an event that it has: its time, rule, place, people and state."""
    ends = (_time(_value(part, name)) for name in ("DTSTART", "DTEND", "DUE"))
    rules = [rule.to_ical().decode() for rule in _values(part, "RRULE")]
    left_out = [_time(one) for dates in _values(part, "EXDATE") for one in dates.dts]
    facts = {
        "When": " to ".join(filter(None, ends)),
        "Repeats": "; ".join(rules),
        "Except": ", ".join(left_out),
        "Instead of": _time(_value(part, "RECURRENCE-ID")),
        "Where": _text(part, "LOCATION"),
        "Organizer": ", ".join(map(_person, _values(part, "ORGANIZER"))),
        "With": ", ".join(map(_person, _values(part, "ATTENDEE"))),
        "Status": "cancelled" if is_cancelled else _text(part, "STATUS").lower(),
    }
    return {name: " ".join(value.split()) for name, value in facts.items() if value}


def _value(part: Component, name: str) -> Any:
    return next(iter(_values(part, name)), "")


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


def _time(value: Any) -> str:
    """A time as `2026-11-28 10:00 Europe/Berlin` or `2026-11-28`; as it is written if it is not
    one.
    """
    at = value.dt if _is_time(value) else value
    if not isinstance(at, datetime):
        return str(at)
    return f"{at:%Y-%m-%d %H:%M} {value.params.get('TZID') or ('UTC' if at.tzinfo else '')}".strip()
