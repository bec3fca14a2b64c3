"""What of a text a hit shows, and when two texts say the same."""

import pytest

from transforms.text import passages

WINDOW = """## Message 1
**Author:** Ada
**Timestamp:** 2025-01-02 10:00

Is it up?

## Message 2
**Author:** Ben
**Timestamp:** 2025-01-02 10:01

Yes,
since nine.

## Message 3
**Author:** Ada
**Timestamp:** 2025-01-02 10:05

Thanks
"""


def around(text: str, window: str = WINDOW) -> tuple[str, str, str]:
    """The texts before and behind a text of a window, and all that is cited."""
    start = window.index(text)
    found = passages.around_turn(window, start, start + len(text))
    return found.before, found.after, window[found.start : found.end]


def test_the_turns_around_a_turn_have_time_and_speaker_and_are_cited_together():
    before, after, cited = around("Yes,\nsince nine.")
    assert (before, after) == ("2025-01-02 10:00 Ada: Is it up?", "2025-01-02 10:05 Ada: Thanks")
    assert (cited[:9], cited[-6:]) == ("Is it up?", "Thanks")
    assert around("Is it up?")[0] == around("Thanks")[1] == ""
    assert len(passages.turn_lines(WINDOW).splitlines()) == 4


def test_no_turn_around_a_long_one_is_read_with_it():
    yes = "Yes, " * 300 + "."
    assert around(yes, WINDOW.replace("Yes,\nsince nine.", yes)) == ("", "", yes)


@pytest.mark.parametrize(
    ("quotes", "expected"),
    [
        ([], [(0, 10), (20, 30)]),
        ([(5, 25)], [(0, 5), (25, 30)]),
        ([(0, 10)], [(20, 30)]),
        ([(2, 4), (6, 8)], [(0, 2), (4, 6), (8, 10), (20, 30)]),
    ],
)
def test_unmarked_quotes_are_not_the_authors_words(quotes: list[tuple[int, int]], expected: object):
    spans = [
        {"byte_start": 20, "byte_end": 30, "role": "own"},
        {"byte_start": 0, "byte_end": 10, "role": "own"},
        {"byte_start": 10, "byte_end": 20, "role": "anchor"},
    ]
    assert passages.authored_ranges(spans, quotes) == expected
    assert passages.quoted_ranges(spans) == [(10, 20)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["one two three four five", "six seven"], [None, None]),
        (["one two three four five", "One, two; three four FIVE"], [None, 0]),
        (["a b c d e", "v w x y z", "a b c d e v w x y z"], [None, None, None]),
        (["a b c d e f g", "v w x y z", "b c d e f g"], [None, None, 0]),
        (["yes", "no", "yes"], [None, None, 0]),
    ],
)
def test_a_text_that_stands_above_is_a_repeat(texts: list[str], expected: object):
    assert passages.repeated(texts) == expected


def test_what_explains_a_patch_stands_above_it():
    assert passages.commit_message("Fix.\n\ndiff --git a/x b/x\n") == "Fix."
    assert passages.commit_message("Fix.\n-- \nme") == "Fix.\n-- \nme"
    assert passages.has_lines("Fix.\n@@ -1 +1 @@\n", "text")
    assert passages.has_lines(" name | n\n------+---\n a    | 1\n", "text")
    assert not passages.has_lines("Fix -- it.\n--- and upgrading it.", "text")


@pytest.mark.parametrize(
    ("text", "matching", "expected"),
    [
        ("No logic changes.\nAcked-by: Ann\n---\n a.c | 2 +-\n", {"Free"}, "No logic changes."),
        ("Cc: Ann\n---\n a.c | 2 +-\n", {"Free"}, ""),
        ("No logic changes.\n--- a/b.c\n+++ b/b.c\n+int seal;", {"seal", "b"}, ""),
        ("No logic changes to any.", {"logic"}, ""),
    ],
)
def test_a_patch_is_shown_by_what_explains_it(text: str, matching: set[str], expected: str):
    assert passages.patch_message(text, "Free it", {w: w for w in matching}, {}) == expected
