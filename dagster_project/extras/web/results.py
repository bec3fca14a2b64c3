"""A page of results: what was asked, how it was understood, hits in groups by thread, facets."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from dagster_project.extras.web.addresses import page_of, page_of_hit, with_parameters
from dagster_project.extras.web.asked import Asked
from dagster_project.extras.web.facets import COUNTED, Facets, facets
from dagster_project.extras.web.marks import highlighted, short_names
from dagster_project.index.search.filters import Understood
from dagster_project.index.search.search_index import SearchIndex

RANKED = 100
"""Hits that facets count, and that can be paged through: as many as the stages of a search look at."""
PER_PAGE = 15
SHOWN_OF_THREAD = 4
"""Hits of one thread that are not folded."""
_LABELS = {
    "PASS": None,
    "WEAK": "These may answer the query, or only share words or meaning with it: look twice.",
    "NO_RESULTS": "Nothing is near to this query; these are the least distant texts.",
}
_CLASSES = """
SELECT chunk_no, content_class, has_patch_markers FROM chunks WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[]))
"""


@dataclass(frozen=True)
class Bars:
    """A part of a score as a bar: its name, what it says, its length between 0 and 1."""

    name: str
    text: str
    share: float


@dataclass(frozen=True)
class Hit:
    """A hit as the page shows it; `row` is that of `schemas.SEARCH_HITS`."""

    row: Mapping[str, Any]
    address: str
    snippet: Markup
    badges: list[str]
    bars: list[Bars]
    why: str


@dataclass(frozen=True)
class Group:
    """Hits of one thread, the best first, or a single hit; `folded` are its further ones, `address` shows all of it."""

    hits: list[Hit]
    folded: list[Hit]
    address: str | None


@dataclass(frozen=True)
class Results:
    """What the template of results shows; `warning` says how far they can be trusted.

    Where none is near enough to be shown, `meant` are words of the index that may have been meant, each with its address,
    and `weaker` is the address that shows the hits nevertheless.
    """

    groups: list[Group]
    facets: Facets
    understood: Understood
    warning: str | None
    meant: list[tuple[str, str]]
    weaker: str | None
    milliseconds: float
    completeness: str
    previous: str | None
    next: str | None


def results(index: SearchIndex, asked: Asked) -> Results:
    """The page of results of a query; QueryError if it cannot be understood."""
    start, end = time.perf_counter(), asked.start + PER_PAGE
    resolved = index.resolved([asked.query], asked.filters, asked.plain)
    # Ranked once, twice as many as are paged through: some hits say what a higher one says.
    ranked = index.ranked(resolved, limit=max(RANKED // 2, end + 1), spare=2)
    settings = index.settings.model_copy(update={"weak": asked.weak or index.settings.weak})
    result = index.shown(resolved, ranked, end + 1, settings, start)
    groups = hit_groups(index, asked, result.hits.to_pylist()[asked.start : end])
    listed = resolved[0].listed
    counted = ranked.hits.get_column("chunk_no").to_list() if listed is None else listed[:COUNTED].tolist()
    before = asked.address(start=max(0, asked.start - PER_PAGE) or None)
    return Results(
        groups=groups,
        facets=facets(index.ask, counted, asked),
        understood=result.understood[0],
        warning=_LABELS.get(result.labels[0]),
        meant=[(word, asked.address(q=word)) for word in result.understood[0].meant],
        weaker=asked.address(weak="1") if result.understood[0].nearest else None,
        milliseconds=(time.perf_counter() - start) * 1000,
        completeness=result.completeness.line(),
        previous=before if asked.start else None,
        next=asked.address(start=end) if result.hits.num_rows > end else None,
    )


def passages(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str, Markup]]:
    """Rows of `schemas.SEARCH_HITS` with their addresses, and their snippets with the words marked."""
    return [(row, page_of_hit(row), highlighted(row["snippet"], row["highlights"])) for row in rows]


def hit_groups(index: SearchIndex, asked: Asked, rows: Sequence[Mapping[str, Any]]) -> list[Group]:
    """The hits of a page, rows of `schemas.SEARCH_HITS`, those of one thread together where the best of them stands."""
    classes = {
        number: ("patch" if has_patch else class_)
        for number, class_, has_patch in index.connection.execute(
            _CLASSES, {"chunks": [row["chunk_no"] for row in rows]}
        ).fetchall()
    }
    most = max((row["lexical_score"] for row in rows), default=0.0)
    groups: dict[str, list[Hit]] = {}
    for row in rows:
        hit = Hit(
            row,
            page_of_hit(row),
            short_names(highlighted(row["snippet"], row["highlights"])),
            _badges(row, classes.get(row["chunk_no"])),
            _bars(row, most),
            with_parameters("/why", {"q": asked.query, **asked.values, "id": row["chunk_id"]}),
        )
        groups.setdefault(row["thread_id"] or row["chunk_id"], []).append(hit)
    return [_group(hits, asked) for hits in groups.values()]


def _group(hits: list[Hit], asked: Asked) -> Group:
    row = hits[0].row
    is_thread = row["thread_id"] and (row["thread_size"] or 0) > 1
    question = {"q": asked.query, "plain": "1" if asked.plain else ""}
    address = with_parameters(page_of("thread", row["thread_id"]), question) if is_thread else None
    return Group(hits[:SHOWN_OF_THREAD], hits[SHOWN_OF_THREAD:], address)


def _badges(row: Mapping[str, Any], content_class: str | None) -> list[str]:
    """What a hit is, where it is not plain mail."""
    kinds = {"document": "document", "conversation": "chat", "attachment": "attachment"}
    badges = [kinds[row["source_kind"]]] if row["source_kind"] in kinds else []
    badges = ["picture"] if row["chunk_kind"] == "picture" else badges
    return badges + ([content_class] if content_class in ("patch", "log", "code") else [])


def _bars(row: Mapping[str, Any], most: float) -> list[Bars]:
    """The parts of a score; the BM25 score is compared with the best of the page, `most`."""
    if not row["score"] and row["lexical_rank"] is None and row["vector_rank"] is None:
        return []
    ranks = {n: f", place {row[n]}" if row[n] else "" for n in ("lexical_rank", "vector_rank")}
    bars = [
        Bars(
            "words",
            f"BM25 {row['lexical_score']:.2f}{ranks['lexical_rank']}",
            _of(row["lexical_score"], most),
        ),
        Bars(
            "meaning", f"cosine {row['vector_score']:.2f}{ranks['vector_rank']}", _of(row["vector_score"], 1)
        ),
        Bars("thread", f"+{row['thread_score']:.2f} from its thread", _of(row["thread_score"], 1)),
        Bars("covered", f"{row['support']:.0%} of the query's words", _of(row["support"], 1)),
        Bars("together", f"score {row['score']:.3f}", _of(row["score"], 2)),
    ]
    if row["reranker"]:
        parts: Sequence[Mapping[str, Any]] = row["rerank_parts"] or ()
        bars += [Bars(p["part"], f"{p['value']:+.3f} by the reranker", _of(p["value"], 1)) for p in parts]
    return bars


def _of(value: float | None, most: float) -> float:
    return min(1.0, max(0.0, (value or 0.0) / most)) if most else 0.0
