"""Hits that another hit replaces: turns near it, windows of a chat, parts of a section."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval.hits import Step, best_first, parted, unchanged
from transforms.retrieval.small_tables import with_values
from transforms.text.passages import stretch

LOOKED_AT = 30
"""Hits of a query that are looked at, however few are shown."""
_SECTION = 4_000
"""Bytes of a section up to which its parts are one hit."""
WINDOW, STRETCH, PART = "its turns are hits", "a hit shows it", "the same section"


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
    columns = {
        name: hits.get_column(name).to_numpy(writable=True) for name in ("score", "rerank_score")
    }
    for (query, chunk), (other, reason) in into.items():
        for values in columns.values() if reason != WINDOW else ():
            values[place[query, other]] = np.fmax(
                values[place[query, other]], values[place[query, chunk]]
            )
    targets, reasons = zip(*(into.get(key, (-1, "")) for key in keys), strict=True)
    is_kept = np.array(targets) < 0
    step = parted(with_values(hits, **columns), is_kept, pl.Series(reasons), np.array(targets))
    return Step(best_first(step.hits), step.dropped)


def _stand_ins(units: Sequence[Unit]) -> dict[int, tuple[int, str]]:
    """By the chunk of each hit of a query that another one replaces the chunk of that, and why.

    A turn of a chat replaces those of its stretch (`passages.stretch`), and a section that has a
    heading replaces its parts, up to _SECTION; each part of code says something else.
    """
    sections: dict[str, Mapping[str, Any]] = {}
    turns: list[Mapping[str, Any]] = []
    stand_ins: dict[int, tuple[int, str]] = {}
    for _, row, _ in units:
        other = row
        if row["chunk_kind"] == "turn":
            other = next((turn for turn in turns if _shows(turn, row)), row)
            turns += [row] if other is row else []
        elif row["content_class"] != "code" and _is_short(row):
            other = sections.setdefault(row["parent_id"], row)
        if other is not row:
            reason = STRETCH if row["chunk_kind"] == "turn" else PART
            stand_ins[row["chunk_no"]] = other["chunk_no"], reason
    # A longer list takes nothing from a shorter one.
    near = {unit.row["chunk_no"] for unit in units if unit.rank <= LOOKED_AT}
    for _, row, rank in units:
        held = (
            turn
            for turn in turns
            if _holds(row, turn) and (rank > LOOKED_AT or turn["chunk_no"] in near)
        )
        if row["chunk_kind"] == "window_segment" and (turn := next(held, None)):
            stand_ins[row["chunk_no"]] = turn["chunk_no"], WINDOW
    return stand_ins


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
