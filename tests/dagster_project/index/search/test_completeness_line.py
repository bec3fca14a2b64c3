"""The line on an answer says how old its newest text is, as long as people would look for it."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from dagster_project.index.search.completeness import Completeness


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(seconds=-60), "newest text came 0 s ago"),
        (timedelta(seconds=30), r"newest text came 3\d s ago"),
        (timedelta(minutes=3, seconds=5), "newest text came 3 min ago"),
        (timedelta(hours=23, minutes=5), "newest text came 23 h ago"),
        (timedelta(days=1), None),
    ],
)
def test_the_age_of_the_newest_text_is_in_the_line_for_a_day(age: timedelta, words: str | None):
    now = datetime.now(UTC)
    facts = Completeness(
        published_at=now,
        newest_at=now - age,
        mails=2,
        documents=0,
        turns=0,
        held={"mails": 2, "documents": 0, "turns": 0},
        without_text=0,
        waiting=0,
        without_vector=0,
        set_aside={},
    )
    line = facts.line()
    assert re.search(words, line) if words else "newest text" not in line
