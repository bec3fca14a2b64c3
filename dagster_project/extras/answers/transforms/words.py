"""The words of sentences, as two of them are compared: numbers, dates, persons and signs of language made equal."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from transforms.languages import UNSPACED, function_words
from transforms.settings.search import TermSettings
from transforms.signs import languages_with_signs, sign_languages, sign_pattern, surest_language
from transforms.text.segments import PARAGRAPH, SENTENCE
from transforms.text.terms import stems
from transforms.toml_file import toml_file

SELF, OTHERS = "@self", "@others"
"""The words of whoever speaks, and of somebody who was named before."""
_DEFAULT = "english"
_MOST = 120
"""Words of a sentence that are compared; what is behind them does not stand."""
_LINE = re.compile(r"\n(?=\s*(?:[-*+•]|\d{1,2}[.)]|#{1,6})\s)|(?<=:)\n|\n(?=\S[^\n]{0,60}:\n)")
_NO_END = re.compile(
    r"(?:\b(?:[A-Z]|e\.g|i\.e|etc|vs|cf|approx|Dr|Mr|Mrs|Ms|Prof|St|No|z\.B|d\.h|bzw|ca|Nr)|\b\d{1,2})\.$"
)
_SPLIT_NUMBER = re.compile(r"\b\d{1,2}\.$")
_TOKEN = re.compile(
    rf"[{UNSPACED}]|\d{{1,3}}(?:[ \u00a0\u202f',]\d{{3}})+(?![\d\w])|\d+(?:[.,:]\d+)+(?!\w)|"
    rf"[^\W{UNSPACED}]+(?:[-./][^\W{UNSPACED}]+)*|[,;:()\u2013\u2014!?%]"
)
_UNIT = re.compile(r"(\d+)([^\W\d_]{1,3})")
_GROUPS = re.compile(r"(?<=\d)[ \u00a0\u202f',](?=\d{3}(?!\d))")
_DAY = re.compile(r"\d{1,2}(?:st|nd|rd|th)?$")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}$")
_STEMMED = frozenset({"word", "name", "hedge", "report", "doubt"})
_PRONOUNS = frozenset({"self", "others", "filler"})
_MARKS = frozenset(",;:()\u2013\u2014")
_SUFFIXES = {"t": "not", "ll": "will", "d": "would", "s": "", "re": "", "ve": "", "m": ""}
"""Letters behind an apostrophe in English, without its last word's n of a negation."""
_SHORT = {"cannot": ("can", "not"), "wo": ("will",), "ca": ("can",), "sha": ("shall",)}


class SentenceWord(NamedTuple):
    """A word with its half-open range of characters: `form` is compared, `kind` is word, number, date, name, self,
    others, negation, modal, hedge, report, doubt or mark.
    """

    form: str
    start: int
    end: int
    kind: str
    text: str


@dataclass(frozen=True)
class Signs:
    """The signs of a language, of the table beside this module."""

    kinds: dict[str, str]
    aside: re.Pattern[str]
    clause: frozenset[str]
    further: frozenset[str]
    condition: frozenset[str]
    function: frozenset[str]
    according: tuple[str, ...]
    date: frozenset[str]
    numbers: dict[str, str]
    months: dict[str, int]


@cache
def signs_of(language: str) -> Signs:
    """The signs of a language, as Snowball names it; without a table, only asides are known."""
    row: dict[str, str] = defaultdict(str, toml_file(__name__, "signs.toml").get(language, {}))
    kinds = {
        word: kind
        for kind in ("report", "doubt", "hedge", "modal", "negation", "others", "self", "filler")
        for word in row[kind].split()
    }
    months = {
        name: number
        for number, names in enumerate(row["months"].split(), 1)
        for name in names.split("/")
    }
    return Signs(
        kinds=kinds,
        aside=re.compile(row["aside"] or _aside_of(language), re.I),
        clause=frozenset(row["clause"].split()),
        further=frozenset(row["further"].split()),
        condition=frozenset(row["condition"].split()),
        function=frozenset(function_words(language)),
        according=tuple(row["according"].split()),
        date=frozenset(row["date"].split()),
        numbers={word: str(n) for n, word in enumerate(row["numbers"].split(), 1)},
        months=months,
    )


def _aside_of(language: str) -> str:
    """A greeting, thanks or approval and little else, by the signs that all parts of Weft share."""
    if language not in languages_with_signs():
        return r"[^\s\S]"
    greets, thanks, agrees = (
        sign_pattern((kind,), (language,)) for kind in ("greeting", "thanks", "agreement")
    )
    return rf"(?:{greets})[\w ,.!，、！]{{0,30}}$|(?:[\w ,]{{0,20}}\b)?(?:{thanks}).{{0,60}}$|(?:{agrees}).{{0,20}}$"


def is_aside(sentence: str) -> bool:
    """True for a sentence that greets, thanks, approves or refers to another text, and says nothing of its own.

    >>> is_aside("Hi Gao,"), is_aside("Thanks to the cache it takes 3 ms on each of the many disks that we have had.")
    (True, False)
    """
    plain = " ".join(sentence.replace("’", "'").split())
    return any(signs_of(name).aside.match(plain) for name in sign_languages(sentence))


def language_for(*texts: str) -> str:
    """The language of the first text whose words or letters tell it; English if none does."""
    return next((name for name in map(surest_language, texts) if name), _DEFAULT)


def sentence_ranges(text: str) -> Iterator[tuple[int, int]]:
    """The half-open ranges of characters of the sentences of a text, without the blanks around them.

    >>> list(sentence_ranges("Dr. Ann left.  She is 5."))
    [(0, 13), (15, 24)]
    """
    ends = {m.end() for pattern in (PARAGRAPH, _LINE) for m in pattern.finditer(text)}
    soft = {m.end() for m in SENTENCE.finditer(text)} - ends
    start = 0
    for end in sorted({*ends, *soft, len(text)}):
        piece = text[start:end].strip()
        if not piece or (end in soft and _goes_on(piece, text[end : end + 1])):
            continue
        begin = start + len(text[start:end]) - len(text[start:end].lstrip())
        yield begin, begin + len(piece)
        start = end


def _goes_on(piece: str, following: str) -> bool:
    """True if the point at the end of a piece is one of an abbreviation, or of a number before a word."""
    if not _NO_END.search(piece):
        return False
    return (
        not _SPLIT_NUMBER.search(piece) or len(piece.split()) < 2 or _names_a_day(piece, following)
    )


def _names_a_day(piece: str, following: str) -> bool:
    before = piece.split()[-2].lower()
    return following.isalpha() and before in signs_of("german").date | {"der", "den", "dem"}


def words_of(text: str, language: str, settings: TermSettings) -> list[SentenceWord]:
    """The words of a sentence but for its fillers, with marks between its parts; forms as search has them.

    >>> [word.form for word in words_of("I won't pay 1,000 euros on 5 July.", "english", TermSettings())]
    ['@self', 'will', 'not', 'pay', '1000', 'euro', 'on', 'd07-05']
    """
    signs = signs_of(language)
    raw = [part for match in _TOKEN.finditer(text) for part in _parts(match, language, text)]
    words = [_dated(raw, place, signs) for place in range(len(raw))]
    results, skip = [], 0
    for place, (word, width) in enumerate(words):
        if place < skip:
            continue
        skip = place + width
        if word is not None:
            results.append(word)
    stemmed = iter(stems([word.form for word in results if word.kind in _STEMMED], settings))
    return [
        word._replace(form=next(stemmed)) if word.kind in _STEMMED else word for word in results
    ][:_MOST]


class _Part(NamedTuple):
    text: str
    start: int
    end: int
    is_first: bool = False


def _parts(match: re.Match[str], language: str, text: str) -> Iterator[_Part]:
    """The parts of a token: a contraction's words, and a number with its unit."""
    token, start, end = match[0], match.start(), match.end()
    before = text[:start].rstrip()
    is_first = not before or before[-1] in ".!?:\"'“‘«("
    if unit := _UNIT.fullmatch(token):
        yield _Part(unit[1], start, start + unit.end(1))
        yield _Part(unit[2], start + unit.end(1), end)
        return
    apostrophe = start > 0 and text[start - 1] in "'\u2019"
    low = token.lower()
    if language == _DEFAULT and apostrophe and low in _SUFFIXES:
        if _SUFFIXES[low]:
            yield _Part(_SUFFIXES[low], start, end)
        return
    is_short = text[end : end + 1] in ("'", "\u2019") and text[end + 1 : end + 2].lower() == "t"
    if language == _DEFAULT and is_short and low.endswith("n"):
        token, low = token[:-1] if low != "can" else token, low[:-1] if low != "can" else low
        # In don't the n belongs to the negation; can't and won't have lost a letter.
    for form in (
        _SHORT.get(low, (token,))
        if language == _DEFAULT and (is_short or low == "cannot")
        else (token,)
    ):
        yield _Part(form, start, end, is_first)


def _dated(parts: Sequence[_Part], place: int, signs: Signs) -> tuple[SentenceWord | None, int]:
    """The word at a place, and of how many parts it is: a day of a month, and a time of ISO 8601, are one."""
    part = parts[place]
    if _ISO.match(part.text):
        return SentenceWord(f"d{part.text[5:]}", part.start, part.end, "date", part.text), 1
    texts = [p.text for p in parts[place : place + 3]]
    for width, day, month in ((2, 0, 1), (2, 1, 0), (3, 0, 2)):
        if len(texts) < width or (width == 3 and texts[1].lower() not in ("of", "de")):
            continue
        number = signs.months.get(texts[month].lower())
        if number and texts[month][:1].isupper() | (number != 5) and _DAY.match(texts[day]):
            value = f"d{number:02}-{int(re.sub('[a-z]+', '', texts[day])):02}"
            last = parts[place + width - 1].end
            return SentenceWord(value, part.start, last, "date", " ".join(texts[:width])), width
    return _word(part, parts[place - 1].text.lower() if place else "", signs), 1


def _word(part: _Part, before: str, signs: Signs) -> SentenceWord | None:
    """The word of a part; None for a filler."""
    text, low = part.text, part.text.lower()
    if text in _MARKS or text in "!?":
        return SentenceWord(text, part.start, part.end, "mark", text) if text in _MARKS else None
    if text == "%":
        return SentenceWord("percent", part.start, part.end, "word", text)
    if text[0].isdigit() and not re.search(r"[^\W\d_]", text):
        return SentenceWord(_GROUPS.sub("", text), part.start, part.end, "number", text)
    month = signs.months.get(low)
    if (
        month
        and text[0].isupper()
        and (
            signs.kinds.get(low) is None or before in signs.date | {"since", "until", "by", "last"}
        )
    ):
        return SentenceWord(f"m{month:02}", part.start, part.end, "date", text)
    if low in signs.numbers and low not in signs.kinds:
        return SentenceWord(signs.numbers[low], part.start, part.end, "number", text)
    return _word_of_kind(part, signs)


def _word_of_kind(part: _Part, signs: Signs) -> SentenceWord | None:
    """The word of a part that is neither a number nor a day; None for a filler."""
    text, low = part.text, part.text.lower()
    kind = signs.kinds.get(low)
    if kind in _PRONOUNS and len(text) > 1 and text.isupper():  # US is no pronoun
        kind = None
    if kind == "filler":
        return None
    if kind in ("self", "others"):
        return SentenceWord(SELF if kind == "self" else OTHERS, part.start, part.end, kind, text)
    if kind in ("negation", "modal"):
        return SentenceWord(low, part.start, part.end, kind, text)
    if any(map(str.isdigit, low)):
        return SentenceWord(low, part.start, part.end, "number", text)
    is_name = text[0].isupper() and not kind and low not in signs.clause | signs.date
    return SentenceWord(low, part.start, part.end, kind or ("name" if is_name else "word"), text)
