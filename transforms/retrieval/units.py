"""Hits that another hit replaces: turns near it, windows of a chat, parts of a section, a page in
another format.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval.folding import COPY
from transforms.retrieval.hits import Step, best_first, parted, unchanged
from transforms.retrieval.small_tables import rows_at, with_values
from transforms.text.passages import FormatText, file_ending, stretch

LOOKED_AT = 30
"""Hits of a query that are looked at, however few are shown."""
_SECTION = 4_000
"""Bytes of a section up to which its parts are one hit."""
WINDOW, STRETCH, PART = "its turns are hits", "a hit shows it", "the same section"
_LATER_FORMS = {"pdf": 1, "txt": 2, "text": 2}
"""By the ending of a file how late its text is shown, if another file has the same: pages with
headings and links are read best.
"""


class Unit(NamedTuple):
    """A hit: the number of its query, its row (`HitRows.of`), and its rank."""

    query: int
    row: Mapping[str, Any]
    rank: int


def once(hits: pl.DataFrame, units: Sequence[Unit]) -> Step:
    """Hits without those that another hit replaces, which gets the better score of the two; windows
    lend none.

    `units` are some of the hits, query by query and best first; the others stay as they are.
    """
    into: dict[tuple[int, int], tuple[int, str]] = {}
    for query, of_query in groupby(units, key=lambda unit: unit.query):
        into |= {(query, chunk): other for chunk, other in _stand_ins(list(of_query)).items()}
    if not into:
        return unchanged(hits)
    keys = list(
        zip(hits.get_column("query").to_list(), hits.get_column("chunk_no").to_list(), strict=True)
    )
    place = {key: number for number, key in enumerate(keys)}
    columns: dict[str, Any] = {
        name: hits.get_column(name).to_numpy(writable=True) for name in ("score", "rerank_score")
    }
    lender = np.arange(len(hits))
    for (query, chunk), (other, reason) in into.items():
        to, of = place[query, other], place[query, chunk]
        if np.isnan(columns["rerank_score"][to]) and reason != WINDOW:
            lender[to] = of
        for values in columns.values() if reason != WINDOW else ():
            values[to] = np.fmax(values[to], values[of])
    lent = rows_at(hits[:, ["reranker", "rerank_parts"]], lender)
    columns |= {name: lent.get_column(name) for name in lent.columns}
    targets, reasons = zip(*(into.get(key, (-1, "")) for key in keys), strict=True)
    is_kept = np.array(targets) < 0
    step = parted(with_values(hits, **columns), is_kept, pl.Series(reasons), np.array(targets))
    return Step(best_first(step.hits), step.dropped)


def _stand_ins(units: Sequence[Unit]) -> dict[int, tuple[int, str]]:
    """By the chunk of each hit of a query that another one replaces the chunk of that, and why.

    A turn of a chat replaces those of its stretch (`passages.stretch`), and a section that has a
    heading replaces its parts, up to _SECTION; each part of code says something else. A page
    replaces the same text in another format (`_in_other_formats`).
    """
    stretches = _stretches(units)
    stand_ins = _of_sections(units) | _of_windows(units, stretches.values())
    for chunk, turn in stretches.items():
        if turn["chunk_no"] != chunk:
            stand_ins[chunk] = turn["chunk_no"], STRETCH
    pages = [u for u in units if u.row["chunk_no"] not in stand_ins and _is_text_of_page(u.row)]
    copies = _in_other_formats(pages)
    return {
        chunk: (copies.get(other, other), reason) for chunk, (other, reason) in stand_ins.items()
    } | {chunk: (other, COPY) for chunk, other in copies.items()}


def _of_sections(units: Sequence[Unit]) -> dict[int, tuple[int, str]]:
    """The parts of a short section behind the first of them."""
    first: dict[str, int] = {}
    parts = (
        (row["chunk_no"], first.setdefault(row["parent_id"], row["chunk_no"]))
        for _, row, _ in units
        if row["chunk_kind"] != "turn" and row["content_class"] != "code" and _is_short(row)
    )
    return {chunk: (other, PART) for chunk, other in parts if other != chunk}


def _stretches(units: Sequence[Unit]) -> dict[int, Mapping[str, Any]]:
    """By the chunk of each turn the first turn in whose stretch it is, itself or one before it."""
    first: dict[int, Mapping[str, Any]] = {}
    for _, row, _ in units:
        if row["chunk_kind"] == "turn":
            first[row["chunk_no"]] = next((t for t in first.values() if _shows(t, row)), row)
    return first


def _of_windows(
    units: Sequence[Unit], turns: Collection[Mapping[str, Any]]
) -> dict[int, tuple[int, str]]:
    """The windows that hold one of these turns; a longer list takes nothing from a shorter one."""
    near = {unit.row["chunk_no"] for unit in units if unit.rank <= LOOKED_AT}
    windows: dict[int, tuple[int, str]] = {}
    for _, row, rank in units:
        held = (t for t in turns if _holds(row, t) and (rank > LOOKED_AT or t["chunk_no"] in near))
        if row["chunk_kind"] == "window_segment" and (turn := next(held, None)):
            windows[row["chunk_no"]] = turn["chunk_no"], WINDOW
    return windows


def _in_other_formats(units: Sequence[Unit]) -> dict[int, int]:
    """By the chunk of each text that another file of its source has in a format that is read
    better, or as well and higher, the chunk of that one; hits far down replace none of the first.
    """
    if len({file_ending(unit.row["doc_id"]) for unit in units}) == 1:
        return {}
    texts = {
        u.row["chunk_no"]: FormatText.of(u.row["doc_id"], u.row["text_display"]) for u in units
    }
    forms = [
        (u.rank > LOOKED_AT, _LATER_FORMS.get(texts[u.row["chunk_no"]].ending, 0), u.rank)
        for u in units
    ]
    shown: list[int] = []
    copies: dict[int, int] = {}
    for _, unit in sorted(zip(forms, units, strict=True), key=itemgetter(0)):
        chunk = unit.row["chunk_no"]
        same = (other for other in shown if texts[other].is_in_other_format(texts[chunk]))
        if (other := next(same, None)) is None:
            shown.append(chunk)
        else:
            copies[chunk] = other
    return copies


def _is_text_of_page(row: Mapping[str, Any]) -> bool:
    return row["source_kind"] == "document" and row["content_class"] == "text"


def _is_short(row: Mapping[str, Any]) -> bool:
    """True of a part of a section that has a heading, of up to _SECTION bytes."""
    has_heading = row["node_end"] is not None and row["parent_id"] != row["doc_id"]
    return has_heading and row["node_end"] - row["node_start"] <= _SECTION


def _shows(hit: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    """True if a turn is in the stretch that a hit shows."""
    low, high = stretch(hit["byte_start"], hit["byte_end"])
    is_near = low <= turn["byte_start"] and turn["byte_end"] <= high
    return is_near and turn["doc_id"] == hit["doc_id"]


def _holds(window: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    begins = window["byte_start"] <= turn["byte_start"] < window["byte_end"]
    return begins and turn["doc_id"] == window["doc_id"]
