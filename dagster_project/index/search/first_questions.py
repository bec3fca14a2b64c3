"""Questions for whoever has an archive and does not know yet what to ask it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby, islice, zip_longest
from operator import itemgetter
from typing import Any

from dagster_project.index.search.search_index import SearchIndex
from dagster_project.system.sql_files import SqlFile

_SQL = SqlFile(__file__, "first_questions.sql")
_WORDS = 5
"""Words of a question at most: so many of a subject say what it is about."""
_WHOLE = 7
"""Words at most of a subject that is a question by itself."""
_FEWEST = 2
"""Words of a question at least: one alone says too little."""


def first_questions(index: SearchIndex, count: int = 3) -> list[str]:
    """At most `count` questions in words of the archive whose first hit is the text that they are
    drawn from and is labelled PASS: on a long thread, on what somebody who writes much said, on a
    long document, or on a chat.
    """
    rows: list[dict[str, Any]] = index.ask(_SQL("candidates"), {}).to_pylist()
    before = set[str]()
    by_kind = [
        _answered(index, list(of_kind), before) for _, of_kind in groupby(rows, itemgetter("kind"))
    ]
    in_turn = filter(None, chain.from_iterable(zip_longest(*by_kind)))
    return list(islice(in_turn, count))


def _answered(
    index: SearchIndex, rows: Iterable[Mapping[str, Any]], before: set[str]
) -> Iterator[str]:
    """The questions of rows that have a right first hit, with none of the words `before`, which
    their own join.
    """
    for row in rows:
        words = _rare_words(index, row["words"])
        if len(words) < _FEWEST or not before.isdisjoint(words):
            continue
        person = " ".join(re.findall(r"\w+", row["person"] or ""))
        question = f"what did {person} say about {' '.join(words)}" if person else " ".join(words)
        result = index.search([question], limit=1)
        first = next(iter(result.hits.to_pylist()), {})
        is_right = row["place"] in (first.get(key) for key in ("thread_id", "doc_id", "chunk_id"))
        if is_right and result.labels == ("PASS",) and row["person"] in (None, first["from_name"]):
            before.update(words)
            yield question


def _rare_words(index: SearchIndex, text: str) -> list[str]:
    """The words of a text that the fewest texts have, in their order; all words of a short one."""
    plain = re.findall(r"[^\W_]+", text)
    if _FEWEST <= len(plain) <= _WHOLE:
        return plain
    words = list(dict.fromkeys(re.findall(r"[^\W\d_]{3,}", text)))
    terms = index.query_terms(words, index.settings.stopwords)
    counts = {
        word: index.postings.df(own[0])
        for word, own in zip(words, terms, strict=True)
        if own and index.postings.df(own[0])
    }
    rarest = sorted(counts, key=lambda word: counts[word])[:_WORDS]
    return [word for word in words if word in rarest]
