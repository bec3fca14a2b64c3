"""Hits that are folded into others: how each relates to its hit."""

from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

OF_THREAD, OF_DOCUMENT = "a better hit of the same thread", "a better hit of the same document"
EARLIER, LATER, COPY = "an earlier version", "a later version", "the same text"
SAME, LITTLE = "says the same", "says little more"
_COUNTED = {
    EARLIER: ("earlier version", "earlier versions"),
    LATER: ("later version", "later versions"),
    COPY: ("more copy", "more copies"),
    SAME: ("more says the same", "more say the same"),
    LITTLE: ("more says little more", "more say little more"),
    OF_THREAD: ("more of the same thread", "more of the same thread"),
    OF_DOCUMENT: ("more of the same document", "more of the same document"),
}
"""One hit and several of each relation; those of the stages of a search are named as they are."""


def folded_into(row: Mapping[str, Any], relation: str) -> dict[str, Any]:
    """The record of a hit that is folded into another one (`schemas.FOLDED`); the day is UTC's."""
    return {
        "relation": relation,
        "chunk_id": row["chunk_id"],
        "doc_id": row["doc_id"],
        "title": row["subject"] or row["title"],
        "author": row["from_name"] or row["from_addr"],
        "day": row["effective_at"] and row["effective_at"].date().isoformat(),
    }


def folded_by_relation(folded: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[Any]]]:
    """The hits folded into one, as `3 earlier versions` and these, the newest first, by relation.

    >>> folded_by_relation([{"relation": EARLIER, "day": None}])
    [('1 earlier version', [{'relation': 'an earlier version', 'day': None}])]
    """
    newest_first = sorted(folded, key=lambda part: part["day"] or "", reverse=True)
    by_relation = sorted(newest_first, key=itemgetter("relation"))
    result = []
    for relation, parts in groupby(by_relation, key=itemgetter("relation")):
        of_one = list(parts)
        one, many = _COUNTED.get(relation, (f"more: {relation}",) * 2)
        result.append((f"{len(of_one)} {one if len(of_one) == 1 else many}", of_one))
    return result
