"""Logs of IRC: lines as irssi, WeeChat, ZNC and HexChat write them."""

import re
from collections.abc import Iterator
from datetime import date, datetime, time

from transforms.conversations.exports import Chat, Entry, Fault, decoded, in_utc
from transforms.conversations.programs import Program
from transforms.errors import ChatFormatError

_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d)(?::(?P<s>\d\d))?"
_LINE = re.compile(
    r"(?:\[(?P<day>\d{4}-\d\d-\d\d) |(?P<weechat>\d{4}-\d\d-\d\d) |(?P<month>[A-Z][a-z]{2}) (?P<of_month>\d\d) |\[)?"
    + _CLOCK
    + r"\]?(?:\t(?P<prefix>[^\t]*)\t| )(?P<rest>.*)"
)
_SAID = re.compile(r"<[ @+%~&!]?(?P<nick>[^<>\s]{1,64})>[ \t](?P<text>.*)")
_DONE = re.compile(r" ?\* ?\t?(?P<nick>[^\s*]{1,64}) (?P<text>.*)")
_DAY = re.compile(
    r"(?:--- (?:Log opened|Day changed)|\*{4} BEGIN LOGGING AT) [A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2})"
    r"(?: \d\d:\d\d(?::\d\d)?)? (?P<year>\d{4})"
)
_CLOSED = re.compile(r"--- Log closed |\*{4} ENDING LOGGING AT ")
_PEOPLE = re.compile(
    r"(?:-!- |\*\*\* (?:(?:Joins|Parts|Quits): )?|\* )?(?P<nick>[^\s\[(]{1,64}) "
    r"(?:[\[(]|has |is now known as (?P<to>[^\s.]+))"
)
_IN_NAME = re.compile(r"(?P<year>\d{4})-?(?P<month>\d\d)-?(?P<day>\d\d)")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
_WEECHAT_SYSTEM = frozenset({"-->", "<--", "--", "=!=", ""})


def looks_like_irc(head: bytes) -> bool:
    """True if most of the first lines are those of a log."""
    lines = [line for line in head.decode(errors="replace").split("\n")[:20] if line.strip()][:-1]
    entries = [line for line in lines if _DAY.match(line) or _entry_of(line)]
    return len(entries) > 1 and len(entries) * 2 > len(lines)


def read_irc(data: bytes, name: str, timezone: str) -> Iterator[Chat]:
    """The chat of a log, whose times are in `timezone`; a join, a quit or a topic is a line of the
    program.

    The day is that of the line, of the last line that names one, or of the name of the file
    (`2024-03-01.log`). ChatFormatError if no line is one of a log, or its day is not known.
    """
    day = _dated(_IN_NAME.search(name.rpartition("/")[2]))
    entries: list[Entry] = []
    names: set[str] = set()
    unknown: list[str] = []
    for line in decoded(data).splitlines():
        if opening := _DAY.match(line):
            day = date(
                int(opening["year"]), _MONTHS.find(opening["month"]) // 4 + 1, int(opening["day"])
            )
            continue
        entry = _entry_of(line)
        if entry is None:
            if line.strip() and not _CLOSED.match(line):
                unknown.append(line)
            continue
        match, nick, text = entry
        day = _day_of(match, day)
        if day is None:
            raise ChatFormatError(
                "no_date: no line names the day; name the file after it, as 2024-03-01.log"
            )
        clock = time(int(match["h"]), int(match["m"]), int(match["s"] or 0))
        at = in_utc(datetime.combine(day, clock), timezone)
        if not nick and (people := _PEOPLE.match(text)):
            names.update(filter(None, people.group("nick", "to")))
        names.update({nick} - {""})
        entries.append(Entry(at, nick, text, "message" if nick else "system"))
    if not entries:
        raise ChatFormatError("no_messages: no line is one of a log of IRC")
    why = f"not_understood: {len(unknown)} lines have no time, and are left out"
    faults = [Fault(f"{name}:lines", why, "\n".join(unknown).encode())] if unknown else []
    yield Chat(name, entries, frozenset(names), faults)


def _entry_of(line: str) -> tuple[re.Match[str], str, str] | None:
    """A line with its nick, empty for one of the program, and its text; None if it is not one of a
    log.
    """
    match = _LINE.match(line)
    if (
        match is None
        or not 0 <= int(match["h"]) < 24
        or int(match["m"]) > 59
        or int(match["s"] or 0) > 59
    ):
        return None
    prefix, rest = match["prefix"], match["rest"]
    if prefix is not None:
        nick = prefix.strip().lstrip("@+%~&")
        if nick == "*":
            nick, _, rest = rest.partition(" ")
        return match, "" if nick in _WEECHAT_SYSTEM else nick, rest
    if speech := _SAID.match(rest):
        return match, speech["nick"], speech["text"]
    done = _DONE.match(rest)
    if done and not _PEOPLE.match(rest):
        return match, done["nick"], done["text"]
    return (match, "", rest) if rest.startswith(("-!- ", "*", "=== ")) else None


def _day_of(match: re.Match[str], day: date | None) -> date | None:
    """The day of a line; a month without its year is of the year that the log is in."""
    if text := match["day"] or match["weechat"]:
        return _dated(_IN_NAME.match(text))
    if match["month"] is None or day is None:
        return day
    month = _MONTHS.find(match["month"]) // 4 + 1 if match["month"] else day.month
    try:
        return date(day.year + (month < day.month), month, int(match["of_month"]))
    except ValueError:
        return day


def _dated(match: re.Match[str] | None) -> date | None:
    try:
        return match and date(int(match["year"]), int(match["month"]), int(match["day"]))
    except ValueError:
        return None


PROGRAM = Program((".log", ".weechatlog", ".txt"), looks_like_irc, read_irc, has_zone=False)
