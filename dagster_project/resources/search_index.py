"""The published index as it is read: queries in, ranked and cited hits out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from assets.protocols import Embedder
from dagster_project.resources.duckdb_extensions import load_vss
from dagster_project.resources.publisher import CURRENT
from transforms import lexical, ranking, snippets, terms
from transforms.errors import IndexUnavailableError, ModelMismatchError
from transforms.settings import SearchSettings, TermSettings

_CELLS_AT_ONCE = 1 << 25


@dataclass(frozen=True)
class Filters:
    """What hits must satisfy: the list they were found in, and times they lie between."""

    list_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """True if every chunk passes."""
        return self == Filters()


@dataclass(frozen=True)
class SearchResult:
    """Hits of a batch of queries (see `SearchIndex.search`), how vectors were searched, and the time."""

    hits: pa.Table
    vector_path: str
    seconds: float

    def as_json(self, queries: Sequence[str], version: str) -> dict[str, Any]:
        """What `weft search --json` prints: one entry per query with its hits."""
        rows = self.hits.to_pylist()
        for row in rows:
            row["effective_at"] = row["effective_at"] and row["effective_at"].isoformat()
        return {
            "outcome": "HITS" if rows else "NO_RESULTS",
            "version": version,
            "vector_path": self.vector_path,
            "seconds": round(self.seconds, 6),
            "queries": [
                {"query": q, "hits": [r for r in rows if r["query"] == i]} for i, q in enumerate(queries)
            ],
        }


class SearchIndex:
    """One published version, opened read-only; what it is asked often for is kept in memory."""

    def __init__(self, path: Path, embedder: Embedder, term_settings: TermSettings, settings: SearchSettings):
        self.path, self.embedder = path, embedder
        self.term_settings, self.settings = term_settings, settings
        try:
            self.connection = duckdb.connect(str(path), read_only=True)
            self.manifest = dict(self.connection.execute("SELECT key, value FROM manifest").fetchall())
        except duckdb.Error as error:
            raise IndexUnavailableError(
                f"{path} cannot be opened as a published index ({str(error).splitlines()[0]}); "
                "`weft build` publishes a new one"
            ) from error
        self.connection.execute("SET TimeZone = 'UTC'")
        if self.manifest["model"] != embedder.model:
            raise ModelMismatchError(
                f"{path} holds vectors of {self.manifest['model']}, the settings name {embedder.model}: "
                "run `weft build` with these settings, or search with the old ones"
            )
        if self.manifest["vector_search"] == "hnsw":
            load_vss(self.connection)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def search(self, queries: Sequence[str], filters: Filters = Filters(), limit: int | None = None) -> SearchResult:
        """The best messages for each query, best first.

        `hits` has the columns of `transforms.ranking.RANKED`, and of the chunk and its mail:
        chunk_id, doc_id, chunk_kind, attachment_id, filename, source, list_id, subject, from_name,
        from_addr, effective_at, block_index, byte_start, byte_end, thread_id, thread_subject,
        thread_position, thread_size, snippet, highlights (half-open character ranges in it).
        """
        start = time.perf_counter()
        limit = limit or self.settings.limit
        allowed = self._allowed(filters)
        step = max(1, _CELLS_AT_ONCE // max(1, self.chunk_count))
        ranked = [
            hits
            for first in range(0, len(queries), step)
            for hits in self._ranked(list(queries[first : first + step]), first, allowed, limit)
        ]
        hits = self._described(pl.concat(ranked), queries)
        return SearchResult(hits, "exact", time.perf_counter() - start)

    @property
    def chunk_count(self) -> int:
        """Chunks in the index."""
        return len(self.lengths["title"])

    @cached_property
    def lengths(self) -> dict[str, np.ndarray]:
        """Terms of each chunk in each field, by chunk number."""
        rows = self.connection.execute("FROM chunk_lengths ORDER BY chunk_no").fetchnumpy()
        return {f: np.asarray(rows[f"{f}_length"], dtype=np.int32) for f in lexical.FIELDS}

    @cached_property
    def places(self) -> ranking.Places:
        """Message and thread of each chunk, by chunk number."""
        rows = self.connection.execute(
            """
            SELECT dense_rank() OVER (ORDER BY c.doc_id) - 1 AS message, dense_rank() OVER (ORDER BY t.thread_id) - 1
              AS thread
            FROM chunks c JOIN thread_tree t ON t.message_id = c.doc_id ORDER BY c.chunk_no
            """
        ).fetchnumpy()
        return ranking.Places(*(np.asarray(rows[n], dtype=np.int32) for n in ("message", "thread")))

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of all chunks by chunk number, float32 of shape (chunks, dimensions)."""
        table = self.connection.execute("SELECT vector FROM embeddings ORDER BY chunk_no").to_arrow_table()
        flat = table.column("vector").combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return flat.reshape(-1, int(self.manifest["dimensions"]))

    def _ranked(
        self, queries: list[str], first: int, allowed: np.ndarray | None, limit: int
    ) -> Iterator[pl.DataFrame]:
        """Ranked hits of each query; the first has the number `first`."""
        asked = terms.query_terms(queries, self.term_settings, self.settings.stopwords)
        lexical_scores = lexical.bm25_scores(asked, len(queries), self._postings(asked), self.settings)
        vector_scores = self.embedder.embed_queries([q if q.strip() else "?" for q in queries]) @ self.vectors.T
        for number in range(len(queries)):
            yield ranking.ranked_hits(
                first + number,
                lexical_scores[number],
                vector_scores[number],
                allowed,
                self.places,
                limit,
                self.settings,
            )

    def _postings(self, asked: pa.Table) -> lexical.Postings:
        wanted = sorted(set(asked.column("term").to_pylist()))
        rows = self.connection.execute(
            """
            SELECT t.term, t.df, p.chunk_no, p.title_tf, p.text_tf, p.quote_tf, p.context_tf
            FROM postings p JOIN terms t USING (term_id)
            WHERE p.term_id IN (SELECT term_id FROM terms WHERE term IN (SELECT unnest(?::VARCHAR[])))
            ORDER BY t.term, p.chunk_no
            """,
            [wanted],
        ).to_arrow_table()
        return lexical.Postings(rows, self.lengths)

    def _allowed(self, filters: Filters) -> np.ndarray | None:
        if filters.is_empty:
            return None
        numbers = self.connection.execute(
            """
            SELECT c.chunk_no FROM chunks c JOIN messages m ON m.message_id = c.doc_id
            WHERE ($list IS NULL OR m.message_id IN (SELECT message_id FROM memberships WHERE list_id = $list))
              AND ($since IS NULL OR m.effective_at >= $since) AND ($until IS NULL OR m.effective_at < $until)
            """,
            {"list": filters.list_id, "since": filters.since, "until": filters.until},
        ).fetchnumpy()["chunk_no"]
        mask = np.zeros(self.chunk_count, dtype=bool)
        mask[np.asarray(numbers, dtype=np.int64)] = True
        return mask

    def _described(self, ranked: pl.DataFrame, queries: Sequence[str]) -> pa.Table:
        """The ranked hits with what a reader wants to see of each."""
        self.connection.register("ranked", ranked.to_arrow())
        table = self.connection.execute(_DESCRIBE).to_arrow_table()
        self.connection.unregister("ranked")
        texts = table.column("text_display").to_pylist()
        asked = [queries[q] for q in table.column("query").to_pylist()]
        made = [snippets.snippet(t, q, self.term_settings) for t, q in zip(texts, asked, strict=True)]
        return table.drop_columns(["text_display"]).append_column(
            "snippet", pa.array([m.text for m in made], pa.string())
        ).append_column(
            "highlights",
            pa.array([m.highlights for m in made], pa.list_(pa.list_(pa.int32()))),
        )


_DESCRIBE = """
WITH hits AS (
  SELECT r.*, c.chunk_id, c.doc_id, c.chunk_kind, c.attachment_id, c.text_display, c.source,
    list_min(list_transform(list_filter(c.spans, lambda s: s.role = 'own'), lambda s: s.byte_start)) AS byte_start,
    list_max(list_transform(list_filter(c.spans, lambda s: s.role = 'own'), lambda s: s.byte_end)) AS byte_end
  FROM ranked r JOIN chunks c USING (chunk_no)
)
SELECT h.*, t.thread_id, m.list_id, m.subject, m.from_name, m.from_addr, m.effective_at, a.filename,
  (SELECT min(b.block_index) FROM blocks b
   WHERE h.attachment_id IS NULL AND b.message_id = h.doc_id AND b.byte_end > h.byte_start) AS block_index,
  t.subject AS thread_subject, p.position AS thread_position, t.message_count AS thread_size
FROM hits h JOIN messages m ON m.message_id = h.doc_id
LEFT JOIN attachments a ON a.attachment_id = h.attachment_id
JOIN thread_tree p ON p.message_id = h.doc_id JOIN threads t ON t.thread_id = p.thread_id
ORDER BY h.query, h.rank
"""


def open_current(folder: Path, embedder: Embedder, term_settings: TermSettings, settings: SearchSettings) -> SearchIndex:
    """The current version below `folder`; IndexUnavailableError if nothing is published there."""
    link = folder / CURRENT
    if not link.exists():
        raise IndexUnavailableError(f"nothing is published in {folder}: run `weft build` first")
    return SearchIndex(link.resolve(), embedder, term_settings, settings)
