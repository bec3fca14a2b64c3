"""Hits that say no text twice: what repeats a higher one is folded into it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from transforms.text import passages

_PATCH = re.compile(r"\[[^\]]*\]\s*(.*)", re.DOTALL)
"""The subject of a patch, whose tag says which posting it is."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_FEW_WORDS = 25
"""Characters of a reply, its tags aside, below which what it answers is shown with it."""
_LITTLE = "says little more"
_TAG = re.compile(r"\b[A-Z][a-z]+(?:-[a-z]+)*-by: [^<>\n]{0,80}(?:<[^<>\s]*>)?")
"""What somebody who read a patch writes below it, `Reviewed-by: Ann <ann@example.org>`."""


def said_once(
    rows: Sequence[dict[str, Any]], limit: int, complete: AbstractSet[int] = frozenset()
) -> list[dict[str, Any]]:
    """The first `limit` rows of each query without those whose text a higher one shows; this one names them.

    Queries in `complete` keep all rows. What a hit answers is not shown again if a higher one shows it. A reply
    keeps its place beside another of the same words if it answers something else.
    """
    kept: list[dict[str, Any]] = []
    for query, of_query in groupby(rows, key=lambda row: row["query"]):
        listed = list(of_query)
        if query not in complete:
            listed = _without_repeats(_without_known_quotes(_without_repeats(listed)), with_quotes=True)
        kept += [row | {"rank": rank} for rank, row in enumerate(_without_shown_turns(listed[:limit]), 1)]
    return kept


def _without_shown_turns(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a turn before or behind one of a chat is left out if it is a hit itself, or stands beside a higher one."""
    shown: dict[str, list[str]] = {}
    for row in rows:
        shown.setdefault(row["doc_id"], []).append(row["snippet"])
    listed = []
    for row in rows:
        beside = {name: row[name] for name in ("before", "after") if row[name]}
        known = shown[row["doc_id"]]
        again = {name: None for name, turn in beside.items() if any(turn.endswith(text) for text in known)}
        known += beside.values()
        listed.append(row | again)
    return listed


def _without_repeats(rows: Sequence[dict[str, Any]], with_quotes: bool = False) -> list[dict[str, Any]]:
    """The rows without those whose own words, and what they answer, stand in higher ones, or in what these answer."""
    whole = [f"{row['snippet']} {row['quoted_text'] or ''}" for row in rows]
    above = whole if with_quotes else [row["snippet"] for row in rows]
    own = passages.repeated(
        [text for row, other in zip(rows, above, strict=True) for text in (row["snippet"], other)]
    )
    shown: dict[int, dict[str, Any]] = {}
    for place, (row, into, same) in enumerate(zip(rows, own[::2], passages.repeated(whole), strict=True)):
        if into is None or same is None:
            shown[place] = row
        else:
            shown[into // 2] = _with_repeat(shown[into // 2], row)
    return list(shown.values())


def _without_known_quotes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; what one answers is left out if another row says it, or a higher one quotes it.

    A row of few words, or of tags alone, says nothing without it, and goes into the other.
    """
    texts = [row["snippet"] for row in rows] + [row["quoted_text"] or "" for row in rows]
    known = passages.repeated(texts)[len(rows) :]
    shown: dict[int, dict[str, Any]] = dict(enumerate(rows))
    for place, (row, into) in enumerate(zip(rows, known, strict=True)):
        words = _TAG.sub("", row["snippet"])
        quoted = (
            None if into is None or not row["quoted_text"] or into % len(rows) == place else into % len(rows)
        )
        tagged = _answered(rows, place) if words != row["snippet"] else None
        other = quoted if tagged is None else tagged
        if len(words.strip()) < _FEW_WORDS and other in shown:
            del shown[place]
            shown[other] = _with_repeat(shown[other], row, _LITTLE)
        elif quoted is not None:
            shown[place] = row | {"quoted_text": None}
    return list(shown.values())


def _answered(rows: Sequence[Mapping[str, Any]], place: int) -> int | None:
    """The place of the mail of its thread that a row answers by its subject; None if it is not among the rows."""
    subject, thread = rows[place]["subject"] or "", rows[place]["thread_id"]
    of_thread = [n for n, row in enumerate(rows) if n != place and thread and row["thread_id"] == thread]
    return next((n for n in of_thread if subject.endswith(f": {rows[n]['subject']}")), None)


def _with_repeat(
    row: dict[str, Any], repeat: dict[str, Any], reason: str = "says the same"
) -> dict[str, Any]:
    """A hit that stands for another that says the same, too; of postings of one patch the last is the hit."""
    patch = [_PATCH.fullmatch(r["subject"] or "") for r in (row, repeat)]
    is_newer = (
        patch[0] and patch[1] and patch[0][1] == patch[1][1]
        and (repeat["effective_at"] or _NEVER) > (row["effective_at"] or _NEVER)
    )  # fmt: skip
    hit, other = (repeat | {"score": row["score"]}, row) if is_newer else (row, repeat)
    also = {"chunk_id": other["chunk_id"], "doc_id": other["doc_id"], "reason": reason}
    return hit | {"constituents": [*row["constituents"], *repeat["constituents"], also]}
