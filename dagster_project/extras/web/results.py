"""Results: a page with the question, hits by thread, facets and scores as bars; a feed; the search
box of a browser.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from dagster_project.extras.web.facets import MOST_ROWS, Facets, facets
from dagster_project.extras.web.marks import highlighted
from dagster_project.extras.web.question import (
    Question,
    page_of,
    page_of_hit,
    question_of,
    with_parameters,
)
from dagster_project.extras.web.site import Site
from dagster_project.index.search.explain import Explanation
from dagster_project.index.search.filters import Resolved, Understood
from dagster_project.index.search.hit_table import RankedHits
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from transforms.conversations.pseudonyms import short_pseudonyms
from transforms.errors import QueryError
from transforms.retrieval.counts import Count
from transforms.retrieval.cutoffs import near_or_first
from transforms.retrieval.folding import folded_by_relation
from transforms.retrieval.small_tables import rows_at, with_values

MOST_HITS = 100
"""Hits that facets count, and whose threads can be paged through: as many as the stages of a search
look at.
"""
_PER_PAGE = 15
_OLDEST = datetime.min.replace(tzinfo=UTC)
SHOWN_OF_THREAD = 4
"""Hits of one thread that are not folded."""
WARNINGS = {
    "WEAK": "These may answer the query, or only share words or meaning with it: look twice.",
    "NO_RESULTS": "Nothing is near to this query; these are the least distant texts.",
}
_CLASSES = """
SELECT chunk_no, if(has_patch_markers, 'patch', content_class) FROM chunks
WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[]))
"""


class _Hit(NamedTuple):
    """A hit as the page shows it; `row` is that of `schemas.SEARCH_HITS`.

    Each part of its score is a bar with a name, a text, and a length between 0 and 1; `folded` are
    the hits folded into it, by relation.
    """

    row: Mapping[str, Any]
    address: str
    snippet: Markup
    badges: list[str]
    bars: list[tuple[str, str, float]]
    why: str
    folded: list[tuple[str, list[Any]]]


class Group(NamedTuple):
    """Hits of one thread, the best first, or a single hit; `folded` are its further ones, `address`
    shows all of it.
    """

    hits: list[_Hit]
    folded: list[_Hit]
    address: str | None


class Results(NamedTuple):
    """The data of the template of results; `warning` says how far they can be trusted.

    Where none is near enough to be shown, `meant` is the query that may have been meant
    with its address, and `weaker` is the address that shows the hits nevertheless;
    `words_alone` asks for the words without what they were read as.
    """

    groups: list[Group]
    facets: Facets
    understood: Understood
    warning: str | None
    meant: list[tuple[str, str]]
    weaker: str | None
    words_alone: str
    milliseconds: float
    completeness: str
    previous: str | None
    next: str | None
    count: Count


def results(index: SearchIndex, question: Question) -> Results:
    """The page of results of a query; QueryError if it cannot be understood."""
    start = time.perf_counter()
    resolved = index.resolved([question.query], question.filters, question.plain)
    settings = index.settings.model_copy(update={"weak": question.weak or index.settings.weak})
    listed = resolved[0].listed
    is_listing = listed is not None and not resolved[0].text
    ranked = (_listed if is_listing else _near)(index, resolved, question.start)
    result = index.shown(resolved, ranked, MOST_HITS, settings, start)
    rows = result.hits.to_pylist()
    threads = _by_thread(newest_first(rows) if question.by_date else rows)
    first = 0 if is_listing else question.start
    groups = hit_groups(index, question, threads[first : first + _PER_PAGE])
    counted = (
        ranked.hits.get_column("chunk_no").to_list()
        if listed is None
        else listed[:MOST_ROWS].tolist()
    )
    before, after = (
        question.address(start=max(0, question.start + n) or None) for n in (-_PER_PAGE, _PER_PAGE)
    )
    return Results(
        groups=groups,
        facets=facets(index.ask, counted, question),
        understood=result.understood[0],
        warning=WARNINGS.get(result.labels[0]),
        meant=[
            (text, question.address(q=question.query.replace(result.understood[0].text, text)))
            for text in result.understood[0].meant
        ],
        weaker=question.address(weak="1") if result.understood[0].nearest else None,
        words_alone=question.address(plain="1"),
        milliseconds=(time.perf_counter() - start) * 1000,
        completeness=result.completeness.line(),
        previous=before if question.start else None,
        next=after if len(threads) > first + _PER_PAGE else None,
        count=result.counts[0],
    )


def _near(index: SearchIndex, resolved: Sequence[Resolved], _: int) -> RankedHits:
    """The hits that the pages of a query show: all that are near, at least as many as one page has."""
    ranked = index.ranked(resolved, folds=True)
    near = near_or_first(ranked.hits, index.settings.label_weak, _PER_PAGE)
    return replace(ranked, hits=rows_at(ranked.hits, near))


def _listed(index: SearchIndex, resolved: Sequence[Resolved], start: int) -> RankedHits:
    """The hits of one page of a list and of the thread behind it, which no text folds."""
    ranked = index.ranked(resolved, limit=MOST_ROWS)
    threads = index.arrays.places.thread[ranked.hits.get_column("chunk_no").to_numpy()]
    _, at, thread = np.unique(threads, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(at))[thread]
    of_page = np.flatnonzero((start <= place) & (place <= start + _PER_PAGE))[:MOST_HITS]
    rank = np.arange(1, len(of_page) + 1, dtype=np.int32)
    return replace(ranked, hits=with_values(rows_at(ranked.hits, of_page), rank=rank))


def newest_first(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `schemas.SEARCH_HITS` by their time, those without one last."""
    return sorted(
        rows, key=lambda row: (row["effective_at"] or _OLDEST, -row["rank"]), reverse=True
    )


def hit_passages(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str, Markup]]:
    """Rows of `schemas.SEARCH_HITS` with their addresses, and their snippets with the words marked."""
    return [(row, page_of_hit(row), highlighted(row["snippet"], row["highlights"])) for row in rows]


_Rows = Sequence[Mapping[str, Any]]


def _by_thread(rows: _Rows) -> list[_Rows]:
    """Rows of `schemas.SEARCH_HITS`, those of one thread together at the place of the best."""
    threads: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        threads.setdefault(row["thread_id"] or row["chunk_id"], []).append(row)
    return list(threads.values())


def hit_groups(index: SearchIndex, question: Question, threads: Sequence[_Rows]) -> list[Group]:
    """The hits of a page, rows of `schemas.SEARCH_HITS` by thread."""
    rows = [*chain.from_iterable(threads)]
    numbers = [row["chunk_no"] for row in rows]
    classes = dict(index.connection.execute(_CLASSES, {"chunks": numbers}).fetchall())
    most = max((row["lexical_score"] for row in rows), default=0.0)

    def hit(row: Mapping[str, Any]) -> _Hit:
        others = [part for part in row["folded"] if part["doc_id"] != row["doc_id"]]
        return _Hit(
            row=row,
            address=page_of_hit(row),
            snippet=Markup(short_pseudonyms(highlighted(row["snippet"], row["highlights"]))),
            badges=_badges(row, classes.get(row["chunk_no"])),
            bars=_bars(row, most),
            why=question.address("/why", id=row["chunk_id"]),
            folded=folded_by_relation(others),
        )

    return [_group([hit(row) for row in of_thread], question) for of_thread in threads]


def _group(hits: list[_Hit], question: Question) -> Group:
    row = hits[0].row
    is_thread = row["thread_id"] and (row["thread_size"] or 0) > 1
    parameters = {"q": question.query, "plain": "1" if question.plain else ""}
    address = (
        with_parameters(page_of("thread", row["thread_id"]), parameters) if is_thread else None
    )
    return Group(hits[:SHOWN_OF_THREAD], hits[SHOWN_OF_THREAD:], address)


def _badges(row: Mapping[str, Any], content_class: str | None) -> list[str]:
    """The kinds of a hit that is not plain mail."""
    kinds = {"document": "document", "conversation": "chat", "attachment": "attachment"}
    badges = [kinds[row["source_kind"]]] if row["source_kind"] in kinds else []
    badges = ["picture"] if row["chunk_kind"] == "picture" else badges
    return badges + ([content_class] if content_class in ("patch", "log", "code") else [])


def _bars(row: Mapping[str, Any], most: float) -> list[tuple[str, str, float]]:
    """The parts of a score; the BM25 score is compared with the best of the page, `most`."""
    if not row["score"] and row["lexical_rank"] is None and row["vector_rank"] is None:
        return []
    by_words, by_meaning = (
        f"{row[f'{leg}_score']:.2f}"
        + (f", place {row[f'{leg}_rank']}" if row[f"{leg}_rank"] else "")
        for leg in ("lexical", "vector")
    )
    bars = [
        ("words", f"BM25 {by_words}", _of(row["lexical_score"], most)),
        ("meaning", f"cosine {by_meaning}", _of(row["vector_score"], 1)),
        ("thread", f"+{row['thread_score']:.2f} from its thread", _of(row["thread_score"], 1)),
        ("covered", f"{row['support']:.0%} of the query's words", _of(row["support"], 1)),
        ("together", f"score {row['score']:.3f}", _of(row["score"], 2)),
    ]
    if row["reranker"]:
        parts: Sequence[Mapping[str, Any]] = row["rerank_parts"] or ()
        bars += [
            (p["part"], f"{p['value']:+.3f} by the reranker", _of(p["value"], 1)) for p in parts
        ]
    return bars


def _of(value: float | None, most: float) -> float:
    return min(1.0, max(0.0, (value or 0.0) / most)) if most else 0.0


ROWS, _REASONS = 10, 8
"""Hits whose places in all stages the page of an explanation shows, and reasons of a stage."""


def why_stages(result: Explanation) -> list[dict[str, Any]]:
    """The stages of an explanation for its page.

    Each has its name and share of the time, how many hits it kept and dropped, and where the
    explained id is in it.
    """
    longest = max((table.seconds for table in result.stages), default=0.0) or 1.0
    moments = {m.stage: m for m in result.fate.moments} if result.fate else {}
    views: list[dict[str, Any]] = []
    for table in result.stages:
        hits = table.steps.drop_nulls("rank")
        reasons = table.steps.drop_nulls("reason").group_by("reason").len()
        reasons = reasons.sort("len", "reason", descending=[True, False]).head(_REASONS)
        moment = moments.get(table.stage)
        best = float(hits["score"][0]) if hits.height and hits["score"][0] is not None else 0.0
        score = moment.score if moment else None
        views.append(
            {
                "name": table.stage,
                "milliseconds": table.seconds * 1000,
                "share": table.seconds / longest,
                "best": best,
                "hits": hits.height,
                "dropped": table.steps.height - hits.height,
                "reasons": reasons.rows(),
                "place": moment.rank if moment else None,
                "score": score,
                "reason": moment.reason if moment else None,
                "strength": min(1.0, max(0.0, (score or 0.0) / best)) if best > 0 else 0.0,
            }
        )
    return views


_ENTRIES = 50
_NOT_XML = dict.fromkeys(
    {*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF}
)


def feed(site: Site, request: Request, index: SearchIndex) -> Response:
    """The best hits of a search as an Atom feed (RFC 4287), the newest first; of conditions alone
    the newest texts.
    """
    question = question_of(request.query_params)
    if question.is_empty:
        raise QueryError("there is nothing to follow: add a query to the address")
    searched = index.search([question.query], question.filters, _ENTRIES, question.plain)
    rows = newest_first(searched.hits.to_pylist())
    request.state.shown += [
        Disclosed(row["citation"], row["snippet"], row["doc_id"]) for row in rows
    ]
    hits, base = [(row, page_of_hit(row)) for row in rows], str(request.base_url).rstrip("/")
    published = datetime.fromisoformat(index.manifest["published_at"])
    page = site.page("feed.xml", request, index, hits=hits, base=base, published=published)
    return Response(
        bytes(page.body).decode().translate(_NOT_XML), media_type="application/atom+xml"
    )


def opensearch(site: Site, request: Request) -> Response:
    """The description of the search box (OpenSearch 1.1)."""
    page = site.page("opensearch.xml", request, None, base=str(request.base_url).rstrip("/"))
    return Response(page.body, media_type="application/opensearchdescription+xml")
