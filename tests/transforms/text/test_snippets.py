"""The piece of a text that shows why it was found."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.settings.search import TermSettings
from transforms.text.snippets import (
    Snippet,
    matching_words,
    stored_ranges,
    stored_texts,
    words_by_term,
)
from transforms.text.snippets import snippet as cut_snippet
from transforms.text.terms import query_terms

SETTINGS = TermSettings()
LONG = " ".join(f"word{n}" for n in range(200))
WORDS = st.lists(
    st.sampled_from(
        ["fox", "foxes", "dog", "\U0001f98a", "pg_stat", "x" * 90, ">", "\n", "na\u00efve"]
    ),
    max_size=80,
)


def snippet(text: str, query: str, settings: TermSettings, length: int = 240) -> Snippet:
    """The snippet of a text for the words of a query."""
    query_words = set(*query_terms([query], settings))
    return cut_snippet(
        text, matching_words(query_words, words_by_term([text], query_words, settings)), length
    )


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("The quick  brown\nfox", "fox", "The quick brown fox"),
        ("", "fox", ""),
        ("   \n ", "fox", ""),
        ("nothing here", "fox", "nothing here"),
    ],
)
def test_a_short_text_is_shown_whole_on_one_line(text: str, query: str, expected: str):
    assert snippet(text, query, SETTINGS).text == expected


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("Foxes run, a fox ran, foxy.", "fox running", ["Foxes", "run", "fox"]),
        ("東京で温室を建てる PostgreSQL用", "温室 postgresql", ["温室", "PostgreSQL"]),
        ("A pg_wal that readBlock reads; wallpaper.", "wal blocks", ["pg_wal", "readBlock"]),
        (f"fox fox fox {LONG} the fox met the dog {LONG}", "fox dog", ["fox", "dog"]),
    ],
)
def test_words_are_marked_by_stem_part_or_sign_where_most_of_them_are(
    text: str, query: str, expected: list[str]
):
    result = snippet(text, query, SETTINGS)
    assert [result.text[a:b] for a, b in result.highlights] == expected
    assert result.text.startswith("… ") == result.text.endswith(" …") == (len(text) > 240)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"short\n{LONG} fox", "… {} fox"),  # a turn of a chat is one line, however long
        (f"short\n{LONG} fox {LONG}", "… {} fox {} …"),
        (f"{LONG}\nshort\nthe fox ran\n{LONG}", "… {}\nshort\nthe fox ran\n{} …"),
        (f"{LONG}\n{'y' * 90}\n{'z' * 20} fox\n{LONG}", f"…\n{'y' * 90}\n{'z' * 20} fox\n{{}} …"),
        (f"short\n{'x' * 500}", f"short\n{'x' * 234} …"),
    ],
)
def test_a_snippet_that_keeps_lines_shows_the_words_that_match_however_long_their_line(
    text: str, expected: str
):
    shown = cut_snippet(text, {"fox": "fox"}, keep_lines=True)
    around = map(re.escape, expected.split("{}"))
    assert re.fullmatch(r"[word\d ]+".join(around), shown.text), shown.text
    assert [shown.text[a:b] for a, b in shown.highlights] == ["fox"] * ("fox" in text)


@given(WORDS, st.sampled_from(["fox", "dog fox", "pg_stat", "nothing", ""]), st.integers(20, 120))
def test_a_snippet_is_never_longer_than_promised_and_marks_lie_inside(
    words: list[str], query: str, length: int
):
    result = snippet(" ".join(words), query, SETTINGS, length)
    assert len(result.text) <= length + len("\u2026 ") + len(" \u2026")
    assert "\n" not in result.text
    last = 0
    for start, end in result.highlights:
        assert last <= start < end <= len(result.text)
        assert result.text[start:end].strip() == result.text[start:end]
        last = end


@pytest.mark.parametrize(
    ("shown", "stored", "spans", "expected"),
    [
        ("one compactor two", "one compactor two", None, [b"compactor"]),
        # Marks, folded blanks and signs of several bytes before the words move them.
        (
            "größe of the compactor\nand compactors",
            "> größe  of\n> the compactor\n> and   compactors",
            None,
            [b"compactor", b"compactors"],
        ),
        # What stands between the spans is no part of the chunk.
        (
            "compactor b compactor",
            "compactor a compactor b compactor",
            [(0, 9), (21, 33)],
            [b"compactor"] * 2,
        ),
        # A word that was put before the text stands nowhere in it.
        ("compactor.c: the compactors", "the compactors", None, [None, b"compactors"]),
    ],
)
def test_highlighted_words_are_found_in_the_stored_text(
    shown: str, stored: str, spans: list[tuple[int, int]] | None, expected: list[bytes | None]
):
    query_words = {"compactor"}
    data = stored.encode()
    segments = stored_texts(stored, spans or [(0, len(data))])
    by_term = words_by_term([shown, *(segment.text for segment in segments)], query_words, SETTINGS)
    matching = matching_words(query_words, by_term)
    result = cut_snippet(shown, matching)
    ranges = stored_ranges(result, segments, matching)
    assert [p and data[p[0] : p[1]] for p in ranges] == expected
    assert len(ranges) == len(result.highlights)


def test_a_rare_word_decides_over_common_ones_and_a_window_at_the_end_is_as_long_as_others():
    text = f"how often {LONG} {LONG} autovacuum"
    matching = {"how": "how", "often": "often", "autovacuum": "autovacuum"}
    assert cut_snippet(text, matching, 100).text.startswith("how often")
    found = cut_snippet(text, matching, 100, weights={"how": 1, "often": 2, "autovacuum": 9}).text
    assert found.endswith("autovacuum")
    assert 80 < len(found) <= 110


@given(
    st.text("ab_1 .-\n", max_size=60),
    st.sets(st.text("ab_1", min_size=1, max_size=3), min_size=1, max_size=5),
)
def test_a_few_words_are_found_where_all_words_are_read(text: str, words: set[str]):
    """Beside a text of other letters, whose words are all looked at."""
    matching = {word: word for word in words}
    plain, read = (cut_snippet(whole, matching, 1000) for whole in (text, f"{text} \u00e9"))
    assert plain.highlights == read.highlights
    assert (plain.words, plain.first) == (read.words, read.first)
