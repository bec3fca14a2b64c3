"""All finds of texts: words that stand in or before one are looked for at once, then each kind
looks there.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial

import polars as pl

from transforms.text.finds import FIND_KINDS, SECRETS, forms, personal, services
from transforms.text.finds.commands import COMMAND_LOOKS
from transforms.text.finds.named import NAMED_LOOKS
from transforms.text.finds.private_keys import KEY_LOOKS
from transforms.text.finds.prose import PROSE_LOOKS
from transforms.text.finds.read_text import ESCAPES, ReadText

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
    "numéro",
    "елефон",
    "電話",
    "电话",
    "携帯",
    "手机",
)
_NUMBERS = ("iban", "konto", "account", "cuenta", "ssn", "ss#", "social security", "passport n")
_FORMLESS = [pattern for patterns in forms.FORMLESS.values() for pattern in patterns]
"""Each is looked for by itself: one search for all has no letters to skip to."""
_FORMLESS_PATTERNS = [
    (kind, re.compile(rf"(?<![A-Za-z0-9])(?:{p})(?![A-Za-z0-9])".encode()))
    for kind, patterns in forms.FORMLESS.items()
    for p in patterns
]


def finds_in(texts: pl.Series, kinds: Collection[str]) -> Iterator[tuple[int, list[forms.Find]]]:
    """The row of each text that has finds of those `kinds`, and these, in order and disjoint; their
    places are bytes.

    `texts` are valid Unicode or null, without finds.
    """
    if not kinds or texts.is_empty():
        return
    words, looks = _words(frozenset(kinds))
    columns = pl.DataFrame(
        {
            "text": texts,
            "places": _places(texts, words),
            "escaped": texts.str.contains_any(ESCAPES, ascii_case_insensitive=True),
            "formless": _is_formless(texts) & ("access_token" in kinds),
            "phone": texts.str.contains(personal.NUMBER_SHAPES[0]) & ("phone" in kinds),
            "payment": texts.str.contains(personal.NUMBER_SHAPES[1]) & ("card" in kinds),
        }
    ).with_row_index("row")
    is_suspect = (pl.col("places").list.len() > 0) | pl.any_horizontal(
        "escaped", "formless", "phone", "payment"
    )
    suspects = columns.filter(is_suspect)
    escaped_texts = suspects.filter("escaped")["text"].to_list()
    views = [ReadText(text.encode()) for text in escaped_texts]
    # All at once: each search builds the table of its words first.
    in_views = _places(
        pl.Series([view.data.decode(errors="replace") for view in views], dtype=pl.String), words
    )
    readings = iter(zip(views, in_views, strict=True))
    for row, text, places, escaped, *is_on in suspects.iter_rows():
        shapes = [look for look, is_one in zip(_SHAPED, is_on, strict=True) if is_one]
        finds = list(_finds(text.encode(), places, looks, shapes))
        if escaped:
            view, in_view = next(readings)
            own = _finds(view.data, in_view, looks, shapes or _SHAPED)
            finds += [
                forms.Find(view.place(start), view.end(end), kind) for start, end, kind in own
            ]
        finds = _disjoint([find for find in finds if find.kind in kinds])
        if finds:
            yield row, finds


def _is_formless(texts: pl.Series) -> pl.Series:
    tables = {pattern: texts.str.contains(pattern) for pattern in _FORMLESS}
    return pl.DataFrame(tables).select(pl.any_horizontal(pl.all())).to_series()


def _places(texts: pl.Series, words: list[str]) -> pl.Series:
    """The bytes of each text at which a word begins."""
    return texts.str.find_many(words, ascii_case_insensitive=True, overlapping=True)


def _finds(
    data: bytes,
    places: Collection[int],
    looks: Mapping[bytes, list[tuple[bytes, _Looks]]],
    shapes: Iterable[Callable[[bytes], Iterator[forms.Find]]],
) -> Iterator[forms.Find]:
    """The finds of a text, in any order, where words are looked for at `places`, and finds without
    a word by `shapes`.
    """
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


@cache
def _words(kinds: frozenset[str]) -> tuple[list[str], dict[bytes, list[tuple[bytes, _Looks]]]]:
    """The words to look for, and by the first three bytes of each, in lower case, the functions
    that look at its place.
    """
    looks: list[tuple[str, _Looks]] = []
    if kinds.intersection(SECRETS):
        looks += [
            (prefix, partial(forms.token_at, form=form)) for prefix, form in forms.forms().items()
        ]
        looks += [
            (core, partial(forms.coded_token_at, core=core.encode(), meanings=meanings))
            for core, meanings in forms.coded_prefixes().items()
        ]
        looks += [
            (digits, partial(forms.hexadecimal_token_at, form=form))
            for digits, form in forms.hexadecimal_prefixes().items()
        ]
        for of_words in (NAMED_LOOKS, PROSE_LOOKS, COMMAND_LOOKS, KEY_LOOKS):
            looks += of_words.items()
        looks += services.looks()
        looks += [(word, personal.numbers_at) for word in _NUMBERS]
    if "email" in kinds:
        looks += [(word, personal.written_email_at) for word in _WRITTEN_AT]
    if "phone" in kinds:
        looks += [(word, personal.phones_at) for word in _PHONES]
    by_begin: dict[bytes, list[tuple[bytes, _Looks]]] = {}
    for word, look in looks:
        lower = word.encode().lower()  # as Polars does: letters of ASCII alone
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
    """Finds in the order of their places: a secret takes in those it overlaps, else the one of the
    first kind stays.
    """
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
