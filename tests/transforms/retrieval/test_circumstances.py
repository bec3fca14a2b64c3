"""The days and authors that questions name."""

from datetime import date, datetime

import pytest

from transforms.retrieval.circumstances import Circumstances, circumstances, keys

NAMES = ("Tom G. Lane", "Bruce Momjian", "Bruce Perens")
AUTHORS = {
    words: frozenset(n for n in NAMES if words in keys(n)) for name in NAMES for words in keys(name)
}
CASES = [
    ("Where was John between August 11 and 15?", ["d:*-08-11..*-08-15"]),
    ("where was he between August 11 and August 15, 2023", ["d:2023-08-11..2023-08-15"]),
    ("what broke from July 2023 to September 2023", ["d:2023-07..2023-09"]),
    ("the crash on 5 July 2023", ["d:2023-07-05"]),
    ("release 2023-08-11 and 2022-03", ["d:2023-08-11", "d:2022-03"]),
    ("Was geschah am 11. August 2022?", ["d:2022-08-11"]),
    ("who complained in May", ["d:*-05"]),
    ("deadlocks in 2004", ["d:2004"]),
    ("what changed last week", ["d:2024-02-23..2024-03-01"]),
    ("what did Tom say yesterday", ["d:2024-02-29", "f:Tom G. Lane"]),
    ("vacuum by tom lane", ["f:Tom G. Lane"]),
    ("Bruce's patch", ["f:Bruce Momjian", "f:Bruce Perens"]),
    ("mails of Bruce Momjian", ["f:Bruce Momjian"]),
    ("may I march to version 8.1 or 2004?", []),
    ("http://example.org/2005-03/msg1.php 10.2.may", []),
    ("the tom of Lane", []),
    ("on 5 July 2023\ntwo lines are pasted", []),
]


@pytest.mark.parametrize(("query", "conditions"), CASES)
def test_a_question_names_days_and_authors(query: str, conditions: list[str]):
    assert circumstances(query, date(2024, 3, 1), AUTHORS).conditions == conditions


def test_what_a_text_meets():
    named = circumstances("what did Tom write in May 2003", date(2024, 3, 1), AUTHORS)
    day = datetime(2003, 5, 31, 23)
    assert [
        named.met("Tom G. Lane", day),
        named.met("Tom G. Lane", None),
        named.met(None, day),
    ] == [2, 1, 1]
    assert Circumstances().met("Tom G. Lane", day) == 0
