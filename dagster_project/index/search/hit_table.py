"""Ranked hits as people and programs read them: the facts of each, why it was found, its place, the
texts around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.index.files.hit_rows import HitRows
from dagster_project.index.search.chosen_chunks import Chosen, chosen_chunks
from dagster_project.index.search.completeness import Completeness
from dagster_project.index.search.expansions import expansions
from dagster_project.index.search.filters import Understood
from dagster_project.index.search.opened_version import OpenedVersion
from dagster_project.outgoing.screen import Screen
from transforms.documents.files import document_format
from transforms.documents.plain_text import plain_text
from transforms.retrieval import bm25, labels, units
from transforms.retrieval.citations import citation, page_of_words
from transforms.retrieval.counts import Count
from transforms.retrieval.folding import folded_into
from transforms.retrieval.fusion import Places
from transforms.retrieval.query_rewriting import Standalone
from transforms.schemas.chunks import PICTURE
from transforms.schemas.search import SEARCH_HITS
from transforms.settings.documents import PLAIN_FORMATS
from transforms.settings.search import SearchSettings
from transforms.text import passages, snippets


@dataclass(frozen=True)
class RankedHits:
    """Hits of a batch of queries (`pipeline.RANKED`), the chunks they replace
    (`pipeline.merged`), a label per query.

    `vector_path` is how vectors were searched: exact, codes or hnsw; `missing` are the legs that
    the search lacks; `history` are the queries whose words stand in quoted history alone.
    """

    hits: pl.DataFrame
    dropped: pl.DataFrame
    labels: tuple[str, ...]
    vector_path: str
    missing: tuple[str, ...] = ()
    history: frozenset[int] = frozenset()


@dataclass(frozen=True)
class SearchResult:
    """Hits of a batch of queries (`schemas.SEARCH_HITS`) and how vectors were searched, with the
    time in seconds.

    Each query has a label, its reading, and how many hits there are; `completeness` says how much was
    searched.
    """

    hits: pa.Table
    labels: tuple[str, ...]
    understood: tuple[Understood, ...]
    counts: tuple[Count, ...]
    vector_path: str
    seconds: float
    completeness: Completeness

    def as_json(self, queries: Sequence[Standalone], version: str) -> dict[str, Any]:
        """The output of `weft search --json`: one entry per query with its hits, and how it was
        understood.
        """
        rows = self.hits.to_pylist()
        for row in rows:
            row["effective_at"] = row["effective_at"] and row["effective_at"].isoformat()
        return {
            "outcome": "HITS" if rows else "NO_RESULTS",
            "version": version,
            "vector_path": self.vector_path,
            "seconds": round(self.seconds, 6),
            "completeness": self.completeness.model_dump(mode="json"),
            "queries": [
                {
                    "query": q.original,
                    "label": label,
                    "explain": {"given": q.original, "used": q.used, "rewritten_by": q.by},
                    "understood": self.understood[i]._asdict(),
                    "count": self.counts[i]._asdict(),
                    "hits": [r for r in rows if r["query"] == i],
                }
                for i, (q, label) in enumerate(zip(queries, self.labels, strict=True))
            ],
        }


def continued(near: RankedHits, deep: RankedHits, count: int, places: Places) -> RankedHits:
    """The hits of `near`, and behind them those of `deep` whose mails and chunks they do not show,
    up to `count` of each query; their scores are at most the last one before.
    """

    def things(hits: pl.DataFrame) -> pl.DataFrame:
        chunks = hits.get_column("chunk_no").to_numpy()
        thing = np.where(places.is_mail[chunks], places.document[chunks], -1 - chunks)
        return hits.select("query", thing=pl.Series(thing, dtype=pl.Int64))

    shown = pl.concat([things(near.hits), things(near.dropped)]).unique()
    last = near.hits.group_by("query").agg(before=pl.len(), most=pl.col("score").min())
    further = (
        deep.hits.hstack(things(deep.hits).select("thing"))
        .join(shown, on=["query", "thing"], how="anti", maintain_order="left")
        .join(last, on="query", how="left", maintain_order="left")
        .with_columns(
            rank=(pl.col("before").fill_null(0) + pl.int_range(1, pl.len() + 1).over("query")).cast(
                pl.Int32
            ),
            score=pl.min_horizontal("score", "most"),
        )
        .filter(pl.col("rank") <= count)
        .select(near.hits.columns)
    )
    into = further.select("query", into="chunk_no")
    parts = deep.dropped.join(into, on=["query", "into"], how="semi", maintain_order="left")
    return replace(
        near,
        hits=pl.concat([near.hits, further]).sort("query", "rank"),
        dropped=pl.concat([near.dropped, parts]).sort("query", "into", "chunk_no"),
        missing=tuple(dict.fromkeys((*near.missing, *deep.missing))),
    )


def without_hits(
    version: OpenedVersion,
    ranked: RankedHits,
    understood: Mapping[int, Understood],
    is_near: Callable[[str], bool],
) -> tuple[RankedHits, dict[int, Understood]]:
    """The hits without those of the queries in `understood`, and the reading of each of these with
    words in their place.

    A query is proposed in which words of the index replace all that no text holds, if it `is_near`
    to a text.
    """
    is_hidden = pl.col("query").is_in(list(understood))
    first = ranked.hits.filter(is_hidden & (pl.col("rank") == 1)).select("query", "chunk_no")
    facts = version.arrays.rows.of(first.get_column("chunk_no"))
    screen = version.screen
    nearest = {
        query: f"{screen.text(facts[chunk]['subject'] or '(no subject)')} ({facts[chunk]['doc_id']})"
        for query, chunk in first.iter_rows()
    }
    notes = {}
    for n, query in understood.items():
        forms = version.conditions.texts.meant(query.text)
        words = list(forms.values())
        corrected = _corrected(query.text, forms)
        is_shown = bool(words) and screen.words(words) == words and is_near(corrected)
        notes[n] = query._replace(nearest=nearest.get(n), meant=[corrected] if is_shown else [])
    hits, dropped = (table.filter(~is_hidden) for table in (ranked.hits, ranked.dropped))
    return replace(ranked, hits=hits, dropped=dropped), notes


def _corrected(text: str, forms: Mapping[str, str]) -> str:
    """A text with other words in place of some, which `forms` names in small letters."""
    return re.sub(r"\w+", lambda word: forms.get(word.group().lower(), word.group()), text)


def described(
    version: OpenedVersion,
    ranked: RankedHits,
    terms: Sequence[Sequence[str]],
    settings: SearchSettings,
    masks: Sequence[np.ndarray | None] = (),
    select: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = list,
) -> list[dict[str, Any]]:
    """The rows of `schemas.SEARCH_HITS` of hits; `terms` has the terms of each query, `masks` the
    chunks it allows.

    `select` says which stay of the rows with their texts, before their words are looked for where
    the texts are stored.
    """
    rows, screen = version.arrays.rows, version.screen
    chosen = chosen_chunks(version, ranked.hits, terms, masks)
    hits = screen.hits(_with_facts(version.connection, rows, ranked, chosen))
    texts = rows.texts({hit["text_key"] for hit in hits})
    texts = dict(zip(texts, screen.masked(list(texts.values())), strict=True))
    parts = [_passage(hit, texts.get(hit["text_key"]), ranked.history) for hit in hits]
    compared = chain.from_iterable(
        [hit["subject"] or "", *p.all_texts()] for hit, p in zip(hits, parts, strict=True)
    )
    all_terms = set(chain.from_iterable(terms))
    by_term = snippets.words_by_term(compared, all_terms, version.term_settings)
    matching = [snippets.matching_words(set(of_query), by_term) for of_query in terms]
    count = version.postings.ranked_count
    weights = {t: round(100 * bm25.idf(version.postings.df(t), count)) for t in all_terms}
    folded = _by_hit(rows, ranked.dropped, screen)
    excerpts: list[_Excerpt] = []
    with_texts: list[dict[str, Any]] = []
    for place, (hit, passage) in enumerate(zip(hits, parts, strict=True)):
        words = matching[hit["query"]]
        excerpts.append(
            _Excerpt(passage, words, _snippet(passage, words, weights, hit["subject"] or ""))
        )
        own = {
            "place": place,
            "folded": folded.get((hit["query"], hit["ranked_no"]), []),
        }
        with_texts.append(hit | own | _texts(hit, excerpts[place], weights, screen))
    return _located(version, select(with_texts), excerpts, settings)


def _texts(
    hit: Mapping[str, Any], excerpt: _Excerpt, weights: Mapping[str, int], screen: Screen
) -> dict[str, Any]:
    passage = excerpt.passage
    quote = snippets.snippet(passage.quote, excerpt.words, _QUOTE_CHARS, False, weights)
    return {
        "snippet": screen.text(excerpt.snippet.text),
        "highlights": excerpt.snippet.highlights,
        "quoted_text": screen.text(quote.text) or None,
        "quoted_name": hit["answered_name"] if passage.quote and not passage.is_history else None,
        "before": screen.text(passage.before) or None,
        "after": screen.text(passage.after) or None,
        **dict(zip(("byte_start", "byte_end"), passage.stretch or (), strict=False)),
    }


def _located(
    version: OpenedVersion,
    rows: Sequence[dict[str, Any]],
    excerpts: Sequence[_Excerpt],
    settings: SearchSettings,
) -> list[dict[str, Any]]:
    """Rows with the places of their words, page and section, and with the texts around them."""
    around = expansions(version, rows, settings)
    sections = _sections_of(version.connection, rows)
    located = []
    for row, expansions_of_hit in zip(rows, around, strict=True):
        passage, words, snippet = excerpts[row["place"]]
        ranges = snippets.stored_ranges(snippet, passage.stored, words)
        row["page"] = page_of_words(row["page"], row["page_breaks"], ranges)
        if (within := sections.get(row["chunk_no"])) and any(ranges):
            section = within[page_of_words(0, [s["start"] for s in within[1:]], ranges) or 0]
            row |= {
                "node_id": section["node_id"],
                "breadcrumb": version.screen.text(section["breadcrumb"]),
            }
        row |= {
            "citation": citation(row),
            "highlight_bytes": [r and {"byte_start": r[0], "byte_end": r[1]} for r in ranges],
            "expansions": expansions_of_hit,
            "label": labels.hit_label(row, settings),
        }
        located.append({name: row[name] for name in SEARCH_HITS.names})
    return located


def _snippet(
    passage: _Passage, words: Mapping[str, str], weights: Mapping[str, int], subject: str
) -> snippets.Snippet:
    """The part of a passage to show: of a patch its explanation, if that has most of the matches."""
    if explanation := passages.patch_message(passage.text, subject, words, weights):
        return snippets.snippet(explanation, words, weights=weights)
    return snippets.snippet(passage.text, words, keep_lines=passage.keeps_lines, weights=weights)


class _Passage(NamedTuple):
    """The texts of a hit: its text, the stored text that it is made of, the quote that it answers,
    the turns around it, and the bytes of all of these turns.
    """

    text: str
    stored: list[snippets.StoredText]
    keeps_lines: bool = False
    quote: str = ""
    before: str = ""
    after: str = ""
    stretch: tuple[int, int] | None = None
    is_history: bool = False

    def all_texts(self) -> list[str]:
        """The texts whose words are compared with those of queries."""
        stored = [part.text for part in self.stored]
        return [*([] if "\n".join(stored) == self.text else [self.text]), self.quote, *stored]


class _Excerpt(NamedTuple):
    """A passage as it is shown: with the words of it that match, and its snippet."""

    passage: _Passage
    words: Mapping[str, str]
    snippet: snippets.Snippet


def _passage(hit: Mapping[str, Any], stored: str | None, history: Collection[int] = ()) -> _Passage:
    """The passage of a hit, whose bytes are those of `stored`, None without that text; for queries
    of `history` a mail with all that it quotes, as their words stand there.
    """
    passage = _own_passage(hit, stored)
    if hit["query"] not in history or hit["source_kind"] != "message":
        return passage
    return passage._replace(quote=passages.unmarked(stored or ""), is_history=True)


def _own_passage(hit: Mapping[str, Any], stored: str | None) -> _Passage:
    """The passage of a hit by itself."""
    display = hit["text_display"]
    if stored is None:
        return _Passage(display, [])
    if hit["source_kind"] != "message":
        spans = sorted((s["byte_start"], s["byte_end"]) for s in hit["spans"])
        parts = snippets.stored_texts(stored, spans)
        if hit["source_kind"] == "document":
            text = passages.without_headings(display)
            is_plain = document_format(hit["doc_id"]) in PLAIN_FORMATS
            return _Passage(text if is_plain else plain_text(text), parts)
        if hit["source_kind"] == "attachment":
            return _Passage(display, parts, passages.has_lines(display, hit["content_class"]))
        if hit["chunk_kind"] != "turn":
            return _Passage(passages.turn_lines(display) or display, parts, True)
        around = passages.around_turn(stored, spans[0][0], spans[-1][1])
        return _Passage(
            text=parts[0].text,
            stored=parts,
            keeps_lines=True,
            before=around.before,
            after=around.after,
            stretch=(around.start, around.end),
        )
    own = snippets.stored_texts(
        stored, passages.authored_ranges(hit["spans"], hit["inferred_quotes"] or ())
    )
    quotes = snippets.stored_texts(stored, passages.quoted_ranges(hit["spans"]))
    quote = passages.unmarked("\n".join(part.text for part in quotes)) or hit["answered_text"] or ""
    text = "\n".join(part.text for part in own)
    if not any(map(str.isalnum, text)):
        return _Passage(quote or display, quotes)
    return _Passage(text, own, passages.has_lines(text, hit["content_class"]), quote)


def _sections_of(
    connection: duckdb.DuckDBPyConnection, hits: Sequence[Mapping[str, Any]]
) -> dict[int, list[dict[str, Any]]]:
    """By chunk, the sections of each that lie in it, where small ones share a chunk that is named
    after the largest.
    """
    several = {
        hit["chunk_no"]: [hit["chunk_no"], hit["doc_id"], hit["byte_start"], hit["byte_end"]]
        for hit in hits
        if hit["node_id"]
        and not hit["stands_for"]
        and _HEADING.search(passages.without_headings(hit["text_display"]))
    }
    if not several:
        return {}
    columns = list(zip(*several.values(), strict=True))
    return dict(connection.execute(_SECTIONS_WITHIN, columns).fetchall())


def _with_facts(
    connection: duckdb.DuckDBPyConnection,
    rows: HitRows,
    ranked: RankedHits,
    chosen: Sequence[Chosen],
) -> list[dict[str, Any]]:
    """The hits with facts of the chunk that is shown, its document, section and thread, and other
    matches there, the parts of its section first.
    """
    found_by = ranked.hits.get_column("chunk_no").to_list()
    parts: dict[tuple[int, int], list[int]] = {}
    for row in ranked.dropped.iter_rows(named=True):
        if row["reason"] == units.PART:
            parts.setdefault((row["query"], row["into"]), []).append(row["chunk_no"])
    more = [
        dict.fromkeys([*parts.get((query, hit), ()), *choice.more])
        for query, hit, choice in zip(
            ranked.hits.get_column("query").to_list(), found_by, chosen, strict=True
        )
    ]
    shown = (choice.chunk_no for choice in chosen)
    facts = rows.of({*found_by, *shown, *chain.from_iterable(more)})
    hits: list[dict[str, Any]] = [
        {**facts[choice.chunk_no], **hit, "chunk_no": choice.chunk_no, "ranked_no": hit["chunk_no"]}
        | {
            "found_by": facts[hit["chunk_no"]]["chunk_id"],
            "more": [_also(facts[n]) for n in others if n != choice.chunk_no],
        }
        for hit, choice, others in zip(ranked.hits.iter_rows(named=True), chosen, more, strict=True)
    ]
    ids = sorted({hit["stands_for"] for hit in hits if hit["stands_for"]})
    rows_of_sections = connection.execute(_SECTIONS, {"ids": ids}).fetchall() if ids else []
    sections = {name: span for name, *span in rows_of_sections}
    for hit in hits:
        hit["node_id"] = _node(hit)
        hit |= _of_turn(hit)
        if hit["stands_for"]:
            hit["node_id"] = hit["stands_for"]
            names = ("breadcrumb", "byte_start", "byte_end", "page", "page_breaks")
            hit |= dict(zip(names, sections[hit["stands_for"]], strict=True))
    return hits


def _node(fact: Mapping[str, Any]) -> str | None:
    return fact["parent_id"] if fact["breadcrumb"] is not None else None


def _also(fact: Mapping[str, Any]) -> dict[str, Any]:
    """A chunk that matches as well as the one of its mail or document that is shown."""
    kind = "attachment" if fact["attachment_id"] else "section"
    return {
        "kind": PICTURE if fact["chunk_kind"] == PICTURE else kind,
        "chunk_id": fact["chunk_id"],
        "title": fact["filename"] or (fact["breadcrumb"] or fact["title"] or "").removeprefix("> "),
        "citation": citation({**fact, "node_id": _node(fact)}),
    }


def _of_turn(fact: Mapping[str, Any]) -> dict[str, Any]:
    """The speaker and time of a turn of a chat; nothing for other texts."""
    if fact["chunk_kind"] != "turn":
        return {}
    speaker, at = passages.turn_facts(fact["text_display"])
    return {"from_name": speaker or None, "effective_at": at or fact["effective_at"]}


def _by_hit(
    rows: HitRows, dropped: pl.DataFrame, screen: Screen
) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The hits folded into others (`folding.folded_into`), by query and chunk, in order of their chunks."""
    facts = rows.of(dropped.get_column("chunk_no"))
    shown = screen.hits([fact | _of_turn(fact) | {"more": []} for fact in facts.values()])
    facts = dict(zip(facts, shown, strict=True))
    by_hit: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in dropped.iter_rows(named=True):
        record = folded_into(facts[row["chunk_no"]], row["reason"])
        by_hit.setdefault((row["query"], row["into"]), []).append(record)
    return by_hit


_QUOTE_CHARS = 160
"""Characters shown of the quote that a text answers."""
_HEADING = re.compile(r"^(?:#{1,6}[ \t]|(?:=+|-+)[ \t]*$)", re.M)
"""A line that may be a heading within the text of a hit."""
_SECTIONS_WITHIN = """
SELECT c.chunk_no, list({'start': heading_start, 'node_id': node_id, 'breadcrumb': breadcrumb} ORDER BY heading_start)
FROM (SELECT unnest($1::BIGINT[]) chunk_no, unnest($2::VARCHAR[]) doc_id, unnest($3::BIGINT[]) s,
  unnest($4::BIGINT[]) e) c
JOIN nodes USING (doc_id) WHERE heading_start < c.e AND body_end > c.s AND body_end > nodes.byte_start GROUP BY 1
"""
_SECTIONS = """
SELECT node_id, breadcrumb, heading_start, byte_end,
  CASE WHEN page_starts IS NOT NULL THEN len([s FOR s IN page_starts IF s <= heading_start]) END AS page,
  [s FOR s IN page_starts IF s > heading_start AND s < nodes.byte_end] AS page_breaks
FROM nodes JOIN documents USING (doc_id) WHERE node_id IN (SELECT unnest($ids::VARCHAR[]))
"""
