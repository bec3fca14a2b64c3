"""Hits that another hit stands for: turns of its stretch, windows beside their turns, parts of a
section.
"""

from typing import Any

import pytest

from tests.hit_tables import hits_of
from transforms.retrieval import units
from transforms.retrieval.units import PART, STRETCH, WINDOW, Unit


def row(kind: str, start: int, end: int, **facts: Any) -> dict[str, Any]:
    places = {
        "byte_start": start,
        "byte_end": end,
        "doc_id": "d",
        "parent_id": "d",
        "node_start": None,
        "node_end": None,
        "content_class": "text",
    }
    return {"chunk_kind": kind, **places, **facts}


CHAT = [row("turn", start, start + 100) for start in (100, 300, 1_000)]
OTHER = row("turn", 300, 400, doc_id="e")
WHOLE = row("window_segment", 0, 10_000)
PAGE = row("section", 0, 9, node_start=0, node_end=5_000, parent_id="s")
SHORT = PAGE | {"node_end": 900}
TEXT = SHORT | {"parent_id": "d"}
CODE = SHORT | {"content_class": "code"}


@pytest.mark.parametrize(
    ("found", "kept", "gone"),
    [
        # A turn stands for those near it, and for a window that holds it.
        ([CHAT[0], PAGE, CHAT[1]], [0, 1], {2: (0, STRETCH)}),
        ([CHAT[0], CHAT[2], OTHER], [0, 1, 2], {}),
        ([WHOLE, PAGE, CHAT[1]], [1, 2], {0: (2, WINDOW)}),
        ([WHOLE, PAGE, CHAT[1], CHAT[0]], [1, 2], {0: (2, WINDOW), 3: (2, STRETCH)}),
        # A window without a turn among the hits stays, and each part of code, or of a text without headings.
        ([CODE, CODE], [0, 1], {}),
        ([WHOLE, PAGE], [0, 1], {}),
        ([TEXT, TEXT], [0, 1], {}),
        ([SHORT, PAGE, SHORT], [0, 1], {2: (0, PART)}),
        ([SHORT, SHORT | {"parent_id": "t"}], [0, 1], {}),
    ],
)
def test_a_unit_is_one_hit(
    found: list[dict[str, Any]], kept: list[int], gone: dict[int, tuple[int, str]]
):
    scores = list(range(len(found), 0, -1))
    rows = [Unit(0, row | {"chunk_no": n}, n + 1) for n, row in enumerate(found)]
    step = units.once(hits_of({0: scores}), rows)
    assert step.hits["chunk_no"].to_list() == kept
    dropped = step.dropped.select("chunk_no", "into", "reason").iter_rows()
    assert {chunk: (into, why) for chunk, into, why in dropped} == gone
    lent = [scores[n] for n, (into, why) in gone.items() if into == kept[0] and why != WINDOW]
    assert step.hits["score"][0] == max(scores[kept[0]], *lent, 0)


def test_a_turn_far_down_does_not_take_the_place_of_a_window_among_the_first():
    ranks = (3, units.LOOKED_AT + 1)
    found = [Unit(0, row | {"chunk_no": n}, ranks[n]) for n, row in enumerate([WHOLE, CHAT[1]])]
    assert units.once(hits_of({0: [2, 1]}), found).hits["chunk_no"].to_list() == [0, 1]
