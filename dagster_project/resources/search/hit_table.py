"""Ranked hits as people and programs read them: what each is, why it was found, where it stands, what is around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa

from dagster_project.resources.arrays.hit_rows import HitRows
from dagster_project.resources.search.expansions import expansions
from transforms.retrieval.citations import citation
from transforms.schemas.search import SEARCH_HITS
from transforms.settings.search import SearchSettings, TermSettings
from transforms.text import snippets


def described(
    connection: duckdb.DuckDBPyConnection,
    rows: HitRows,
    ranked: pl.DataFrame,
    constituents: pl.DataFrame,
    wanted: Sequence[AbstractSet[str]],
    terms: TermSettings,
    settings: SearchSettings,
) -> pa.Table:
    """The table `schemas.SEARCH_HITS` of hits (`pipeline.RANKED`) and `pipeline.constituents`.

    `wanted` has the terms of each query.
    """
    hits = _with_facts(connection, rows, ranked)
    texts = rows.texts({hit["text_no"] for hit in hits if hit["text_no"] is not None})
    stored = [_stored(hit, texts) for hit in hits]
    told_texts = chain((hit["text_display"] for hit in hits), (p.text for parts in stored for p in parts))
    by_term = snippets.words_by_term(told_texts, terms)
    matching = [snippets.matching_words(of_query, by_term) for of_query in wanted]
    gathered = _of_hits(rows, constituents)
    around = expansions(connection, hits, settings)
    made = []
    for hit, parts, beside in zip(hits, stored, around, strict=True):
        marked = _marked(hit["text_display"], parts, matching[hit["query"]])
        told = {
            "citation": citation(hit),
            "snippet": marked.snippet.text,
            "highlights": marked.snippet.highlights,
            "highlight_bytes": marked.places,
            "constituents": gathered.get((hit["query"], hit["chunk_no"]), []),
            "expansions": beside,
        }
        made.append({name: told[name] if name in told else hit[name] for name in SEARCH_HITS.names})
    return SEARCH_HITS.from_rows(made)


class _Marked(NamedTuple):
    """A snippet, and where its highlighted words stand in the stored text."""

    snippet: snippets.Snippet
    places: list[dict[str, int] | None]


def _stored(hit: Mapping[str, Any], texts: Mapping[int, str]) -> list[snippets.StoredText]:
    """The pieces of the stored text that a hit's text was made from; none where there is no such text."""
    if hit["text_no"] not in texts:
        return []
    return snippets.stored_texts(
        texts[hit["text_no"]], sorted((s["byte_start"], s["byte_end"]) for s in hit["spans"])
    )


def _marked(text: str, stored: Sequence[snippets.StoredText], matching: Mapping[str, str]) -> _Marked:
    made = snippets.snippet(text, matching)
    found = snippets.stored_ranges(made, stored, matching)
    return _Marked(made, [p and {"byte_start": p[0], "byte_end": p[1]} for p in found])


def _with_facts(
    connection: duckdb.DuckDBPyConnection, rows: HitRows, ranked: pl.DataFrame
) -> list[dict[str, Any]]:
    """The hits with what their chunk, document, section and thread say."""
    facts = rows.of(ranked.get_column("chunk_no"))
    hits = [{**facts[hit["chunk_no"]], **hit} for hit in ranked.iter_rows(named=True)]
    shown = sorted({hit["stands_for"] for hit in hits if hit["stands_for"]})
    sections = {}
    if shown:
        found = connection.execute(_SECTIONS, {"ids": shown}).fetchall()
        sections = {name: (breadcrumb, start, end) for name, breadcrumb, start, end in found}
    for hit in hits:
        hit["node_id"] = hit["parent_id"] if hit["breadcrumb"] is not None else None
        if hit["stands_for"]:
            hit["node_id"] = hit["stands_for"]
            hit["breadcrumb"], hit["byte_start"], hit["byte_end"] = sections[hit["stands_for"]]
    return hits


def _of_hits(rows: HitRows, constituents: pl.DataFrame) -> dict[tuple[int, int], list[dict[str, str]]]:
    """The constituents of hits by query and chunk, in order of their chunks."""
    facts = rows.of(constituents.get_column("chunk_no"))
    found: dict[tuple[int, int], list[dict[str, str]]] = {}
    for row in constituents.iter_rows(named=True):
        told = {name: facts[row["chunk_no"]][name] for name in ("chunk_id", "doc_id")} | {
            "reason": row["reason"]
        }
        found.setdefault((row["query"], row["into"]), []).append(told)
    return found


_SECTIONS = """
SELECT node_id, breadcrumb, heading_start, byte_end FROM nodes
WHERE node_id IN (SELECT unnest($ids::VARCHAR[]))
"""
