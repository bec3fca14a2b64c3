"""The language of texts by their function words."""

import pytest

from transforms.languages import function_words, language_names, language_of, languages_of
from transforms.settings.search import SearchSettings
from transforms.toml_file import toml_file

SENTENCES = toml_file(__name__, "sentences.toml")


def test_a_sentence_of_each_language_is_known():
    assert {name: language_of(text) for name, text in SENTENCES.items()} == {
        name: name for name in SENTENCES
    }
    assert set(SENTENCES) == set(language_names().values())


@pytest.mark.parametrize(
    "text", ["", "int main(void) { return 0; }", "Re: erofs_fill_super", "Vielen Dank!", "な"]
)
def test_code_and_short_texts_have_no_language(text: str):
    assert language_of(text) is None


def test_the_language_of_most_texts_is_counted_among_those_that_have_one():
    texts = [SENTENCES["german"], SENTENCES["english"], "x = 1", SENTENCES["german"]]
    assert languages_of(texts) == [("german", 2), ("english", 1)] and languages_of(["x = 1"]) == []


def test_queries_in_english_leave_out_the_words_they_left_out_before():
    assert len(function_words("english")) == 49 and SearchSettings().stopwords == function_words(
        "english"
    )
