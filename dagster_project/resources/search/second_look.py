"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from dagster_project.resources.models.rerankers import Reranker
from dagster_project.resources.search.query_batch import QueryBatch
from transforms.mail.subjects import is_reply
from transforms.retrieval import bm25, fusion, reranking
from transforms.retrieval.hits import Step, places, unchanged
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
        ranked = hits.with_columns(places(hits))
        top = ranked.filter(pl.col("rank") <= self.reranker.settings.top)
        candidates = self._candidates(top)
        queries, first = self.batch.queries, self.batch.first
        diagnostic = [fusion.is_diagnostic(q) for q in queries]
        local, scored = (
            frame.with_columns(pl.col("query") - first)
            for frame in (ranked.drop(*reranking.RERANKED), candidates)
        )
        reranked = self.reranker.reranked(local, scored, queries, diagnostic, len(hits))
        reranked = reranked.with_columns(pl.col("query") + first)
        return unchanged(reranking.on_one_scale(reranked).select(hits.columns))

    def _candidates(self, hits: pl.DataFrame) -> pl.DataFrame:
        """`reranking.CANDIDATES` of hits; windows of conversations are of no time."""
        batch, postings = self.batch, self.batch.version.postings
        chunks = hits.get_column("chunk_no").to_list()
        facts = batch.version.arrays.rows.of(chunks, _READ)
        rows = [_passage(facts[n]) for n in chunks]
        weights = [
            {term: bm25.idf(postings.df(term), postings.ranked_count) for term in of_query}
            for of_query in batch.terms(self.settings)
        ]
        texts = list(map(reranking.asked_text, rows))
        words = bm25.terms_by_query(terms.query_terms(texts, batch.version.term_settings), len(texts))
        for row, query, own in zip(rows, hits.get_column("query"), words, strict=True):
            row["own"] = reranking.own_share(weights[query - batch.first], set(own))
        subjects = pl.Series([row["subject"] for row in rows], dtype=pl.String)
        opens = pl.select(~is_reply(pl.lit(subjects)).fill_null(True)).to_series()
        kinds = {
            name: kind for name, kind in reranking.CANDIDATES.items() if name not in (*hits.columns, "opens")
        }
        passages = pl.DataFrame({name: [row[name] for row in rows] for name in kinds}, kinds)
        candidates = hits.hstack(passages.with_columns(opens=opens))
        return candidates.select(*reranking.CANDIDATES)


_READ = ("title", "text_display", "chunk_kind", "content_class", "effective_at", "source_kind", "subject")


def _passage(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `reranking.CANDIDATES` has of a chunk (`HitRows`) but `own`, and the subject of a mail."""
    is_mail = row["source_kind"] in ("message", "attachment")
    return {
        "title": row["title"],
        "text": row["text_display"],
        "chunk_kind": row["chunk_kind"],
        "content_class": row["content_class"],
        "effective_at": row["effective_at"] if row["source_kind"] != "conversation" else None,
        "subject": row["subject"] if is_mail else None,
        "is_mail": is_mail,
    }
