"""What the stages behind the fusion ask of a published file (`transforms.retrieval.hits.Context`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl

from dagster_project.resources.arrays.hit_rows import HitRows
from dagster_project.resources.models.rerankers import Reranker
from transforms.retrieval import fusion, reranking
from transforms.settings.search import RerankSettings, SearchSettings


class Judging:
    """How the hits of some queries get a second look: by the reranker of the settings, by features, or not at all."""

    def __init__(
        self, reranker: Reranker | None, queries: Sequence[str], first: int, settings: SearchSettings
    ):
        self.queries, self.first, self.settings = list(queries), first, settings
        self.reranker = reranker
        if settings.rerank == "off":
            self.reranker = None
        elif settings.rerank == "features":
            self.reranker = Reranker(reranker.settings if reranker else RerankSettings())

    @property
    def is_on(self) -> bool:
        """True if hits are looked at again."""
        return self.reranker is not None

    @property
    def judges(self) -> bool:
        """True if a model says how relevant hits are."""
        return self.reranker is not None and self.reranker.scorer is not None

    def reranked(self, hits: pl.DataFrame, passages: pl.DataFrame) -> pl.DataFrame:
        """Hits in their new order; `passages` has what `reranking.CANDIDATES` adds to them."""
        assert self.reranker is not None
        diagnostic = [fusion.is_diagnostic(q) for q in self.queries]
        local, asked = (f.with_columns(pl.col("query") - self.first) for f in (hits, passages))
        again = self.reranker.reranked(local, asked, self.queries, diagnostic, len(hits))
        return again.with_columns(pl.col("query") + self.first)


@dataclass
class HitFacts:
    """The answers for one batch of queries, each read from the file when it is asked for."""

    connection: duckdb.DuckDBPyConnection
    rows: HitRows
    all_vectors: np.ndarray
    judging: Judging

    def reranked(self, hits: pl.DataFrame, settings: SearchSettings) -> pl.DataFrame:
        """HITS in the order of the reranker."""
        assert self.judging.reranker is not None
        first = hits.filter(pl.col("rank") <= self.judging.reranker.settings.top)
        passages = first.join(self._passages(first), on="chunk_no", how="left", maintain_order="left")
        candidates = passages.select(pl.col(name).cast(kind) for name, kind in reranking.CANDIDATES.items())
        return self.judging.reranked(hits.drop(*reranking.RERANKED), candidates)

    def sources(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns chunk_no and source."""
        return pl.DataFrame(
            [(n, row["source"]) for n, row in self.rows.of(chunks).items()],
            {"chunk_no": pl.Int64, "source": pl.String},
            orient="row",
        )

    def vectors(self, chunks: pl.Series) -> np.ndarray:
        """Vectors in the order of the chunks, float32."""
        return np.asarray(self.all_vectors[chunks.to_numpy()])

    def nodes(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns chunk_no and node_id."""
        return self._read(chunks, _NODES)

    def tree(self, chunks: pl.Series) -> pl.DataFrame:
        """Columns node_id, parent_id, depth and sibling_count."""
        return self._read(chunks, _TREE)

    def origins(self, chunks: pl.Series) -> pl.DataFrame:
        """What says that chunks are the same."""
        return self._read(chunks, _ORIGINS)

    def _passages(self, hits: pl.DataFrame) -> pl.DataFrame:
        """What `reranking.CANDIDATES` adds to hits; windows of conversations are of no time."""
        told = []
        for number, row in self.rows.of(hits.get_column("chunk_no")).items():
            at = row["effective_at"] if row["source_kind"] != "conversation" else None
            told.append(
                (number, row["title"], row["text_display"], row["chunk_kind"], row["content_class"], at)
            )
        return pl.DataFrame(told, _PASSAGES, orient="row")

    def _read(self, chunks: pl.Series, statement: str) -> pl.DataFrame:
        """The rows of a statement for these chunks."""
        table = self.connection.execute(statement, {"chunks": chunks.to_list()}).to_arrow_table()
        return pl.from_arrow(table)  # type: ignore[return-value]


_PASSAGES = {"chunk_no": pl.Int64} | {
    name: reranking.CANDIDATES[name]
    for name in ("title", "text", "chunk_kind", "content_class", "effective_at")
}

_NODES = """
SELECT c.chunk_no::BIGINT AS chunk_no, n.node_id
FROM chunks c JOIN nodes n ON n.node_id = c.parent_id
WHERE c.chunk_no IN (SELECT unnest($chunks::INTEGER[]))
"""

_TREE = """
SELECT node_id, parent_id, depth, sibling_count FROM nodes
WHERE doc_id IN (SELECT doc_id FROM chunks WHERE chunk_no IN (SELECT unnest($chunks::INTEGER[])))
ORDER BY node_id
"""

# A patch in one posting is known by its series and its part; its attachments and files have texts of their own.
_ORIGINS = """
SELECT c.chunk_no::BIGINT AS chunk_no, c.doc_id, coalesce(x.checksum, c.checksum) AS checksum,
  CASE WHEN x.context_kind = 'quote' THEN q.parent_id END AS quoted_from,
  f.series_id || '/' || coalesce(f.part::VARCHAR, '') AS revision, f.version, f.is_latest
FROM chunks c LEFT JOIN chunk_context x USING (chunk_id)
LEFT JOIN (SELECT message_id, min(parent_id) AS parent_id FROM inferred_quotes GROUP BY message_id) q
  ON q.message_id = c.doc_id
LEFT JOIN (FROM patch_series WHERE NOT is_reply) f ON f.message_id = c.doc_id
WHERE c.chunk_no IN (SELECT unnest($chunks::INTEGER[]))
"""
