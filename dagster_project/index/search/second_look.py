"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from dagster_project.index.search.query_batch import QueryBatch
from dagster_project.models.rerankers import Reranker
from transforms.mail.subjects import is_reply
from transforms.retrieval import bm25, fusion, reranking
from transforms.retrieval.hits import Step, places, unchanged
from transforms.retrieval.reranking import Candidate
from transforms.retrieval.small_tables import taken, with_values
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
        rank = places(hits)
        is_top = rank <= self.reranker.settings.top
        candidates = self._candidates(taken(hits, np.flatnonzero(is_top)), rank[is_top].tolist())
        queries = dict(zip(self.batch.numbers, self.batch.queries, strict=True))
        diagnostic = {number for number, query in queries.items() if fusion.is_diagnostic(query)}
        ranked = with_values(hits, rank=rank)
        reranked = self.reranker.reranked(ranked, candidates, queries, diagnostic, len(hits))
        return unchanged(reranking.on_one_scale(reranked)[hits.columns])

    def _candidates(self, hits: pl.DataFrame, ranks: Sequence[int]) -> list[Candidate]:
        """The candidates that hits are; windows of conversations are of no time."""
        queries, chunks, scores, threads = (
            hits.get_column(name).to_list() for name in ("query", "chunk_no", "score", "thread")
        )
        facts = self.batch.version.arrays.rows.of(chunks)
        rows = [facts[n] for n in chunks]
        return [
            Candidate(
                query,
                rank,
                score,
                thread,
                row["title"],
                row["text_display"],
                row["chunk_kind"],
                row["content_class"],
                row["effective_at"] if row["source_kind"] != "conversation" else None,
                opens,
                _is_mail(row),
                own,
            )
            for query, rank, score, thread, row, opens, own in zip(
                queries, ranks, scores, threads, rows, _open(rows), self._own(queries, rows), strict=True
            )
        ]

    def _own(self, queries: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> list[float]:
        """What of its query each text says itself."""
        version = self.batch.version
        df, count = version.postings.df, version.postings.ranked_count
        weights = [
            {term: bm25.idf(df(term), count) for term in of_query}
            for of_query in self.batch.terms(self.settings)
        ]
        texts = [reranking.asked_text(row["text_display"], _is_mail(row)) for row in rows]
        asked = [text for text in texts if text]
        words = iter(bm25.terms_by_query(terms.query_terms(asked, version.term_settings), len(asked)))
        return [
            reranking.own_share(weights[query - self.batch.first], set(next(words))) if text else 0.0
            for query, text in zip(queries, texts, strict=True)
        ]


def _is_mail(row: Mapping[str, Any]) -> bool:
    return row["source_kind"] in ("message", "attachment")


def _open(rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """True for each mail that is no reply."""
    subjects = pl.Series([row["subject"] if _is_mail(row) else None for row in rows], dtype=pl.String)
    return pl.select(~is_reply(pl.lit(subjects)).fill_null(True)).to_series().to_list()
