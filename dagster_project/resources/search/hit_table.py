"""Ranked hits as people and programs read them: what each is, why it was found, where it stands, what is around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from dagster_project.resources.arrays.hit_rows import HitRows
from dagster_project.resources.search.expansions import expansions
from dagster_project.resources.search.filters import Understood
from dagster_project.resources.search.opened_version import OpenedVersion
from transforms.retrieval.citations import citation, page_of_words
from transforms.retrieval.query_rewriting import Standalone
from transforms.schemas.search import SEARCH_HITS
from transforms.settings.search import SearchSettings
from transforms.text import snippets


@dataclass(frozen=True)
class RankedHits:
    """Hits of a batch of queries (`pipeline.RANKED`), what they stand for (`pipeline.constituents`), a label per query.

    `vector_path` is how vectors were searched: exact, codes or hnsw.
    """

    hits: pl.DataFrame
    constituents: pl.DataFrame
    labels: tuple[str, ...]
    vector_path: str


@dataclass(frozen=True)
class SearchResult:
    """Hits of a batch of queries (`schemas.SEARCH_HITS`) and how vectors were searched, with the time in seconds.

    Each query has a label and what it was understood as.
    """

    hits: pa.Table
    labels: tuple[str, ...]
    understood: tuple[Understood, ...]
    vector_path: str
    seconds: float

    def as_json(self, queries: Sequence[Standalone], version: str) -> dict[str, Any]:
        """What `weft search --json` prints: one entry per query with its hits, and how it was understood."""
        rows = self.hits.to_pylist()
        for row in rows:
            row["effective_at"] = row["effective_at"] and row["effective_at"].isoformat()
        return {
            "outcome": "HITS" if rows else "NO_RESULTS",
            "version": version,
            "vector_path": self.vector_path,
            "seconds": round(self.seconds, 6),
            "queries": [
                {
                    "query": q.original,
                    "label": label,
                    "explain": {"given": q.original, "used": q.used, "rewritten_by": q.by},
                    "understood": self.understood[i]._asdict(),
                    "hits": [r for r in rows if r["query"] == i],
                }
                for i, (q, label) in enumerate(zip(queries, self.labels, strict=True))
            ],
        }


def described(
    version: OpenedVersion, ranked: RankedHits, terms: Sequence[Sequence[str]], settings: SearchSettings
) -> pa.Table:
    """The table `schemas.SEARCH_HITS` of hits; `terms` has the terms of each query."""
    rows = version.arrays.rows
    hits = _with_facts(version.connection, rows, ranked.hits)
    texts = rows.texts({hit["text_no"] for hit in hits if hit["text_no"] is not None})
    stored = [_stored(hit, texts) for hit in hits]
    displayed = chain((hit["text_display"] for hit in hits), (p.text for parts in stored for p in parts))
    by_term = snippets.words_by_term(displayed, version.term_settings)
    matching = [snippets.matching_words(set(of_query), by_term) for of_query in terms]
    constituents = _by_hit(rows, ranked.constituents)
    around = expansions(version.connection, hits, settings)
    described_rows = []
    for hit, parts, expansions_of_hit in zip(hits, stored, around, strict=True):
        snippet = snippets.snippet(hit["text_display"], matching[hit["query"]])
        ranges = snippets.stored_ranges(snippet, parts, matching[hit["query"]])
        page = page_of_words(hit["page"], hit["page_breaks"], ranges)
        row = hit | {
            "page": page,
            "citation": citation({**hit, "page": page}),
            "snippet": snippet.text,
            "highlights": snippet.highlights,
            "highlight_bytes": [r and {"byte_start": r[0], "byte_end": r[1]} for r in ranges],
            "constituents": constituents.get((hit["query"], hit["chunk_no"]), []),
            "expansions": expansions_of_hit,
        }
        described_rows.append({name: row[name] for name in SEARCH_HITS.names})
    return SEARCH_HITS.from_rows(described_rows)


def _stored(hit: Mapping[str, Any], texts: Mapping[int, str]) -> list[snippets.StoredText]:
    """The pieces of the stored text that a hit's text was made from; none if there is no such text."""
    if hit["text_no"] not in texts:
        return []
    return snippets.stored_texts(
        texts[hit["text_no"]], sorted((s["byte_start"], s["byte_end"]) for s in hit["spans"])
    )


def _with_facts(
    connection: duckdb.DuckDBPyConnection, rows: HitRows, ranked: pl.DataFrame
) -> list[dict[str, Any]]:
    """The hits with what their chunk, document, section and thread say."""
    facts = rows.of(ranked.get_column("chunk_no"))
    hits = [{**facts[hit["chunk_no"]], **hit} for hit in ranked.iter_rows(named=True)]
    ids = sorted({hit["stands_for"] for hit in hits if hit["stands_for"]})
    rows_of_sections = connection.execute(_SECTIONS, {"ids": ids}).fetchall() if ids else []
    sections = {name: span for name, *span in rows_of_sections}
    for hit in hits:
        hit["node_id"] = hit["parent_id"] if hit["breadcrumb"] is not None else None
        if hit["stands_for"]:
            hit["node_id"] = hit["stands_for"]
            names = ("breadcrumb", "byte_start", "byte_end", "page", "page_breaks")
            hit |= dict(zip(names, sections[hit["stands_for"]], strict=True))
    return hits


def _by_hit(rows: HitRows, constituents: pl.DataFrame) -> dict[tuple[int, int], list[dict[str, str]]]:
    """The constituents of hits by query and chunk, in order of their chunks."""
    facts = rows.of(constituents.get_column("chunk_no"))
    by_hit: dict[tuple[int, int], list[dict[str, str]]] = {}
    for row in constituents.iter_rows(named=True):
        fact = facts[row["chunk_no"]]
        constituent = {"chunk_id": fact["chunk_id"], "doc_id": fact["doc_id"], "reason": row["reason"]}
        by_hit.setdefault((row["query"], row["into"]), []).append(constituent)
    return by_hit


_SECTIONS = """
SELECT node_id, breadcrumb, heading_start, byte_end,
  CASE WHEN page_starts IS NOT NULL THEN len([s FOR s IN page_starts IF s <= heading_start]) END AS page,
  [s FOR s IN page_starts IF s > heading_start AND s < nodes.byte_end] AS page_breaks
FROM nodes JOIN documents USING (doc_id) WHERE node_id IN (SELECT unnest($ids::VARCHAR[]))
"""
