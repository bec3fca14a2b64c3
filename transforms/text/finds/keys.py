"""Private keys: blocks of OpenPGP, PEM and PuTTY, also cut off, quoted or in JSON."""

from __future__ import annotations

import re

from transforms.text.finds.forms import Find

_BEGIN = re.compile(rb"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = re.compile(rb"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_MOST = 65_536
"""Bytes of a block."""
_LINE = re.compile(rb"[\s>|*#+\\nrt\"',-]*[A-Za-z0-9+/=]{30,}(?![A-Za-z0-9+/=])[\"',\\nr \t]*")
_SHORT = re.compile(rb"[\s>]*[A-Za-z0-9+/=]+[\s>]*\Z")
_WHOLE, _LAST = re.compile(rb"[A-Za-z0-9+/=]{30,}"), re.compile(rb"=?[A-Za-z0-9+/=]+")
_LONGEST = 200
"""Bytes of a line of a block."""
_PUTTY = re.compile(rb"Private-Lines: ([0-9]{1,3})[ \t]*\r?\n")


def block_at(data: bytes, at: int) -> Find | None:
    """The private key whose first line stands at `at`: to its last line, else over the lines of base64 below it."""
    begin = _BEGIN.match(data, at)
    if not begin:
        return None
    last = data.find(b"-END ", begin.end(), begin.end() + _MOST)
    if last > 0 and (end := _END.search(data, last - 4, last + 100)):
        return Find(at, end.end(), "private_key")
    place = _lines(data, begin.end())
    if place == begin.end():
        return None
    rest = _SHORT.match(data, place)
    return Find(at, len(data) if rest else place, "private_key")


def _lines(data: bytes, place: int) -> int:
    """The end of the lines of base64 that begin at `place`."""
    while line := _LINE.match(data, place):
        place = line.end()
    return place


def block_before(data: bytes, at: int) -> Find | None:
    """The private key whose last line stands at `at` and whose first lines are cut off."""
    end = _END.match(data, at)
    if not end:
        return None
    start, is_last = at, True
    while at - start < _MOST:
        begin = data.rfind(b"\n", max(0, start - _LONGEST), max(0, start - 1)) + 1
        if not (begin or start <= _LONGEST) or not (_LAST if is_last else _WHOLE).fullmatch(
            data[begin:start].strip(b" \t\r\n>|*")
        ):
            break
        start, is_last = begin, False
    if start == at:
        return None
    start += len(data[start:at]) - len(data[start:at].lstrip(b" \t\r\n>|*"))
    return Find(start, end.end(), "private_key")


def putty_at(data: bytes, at: int) -> Find | None:
    """The lines of a PuTTY key that are private."""
    head = _PUTTY.match(data, at)
    place = _lines(data, head.end()) if head else 0
    if not head or place == head.end():
        return None
    short = re.compile(rb"[ \t>]*[A-Za-z0-9+/=]{4,}(?=\r?\n)").match(data, place)
    return Find(head.end(), short.end() if short else place, "private_key")
