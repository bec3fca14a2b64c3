"""Which chunk of its mail or document a hit shows, and which others match as well."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dagster_project.index.search.opened_version import OpenedVersion
from transforms.retrieval import bm25
from transforms.schemas.chunks import PICTURE
from transforms.settings.search import SearchSettings
from transforms.text import passages

_MATCHES = 0.5
"""Share of the score of the shown chunk from which another part is said to match."""
_COMPARED = 10
"""Chunks of a mail or document that are compared to be shown, those with the best scores."""
_AS_GOOD = 0.75
"""Share of another chunk's score from which the author's words, or the chunk that was ranked, are
shown before it.
"""
_SAYS_LITTLE = 80
"""Bytes of its author below which a chunk of a mail says the less the fewer they are."""


class Chosen(NamedTuple):
    """The chunk that is shown of a hit, and others of its mail or document that match as well."""

    chunk_no: int
    more: list[int]


def chosen_chunks(
    version: OpenedVersion,
    ranked: pl.DataFrame,
    terms: Sequence[Sequence[str]],
    masks: Sequence[np.ndarray | None],
) -> list[Chosen]:
    """The chunk to show for each hit: by the words of the body, as those of the subject lift all
    chunks of a mail alike.

    A mail shows its author's own words before an attachment that matches no better, and the chunk
    that was ranked before another that matches little better. A picture that was ranked is shown:
    few words say what it shows.
    """
    places, rows = version.arrays.places, version.arrays.rows
    document = places.document
    queries, hits = (ranked.get_column(name).to_numpy() for name in ("query", "chunk_no"))
    chunks = places.of_documents(document[hits])
    of_chunks = document[chunks]
    rows_of_hits = list(zip(queries.tolist(), document[hits].tolist(), hits.tolist(), strict=True))
    of_one: dict[tuple[int, int], set[int]] = {}
    for query, own, hit in rows_of_hits:
        of_one.setdefault((query, own), set()).add(hit)
    compared: list[tuple[int, dict[int, float], bool]] = []
    scores: dict[int, np.ndarray] = {}
    for query, own, hit in rows_of_hits:
        if query not in scores:
            words = bm25.TermScores(terms[query], version.postings, version.body_weights, None)
            scores[query] = words.of(chunks)
        of_document = of_chunks == own
        if query < len(masks) and (mask := masks[query]) is not None:
            of_document &= mask[chunks]
        others = of_one[query, own] - {hit}
        score = dict(
            zip(chunks[of_document].tolist(), scores[query][of_document].tolist(), strict=True)
        )
        best = sorted(score.keys() - others - {hit}, key=lambda n: (-score[n], n))[:_COMPARED]
        compared.append((hit, {n: score.get(n, 0.0) for n in (hit, *best)}, not others))
    several = [score for _, score, _ in compared if len(score) > 1]
    facts = rows.places(chain.from_iterable(several))
    attached = rows.of(
        hit for hit, _, _ in compared if hit in facts and facts[hit]["attachment_id"]
    )
    numbers = [
        _best({n: facts[n] for n in score}, hit, score)
        if is_alone
        and len(score) > 1
        and (hit not in attached or attached[hit]["chunk_kind"] != PICTURE)
        else hit
        for hit, score, is_alone in compared
    ]
    openings = [_opening(facts, score) if is_alone else None for _, score, is_alone in compared]
    numbers = _explained(version, terms, queries.tolist(), numbers, openings, facts)
    return [
        Chosen(n, _more(facts, n, score) if len(score) > 1 else [])
        for n, (_, score, _) in zip(numbers, compared, strict=True)
    ]


def _best(rows: Mapping[int, Mapping[str, Any]], hit: int, score: Mapping[int, float]) -> int:
    """The chunk that is shown of a mail: the best by words of its author, of whom a few say little;
    else the hit.
    """
    if rows[hit]["source_kind"] in ("document", "conversation"):
        return hit
    chars = {n: row["byte_end"] - row["byte_start"] for n, row in rows.items()}
    worth = {n: score[n] * min(1.0, chars[n] / _SAYS_LITTLE) for n in rows}
    most = max(worth.values())
    bodies = [n for n in rows if rows[n]["source_kind"] == "message"]
    near = [n for n in bodies if worth[n] >= _AS_GOOD * most] or list(rows)
    if most:
        best = max(near, key=lambda n: (worth[n], -n))
        return hit if hit in near and worth[hit] >= _AS_GOOD * worth[best] else best
    return hit if chars[hit] >= _SAYS_LITTLE else max(near, key=lambda n: (chars[n], -n))


def _opening(rows: Mapping[int, Mapping[str, Any]], compared: Iterable[int]) -> int | None:
    """The first of some chunks of a mail that is not a piece of a patch; None if there is none."""
    words = [
        (rows[n]["byte_start"], n)
        for n in compared
        if n in rows and rows[n]["source_kind"] == "message" and rows[n]["content_class"] != "patch"
    ]
    return min(words, default=(0, None))[1]


def _explained(
    version: OpenedVersion,
    terms: Sequence[Sequence[str]],
    queries: Sequence[int],
    numbers: Sequence[int],
    openings: Sequence[int | None],
    places: Mapping[int, Mapping[str, Any]],
) -> list[int]:
    """The chunk to show for each hit: in place of a piece of a patch the opening of its mail, where
    this explains it.

    It does if it says something, and has most of the words of the query that the piece has; those
    of the subject, which is above, count for both.
    """
    patches = {
        place: opening
        for place, (n, opening) in enumerate(zip(numbers, openings, strict=True))
        if opening is not None and places[n]["content_class"] == "patch"
    }
    texts = {n: row["text_display"] for n, row in version.arrays.rows.of(patches.values()).items()}
    weights = version.weighed(SearchSettings())
    words: dict[int, bm25.TermScores] = {}
    result = list(numbers)
    for place, opening in patches.items():
        if len(passages.commit_message(texts[opening])) >= passages.SAYS_SOMETHING:
            query = queries[place]
            if query not in words:
                words[query] = bm25.TermScores(terms[query], version.postings, weights, None)
            above, piece = words[query].support(np.array([opening, numbers[place]]))
            result[place] = opening if above >= _AS_GOOD * piece else numbers[place]
    return result


def _more(
    rows: Mapping[int, Mapping[str, Any]], best: int, score: Mapping[int, float]
) -> list[int]:
    """The best chunk of each attachment or section, but the shown one, that matches as well."""
    kind = rows[best]["source_kind"]
    if kind == "conversation":
        return []
    place = "parent_id" if kind == "document" else "attachment_id"
    more: dict[str, int] = {}
    for n in sorted(score, key=lambda n: (-score[n], n)):
        of, at = rows[n][place], rows[best][place]
        if of is not None and of != at and score[n] > 0 and score[n] >= _MATCHES * score[best]:
            more.setdefault(of, n)
    return list(more.values())
