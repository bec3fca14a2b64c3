"""What of a text is asked by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.context.candidates import query_parts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Why is the index bloated?", ["Why is the index bloated?"]),
        (
            "We moved. Why is the index bloated? Which lock does a vacuum take? Thanks!",
            ["We moved. Why is the index bloated?", "Which lock does a vacuum take?\nThanks!"],
        ),
        (
            "How does the log behave under load, and which run measured the compactor?",
            ["How does the log behave under load", "and which run measured the compactor?"],
        ),
        ("Right? Why is the index bloated?", ["Right?\nWhy is the index bloated?"]),
        (f"{'word ' * 30}\n\n{'other ' * 30}", [("word " * 30).strip(), ("other " * 30).strip()]),
        ("Short one.\n\nAnother short one.", ["Short one.\nAnother short one."]),
        (" \n ", []),
    ],
)
def test_questions_and_paragraphs_are_parts(text: str, expected: list[str]):
    assert query_parts(text) == expected


@given(st.lists(st.text("ab ?.\n", max_size=80), max_size=60))
def test_parts_hold_all_words_in_order_and_are_few(texts: list[str]):
    text = "\n\n".join(texts)
    assert " ".join(query_parts(text)).split() == text.split()
    if len(text.split()) >= 16 * 25:
        assert len(query_parts(text)) <= 17
