"""The evidence card of a thread: the passages of it that answer a query, in the order of the thread."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dagster_project.index.search.search_index import SearchIndex
from transforms.errors import QueryError
from transforms.retrieval.diversity import evidence
from transforms.text.terms import stems

_LOOKED_AT = 10


def card(index: SearchIndex, query: str, message_id: str, *, plain: bool = False) -> list[Mapping[str, Any]]:
    """One to three hits, rows of `schemas.SEARCH_HITS`, of the thread of a mail, in its order.

    There is none where the query has no words, cannot be understood, or the thread has none of them.
    """
    try:
        words = index.resolved([query], plain=plain)[0].understood.text
        result = (
            index.search([f"{_as_words(words)} thread:{message_id}"], limit=_LOOKED_AT) if words else None
        )
    except QueryError:
        return []
    rows = [row for row in result.hits.to_pylist() if row["support"]] if result else []
    asked = _stems(index, words)
    chosen = evidence([row["score"] for row in rows], [_shown(index, row, asked) for row in rows])
    return sorted((rows[n] for n in chosen), key=lambda row: row["thread_position"])


def _as_words(text: str) -> str:
    """A text of which nothing is syntax."""
    return "".join(letter if letter.isalnum() or letter in "_ -" else " " for letter in text).replace(
        " -", " "
    )


def _shown(index: SearchIndex, row: Mapping[str, Any], asked: set[str]) -> set[str]:
    """The words of the query, without endings, that are marked in the passage."""
    marked = " ".join(row["snippet"][start:end] for start, end in row["highlights"])
    return _stems(index, marked) & asked


def _stems(index: SearchIndex, text: str) -> set[str]:
    return set(stems(re.findall(r"[^\W_]+", text.lower()), index.term_settings))
