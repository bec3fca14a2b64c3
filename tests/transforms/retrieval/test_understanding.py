"""What questions ask for beside their words, and the words that are left."""

from datetime import date

import pytest

from transforms.retrieval.understanding import keys, understood

NAMES = ("Tom G. Lane", "Bruce Momjian", "Bruce Perens", "Mikheev, Vadim", "Martijn van Oosterhout")
PEOPLE = {
    words: frozenset(n for n in NAMES if words in keys(n)) for name in NAMES for words in keys(name)
}
SPEAKERS = {"caroline": frozenset({"Caroline"})}
CASES = [
    ("what did Tom Lane say about vacuum", "vacuum", ["f:tom lane"]),
    ("tom lane vacuum", "vacuum", ["f:tom lane"]),
    ("did Vadim Mikheev answer Tom Lane about redo", "redo", ["f:vadim mikheev", "replied"]),
    ("did Tom Lane answer how to vacuum", "how to vacuum", ["f:tom lane", "replied"]),
    (
        "was hat Tom Lane auf die Frage nach Sperren geantwortet",
        "auf die Frage nach Sperren",
        ["f:tom lane", "replied"],
    ),
    (
        "what did Caroline reply about adoption",
        "what did Caroline reply about adoption",
        ["f:caroline"],
    ),
    ("martijn van oosterhout COLLATE", "COLLATE", ["f:martijn van oosterhout"]),
    ("Momjian's mail on schedules", "schedules", ["f:momjian"]),
    ("Hi Bruce, the lane is closed", "Hi Bruce, the lane is closed", []),
    ('"Tom Lane" vacuum', "Tom Lane  vacuum", []),
    ("the tom of Lane", "the tom", ["f:lane"]),
    ("Was hat Tom Lane zu Sperren gesagt", "Sperren", ["f:tom lane"]),
    ("Caroline on adoption", "Caroline on adoption", ["f:caroline"]),
    ("the last time Caroline mentioned adoption", "adoption", ["f:caroline", "newest"]),
    ("latest version of md: fix a leak", "md: fix a leak", ["latest version"]),
    ("md: fix a leak v3", "md: fix a leak", ["v3"]),
    ("version 8.1 of the server", "version 8.1 of the server", []),
    ("newest mail about locks", "locks", ["newest"]),
    ("who first brought up locks", "locks", ["oldest"]),
    ("who reported the crash", "the crash", ["opening"]),
    ("who reviewed md: fix a leak", "md: fix a leak", ["reviewed"]),
    ("was md: fix a leak applied", "md: fix a leak", ["applied"]),
    ("vacuum since 2004", "vacuum", ["d:2004.."]),
    ("vacuum before March 2004", "vacuum", ["d:..2004-02"]),
    ("vacuum 2004", "vacuum", ["d:2004"]),
    ("what broke from July 2023 to September 2023", "what broke to", ["d:2023-07..2023-09"]),
    ("the crash on 5 July 2023", "the crash", ["d:2023-07-05"]),
    ("Was geschah am 11. August 2022?", "Was geschah ?", ["d:2022-08-11"]),
    ("deadlocks in May", "deadlocks", ["d:*-05"]),
    ("a note that I deleted yesterday", "a note that I deleted yesterday", []),
    ("may I march to version 8.1 or 2004?", "may I march to version 8.1 or 2004?", []),
    ("http://example.org/2005-03/msg1.php", "http://example.org/2005-03/msg1.php", []),
    ("on 5 July 2023\ntwo lines are pasted", "on 5 July 2023\ntwo lines are pasted", []),
]


@pytest.mark.parametrize(("query", "rest", "asked"), CASES)
def test_a_question_asks_for_more_than_its_words(query: str, rest: str, asked: list[str]):
    found = understood(query, date(2024, 3, 1), PEOPLE, SPEAKERS)
    assert (found.rest, found.conditions) == (rest, asked)


def test_a_name_alone_is_a_person_and_words():
    found = understood("Tom Lane", date(2024, 3, 1), PEOPLE)
    assert (found.rest, found.persons) == ("Tom Lane", {"Tom G. Lane"})


def test_whom_somebody_answers_is_not_preferred():
    found = understood("what did Momjian reply to Tom Lane on redo", date(2024, 3, 1), PEOPLE)
    assert (found.persons, found.answered) == ({"Bruce Momjian"}, {"Tom G. Lane"})


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("since 2004", ["2003-12-31", "2004-01-01", "2031-01-01"]),
        ("x before March 2004", ["2004-03-01", "2004-02-29", "1999-01-01"]),
        ("where was he between August 11 and August 15, 2023", ["2023-08-16", "2023-08-13"]),
    ],
)
def test_the_first_of_some_days_is_outside(query: str, days: list[str]):
    found = understood(query, date(2024, 3, 1), {})
    first, *others = (found.is_then(date.fromisoformat(day)) for day in days)
    assert not first and all(others)
