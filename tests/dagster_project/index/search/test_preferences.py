"""The preferences of a question: which of its hits meet them, and what is said if none does."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest

from dagster_project.index.search.preferences import Preferences
from transforms.retrieval.understanding import understood

TODAY = date(2024, 6, 1)
PEOPLE = {"ann lee": frozenset({"ann"}), "bo ek": frozenset({"bo"})}
ROWS = [
    {"chunk_no": n, "effective_at": datetime(2023, month, 5, tzinfo=UTC)}
    for n, month in enumerate((3, 4, 5))
]


def preferences(query: str, **masks: list[bool]) -> Preferences:
    wishes = understood(query, TODAY, PEOPLE)
    return Preferences(wishes, **{name: np.array(mask) for name, mask in masks.items()})


NOBODY, FIRST, LAST = [False] * 3, [True, False, False], [False, False, True]


@pytest.mark.parametrize(
    ("query", "masks", "rows", "note"),
    [
        ("what did Ann Lee say on gauges", {"authored": FIRST}, ROWS, None),
        ("what did Ann Lee say on gauges", {"authored": FIRST}, ROWS[1:], "by ann lee"),
        ("what did Ann Lee say on gauges", {"authored": NOBODY}, [], None),
        ("gauges in April 2023", {}, ROWS, None),
        ("gauges in August 2023", {}, ROWS, "of August 2023"),
        ("gauges v3", {"posted": LAST}, ROWS[:1], "a patch of v3"),
        ("latest version of gauges", {"posted": LAST}, ROWS[:1], "a patch of latest version"),
        (
            "Ann Lee on gauges in August 2023",
            {"authored": NOBODY},
            ROWS,
            "by ann lee, or of August 2023",
        ),
        ("newest mail on gauges", {}, ROWS, None),
        ("gauges", {}, ROWS, None),
    ],
)
def test_what_no_hit_meets_is_said(
    query: str,
    masks: Mapping[str, list[bool]],
    rows: list[dict[str, Any]],
    note: str | None,
):
    expected = None if note is None else f"none of the hits is {note}"
    assert preferences(query, **masks).unmet(rows) == expected
