"""All finds of texts: words that stand in or before one are looked for at once, then each kind looks there."""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial

import polars as pl

from transforms.text.finds import FIND_KINDS, SECRETS, forms, named, personal

_Looks = Callable[[bytes, int], Iterable[forms.Find] | forms.Find | None]
_BEGIN = 3
"""Bytes by which a word is looked up; all words but `@` have as many."""
_AT_SIGN = ord("@")
_WRITTEN_AT = ("(at)", "[at]", "{at}", "<at>", "(a)", "(@)", "[@]", " dot ")
_PHONES = (
    "tel",
    "tél",
    "phone",
    "mob",
    "cell",
    "fax",
    "handy",
    "whatsapp",
    "call me",
    "reach me",
    "ring me",
)
_ESCAPES = (
    "%5f",
    "%2d",
    "%2e",
    "%40",
    "&#",
    "&lowbar;",
    "&commat;",
    "\\_",
    "=5f",
    "\\u00",
    "\u200b",
    "\u200c",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\u00ad",
    "\uff20",
    "\uff0e",
)
_ESCAPE = re.compile(
    rb"%([2-7][0-9A-Fa-f])|&#0{0,3}([0-9]{2,3});|(?:&#[xX]0{0,2}|\\u00)([2-7][0-9A-Fa-f]);?|(&lowbar;|\\_|=5[Ff])|(&commat;|\xef\xbc\xa0)|"
    rb"(\xef\xbc\x8e)|\xe2\x80[\x8b-\x8d]|\xe2\x81\xa0|\xef\xbb\xbf|\xc2\xad"
)
_ANY_FORMLESS = "|".join(p for patterns in forms.FORMLESS.values() for p in patterns)
_FORMLESS_PATTERNS = [
    (kind, re.compile(rf"(?<![A-Za-z0-9])(?:{p})(?![A-Za-z0-9])".encode()))
    for kind, patterns in forms.FORMLESS.items()
    for p in patterns
]


def finds_in(texts: pl.Series, kinds: Collection[str]) -> Iterator[tuple[int, list[forms.Find]]]:
    """The row of each text that has finds of those `kinds`, and these, in order and disjoint; their places are bytes.

    `texts` are valid Unicode or null, without finds.
    """
    if not kinds or texts.is_empty():
        return
    wants = {kind: kind in kinds for kind in FIND_KINDS}
    words, looks = _words(frozenset(kinds))
    columns = pl.DataFrame(
        {
            "text": texts,
            "places": texts.str.find_many(words, ascii_case_insensitive=True, overlapping=True),
            "escaped": texts.str.contains_any(list(_ESCAPES), ascii_case_insensitive=True),
            "formless": texts.str.contains(_ANY_FORMLESS)
            if wants["access_token"]
            else pl.repeat(False, len(texts), eager=True),
            "phone": texts.str.contains(personal.NUMBER_SHAPES[0]) & wants["phone"],
            "payment": texts.str.contains(personal.NUMBER_SHAPES[1]) & wants["card"],
        }
    ).with_row_index("row")
    is_suspect = (pl.col("places").list.len() > 0) | pl.any_horizontal(
        "escaped", "formless", "phone", "payment"
    )
    for row, text, places, escaped, formless, phone, payment in columns.filter(
        is_suspect
    ).iter_rows():
        data = text.encode()
        shapes = [
            look for look, is_on in zip(_SHAPED, (formless, phone, payment), strict=True) if is_on
        ]
        finds = list(_finds(data, places, looks, shapes))
        if escaped:
            view = _View(data)
            own = _finds(view.data, _places(view.data, words), looks, shapes)
            finds += [
                forms.Find(view.place(start), view.end(end), kind) for start, end, kind in own
            ]
        finds = _disjoint([find for find in finds if find.kind in kinds])
        if finds:
            yield row, finds


def _finds(
    data: bytes,
    places: Collection[int],
    looks: Mapping[bytes, list[tuple[bytes, _Looks]]],
    shapes: Iterable[Callable[[bytes], Iterator[forms.Find]]],
) -> Iterator[forms.Find]:
    """The finds of a text, in any order, where words are looked for at `places`, and finds without a word by `shapes`."""
    last = forms.Find(0, 0, "")
    for at in sorted(set(places)):
        if data[at] == _AT_SIGN:
            address = personal.email_at(data, at)
            in_place = [address] if address else []
        elif (
            last.start < at < last.end
        ):  # a word in a secret: a second look at each would take the square of the length
            continue
        else:
            in_place = list(_at(data, at, looks))
            last = max((last, *in_place), key=lambda find: find.end)
        yield from in_place
    for shaped in shapes:
        yield from shaped(data)


class _View:
    """A text without escapes and characters that nobody sees, and the places of its bytes in the text."""

    def __init__(self, data: bytes):
        parts, self._own, self._texts = [], [0], [0]
        length = last = 0
        for match in _ESCAPE.finditer(data):
            code, decimal, hexadecimal, low, at, dot = match.groups()
            value = (
                int(code or hexadecimal, 16)
                if code or hexadecimal
                else int(decimal)
                if decimal
                else 0
            )
            plain = (
                bytes([value])
                if 32 < value < 127
                else b"_"
                if low
                else b"@"
                if at
                else b"."
                if dot
                else b""
            )
            if not plain and (code or decimal or hexadecimal):
                continue
            parts += [data[last : match.start()], plain]
            length += match.start() - last + len(plain)
            last = match.end()
            self._own += [length - len(plain), length]
            self._texts += [match.start(), last]
        self.data = b"".join(parts) + data[last:]

    def place(self, at: int) -> int:
        """Where the byte `at` of the view begins in the text."""
        n = bisect_right(self._own, at) - 1
        return self._texts[n] + at - self._own[n]

    def end(self, at: int) -> int:
        """Where the byte before `at` ends in the text."""
        n = bisect_right(self._own, at - 1) - 1
        is_escape = n % 2 == 1
        return self._texts[n + 1] if is_escape else self._texts[n] + at - self._own[n]


def _places(data: bytes, words: list[str]) -> list[int]:
    text = pl.Series([data.decode(errors="replace")])
    return list(text.str.find_many(words, ascii_case_insensitive=True, overlapping=True)[0])


@cache
def _words(kinds: frozenset[str]) -> tuple[list[str], dict[bytes, list[tuple[bytes, _Looks]]]]:
    """The words to look for, and by the first three bytes of each, in lower case, the functions that look at its place."""
    looks: list[tuple[str, _Looks]] = []
    if kinds.intersection(SECRETS):
        looks += [
            (prefix, partial(forms.token_at, form=form)) for prefix, form in forms.forms().items()
        ]
        looks += [
            (core, partial(forms.coded_token_at, core=core.encode(), meanings=meanings))
            for core, meanings in forms.coded_prefixes().items()
        ]
        looks += named.NAMES.items()
        looks += [(word, forms.block_at) for word in ("-----begin", "---- begin")]
        looks += [(word, forms.block_before) for word in ("-----end", "---- end")]
        looks += [("private-lines:", forms.putty_at)]
    if "email" in kinds:
        looks += [(word, personal.written_email_at) for word in _WRITTEN_AT]
    if "phone" in kinds:
        looks += [(word, personal.phones_at) for word in _PHONES]
    by_begin: dict[bytes, list[tuple[bytes, _Looks]]] = {}
    for word, look in looks:
        lower = word.lower().encode()
        by_begin.setdefault(lower[:_BEGIN], []).append((lower, look))
    return sorted({word for word, _ in looks} | ({"@"} if "email" in kinds else set())), by_begin


def _at(
    data: bytes, at: int, looks: Mapping[bytes, list[tuple[bytes, _Looks]]]
) -> Iterator[forms.Find]:
    for word, look in looks.get(data[at : at + _BEGIN].lower(), ()):
        if len(word) <= _BEGIN or data[at : at + len(word)].lower() == word:
            finds = look(data, at) or ()
            yield from (finds,) if isinstance(finds, forms.Find) else finds


def _formless(data: bytes) -> Iterator[forms.Find]:
    for kind, pattern in _FORMLESS_PATTERNS:
        yield from (forms.Find(*match.span(), kind) for match in pattern.finditer(data))


_SHAPED = (_formless, personal.phones, personal.payments)
"""The functions for finds that a text may hold without a word before them."""


def _disjoint(finds: list[forms.Find]) -> list[forms.Find]:
    """Finds in the order of their places: a secret takes in those it overlaps, else the one of the first kind stays."""
    if len(finds) < 2:
        return finds
    rank = {kind: n for n, kind in enumerate(FIND_KINDS)}
    result: list[forms.Find] = []
    for find in sorted(finds, key=lambda f: (f.start, rank[f.kind], -f.end)):
        if not result or result[-1].end <= find.start:
            result.append(find)
            continue
        last = result[-1]
        first = min(last, find, key=lambda f: rank[f.kind])
        if last.kind in SECRETS and find.kind in SECRETS:
            result[-1] = forms.Find(last.start, max(last.end, find.end), first.kind)
        elif first is find:
            result[-1] = find
    return result
