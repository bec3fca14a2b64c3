"""Hits that say no text twice: a text of the same mail or document, or a quote of it, is folded into its hit."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from transforms.text import passages

_REPEATS = 10
"""One of so many hits repeats a higher one, or fewer do."""
_FEW_WORDS = 25
"""Characters of a reply, its tags aside, below which the text that it answers is shown with it."""
_SAME, _LITTLE = "says the same", "says little more"
_TAG = re.compile(r"\b[A-Z][a-z]+(?:-[a-z]+)*-by: [^<>\n]{0,80}(?:<[^<>\s]*>)?")
"""The line that somebody who read a patch writes below it, `Reviewed-by: Ann <ann@example.org>`."""


def said_once(
    rows: Sequence[dict[str, Any]], limit: int, complete: AbstractSet[int] = frozenset()
) -> list[dict[str, Any]]:
    """The first `limit` rows of each query without those that repeat a text; the row that shows it names them.

    Queries in `complete` keep all rows. A text is repeated by its own mail or document, and by a mail that quotes it;
    two patches that explain themselves alike have each their own diff and stay. A quote that a hit answers is not shown
    again if a higher one shows it.
    """
    result: list[dict[str, Any]] = []
    for query, of_query in groupby(rows, key=lambda row: row["query"]):
        listed = list(of_query)
        if query not in complete:
            listed = _without_known_quotes(_without_repeats(listed))
        result += [row | {"rank": rank} for rank, row in enumerate(_beside_once(listed[:limit]), 1)]
    return result


def enough(
    described: Callable[[np.ndarray], list[dict[str, Any]]],
    queries: np.ndarray,
    rank: np.ndarray,
    limit: int,
) -> list[dict[str, Any]]:
    """The rows of the hits that a mask names, as `described` gives them: `limit` of each query that has so many.

    Hits behind the limit are described, which takes as long as to rank them, for the queries that lack rows else.
    """
    first = limit + 1 + limit // _REPEATS
    rows = described(rank <= first)
    counts = Counter(row["query"] for row in rows)
    if lacking := [n for n in {*queries[rank > first].tolist()} if counts[n] < limit]:
        rows = [row for row in rows if row["query"] not in lacking] + described(
            np.isin(queries, lacking)
        )
    return sorted(rows, key=itemgetter("query"))


def _beside_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a neighbour of a turn, and a section or attachment that matches as well, is named once.

    It is left out if it is a hit itself, or is beside a higher one.
    """
    named = {(row["doc_id"], (row["breadcrumb"] or "").removeprefix("> ")) for row in rows}
    by_doc: dict[str, list[str]] = {}
    for row in rows:
        by_doc.setdefault(row["doc_id"], []).append(row["snippet"])
    listed = []
    for row in rows:
        beside = {name: row[name] for name in ("before", "after") if row[name]}
        texts = by_doc[row["doc_id"]]
        again = {
            name: None
            for name, turn in beside.items()
            if any(turn.endswith(text) for text in texts)
        }
        texts += beside.values()
        more = [part for part in row["more"] if (row["doc_id"], part["title"]) not in named]
        named |= {(row["doc_id"], part["title"]) for part in more}
        listed.append(row | again | {"more": more})
    return listed


def _without_repeats(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without repeats: of a higher row of the same document, or, but for a diff, of the mail they answer."""
    texts = [f"{row['snippet']} {row['quoted_text'] or ''}" for row in rows]
    result: dict[int, dict[str, Any]] = dict(enumerate(rows))
    for place, row in enumerate(rows):
        answered = _answered(rows, place) if row["content_class"] != "patch" else None
        origins = [
            n for n in result if n == answered or n < place and rows[n]["doc_id"] == row["doc_id"]
        ]
        repeated = (
            passages.repeated([*(texts[n] for n in origins), texts[place]])[-1] if origins else None
        )
        if repeated is not None:
            del result[place]
            result[origins[repeated]] = _with_repeat(result[origins[repeated]], row, _SAME)
    return list(result.values())


def _without_known_quotes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; the quote that one answers is left out if another row says it, or a higher one quotes it.

    A reply of few words, or of tags alone, says nothing without it, and goes into the other. A patch has its diff.
    """
    texts = [row["snippet"] for row in rows] + [row["quoted_text"] or "" for row in rows]
    origins = passages.repeated(texts)[len(rows) :]
    result: dict[int, dict[str, Any]] = dict(enumerate(rows))
    for place, (row, into) in enumerate(zip(rows, origins, strict=True)):
        words = _TAG.sub("", row["snippet"]) if "-by:" in row["snippet"] else row["snippet"]
        quoted = (
            None
            if into is None or not row["quoted_text"] or into % len(rows) == place
            else into % len(rows)
        )
        answered = _answered(rows, place) if quoted is not None or words != row["snippet"] else None
        other = quoted if answered is None else answered
        if (
            len(words.strip()) < _FEW_WORDS
            and other in result
            and not (row["subject"] or "").startswith("[")
        ):
            del result[place]
            result[other] = _with_repeat(result[other], row, _LITTLE)
        elif quoted is not None:
            result[place] = row | {"quoted_text": None}
    return list(result.values())


def _answered(rows: Sequence[Mapping[str, Any]], place: int) -> int | None:
    """The place of the mail of its thread that a row answers by its subject; None if it is not among the rows."""
    subject, thread = rows[place]["subject"] or "", rows[place]["thread_id"]
    of_thread = [
        n for n, row in enumerate(rows) if n != place and thread and row["thread_id"] == thread
    ]
    return next((n for n in of_thread if subject.endswith(f": {rows[n]['subject']}")), None)


def _with_repeat(row: dict[str, Any], repeat: dict[str, Any], reason: str) -> dict[str, Any]:
    """The hit, which replaces the repeat, too."""
    also = {"chunk_id": repeat["chunk_id"], "doc_id": repeat["doc_id"], "reason": reason}
    return row | {"constituents": [*row["constituents"], *repeat["constituents"], also]}
