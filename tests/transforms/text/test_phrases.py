"""Phrases are found as whole words, by short and by long patterns alike."""

import re
import unicodedata

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.text.phrases import holding, words_pattern

SENTENCE = "the torn record was found by the checker after a power cut and not before it was copied to C++ and back"


def is_break(letter: str) -> bool:
    return unicodedata.category(letter)[0] not in "LMN"


def naive(text: str, phrase: str) -> bool:
    """True if the words of a phrase stand in a text with breaks between them, letter by letter."""
    words = [word.casefold() for word in phrase.split()]
    folded = text.casefold()
    for start in range(len(folded)):
        if words[0][0].isalnum() and start and not is_break(folded[start - 1]):
            continue
        at, met = start, True
        for number, word in enumerate(words):
            if number:
                behind = at
                while (
                    behind < len(folded)
                    and is_break(folded[behind])
                    and not folded.startswith(word, behind)
                ):
                    behind += 1
                met = met and behind > at
                at = behind
            met = met and folded.startswith(word, at)
            at += len(word)
        if met and (not words[-1][-1].isalnum() or at == len(folded) or is_break(folded[at])):
            return True
    return False


def test_words_of_chinese_and_japanese_stand_beside_each_other():
    texts = pl.Series(
        ["\u6e29\u5ba4\u306f\u5f8c\u3067", "PostgreSQL\u7528\u306e", "Postgre\u7528SQL"]
    )
    for phrase, found in [
        ("\u5ba4\u306f", [1, 0, 0]),
        ("postgresql", [0, 1, 0]),
        ("postgre sql", [0, 0, 0]),
    ]:
        assert holding(texts, phrase).to_list() == list(map(bool, found))
    assert texts.str.contains(words_pattern(["\u5f8c", "sql"])).to_list() == [True, False, True]


@pytest.mark.parametrize("times", [1, 3], ids=["short", "long"])
@given(
    st.text("ab \n.1_é", max_size=12), st.text("ab \n", min_size=1, max_size=4).filter(str.strip)
)
@examples(200)
def test_a_phrase_is_found_where_its_words_stand_side_by_side(times: int, text: str, phrase: str):
    # The long phrase has the short one behind a sentence that both texts begin with.
    lead = f"{SENTENCE} " if times > 1 else ""
    matches = holding(pl.Series([lead + text, None], dtype=pl.String), lead + phrase)
    assert matches.to_list() == [naive(lead + text, lead + phrase), False]


@pytest.mark.parametrize("changed", [None, "checker", "C++", "back"])
def test_a_long_phrase_is_verified_to_its_end(changed: str | None):
    text = re.sub(" ", ",\n ", SENTENCE).upper()
    if changed:
        text = text.replace(changed.upper(), "X")
    assert holding(pl.Series([text]), SENTENCE).to_list() == [changed is None]
