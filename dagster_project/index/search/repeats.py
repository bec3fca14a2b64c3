"""Hits that say no text twice: a text of the same mail or document, a quote of it, or a copy is
folded into its hit.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from transforms.mail.headers import subject_norm
from transforms.retrieval.folding import COPY, LITTLE, SAME, folded_into
from transforms.retrieval.near_copies import copies
from transforms.text import passages

_REPEATS = 10
"""One of so many hits repeats a higher one, or fewer do."""


class Asks(NamedTuple):
    """The queries, by their number, that fold less: those in `listing` keep all rows, those with
    conditions (`complete`) all but copies; those in `as_ranked` ask for a version or a time, and show the
    best copy, not the newest.
    """

    listing: AbstractSet[int] = frozenset()
    complete: AbstractSet[int] = frozenset()
    as_ranked: AbstractSet[int] = frozenset()


_NONE = Asks()


def said_once(
    rows: Sequence[dict[str, Any]], limit: int, asks: Asks = _NONE
) -> list[dict[str, Any]]:
    """The first `limit` rows of each query without those that repeat a text; the row that shows it
    names them.

    A text is repeated by its own mail or document, by a mail that quotes it, and by a copy of it (a
    file in another format, a circular sent again); two patches that explain themselves alike have
    each their own diff and stay. A quote that a hit answers is not shown again if a higher one shows it.
    """
    result: list[dict[str, Any]] = []
    for query, of_query in groupby(rows, key=lambda row: row["query"]):
        listed = list(of_query)
        if query not in asks.complete:
            listed = _without_known_quotes(_without_repeats(listed))
        if query not in asks.listing:
            listed = _without_copies(listed, newest=query not in asks.as_ranked)
        result += [row | {"rank": rank} for rank, row in enumerate(_beside_once(listed[:limit]), 1)]
    return result


def enough(
    described: Callable[[np.ndarray], list[dict[str, Any]]],
    queries: np.ndarray,
    rank: np.ndarray,
    limit: int,
) -> list[dict[str, Any]]:
    """The rows of the hits that a mask names, as `described` gives them: `limit` of each query that
    has so many.

    Hits behind the limit are described, which takes as long as to rank them, for the queries that
    lack rows else: first as many again, then all.
    """
    described_to = limit + 1 + limit // _REPEATS
    rows = described(rank <= described_to)
    while True:
        counts = Counter(row["query"] for row in rows)
        lacking = [n for n in {*queries[rank > described_to].tolist()} if counts[n] < limit]
        if not lacking:
            return sorted(rows, key=itemgetter("query"))
        described_to = 2 * limit if described_to < 2 * limit else int(rank.max())
        rows = [row for row in rows if row["query"] not in lacking]
        rows += described(np.isin(queries, lacking) & (rank <= described_to))


def _beside_once(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; a neighbour of a turn, and a section or attachment that matches as well, is named
    once.

    It is left out if it is a hit itself, or is beside a higher one. Other parts of the section of a
    hit stay beside it.
    """
    shown = {row["chunk_id"] for row in rows}
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
        own = (row["breadcrumb"] or "").removeprefix("> ")
        more = [
            part
            for part in row["more"]
            if part["chunk_id"] not in shown
            and (part["title"] == own or (row["doc_id"], part["title"]) not in named)
        ]
        named |= {(row["doc_id"], part["title"]) for part in more}
        listed.append(row | again | {"more": more})
    return listed


def _without_repeats(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without repeats: of a higher row of the same document, or, but for a diff, of the
    mail they answer.
    """
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
            result[origins[repeated]] = _with_repeat(result[origins[repeated]], row, SAME)
    return list(result.values())


def _without_copies(rows: Sequence[dict[str, Any]], newest: bool) -> list[dict[str, Any]]:
    """The rows without copies of a higher one; with `newest` the newest of one author is shown in
    its place.
    """
    titles = [subject_norm(row["subject"] or "") for row in rows]
    result: dict[int, dict[str, Any]] = dict(enumerate(rows))
    for place, origin in enumerate(copies(rows, titles)):
        if origin is None:
            continue
        copy, shown = result.pop(place), result[origin]
        if newest and copy["from_addr"] == shown["from_addr"] and _is_newer(copy, shown):
            of_place = {name: shown[name] for name in ("rank", "score", "rerank_score")}
            copy, shown = shown, copy | of_place
        result[origin] = _with_repeat(shown, copy, COPY)
    return list(result.values())


def _is_newer(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    at, before = row["effective_at"], other["effective_at"]
    return at is not None and (before is None or at > before)


def _without_known_quotes(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; the quote that one answers is left out if another row says it, or a higher one
    quotes it.

    A reply of few words, or of tags alone, says nothing without it, and goes into the other. A
    patch has its diff.
    """
    texts = [row["snippet"] for row in rows] + [row["quoted_text"] or "" for row in rows]
    origins = passages.repeated(texts)[len(rows) :]
    result: dict[int, dict[str, Any]] = dict(enumerate(rows))
    for place, (row, into) in enumerate(zip(rows, origins, strict=True)):
        words = passages.without_tags(row["snippet"])
        quoted = (
            None
            if into is None or not row["quoted_text"] or into % len(rows) == place
            else into % len(rows)
        )
        answered = _answered(rows, place) if quoted is not None or words != row["snippet"] else None
        other = quoted if answered is None else answered
        if other in result and passages.says_little(row["snippet"], row["subject"] or ""):
            del result[place]
            result[other] = _with_repeat(result[other], row, LITTLE)
        elif quoted is not None:
            result[place] = row | {"quoted_text": None}
    return list(result.values())


def _answered(rows: Sequence[Mapping[str, Any]], place: int) -> int | None:
    """The place of the mail that a row answers; None if it is not among the rows."""
    answered = rows[place]["answered_id"]
    return next((n for n, row in enumerate(rows) if answered and row["doc_id"] == answered), None)


def _with_repeat(row: dict[str, Any], repeat: dict[str, Any], relation: str) -> dict[str, Any]:
    """The hit with the repeat folded into it."""
    return row | {"folded": [*row["folded"], *repeat["folded"], folded_into(repeat, relation)]}
