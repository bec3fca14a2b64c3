"""The language of texts by their function words, which queries leave out."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from transforms.toml_file import toml_file

UNSPACED = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U000323af"
)
"""Members of a class of characters that is written without blanks between words: Chinese and
Japanese (Unicode 16).
"""
OR = "|"
"""Stands between the terms of a word if the stemmers of an archive differ on it: a query takes them
for one term.
"""
LEAST_WORDS = 4
"""Different function words of a language that a text of it has."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\W\d_]{{2,}}")


@cache
def _table() -> dict[str, dict[str, str]]:
    return toml_file(__name__, "function_words.toml")


@cache
def language_names() -> dict[str, str]:
    """Languages with a list of function words, as Snowball names them, by that name and by their
    code (ISO 639-1).
    """
    codes = {row["code"]: name for name, row in _table().items()}
    return {name: name for name in codes.values()} | codes


def function_words(language: str) -> tuple[str, ...]:
    """The function words of a language, as Snowball names it, in lower case; empty for one without
    a list.
    """
    words = _table().get(language, {"words": ""})["words"].split()
    return tuple(dict.fromkeys(words))


@cache
def word_weights() -> dict[str, dict[str, float]]:
    """By function word its weight for each language that has it: 1 by the number of these. Single
    letters have none.

    So words that neighbours do not share decide between them.
    """
    languages: dict[str, list[str]] = {}
    for language in dict.fromkeys(language_names().values()):
        for word in function_words(language):
            if _WORD.fullmatch(word):
                languages.setdefault(word, []).append(language)
    return {word: dict.fromkeys(names, 1 / len(names)) for word, names in languages.items()}


def language_of(text: str) -> str | None:
    """The language of a text, as Snowball names it; None where its function words do not tell.

    >>> language_of("Kann mir jemand sagen, warum das bei mir nicht geht?")
    'german'
    >>> language_of("int main(void) { return 0; }")
    """
    counts, sums = _words_of_languages(text)
    best = max(sums, key=lambda name: (sums[name], name), default="")
    return best if counts[best] >= LEAST_WORDS else None


def likely_languages(text: str) -> tuple[str, ...]:
    """The languages that the function words of a text speak for most, however few these are.

    >>> likely_languages("neue Fassung von zlib"), likely_languages("zlib")
    (('german',), ())
    """
    _, sums = _words_of_languages(text)
    most = max(sums.values(), default=0)
    return tuple(sorted(name for name, weight in sums.items() if weight == most))


def _words_of_languages(text: str) -> tuple[Counter[str], dict[str, float]]:
    """How many different function words of each language a text has, and the sum of their weights."""
    counts, sums = Counter[str](), dict[str, float]()
    for word in sorted({*_WORD.findall(text.lower())} & word_weights().keys()):
        counts.update(word_weights()[word].keys())
        for language, weight in word_weights()[word].items():
            sums[language] = sums.get(language, 0.0) + weight
    return counts, sums


def languages_of(texts: Iterable[str]) -> list[tuple[str, int]]:
    """The languages of texts and how many are in each, the most frequent first; those that have no
    language do not count.
    """
    counts = Counter(filter(None, map(language_of, texts)))
    return sorted(counts.items(), key=lambda row: (-row[1], row[0]))
