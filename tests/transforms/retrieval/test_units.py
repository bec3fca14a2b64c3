"""Hits that another hit stands for: turns of its stretch, windows beside their turns, parts of a
section.
"""

from typing import Any

import polars as pl
import pytest

from tests.hit_tables import hits_of
from transforms.retrieval import units
from transforms.retrieval.folding import COPY
from transforms.retrieval.reranking import RERANKED
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
        "source_kind": "document" if kind == "section" else "conversation",
        "text_display": "",
    }
    return {"chunk_kind": kind, **places, **facts}


CHAT = [row("turn", start, start + 100) for start in (100, 300, 1_000)]
OTHER = row("turn", 300, 400, doc_id="e")
WHOLE = row("window_segment", 0, 10_000)
PAGE = row("section", 0, 9, node_start=0, node_end=5_000, parent_id="s")
SHORT = PAGE | {"node_end": 900}
TEXT = SHORT | {"parent_id": "d"}
CODE = SHORT | {"content_class": "code"}
WORDS = [f"word{n}" for n in range(40)]


def of_file(name: str, first: int = 0, **facts: Any) -> dict[str, Any]:
    """A part of a file: the words from the `first` on."""
    return row("section", 0, 9, doc_id=name, text_display=" ".join(WORDS[first:]), **facts)


HTML, TXT, PDF = of_file("s:a.html"), of_file("s:a.rst.txt", 12), of_file("s:book.pdf", 6)


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
        # A page stands for its text in formats that are read less well, wherever these cut it; copies
        # in one format, and texts of other sources, are compared by what hits show of them.
        ([TXT, PAGE, HTML, PDF], [2, 1], {0: (2, COPY), 3: (2, COPY)}),
        ([TXT, PDF], [1], {0: (1, COPY)}),
        ([HTML, of_file("s:a.md")], [0], {1: (0, COPY)}),
        ([HTML, of_file("s:b.html")], [0, 1], {}),
        ([HTML, TXT | {"doc_id": "t:a.txt"}], [0, 1], {}),
        ([HTML, of_file("s:a.txt", 30)], [0, 1], {}),
        ([HTML, TXT | {"content_class": "code"}], [0, 1], {}),
        (
            [TXT | {"parent_id": "p", "node_start": 0, "node_end": 9}] * 2 + [HTML],
            [2],
            {0: (2, COPY), 1: (2, PART)},
        ),
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
    best = step.hits["chunk_no"][0]
    lent = [scores[n] for n, (into, why) in gone.items() if into == best and why != WINDOW]
    assert step.hits["score"][0] == max(scores[best], *lent, 0)


def test_a_page_far_down_does_not_take_the_place_of_a_text_among_the_first():
    ranks = (3, units.LOOKED_AT + 1)
    found = [Unit(0, row | {"chunk_no": n}, ranks[n]) for n, row in enumerate([TXT, HTML])]
    assert units.once(hits_of({0: [2, 1]}), found).hits["chunk_no"].to_list() == [0]


def test_a_page_has_the_second_look_at_its_text_in_another_format():
    parts = [{"part": "own", "value": 0.5}]
    looked_at = {"rerank_score": [0.8, None], "rerank_parts": [parts, None]}
    hits = hits_of({0: [2, 1]}).with_columns(
        pl.Series(name, values, RERANKED[name]) for name, values in looked_at.items()
    )
    rows = [Unit(0, row | {"chunk_no": n}, n + 1) for n, row in enumerate([TXT, HTML])]
    (hit,) = units.once(hits, rows).hits.to_dicts()
    assert hit["chunk_no"] == 1 and hit["score"] == 2
    # Scores without parts would count as those of a model.
    assert (hit["rerank_score"], hit["rerank_parts"]) == (0.8, parts)


def test_a_turn_far_down_does_not_take_the_place_of_a_window_among_the_first():
    ranks = (3, units.LOOKED_AT + 1)
    found = [Unit(0, row | {"chunk_no": n}, ranks[n]) for n, row in enumerate([WHOLE, CHAT[1]])]
    assert units.once(hits_of({0: [2, 1]}), found).hits["chunk_no"].to_list() == [0, 1]
