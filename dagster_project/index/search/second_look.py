"""The reranker of a batch of queries: a table of hits in, the same hits in their new order out."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from dagster_project.index.search import preferences
from dagster_project.index.search.preferences import Preferences
from dagster_project.index.search.query_batch import QueryBatch
from dagster_project.models.language_models import Reranker
from transforms.mail.headers import is_reply
from transforms.retrieval import bm25, pipeline, reranking, units
from transforms.retrieval.folding import COPY
from transforms.retrieval.hits import Step, places, unchanged
from transforms.retrieval.reranking import Candidate
from transforms.retrieval.small_tables import rows_at, with_values
from transforms.settings.search import RerankSettings, SearchSettings
from transforms.text import terms


class SecondLook:
    """How the hits of a batch of queries are reranked: as the settings say, by features, or not."""

    def __init__(self, reranker: Reranker | None, batch: QueryBatch, settings: SearchSettings):
        self.batch, self.settings = batch, settings
        self.reranker = reranker
        self.missing: list[str] = []
        self.copies: pl.DataFrame | None = None
        """The hits that `once` folded into another format of their text, each with the chunk of
        that (`into`).
        """
        if settings.rerank == "off":
            self.reranker = None
        elif settings.rerank == "features":
            self.reranker = Reranker(reranker.settings if reranker else RerankSettings())

    @cached_property
    def lifts(self) -> dict[int, Preferences]:
        """The preferences of queries beside their words, by their number; parts of a text have none."""
        if not self.batch.preferences:
            return {}
        pairs = zip(self.batch.numbers, self.batch.preferences, strict=True)
        return {number: of_query for number, of_query in pairs if of_query.wishes.prefers}

    def pooled(self, hits: pl.DataFrame, settings: SearchSettings) -> Step:
        """The pool with the mails, pages and turns that are candidates for what their query asks for: of a
        frequent word those of one person have no place among the first.
        """
        queries, documents = (hits.get_column(name).to_numpy() for name in ("query", "document"))
        preferred = np.zeros(len(hits), dtype=bool)
        for number, chunks in self.batch.preferred.items():
            own = np.flatnonzero(queries == number)
            preferred[own] = np.isin(
                documents[own], self.batch.version.arrays.places.document[chunks]
            )
        return pipeline.pooled(hits, settings, preferred)

    def lifted(self, hits: pl.DataFrame) -> Step:
        """Hits in the order of their scores with the gain for what their query asks for; windows of
        conversations have no speaker and time.
        """
        queries, chunks = (hits.get_column(name).to_numpy() for name in ("query", "chunk_no"))
        gain, scores = np.zeros(len(hits)), self.batch.lexical(self.settings)
        for number, of_query in self.lifts.items():
            own = np.flatnonzero(queries == number)
            rows = self.batch.version.arrays.rows.of(chunks[own].tolist())
            support = scores[number - self.batch.first].support(chunks[own])
            gain[own] = of_query.lift(chunks[own], rows, support)
        return preferences.lifted(hits, gain)

    def step(self, hits: pl.DataFrame) -> Step:
        """Hits in the order of the reranker, `score` made one scale of its scores and those of the
        hits behind.

        Only the texts of the hits that the reranker scores are read.
        """
        assert self.reranker is not None
        rank = places(hits)
        is_top = rank <= self.reranker.settings.top
        candidates = self._candidates(rows_at(hits, np.flatnonzero(is_top)), rank[is_top].tolist())
        queries = dict(zip(self.batch.numbers, self.batch.queries, strict=True))
        ranked = with_values(hits, rank=rank)
        reranked = self.reranker.reranked(ranked, candidates, queries, len(hits))
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
        texts = ["" if _is_found_alone(row) else row["text_display"] for row in rows]
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
                opening,
            )
            for query, rank, score, thread, row, own, author, opening in zip(
                queries,
                ranks,
                scores,
                threads,
                rows,
                self._shares(queries, texts),
                authors,
                self._openings(queries, chunks, rows),
                strict=True,
            )
        ]

    def _openings(
        self, queries: Sequence[int], chunks: Sequence[int], rows: Sequence[Mapping[str, Any]]
    ) -> list[float | None]:
        """The cosine of its query with the opening of the page of each text of one."""
        version, places = self.batch.version, self.batch.version.arrays.places
        numbers = np.array(chunks, dtype=np.int64)
        is_text = np.array([row["content_class"] != "code" for row in rows], dtype=bool)
        sections = np.flatnonzero(places.is_page[numbers] & is_text)
        cosines: list[float | None] = [None] * len(rows)
        if len(sections):
            first = version.openings[places.document[numbers[sections]]]
            openings, of_section = np.unique(first, return_inverse=True)
            vectors = self.batch.vectors[np.array(queries)[sections] - self.batch.first]
            near = np.vecdot(version.vectors.of(openings)[of_section], vectors)
            for place, cosine in zip(sections.tolist(), near.tolist(), strict=True):
                cosines[place] = cosine
        return cosines

    def _shares(self, queries: Sequence[int], texts: Sequence[str]) -> list[float | None]:
        """The share of the words of its query that is in each text, None of an empty one."""
        if not any(texts):
            return [None] * len(texts)
        version = self.batch.version
        df, count = version.postings.df, version.postings.ranked_count
        weights = [
            {term: bm25.idf(df(term), count) for term in of_query}
            for of_query in self.batch.terms(self.settings)
        ]
        parts = [text for text in texts if text]
        words = iter(terms.query_terms(parts, version.term_settings))
        return [
            self._share(weights[query - self.batch.first], set(next(words)), text) if text else None
            for query, text in zip(queries, texts, strict=True)
        ]

    def _share(self, weights: Mapping[str, float], words: set[str], text: str) -> float:
        share = reranking.own_share(weights, words)
        by_length = self.settings.length_counts
        return reranking.for_its_length(share, len(text)) if by_length else share

    def once(self, hits: pl.DataFrame) -> Step:
        """The hits of pages and chats, each section and stretch once (`units.once`)."""
        rank, is_mail = places(hits), hits.get_column("is_mail").to_numpy()
        top = np.flatnonzero(~is_mail & (rank <= max(units.LOOKED_AT, self.settings.limit)))
        if not len(top):
            return unchanged(hits)
        queries, chunks = (
            hits.get_column(name).gather(top).to_list() for name in ("query", "chunk_no")
        )
        facts = self.batch.version.arrays.rows.of(chunks)
        rows = (facts[n] for n in chunks)
        step = units.once(hits, list(map(units.Unit, queries, rows, rank[top].tolist())))
        folded = step.dropped.filter(pl.col("reason") == COPY).drop("reason")
        if len(folded):
            self.copies = hits.join(folded, on=["query", "chunk_no"], maintain_order="left")
        return step

    def evidence(self, hits: pl.DataFrame) -> dict[str, np.ndarray]:
        """`QueryBatch.evidence` of hits; one with copies has the most of any of them."""
        own = self.batch.evidence(hits, self.settings)
        if self.copies is None:
            return own
        of_copies = self.batch.evidence(self.copies, self.settings)
        place = {key: n for n, key in enumerate(hits.select("query", "chunk_no").iter_rows())}
        for n, key in enumerate(self.copies.select("query", "into").iter_rows()):
            if key in place:
                for name, values in own.items():
                    values[place[key]] = max(values[place[key]], of_copies[name][n])
        return own


def _is_found_alone(row: Mapping[str, Any]) -> bool:
    """True of mail and code, which no text around them finds."""
    return _is_mail(row) or row["content_class"] == "code"


def _is_mail(row: Mapping[str, Any]) -> bool:
    return row["source_kind"] in ("message", "attachment")
