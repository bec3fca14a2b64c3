"""WhatsApp chat exports to entries: the line forms of Android and iOS, and the lines of WhatsApp
itself.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, datetime, timedelta
from itertools import pairwise
from typing import Literal, NamedTuple

from transforms.conversations.exports import Chat, Entry, Fault, NamedFile, in_utc
from transforms.errors import ChatFormatError
from transforms.toml_file import toml_file

DateOrder = Literal["auto", "dmy", "mdy", "ymd"]

_MARKS = "\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
_BLANK = "[ \u00a0\u202f\u2009]"
_DATE = (
    rf"(?P<a>\d{{1,4}})[{_MARKS}]?(?P<sep>[./-])[{_MARKS}]?{_BLANK}?"
    rf"(?P<b>\d{{1,2}})[{_MARKS}]?(?P=sep)[{_MARKS}]?{_BLANK}?(?P<c>\d{{1,4}})"
)
_MORNING = "\u4e0a\u5348|\u51cc\u6668|\u65e9\u4e0a|\u5348\u524d|\uc624\uc804"
_EVENING = "\u4e0b\u5348|\u4e2d\u5348|\u665a\u4e0a|\u5348\u5f8c|\uc624\ud6c4"
_CLOCK = (
    rf"(?:klo{_BLANK})?(?:(?P<before>{_MORNING}|{_EVENING}){_BLANK}?)?"
    r"(?P<h>\d{1,2})[:.](?P<m>\d\d)(?:[:.](?P<s>\d\d))?"
    rf"(?:{_BLANK}?(?:(?P<half>[AaPp])\.?{_BLANK}?[Mm]\.?|(?P<arabic>[\u0635\u0645])))?"
)
_END = rf"(?P<close>\]?){_BLANK}(?P<dash>[-\u2013]{_BLANK})?"
_HEADS = tuple(
    re.compile(rf"^[{_MARKS}]*(?P<open>\[?){form}", re.M)
    for form in (
        # `27.03.25, 18:02 - ` (Android) or `[27/03/2025, 6:02:33 PM] ` (iOS), direction marks
        # before it.
        rf"{_DATE}[,.\u060c]?{_BLANK}+{_CLOCK}{_END}",
        # `18:02, 27/3/2025 - ` (Vietnamese)
        rf"{_CLOCK},?{_BLANK}+{_DATE}{_END}",
        # `2025\ub144 3\uc6d4 27\uc77c \uc624\ud6c4 6:02, ` (Korean, Android)
        rf"(?P<a>\d{{4}})\ub144 (?P<b>\d{{1,2}})\uc6d4 (?P<c>\d{{1,2}})\uc77c {_CLOCK}(?P<close>)(?P<dash>,{_BLANK})",
    )
)
_LOOK_CHARS = 1 << 16
"""Characters by which the form of the lines is chosen."""
_AUTHOR = re.compile(rf"[{_MARKS}]*+(?P<author>[^\n]{{1,120}}?)[{_MARKS}]*+:(?:{_BLANK}|(?=\n|\Z))")
_LINE_MARK = re.compile(r"^\u200e", re.M)
_ODD_DATES = 0.05
_OUT_OF_ORDER = timedelta(days=1)


class _Head(NamedTuple):
    """The beginning of a line that looks like a message's, and its numbers."""

    start: int
    end: int
    is_ios: bool
    date: tuple[int, int, int]
    digits: tuple[int, int, int]
    clock: tuple[int, int, int]
    has_half: bool


def looks_like_whatsapp(text: str) -> bool:
    """True if one of the first lines has the form of an exported message."""
    return any(map(_heads, text[:4096].split("\n")[:20]))


def read_whatsapp(text: str, name: str, timezone: str, order: DateOrder = "auto") -> Chat:
    """The chat that an export holds.

    A message runs to the next beginning of one, blank lines included. The date order is the one
    that the numbers of the whole file allow, else the one in which time runs forward, else day
    first (month first where the clock has AM and PM). A line that looks like a beginning and is out
    of the order of time is text, as somebody may type one. `timezone` is the zone of the phone that
    exported, as exports name none. ChatFormatError if no line begins a message, or if two date
    orders are mixed.
    """
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    heads = _heads(text)
    if not heads:
        raise ChatFormatError("no_messages: no line begins as a message of a WhatsApp export does")
    style = sum(h.is_ios for h in heads) * 2 > len(heads)
    heads = [h for h in heads if h.is_ios == style]
    date_order = _date_order(heads, order)
    dated = [(h, at) for h in heads if (at := _time(h, date_order))]
    if len(dated) < len(heads) * (1 - _ODD_DATES) - 2:
        raise ChatFormatError(
            f"mixed_dates: {len(heads) - len(dated)} of {len(heads)} lines have no {date_order} date; two exports in one "
            "file? Split them, or set `date_order` of the source"
        )
    in_order = _in_order(dated)
    entries, faults = [], []
    if preamble := text[: in_order[0][0].start].strip():
        faults.append(
            Fault(f"{name}:0", "before_first: text before the first message", preamble.encode())
        )
    names: set[str] = set()
    for (head, at), following in zip(
        in_order, [*(h.start for h, _ in in_order[1:]), len(text)], strict=True
    ):
        body = text[head.end : following].removesuffix("\n")
        entries.append(_entry(in_utc(at, timezone), body, names))
    lines = [entry.text for entry in entries if entry.kind == "system"]
    unknown = [line for line in lines if not _is_understood(line.strip(_MARKS_ALONE))]
    if unknown:
        why = f"not_understood: {len(unknown)} lines of the program, kept as they are; names in them may stay"
        faults.append(Fault(f"{name}:system", why, "\n".join(unknown).encode()))
    return Chat(name, entries, frozenset(names), faults)


def _heads(text: str) -> list[_Head]:
    heads = []
    form = max(_HEADS, key=lambda form: len(form.findall(text, 0, _LOOK_CHARS)))
    for match in form.finditer(text):
        bracketed = bool(match["open"]) and bool(match["close"])
        if bracketed == bool(match["dash"]) or bool(match["open"]) != bool(match["close"]):
            continue
        parts = (match["a"], match["b"], match["c"])
        hour = int(match["h"])
        half = match["half"] or match["arabic"] or match["before"]
        if half:
            hour = hour % 12 + (12 if half in ("p", "P", "\u0645", *_EVENING.split("|")) else 0)
        clock = (hour, int(match["m"]), int(match["s"] or 0))
        a, b, c = (int(p) for p in parts)
        la, lb, lc = (len(p) for p in parts)
        heads.append(
            _Head(match.start(), match.end(), bracketed, (a, b, c), (la, lb, lc), clock, bool(half))
        )
    return heads


def _date_order(heads: Sequence[_Head], order: DateOrder) -> DateOrder:
    if order != "auto":
        return order
    if sum(h.digits[0] == 4 for h in heads) * 2 > len(heads):
        return "ymd"
    day_first = sum(h.date[0] > 12 for h in heads)
    month_first = sum(h.date[1] > 12 for h in heads)
    if min(day_first, month_first) > len(heads) * _ODD_DATES + 2:
        raise ChatFormatError(
            f"mixed_dates: {day_first} lines have the day first, {month_first} the month; two exports in one file? "
            "Split them, or set `date_order` of the source"
        )
    if day_first != month_first:
        return "dmy" if day_first > month_first else "mdy"
    in_order = [[at for h in heads if (at := _time(h, o))] for o in ("dmy", "mdy")]
    steps_back = [sum(b < a for a, b in pairwise(times)) for times in in_order]
    if steps_back[0] != steps_back[1]:
        return "dmy" if steps_back[0] < steps_back[1] else "mdy"
    return "mdy" if heads[0].has_half else "dmy"


def _time(head: _Head, order: str) -> datetime | None:
    """Local time of a beginning in a date order; None if the day or hour does not exist."""
    day, month, year = (head.date[order.index(part)] for part in "dmy")
    if year < 100:
        year += 2000
    if year >= MAXYEAR:  # no zone can be reckoned with
        return None
    try:
        return datetime(year, month, day, *head.clock)
    except ValueError:
        return None


def _in_order(dated: list[tuple[_Head, datetime]]) -> list[tuple[_Head, datetime]]:
    """The heads in order of time; a few heads far out of order are text that somebody typed.

    The longest sequence that never steps back (Fredman 1975), and heads within a day of it.
    """
    tails: list[datetime] = []
    tail_indexes: list[int] = []
    predecessors: list[int] = []
    for number, (_, at) in enumerate(dated):
        slot = bisect_right(tails, at)
        predecessors.append(tail_indexes[slot - 1] if slot else -1)
        if slot == len(tails):
            tails.append(at)
            tail_indexes.append(number)
        else:
            tails[slot], tail_indexes[slot] = at, number
    chain = set()
    at_end = tail_indexes[-1]
    while at_end >= 0:
        chain.add(at_end)
        at_end = predecessors[at_end]
    remaining, last = [], None
    for number, (head, at) in enumerate(dated):
        if number in chain:
            last = at
        elif last is None or abs(at - last) > _OUT_OF_ORDER:
            continue
        remaining.append((head, at))
    return remaining if len(dated) - len(remaining) <= len(dated) * _ODD_DATES + 2 else dated


def _entry(at: datetime, body: str, names: set[str]) -> Entry:
    match = _AUTHOR.match(body)
    if match is None or ACTION.search(match["author"]):
        names.update(_members(body))
        return Entry(at, "", body, "system")
    author, text = match["author"].strip(), body[match.end() :]
    if edited := _end_mark(EDITED, text):
        text = text[: _start_of_mark(text, edited)]
    first, below = text.split("\n", 1)[0], _end_mark(ATTACHED_BELOW, text)
    media = MEDIA.fullmatch(first)
    name = attached_file(first if media else text) if media or below else None
    files = (NamedFile(name, (name,)),) if name else ()
    if media:
        # A caption is on the lines behind the mark.
        caption = text[media.end() :].strip("\n")
        return Entry(at, author, caption, "message" if caption else "media", files=files)
    if DELETED.fullmatch(text):
        return Entry(at, author, "", "deleted")
    mark = below or SHARED.match(text)
    if text.lstrip("\u2068\u2069").startswith("\u200e") and not mark:
        # iOS writes lines of the program so, and before them the actor, or the name of the group.
        names.update(_members(text))
        return Entry(at, "", text.lstrip("\u200e\u200f"), "system")
    text = text[: _start_of_mark(text, below)] if below else text
    # iOS writes the mark before each line of a poll and before places and cards.
    return Entry(
        at, author, _LINE_MARK.sub("", text), "message", is_edited=bool(edited), files=files
    )


_TABLE = toml_file(__name__, "whatsapp.toml")
_WORDS: dict[str, str] = {name: "|".join(words) for name, words in _TABLE["words"].items()}


def _lines(field: str) -> list[str]:
    """The expressions of all languages for one field."""
    return [language[field] for language in _TABLE["language"] if field in language]


def _any(field: str) -> str:
    return "|".join(_lines(field))


# `<Media omitted>` and `<attached: 1.jpg>` have two words or letters outside ASCII, as tags that
# people type have not.
MEDIA = re.compile(
    rf"[{_MARKS}]*(?:<[^<>\n/=]{{1,40}} [^<>\n/=]{{1,40}}>|<[^<>\n\x00-\x7f]{{2,40}}>"
    r"|<[^<>:\n]{2,24} ?: [^<>\n]+\.\w{2,5}>"
    r"|[^\n]{1,200}\.\w{2,5} \([^()\n]{4,40}\)|null"
    rf"|{_any('media')})[ \t]*"
)
ATTACHED_BELOW = re.compile(r"<[^<>:\n]{2,24} ?: (?P<file>[^<>\n]+\.\w{2,5})>[ \t]*")
_FILE = re.compile(rf"[{_MARKS} ]*+(?P<file>[^\n/]{{1,200}}\.\w{{2,5}}) \([^()\n]{{4,40}}\)[ \t]*")
DELETED = re.compile(rf"[{_MARKS}]*(?:{_any('deleted')})\.?[ \t]*")
EDITED = re.compile(rf"<[^<>\n]{{0,40}}(?:{_WORDS['edited']})[^<>\n]{{0,20}}>[ \t]*")
# Polls and places that a user shares are messages, though iOS marks them as its own words.
SHARED = re.compile(rf"[{_MARKS}]*(?:\w{{3,12}} ?:\n|[^\n:]{{3,24}} ?: https?://)")

_NOTICE = re.compile(rf"(?i:{_WORDS['notices']})")
_PEOPLE_DO = [
    re.compile(rf"(?P<a>[^\n\"„“«]{{1,80}}?),? (?:{verbs})(?![a-z])") for verbs in _lines("does")
]
_ADDED = [[re.compile(part) for part in verbs.split("PEOPLE")] for verbs in _lines("adds")]
"""The words before and behind the people whom somebody adds, by language."""
_WITH = [
    re.compile(part)
    for part in (rf"(?:{_WORDS['before_name']}) ", rf" (?:{_WORDS['behind_name']})\b|[.,]|$")
]
_ADDER = re.compile(r"(?P<a>[^\n\"„“«]{1,80}?),? $")
_ADDER_CHARS = 82
ACTION = re.compile(
    "|".join([r"[\"„“«]", *(rf"\b(?:{verbs})(?![a-z])" for verbs in _lines("does"))])
)
"""The beginning of a line of the program before a colon, as in `Maud changed the subject to
"Gauges: new"`.
"""
_AND = re.compile(r", | (?:and|und|y|e|et|en|ve|i|и|dan|och|&) ")
_GROUP = re.compile(rf" (?:{_WORDS['before_group']}) ?(?:[\w']+ )?(?:{_WORDS['group']})\w*.*$")
_NOBODY = re.compile(rf"(?:{_WORDS['nobody']})\b.*", re.I)
_PHONE = re.compile(r"\+\d[\d ().\u00a0\u202f-]{6,}\d")


def _members(line: str) -> Iterator[str]:
    """The people whom a line of the program names, and the telephone numbers in it.

    >>> sorted(set(_members("Maud hat Jo Pires und +49 170 1234567 hinzugefügt")))
    ['+49 170 1234567', 'Jo Pires', 'Maud']
    """
    text = line.strip(_MARKS_ALONE)
    yield from _PHONE.findall(text)
    if groups := _named(text):
        yield from (name for group in groups for name in _people(group))
        return
    for pattern in _PEOPLE_DO:
        if match := pattern.match(text):
            yield from _people(match["a"])
            return


def _is_understood(text: str) -> bool:
    """True if a line of the program has a known form, so that the names in it are known, too."""
    return bool(_NOTICE.search(text) or ACTION.search(text) or _named(text))


def _named(text: str) -> list[str]:
    """The places of names in the first line of the program that says who adds whom, or with whom a
    code changes; empty if none does.

    Each line is searched once for each end of a form: an expression over the whole form tries each
    end with each beginning.
    """
    lines = text.split("\n")
    for before, behind in (*_ADDED, _WITH):
        for line in lines:
            head = before.search(line)
            tail = head and behind.search(line, head.end() + 1)
            if head and tail:
                return _places(line, head, tail)
    return []


def _places(line: str, head: re.Match[str], tail: re.Match[str]) -> list[str]:
    """The places of names before the form `head`, and between it and `tail`."""
    people = line[head.end() : tail.start() if tail[0] else len(line)]
    adder = _ADDER.search(line, max(0, head.start() - _ADDER_CHARS), head.start())
    return [adder["a"], people] if adder and head.re is not _WITH[0] else [people]


_MARKS_ALONE = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff \t"


def _people(group: str) -> Iterator[str]:
    """The names in one place of a line, without the group they join and without pronouns."""
    for name in _AND.split(_GROUP.sub("", group)):
        bare = name.strip(_MARKS_ALONE + ".")
        if bare and not _NOBODY.fullmatch(bare) and not _PHONE.fullmatch(bare):
            yield bare


def attached_file(line: str) -> str | None:
    """The name of the file that a line attaches, as `1.pdf (file attached)` does; None if it names
    none.

    >>> attached_file("Plan.pdf \u2022 2 pages <attached: 00000012-Plan.pdf>"), attached_file("<Media omitted>")
    ('00000012-Plan.pdf', None)
    """
    match = _end_mark(ATTACHED_BELOW, line) or _FILE.fullmatch(line)
    name = match["file"].strip(_MARKS_ALONE) if match else ""
    return None if "/" in name else name or None


def _end_mark(form: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The mark in angle brackets of this form that ends a text."""
    at = text.rfind("<")
    return form.fullmatch(text, at) if at >= 0 else None


def _start_of_mark(text: str, mark: re.Match[str]) -> int:
    """Where a mark begins, with the invisible characters and blanks before it."""
    return len(text[: mark.start()].rstrip(_MARKS_ALONE.replace("\t", "")))
