"""Hits that another hit replaces: windows of a chat, questions beside the turns that answer them, parts of a section."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.retrieval.hits import Step, best_first, parted, unchanged
from transforms.retrieval.small_tables import with_values

_ENDS = re.compile("(?<=[.!?\u3002\uff01\uff1f\u061f\n])")
_MARKS = ("?", "\uff1f", "\u061f")
_HEAD = 90
"""Most bytes, but for the speaker's name, between two turns that follow each other in the Markdown of a window: it writes
some 65, and twice as many if another turn is between the two."""
_SECTION = 4_000
"""Bytes of a section up to which its parts are one hit."""
WINDOW, QUESTION, PART = "its turns are hits", "the next turn answers it", "the same section"


class Unit(NamedTuple):
    """A hit: the number of its query, its row (`HitRows.of`), and if it is a turn that asks the query's question."""

    query: int
    row: Mapping[str, Any]
    asks: bool = False


def asked_and_said(turn: str) -> tuple[str, str]:
    """The questions of the text of a turn, and the rest of it, without its first line; nothing if it asks nothing."""
    sentences = _ENDS.split(turn.partition("\n")[2])
    questions = [sentence for sentence in sentences if sentence.endswith(_MARKS)]
    rest = [sentence for sentence in sentences if not sentence.endswith(_MARKS)]
    return ("".join(questions), "".join(rest)) if questions else ("", "")


def once(hits: pl.DataFrame, units: Sequence[Unit]) -> Step:
    """Hits without those that another hit replaces, which gets the better score of the two; windows lend none.

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
    """By the chunk of each hit of a query that another one replaces the chunk of that, and why."""
    turns = [unit.row for unit in units if unit.row["chunk_kind"] == "turn"]
    asking = [unit.row for unit in units if unit.asks]
    answers = {q["chunk_no"]: turn for q in asking for turn in turns if follows(turn, q)}
    sections: dict[str, Mapping[str, Any]] = {}
    stand_ins: dict[int, tuple[int, str]] = {}
    for _, row, _ in units:
        other, reason = row, QUESTION
        if row["chunk_kind"] == "window_segment":
            other, reason = next((turn for turn in turns if _holds(row, turn)), row), WINDOW
        elif row["node_end"] is not None and row["node_end"] - row["node_start"] <= _SECTION:
            other, reason = sections.setdefault(row["parent_id"], row), PART
        while other["chunk_no"] in answers:
            other = answers[other["chunk_no"]]
        if other is not row:
            stand_ins[row["chunk_no"]] = other["chunk_no"], reason
    return stand_ins


def follows(turn: Mapping[str, Any], question: Mapping[str, Any]) -> bool:
    """True of the row of the turn of somebody else that is the next one behind a question."""
    if turn["doc_id"] != question["doc_id"] or turn["byte_start"] <= question["byte_end"]:
        return False
    speaker, asker = (
        row["text_display"].partition("\n")[0].rpartition(", ")[0] for row in (turn, question)
    )
    gap = turn["byte_start"] - question["byte_end"]
    return bool(gap <= _HEAD + len(speaker.encode()) and speaker != asker)


def _holds(window: Mapping[str, Any], turn: Mapping[str, Any]) -> bool:
    begins = window["byte_start"] <= turn["byte_start"] < window["byte_end"]
    return begins and turn["doc_id"] == window["doc_id"]
