"""Phrases as whole words of texts: where case and the signs between words do not count."""

import re
import unicodedata

import polars as pl

from transforms.languages import UNSPACED

_BREAK = r"[^\p{L}\p{M}\p{N}]"
_EDGE = rf"[{_BREAK}{UNSPACED}]"
"""The characters that end a word; Chinese and Japanese words follow each other without a gap."""
_MARK = "\x1f"
"""Is before each character that is not a letter, mark or digit, where a text is made ready for long
patterns.
"""
_AT_ONCE = 16
"""Words of a pattern on the text as it is: each class of characters between two of them takes some
40 KB.
"""


def holding(texts: pl.Series, phrase: str) -> pl.Series:
    """True of texts that hold a phrase as whole words; a blank of it matches whatever is not a
    letter or digit.

    A word with signs must be in the text as it is written. Takes time in proportion to the texts
    and to the phrase.

    >>> holding(pl.Series(["The torn-record flag", "torn records", None]), "torn record").to_list()
    [True, False, False]
    """
    words = phrase.split()
    if not words:
        return texts.is_not_null()
    matches = texts.str.contains(
        _pattern(words[:_AT_ONCE], is_cut=len(words) > _AT_ONCE)
    ).fill_null(False)
    if len(words) <= _AT_ONCE or not matches.any():
        return matches
    near = matches.arg_true()
    marked = texts.gather(near).str.replace_all(_MARK, " ", literal=True)
    marked = marked.str.replace_all(f"({_BREAK})", f"{_MARK}$1")
    return matches.scatter(near, marked.str.contains(_marked_pattern(words)))


def words_pattern(words: list[str]) -> str:
    """The pattern of texts that hold one of some words in small letters, or one of them between the
    humps of an identifier.

    A word may hold `.*` for any letters, marks, digits and underscores; other signs stand for
    themselves.

    >>> texts = pl.Series(["a RED lamp", "stored", "isRedLamp", "redLamp", "REDO"])
    >>> texts.str.contains(words_pattern(["red"])).to_list()
    [True, False, True, True, False]
    """
    small = "|".join(_letters(word) for word in words)
    capital = "|".join(_letters(word[:1].upper() + word[1:]) for word in words)
    strict = rf"(?:^|{_EDGE})(?i:{small})(?:{_EDGE}|$)"
    humps = (
        rf"(?:^|{_EDGE})(?:{small}|{capital})\p{{Lu}}|\p{{Ll}}(?:{capital})(?:{_EDGE}|$|\p{{Lu}})"
    )
    free = [
        _letters(word)
        for word in words
        if word and not (_needs_edge(word[0]) or _needs_edge(word[-1]))
    ]
    return f"(?:{'|'.join([strict, humps, *free])})"


def _letters(word: str) -> str:
    return re.escape(word).replace(r"\.\*", r"[\p{L}\p{M}\p{N}_]*")


def _needs_edge(letter: str) -> bool:
    """True if a word that begins or ends with this letter must not be a part of a longer one."""
    return letter.isalnum() and not re.match(f"[{UNSPACED}]", letter)


def _pattern(words: list[str], *, is_cut: bool) -> str:
    """The pattern of a phrase, or of its beginning, in a text as it is."""
    before = rf"(?:^|{_EDGE})" if _needs_edge(words[0][0]) else ""
    end = rf"(?:{_EDGE}|$)" if _needs_edge(words[-1][-1]) or is_cut else ""
    return f"(?is){before}{f'{_BREAK}+'.join(map(re.escape, words))}{end}"


def _marked_pattern(words: list[str]) -> str:
    """The pattern of a phrase in a text where _MARK is before each break, which makes breaks cheap
    to find.
    """
    before = rf"(?:^|{_MARK}.)" if _needs_edge(words[0][0]) else ""
    end = rf"(?:{_MARK}|$)" if _needs_edge(words[-1][-1]) else ""
    breaks = {
        letter for word in words for letter in word if unicodedata.category(letter)[0] not in "LMN"
    }
    marked = ["".join(_MARK * (c in breaks) + re.escape(c) for c in word) for word in words]
    return f"(?is){before}{f'(?:{_MARK}.)+'.join(marked)}{end}"
