"""Signs by language: phrases as people write them."""

import re

import pytest

from transforms.context.candidates import query_parts
from transforms.mail.chunks.replies import SALUTATION
from transforms.signs import (
    has_sign,
    is_question,
    languages_with_signs,
    sign_languages,
    sign_pattern,
    surest_language,
)
from transforms.toml_file import toml_file

PHRASES = toml_file(__name__, "sign_phrases.toml")
KINDS = ("recency", "thanks", "agreement", "negation", "greeting")
CASES = [
    pytest.param(kind, language, phrase, id=f"{language} {kind}: {phrase}")
    for language, row in PHRASES.items()
    for kind in KINDS
    for phrase in row[kind]
]


def test_every_language_with_signs_has_phrases():
    assert set(PHRASES) == set(languages_with_signs()) and len(PHRASES) == 13 + 1


@pytest.mark.parametrize(("kind", "language", "phrase"), CASES)
def test_a_phrase_has_its_sign_in_its_language_and_by_itself(kind: str, language: str, phrase: str):
    assert has_sign(phrase, kind, (language,)) and has_sign(phrase, kind)


@pytest.mark.parametrize("language", PHRASES)
def test_plain_statements_have_no_sign(language: str):
    for phrase in PHRASES[language]["plain"]:
        assert not any(has_sign(phrase, kind) for kind in ("recency", "thanks", "greeting"))
        assert not is_question(phrase)


@pytest.mark.parametrize("language", PHRASES)
def test_questions_without_a_mark_are_questions(language: str):
    assert [q for q in PHRASES[language]["question"] if not is_question(q)] == []


@pytest.mark.parametrize("language", PHRASES)
def test_two_questions_in_a_sentence_are_cut_before_the_second(language: str):
    first, second = PHRASES[language]["two"]
    parts = query_parts(f"{first}{second}")
    assert [part.strip("、，, ") for part in parts] == [first.strip("、，, "), second.strip()]


@pytest.mark.parametrize("language", PHRASES)
def test_a_greeting_alone_is_a_salutation(language: str):
    for phrase in PHRASES[language]["greeting"]:
        assert SALUTATION.match(phrase), phrase


def test_a_language_without_signs_is_neutral():
    finnish = "Mikä on uusin versio ja kuinka sen voi asentaa, kun ei ole aikaa"
    assert surest_language(finnish) == "finnish" and sign_languages(finnish) == ()
    assert not is_question(finnish) and query_parts(f"{finnish} and how") == [f"{finnish} and how"]
    assert re.search(sign_pattern(("recency",), ()), "latest neueste") is None


@pytest.mark.parametrize("text", ["actual size", "hat trick", "Kim asked for it", "mi band"])
def test_english_words_that_other_languages_have_are_no_signs(text: str):
    assert not is_question(text) and not has_sign(text, "recency")


def test_the_letters_of_a_language_tell_it_and_english_beside_it_counts():
    assert sign_languages("latest 会议") == ("chinese", "english")
    assert sign_languages("Чи є новіша версія") == ("ukrainian",)
