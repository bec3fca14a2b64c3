"""Names of people to stable pseudonyms: keyed, in the form of UUIDs, in author columns and inside texts."""

from __future__ import annotations

import hmac
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable

_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_MARKED = re.compile("@\u2068([^\u2068\u2069\n]{1,120})\u2069")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LETTERS = 3
"""Names with fewer letters are replaced behind an @ alone, as they would be found inside other words' company."""

Pseudonym = Callable[[str], str]


def keyed_pseudonym(key: bytes) -> Pseudonym:
    """A function from a name to its pseudonym: the first 16 bytes of HMAC-SHA-256 in the form of a UUID.

    Names that differ in case, invisible marks, blanks or Unicode form alone are one name.
    """

    def pseudonym(name: str) -> str:
        digest = hmac.digest(key, _folded(name).encode(), "sha256")
        return str(uuid.UUID(bytes=digest[:16], version=5))

    return pseudonym


def is_pseudonym(author: str) -> bool:
    """True if an author is shown by a pseudonym."""
    return bool(_UUID.fullmatch(author))


def masked_texts(texts: Iterable[str], names: Iterable[str], pseudonym: Pseudonym) -> list[str]:
    """`texts` with the names of people replaced by their pseudonyms.

    Replaced are full names of `names` (those of two and more words whatever their case, single
    words as written), a name or an unambiguous first name behind an `@`, a telephone number behind
    an `@`, and whatever stands between the marks that WhatsApp puts around a mention. First names
    without an `@` stay: they are too often other words.
    """
    listed = list(texts)
    everything = "\n".join(listed)
    folded = everything.casefold()
    known = {" ".join(_INVISIBLE.sub("", n).split()) for n in names}
    present = sorted(n for n in known if n and not _UUID.fullmatch(n) and _may_stand(n, folded))
    firsts: dict[str, set[str]] = {}
    for name in known:
        if first := name.split(" ")[0] if name else "":
            firsts.setdefault(first.casefold(), set()).add(name)
    mentions = {n.casefold(): n for n in known if n}
    mentions |= {f: next(iter(full)) for f, full in firsts.items() if len(full) == 1}
    mentions |= {digits: n for n in known if len(digits := re.sub(r"\D", "", n)) >= 6 and digits in folded}
    mentions = {m: n for m, n in mentions.items() if f"@{m}" in folded}
    plain = _alternatives([n for n in present if sum(c.isalnum() for c in n) >= _LETTERS])
    at = re.compile(rf"@(?:{_longest_first(mentions)})(?!\w)", re.I) if mentions else None

    def masked(text: str) -> str:
        text = _MARKED.sub(lambda m: f"@{pseudonym(m[1])}", text)
        if at:
            text = at.sub(lambda m: f"@{pseudonym(mentions[m[0][1:].casefold()])}", text)
        for pattern in plain:
            text = pattern.sub(lambda m: pseudonym(m[0]), text)
        return text

    return [masked(text) for text in listed] if at or plain or "@\u2068" in everything else listed


def _may_stand(name: str, folded: str) -> bool:
    return name.casefold().split(" ")[0] in folded


def _alternatives(names: list[str]) -> list[re.Pattern[str]]:
    """A pattern of the names of several words, whatever their case, and one of single words as they are."""
    several = [n for n in names if " " in n]
    single = [n for n in names if " " not in n]
    found = []
    if several:
        found.append(re.compile(rf"(?<!\w)(?:{_longest_first(several)})(?!\w)", re.I))
    if single:
        found.append(re.compile(rf"(?<!\w)(?:{_longest_first(single)})(?!\w)"))
    return found


def _longest_first(names: Iterable[str]) -> str:
    ordered = sorted(names, key=lambda n: (-len(n), n))
    return "|".join(re.escape(n).replace(r"\ ", r"\s+") for n in ordered)


def _folded(name: str) -> str:
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", name))
    return " ".join(plain.split()).casefold()
