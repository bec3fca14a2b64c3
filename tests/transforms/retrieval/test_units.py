"""Hits that another hit stands for: windows beside their turns, questions beside their answers, parts of a section."""

from typing import Any

import pytest

from tests.hit_tables import hits_of
from transforms.conversations.windows import consolidate
from transforms.retrieval import units
from transforms.retrieval.units import PART, QUESTION, WINDOW, Unit


def turns(*said: tuple[str, bool]) -> list[dict[str, Any]]:
    """Rows of the turns of a window, each by a speaker, and if it asks."""
    ranges = consolidate(
        [s for s, _ in said], ["2025-01-02 10:00"] * len(said), ["a"] * len(said)
    ).ranges
    return [
        row("turn", *span, text_display=f"{speaker}, 2025-01-02 10:00\na", asks=asks)
        for (speaker, asks), span in zip(said, ranges, strict=True)
    ]


def row(kind: str, start: int, end: int, **facts: Any) -> dict[str, Any]:
    places = {
        "byte_start": start,
        "byte_end": end,
        "doc_id": "d",
        "node_start": None,
        "node_end": None,
    }
    return {"chunk_kind": kind, **places, **facts}


CHAT = turns(
    ("Ann", True), ("Bo", False), ("Ann", True), ("Ann", False), (60 * "B", True), ("Ann", False)
)
WHOLE = row("window_segment", 0, 10_000)
PAGE = row("section", 0, 9, node_start=0, node_end=5_000, parent_id="s")
SHORT = PAGE | {"node_end": 900}


@pytest.mark.parametrize(
    ("found", "kept", "gone"),
    [
        # The answer takes the place of the question, and the window none.
        ([CHAT[0], PAGE, CHAT[1]], [2, 1], {0: (2, QUESTION)}),
        ([WHOLE, PAGE, CHAT[1]], [1, 2], {0: (2, WINDOW)}),
        ([WHOLE, PAGE, CHAT[0], CHAT[1]], [1, 3], {0: (3, WINDOW), 2: (3, QUESTION)}),
        # A window without a turn among the hits stays, and a question that goes on or that nobody answers among them.
        ([WHOLE, PAGE], [0, 1], {}),
        ([CHAT[2], CHAT[3], CHAT[0]], [0, 1, 2], {}),
        ([CHAT[4], CHAT[5]], [1], {0: (1, QUESTION)}),
        ([CHAT[0], CHAT[3]], [0, 1], {}),
        ([SHORT, PAGE, SHORT], [0, 1], {2: (0, PART)}),
        ([SHORT, SHORT | {"parent_id": "t"}], [0, 1], {}),
    ],
)
def test_a_unit_is_one_hit(
    found: list[dict[str, Any]], kept: list[int], gone: dict[int, tuple[int, str]]
):
    scores = list(range(len(found), 0, -1))
    rows = [Unit(0, row | {"chunk_no": n}, row.get("asks", False)) for n, row in enumerate(found)]
    step = units.once(hits_of({0: scores}), rows)
    assert step.hits["chunk_no"].to_list() == kept
    dropped = step.dropped.select("chunk_no", "into", "reason").iter_rows()
    assert {chunk: (into, why) for chunk, into, why in dropped} == gone
    lent = [scores[n] for n, (into, why) in gone.items() if into == kept[0] and why != WINDOW]
    assert step.hits["score"][0] == max(scores[kept[0]], *lent, 0)


@pytest.mark.parametrize(
    ("text", "asked", "said"),
    [
        ("Ann, 10:00\nYes. And you? Fine.", " And you?", "Yes. Fine."),
        ("Ann?, 10:00\nYes.", "", ""),
        ("Bo, 10:00\n\u3044\u3044\uff1f\u306f\u3044", "\u3044\u3044\uff1f", "\u306f\u3044"),
    ],
)
def test_questions_stand_apart_from_what_a_turn_says(text: str, asked: str, said: str):
    assert units.asked_and_said(text) == (asked, said)
