"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from dagster_project.index.search.query_batch import QueryBatch
from dagster_project.models.language_models import Reranker
from transforms.mail.headers import is_reply
from transforms.retrieval import bm25, circumstances, fusion, reranking, units
from transforms.retrieval.circumstances import Circumstances
from transforms.retrieval.hits import Step, places, unchanged
from transforms.retrieval.reranking import Candidate
from transforms.retrieval.small_tables import rows_at, with_values
from transforms.settings.search import RerankSettings, SearchSettings
from transforms.text import passages, terms

_UNITS = 20
"""The stage `units` looks at so many hits of a query, at more if `limit` is higher."""


class SecondLook:
    """How the hits of a batch of queries are reranked: as the settings say, by features, or not."""

    def __init__(self, reranker: Reranker | None, batch: QueryBatch, settings: SearchSettings):
        self.batch, self.settings = batch, settings
        self.reranker = reranker
        self.missing: list[str] = []
        if settings.rerank == "off":
            self.reranker = None
        elif settings.rerank == "features":
            self.reranker = Reranker(reranker.settings if reranker else RerankSettings())

    @cached_property
    def lifts(self) -> dict[int, Circumstances]:
        """The circumstances that queries name, by their number; parts of a text have none."""
        if not self.batch.asks:
            return {}
        conditions = self.batch.version.conditions
        pairs = zip(
            self.batch.numbers, map(conditions.circumstances, self.batch.queries), strict=True
        )
        return {number: lift for number, lift in pairs if any(lift)}

    def lifted(self, hits: pl.DataFrame) -> Step:
        """Hits in the order of their scores with the gain for circumstances; windows of conversations meet none."""
        queries, chunks = (hits.get_column(name).to_list() for name in ("query", "chunk_no"))
        pairs = zip(queries, chunks, strict=True)
        rows = self.batch.version.arrays.rows.of(
            {chunk for query, chunk in pairs if query in self.lifts}
        )
        met = [
            self.lifts[query].met(*_author_and_time(rows[chunk])) if query in self.lifts else 0
            for query, chunk in zip(queries, chunks, strict=True)
        ]
        return circumstances.lifted(hits, np.array(met))

    def step(self, hits: pl.DataFrame) -> Step:
        """Hits in the order of the reranker, `score` made one scale of its scores and those of the hits behind.

        Only the texts of the hits that the reranker scores are read.
        """
        assert self.reranker is not None
        rank = places(hits)
        is_top = rank <= self.reranker.settings.top
        candidates = self._candidates(rows_at(hits, np.flatnonzero(is_top)), rank[is_top].tolist())
        queries = dict(zip(self.batch.numbers, self.batch.queries, strict=True))
        diagnostic = {number for number, query in queries.items() if fusion.is_diagnostic(query)}
        ranked = with_values(hits, rank=rank)
        reranked = self.reranker.reranked(ranked, candidates, queries, diagnostic, len(hits))
        by = {*reranked.get_column("reranker").to_list()} - {None, self.reranker.name}
        self.missing = [f"the second look as set: {name}" for name in sorted(by)]
        return unchanged(reranking.on_one_scale(reranked)[:, hits.columns])

    def _candidates(self, hits: pl.DataFrame, ranks: Sequence[int]) -> list[Candidate]:
        """The candidates that hits are; windows of conversations are of no time."""
        queries, chunks, scores, threads = (
            hits.get_column(name).to_list() for name in ("query", "chunk_no", "score", "thread")
        )
        facts = self.batch.version.arrays.rows.of(chunks)
        rows = [facts[n] for n in chunks]
        person_of = self.batch.version.conditions.values.people.person_of
        authors = [
            person_of.get(row["from_addr"], row["from_addr"] or row["from_name"] or "")
            for row in rows
        ]
        texts = [reranking.asked_text(row["text_display"], _is_mail(row)) for row in rows]
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
                _is_mail(row) and not is_reply(row["subject"] or ""),
                _is_mail(row),
                own,
                author,
            )
            for query, rank, score, thread, row, own, author in zip(
                queries,
                ranks,
                scores,
                threads,
                rows,
                self._shares(queries, texts),
                authors,
                strict=True,
            )
        ]

    def _shares(self, queries: Sequence[int], texts: Sequence[str]) -> list[float]:
        """The share of the words of its query that is in each text."""
        if not any(texts):
            return [0.0] * len(texts)
        version = self.batch.version
        df, count = version.postings.df, version.postings.ranked_count
        weights = [
            {term: bm25.idf(df(term), count) for term in of_query}
            for of_query in self.batch.terms(self.settings)
        ]
        parts = [text for text in texts if text]
        words = iter(terms.query_terms(parts, version.term_settings))
        return [
            reranking.own_share(weights[query - self.batch.first], set(next(words)))
            if text
            else 0.0
            for query, text in zip(queries, texts, strict=True)
        ]

    def once(self, hits: pl.DataFrame) -> Step:
        """The hits of pages and chats, each section, question and window once (`units.once`)."""
        rank, is_mail = places(hits), hits.get_column("is_mail").to_numpy()
        top = np.flatnonzero(~is_mail & (rank <= max(_UNITS, self.settings.limit)))
        if not len(top):
            return unchanged(hits)
        queries, chunks = (
            hits.get_column(name).gather(top).to_list() for name in ("query", "chunk_no")
        )
        facts = self.batch.version.arrays.rows.of(chunks)
        rows = [facts[n] for n in chunks]
        turns = [row for row in rows if row["chunk_kind"] == "turn"]
        texts = [
            row["text_display"]
            if row["chunk_kind"] == "turn" and any(units.follows(t, row) for t in turns)
            else ""
            for row in rows
        ]
        parts = [part for text in texts for part in units.asked_and_said(text)]
        shares = self._shares([query for query in queries for _ in range(2)], parts)
        asks = (question > rest for question, rest in zip(shares[::2], shares[1::2], strict=True))
        return units.once(hits, list(map(units.Unit, queries, rows, asks)))


def _author_and_time(row: Mapping[str, Any]) -> tuple[str | None, datetime | None]:
    """The author of a mail, and the time of a mail, document or turn: the speaker is one of the words of a turn."""
    if row["source_kind"] != "conversation":
        return row["from_name"], row["effective_at"]
    return None, passages.turn_facts(row["text_display"])[1]


def _is_mail(row: Mapping[str, Any]) -> bool:
    return row["source_kind"] in ("message", "attachment")
