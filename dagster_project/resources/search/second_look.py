"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from __future__ import annotations

import polars as pl

from dagster_project.resources.arrays.hit_rows import HitRows
from dagster_project.resources.models.rerankers import Reranker
from dagster_project.resources.search.query_batch import QueryBatch
from transforms.mail.subjects import is_reply
from transforms.retrieval import bm25, fusion, reranking
from transforms.retrieval.hits import Step, place, unchanged
from transforms.settings.search import RerankSettings, SearchSettings
from transforms.text import terms


class SecondLook:
    """How the hits of a batch of queries are reranked: as the settings say, by features, or not."""

    def __init__(self, reranker: Reranker | None, batch: QueryBatch, settings: SearchSettings):
        self.batch, self.settings = batch, settings
        self.reranker = reranker
        if settings.rerank == "off":
            self.reranker = None
        elif settings.rerank == "features":
            self.reranker = Reranker(reranker.settings if reranker else RerankSettings())

    def step(self, hits: pl.DataFrame) -> Step:
        """Hits in the order of the reranker, `score` made one scale of its scores and those of the hits behind.

        Only the texts of the hits that the reranker scores are read.
        """
        assert self.reranker is not None
        ranked = hits.with_columns(rank=place())
        top = ranked.filter(pl.col("rank") <= self.reranker.settings.top)
        found = _passages(self.batch.version.arrays.rows, top)
        passages = self._with_own(top.join(found, on="chunk_no", how="left", maintain_order="left"))
        candidates = passages.select(pl.col(name).cast(kind) for name, kind in reranking.CANDIDATES.items())
        queries, first = self.batch.queries, self.batch.first
        diagnostic = [fusion.is_diagnostic(q) for q in queries]
        local, scored = (
            frame.with_columns(pl.col("query") - first)
            for frame in (ranked.drop(*reranking.RERANKED), candidates)
        )
        reranked = self.reranker.reranked(local, scored, queries, diagnostic, len(hits))
        reranked = reranked.with_columns(pl.col("query") + first)
        return unchanged(reranking.on_one_scale(reranked).select(hits.columns))

    def _with_own(self, passages: pl.DataFrame) -> pl.DataFrame:
        """Passages with `own`: what of their query they say themselves."""
        batch, postings = self.batch, self.batch.version.postings
        weights = [
            {term: bm25.idf(postings.df(term), postings.ranked_count) for term in of_query}
            for of_query in batch.terms(self.settings)
        ]
        texts = passages.select(reranking.asked_text()).to_series().to_list()
        words = bm25.terms_by_query(terms.query_terms(texts, batch.version.term_settings), len(texts))
        shares = [
            reranking.own_share(weights[query - batch.first], set(own))
            for query, own in zip(passages.get_column("query"), words, strict=True)
        ]
        return passages.with_columns(own=pl.Series(shares, dtype=pl.Float64))


def _passages(rows: HitRows, hits: pl.DataFrame) -> pl.DataFrame:
    """What `reranking.CANDIDATES` adds to hits; windows of conversations are of no time."""
    passages = []
    for number, row in rows.of(hits.get_column("chunk_no")).items():
        at = row["effective_at"] if row["source_kind"] != "conversation" else None
        is_mail = row["source_kind"] in ("message", "attachment")
        subject = row["subject"] if is_mail else None
        kinds = row["chunk_kind"], row["content_class"]
        passages.append((number, row["title"], row["text_display"], *kinds, at, subject, is_mail))
    frame = pl.DataFrame(passages, _PASSAGES, orient="row")
    return frame.with_columns(opens=~is_reply(pl.col("subject")).fill_null(True))


_PASSAGES = {
    "chunk_no": pl.Int64,
    **{n: reranking.CANDIDATES[n] for n in ("title", "text", "chunk_kind", "content_class", "effective_at")},
    "subject": pl.String,
    "is_mail": pl.Boolean,
}
