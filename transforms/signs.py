"""Words by language that ask, join questions, thank, agree, deny, greet or ask for news."""

import re
from collections.abc import Iterable
from functools import cache

from transforms.languages import language_of, likely_languages
from transforms.toml_file import toml_file

_LETTERS = (
    ("korean", re.compile(r"[\uac00-\ud7a3]")),
    ("japanese", re.compile(r"[\u3041-\u30ff]")),
    ("chinese", re.compile(r"[\u4e00-\u9fff]")),
    ("ukrainian", re.compile(r"[іїєґІЇЄҐ]")),
    ("russian", re.compile(r"[ыэъёЫЭЪЁ]")),
)
"""Languages that are known by a letter, the surest first."""
_LATIN = re.compile(r"[A-Za-z]{3}")
_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_OF_CYRILLIC = ("russian", "ukrainian")
_BY_LETTER = frozenset(name for name, _ in _LETTERS)
_DEFAULT = "english"


@cache
def _table() -> dict[str, dict[str, list[str]]]:
    return toml_file(__name__, "signs.toml")


def languages_with_signs() -> tuple[str, ...]:
    """The languages that have signs."""
    return tuple(_table())


def surest_language(text: str) -> str | None:
    """The language of a text by its function words or, if these are few, by its letters; else None.

    >>> surest_language("Дякую за листа"), surest_language("최근 회의 내용"), surest_language("zlib")
    (None, 'korean', None)
    >>> surest_language("Чи є новіша версія?")
    'ukrainian'
    """
    language = language_of(text)
    if language not in (None, "russian"):
        return language
    return next((name for name, letters in _LETTERS if letters.search(text)), language)


def sign_languages(text: str) -> tuple[str, ...]:
    """The languages whose signs count in a text: the one that its letters or function words tell,
    none if that one has no signs. If few words tell, the likeliest and English; if none does, all
    of its script.

    >>> sign_languages("Wie kann ich das am besten machen?"), sign_languages("最新のリリース")
    (('german',), ('japanese',))
    >>> sign_languages("Miten se tehdään ja mitä siinä on, kun ei ole aikaa?")
    ()
    """
    if language := surest_language(text):
        names = (
            (language, _DEFAULT) if language in _BY_LETTER and _LATIN.search(text) else (language,)
        )
        return tuple(name for name in names if name in _table())
    if _CYRILLIC.search(text):
        return _OF_CYRILLIC
    near = likely_languages(text)
    return tuple(
        name
        for name in _table()
        if name == _DEFAULT or (name in near if near else name not in _BY_LETTER)
    )


def _possible_languages(text: str) -> tuple[str, ...]:
    if surest_language(text) or _CYRILLIC.search(text):
        return sign_languages(text)
    return tuple(name for name in _table() if name not in _BY_LETTER)


@cache
def sign_pattern(kinds: tuple[str, ...], languages: tuple[str, ...] | None = None) -> str:
    """A regular expression, for Python and for Polars, of the signs of some kinds in some languages,
    or in all; it matches nothing if there is none. It needs a flag for the case of letters.
    """
    spaced, unspaced = [], []
    for name in _table() if languages is None else languages:
        row = _table()[name]
        parts = unspaced if row.get("unspaced") else spaced
        parts += [sign for kind in kinds for sign in row[kind]]
    words = rf"\b(?:{'|'.join(spaced)})(?:\b|$)" if spaced else ""
    return "|".join(filter(None, (words, *unspaced))) or r"[^\s\S]"


@cache
def _compiled(kind: str, languages: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(sign_pattern((kind,), languages), re.I)


def asks_inside(languages: Iterable[str]) -> bool:
    """True for languages whose words of questions are anywhere in a sentence."""
    rows = [_table()[name] for name in languages if name != _DEFAULT]
    return bool(rows) and all(row.get("inside") for row in rows)


def has_sign(text: str, kind: str, languages: Iterable[str] | None = None) -> bool:
    """True if a text holds a sign of a kind: in the languages that are given, else in its own, or in
    any of its script if few words tell it.

    >>> has_sign("die neueste Fassung", "recency"), has_sign("最新のリリース", "recency")
    (True, True)
    """
    of = _possible_languages(text) if languages is None else tuple(languages)
    return _compiled(kind, of).search(text) is not None


_BEGINS = re.compile(r"\W*")
_MARK = re.compile("[?\uff1f]")


def is_question(text: str) -> bool:
    """True if somebody asks: by the mark, the first word, or a word that asks for oneself.

    >>> is_question("Wie kann ich das machen"), is_question("erofs: fix it"), is_question("どうやって使いますか")
    (True, False, True)
    """
    if _MARK.search(text):
        return True
    languages = sign_languages(text)
    begin = _BEGINS.match(text)
    begins = _compiled("question", languages).match(text, begin.end() if begin else 0)
    return begins is not None or has_sign(text, "asks", languages)
