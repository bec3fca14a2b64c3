"""Ranked hits as people and programs read them: what each is, why it was found, where it stands, what is around it."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa

from dagster_project.resources.expansions import EXPANSIONS, expansions
from dagster_project.resources.table_rows import TableRows
from transforms import snippets
from transforms.citations import citation
from transforms.schemas import SEARCH_HITS
from transforms.settings import SearchSettings, TermSettings


def described(
    connection: duckdb.DuckDBPyConnection,
    rows: TableRows,
    ranked: pl.DataFrame,
    constituents: pl.DataFrame,
    wanted: Sequence[AbstractSet[str]],
    terms: TermSettings,
    settings: SearchSettings,
) -> pa.Table:
    """The table `schemas.SEARCH_HITS` of hits (`pipeline.RANKED`) and `pipeline.constituents`.

    `wanted` has the terms of each query.
    """
    hits = _with_chunks(connection, rows, ranked)
    sources = _texts(connection, rows, hits)
    marked = [
        _marked(row, wanted[row["query"]], sources, terms)
        for row in hits.select("query", "text_display", "spans", "doc_id", "attachment_id").iter_rows(
            named=True
        )
    ]
    around = expansions(connection, hits, settings)
    made = hits.with_columns(
        citation=pl.Series([citation(row) for row in hits.iter_rows(named=True)], dtype=pl.String),
        snippet=pl.Series([m.snippet.text for m in marked], dtype=pl.String),
        highlights=pl.Series([m.snippet.highlights for m in marked], dtype=pl.List(pl.List(pl.Int64))),
        highlight_bytes=pl.Series([m.places for m in marked], dtype=_PLACES),
        constituents=_of_hits(connection, hits, constituents),
        expansions=pl.Series(around, dtype=EXPANSIONS),
    )
    return SEARCH_HITS.conform(made.select(SEARCH_HITS.names).to_arrow())


class _Marked(NamedTuple):
    """A snippet, and where its highlighted words stand in the stored text."""

    snippet: snippets.Snippet
    places: list[dict[str, int] | None]


def _marked(
    row: Mapping[str, Any],
    wanted: AbstractSet[str],
    texts: Mapping[tuple[str, str | None], str],
    terms: TermSettings,
) -> _Marked:
    made = snippets.snippet(row["text_display"], wanted, terms)
    stored = texts.get((row["doc_id"], row["attachment_id"]))
    spans = sorted((s["byte_start"], s["byte_end"]) for s in row["spans"])
    found = snippets.stored_places(made, stored, spans, wanted, terms) if stored is not None else []
    named = [None if p is None else {"byte_start": p[0], "byte_end": p[1]} for p in found]
    return _Marked(made, named or [None] * len(made.highlights))


def _with_chunks(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, ranked: pl.DataFrame
) -> pl.DataFrame:
    """The hits with what their chunk, document, section and thread say."""
    numbers = ranked.get_column("chunk_no").unique()
    chunks = _frame(connection, _CHUNKS.format(chunks=rows.of("chunks", numbers)))
    hits = ranked.join(chunks, on="chunk_no", how="left", maintain_order="left").with_columns(
        node_id=pl.coalesce("stands_for", "parent_id")
    )
    nodes = _frame(connection, _NODES, ids=hits.get_column("node_id").drop_nulls().unique())
    own = {name: rows.of(name, numbers) for name in ("messages", "thread_tree", "threads")}
    statement = _DOCUMENTS.format(**own, blocks=rows.blocks(numbers))
    documents = _frame(connection, statement, ids=hits.get_column("doc_id").unique())
    whole = pl.col("stands_for").is_not_null()
    hits = (
        hits.join(nodes, on="node_id", how="left", maintain_order="left")
        .join(documents, on="doc_id", how="left", maintain_order="left")
        .with_columns(
            node_id=pl.when(pl.col("breadcrumb").is_not_null()).then("node_id"),
            byte_start=pl.when(whole).then("node_start").otherwise("byte_start"),
            byte_end=pl.when(whole).then("node_end").otherwise("byte_end"),
        )
    )
    places = hits.select("attachment_id", "block_ends", "byte_start").iter_rows()
    return hits.with_columns(block_index=pl.Series([_block_index(*p) for p in places], dtype=pl.Int64))


def _texts(
    connection: duckdb.DuckDBPyConnection, rows: TableRows, hits: pl.DataFrame
) -> dict[tuple[str, str | None], str]:
    """The stored text of each document, and of each attachment, that hits stand in."""
    own = hits.filter(pl.col("attachment_id").is_null())
    found = _frame(
        connection,
        _STORED.format(messages=rows.of("messages", own.get_column("chunk_no").unique())),
        ids=own.get_column("doc_id").unique(),
        attachments=hits.get_column("attachment_id").drop_nulls().unique(),
    )
    return {(doc, attachment): text for doc, attachment, text in found.iter_rows()}


def _of_hits(
    connection: duckdb.DuckDBPyConnection, hits: pl.DataFrame, constituents: pl.DataFrame
) -> pl.Series:
    """The constituents of each hit."""
    if constituents.is_empty():
        return pl.Series([[]] * len(hits), dtype=_CONSTITUENTS)
    numbers = ", ".join(str(int(n)) for n in constituents.get_column("chunk_no").unique())
    named = _frame(
        connection,
        f"SELECT chunk_no::BIGINT AS chunk_no, chunk_id, doc_id FROM chunks WHERE chunk_no IN ({numbers})",
    )
    grouped = (
        constituents.join(named, on="chunk_no")
        .sort("query", "into", "chunk_no")
        .group_by("query", chunk_no="into", maintain_order=True)
        .agg(constituents=pl.struct("chunk_id", "doc_id", "reason"))
    )
    joined = hits.select("query", "chunk_no").join(
        grouped, on=["query", "chunk_no"], how="left", maintain_order="left"
    )
    return (
        joined.get_column("constituents").cast(_CONSTITUENTS).fill_null(pl.Series([[]], dtype=_CONSTITUENTS))
    )


def _frame(connection: duckdb.DuckDBPyConnection, statement: str, **ids: pl.Series) -> pl.DataFrame:
    table = connection.execute(statement, {n: v.to_list() for n, v in ids.items()}).to_arrow_table()
    return pl.from_arrow(table)  # type: ignore[return-value]


def _block_index(
    attachment_id: str | None, block_ends: list[int] | None, byte_start: int | None
) -> int | None:
    """Index of the block that the first byte of a hit is in; null for attachments."""
    if attachment_id is not None or block_ends is None or byte_start is None:
        return None
    return bisect.bisect_right(block_ends, byte_start)


_PLACES = pl.List(pl.Struct({"byte_start": pl.Int64, "byte_end": pl.Int64}))
_CONSTITUENTS = pl.List(pl.Struct({"chunk_id": pl.String, "doc_id": pl.String, "reason": pl.String}))

_CHUNKS = """
SELECT c.chunk_no::BIGINT AS chunk_no, c.chunk_id, c.doc_id, c.source_kind, c.chunk_kind, c.parent_id, c.chunk_index,
  c.attachment_id, a.filename, c.text_display, c.spans,
  list_min([s.byte_start FOR s IN c.spans IF s.role = 'own']) AS byte_start,
  list_max([s.byte_end FOR s IN c.spans IF s.role = 'own']) AS byte_end
FROM ({chunks}) c LEFT JOIN attachments a ON a.attachment_id = c.attachment_id
"""

_NODES = """
SELECT node_id, breadcrumb, heading_start AS node_start, byte_end AS node_end, body_end FROM nodes
WHERE node_id IN (SELECT unnest($ids::VARCHAR[]))
"""

_DOCUMENTS = """
WITH wanted AS (SELECT unnest($ids::VARCHAR[]) AS message_id),
ends AS (
  SELECT message_id, list(byte_end ORDER BY block_index) AS block_ends FROM ({blocks}) GROUP BY message_id
)
SELECT m.message_id AS doc_id, m.source, m.list_id, m.subject, NULL AS path, m.from_name, m.from_addr, m.effective_at,
  t.thread_id, t.subject AS thread_subject, p.position AS thread_position, t.message_count AS thread_size,
  e.block_ends
FROM ({messages}) m JOIN ({thread_tree}) p USING (message_id) JOIN ({threads}) t USING (thread_id)
LEFT JOIN ends e USING (message_id)
UNION ALL BY NAME
SELECT doc_id, source, title AS subject, path, coalesce(modified_at, created_at) AS effective_at
FROM documents WHERE doc_id IN (SELECT message_id FROM wanted)
UNION ALL BY NAME
SELECT doc_id, source, title AS subject, first_at AS effective_at
FROM conversation_windows WHERE doc_id IN (SELECT message_id FROM wanted)
"""

_STORED = """
SELECT message_id AS doc_id, NULL AS attachment_id, body AS text FROM ({messages})
UNION ALL SELECT doc_id, NULL, text FROM documents WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))
UNION ALL SELECT doc_id, NULL, markdown FROM conversation_windows WHERE doc_id IN (SELECT unnest($ids::VARCHAR[]))
UNION ALL SELECT message_id, attachment_id, text FROM attachments
WHERE attachment_id IN (SELECT unnest($attachments::VARCHAR[]))
"""
