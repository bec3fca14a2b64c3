"""Queries that are scored together: their terms and vectors, their candidates of both kinds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import polars as pl

from dagster_project.index.search.opened_version import HnswScores, OpenedVersion
from transforms.embedding.sign_codes import CodeScores
from transforms.retrieval import bm25, fusion
from transforms.settings.search import SearchSettings

CODE_CANDIDATES = 15_000
"""Vectors with the most signs in common with a query, which are looked at twice; of a million they hold .983 of the ten
nearest, 10,000 hold .980."""
CODE_RESCORED = 2_000
"""The best of these, whose cosines are computed."""

Mask = np.ndarray | None


class QueryBatch:
    """Queries numbered from `first`; what several settings have in common is computed once.

    `masks` say which chunks each query may find, None for all; `factors` what words of each count, where that is not 1.
    `vector_path` is how vectors were searched last, `seconds` what each kind of candidates took.
    """

    def __init__(
        self,
        version: OpenedVersion,
        queries: Sequence[str],
        first: int,
        masks: Sequence[Mask],
        factors: Sequence[Mapping[str, float]] = (),
    ):
        self.factors = factors
        self.version, self.queries, self.first, self.masks = version, list(queries), first, list(masks)
        self.numbers = range(first, first + len(self.queries))
        self.vector_path = "exact"
        self.seconds = {"lexical": 0.0, "vector": 0.0}
        self._lexical: tuple[str, list[bm25.TermScores]] | None = None
        self._terms: dict[tuple[str, ...], list[list[str]]] = {}

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of the queries."""
        return self.version.embedder.embed_queries([q if q.strip() else "?" for q in self.queries])

    @cached_property
    def products(self) -> np.ndarray:
        """Cosine of every query with every chunk."""
        start = time.perf_counter()
        products = self._comparing()
        self.seconds["vector"] = time.perf_counter() - start
        return products

    @cached_property
    def _comparing(self) -> Callable[[], np.ndarray]:
        """Gives the products, at which other threads work from now on."""
        return self.version.vectors.comparing(self.vectors, run=self.version.threads.map)

    def terms(self, settings: SearchSettings) -> list[list[str]]:
        """The terms of each query."""
        if settings.stopwords not in self._terms:
            self._terms[settings.stopwords] = self.version.query_terms(self.queries, settings.stopwords)
        return self._terms[settings.stopwords]

    def _counted(self, settings: SearchSettings) -> list[list[str] | dict[str, float]]:
        """The terms of each query, and what each counts where the query says so."""
        counted: list[list[str] | dict[str, float]] = [*self.terms(settings)]
        for number, factors in enumerate(self.factors):
            if factors:
                of_words = self.version.query_terms(list(factors), ())
                said = {t: f for words, f in zip(of_words, factors.values(), strict=True) for t in words}
                counted[number] = {term: said.get(term, 1.0) for term in counted[number]}
        return counted

    def lexical(self, settings: SearchSettings) -> list[bm25.TermScores]:
        """BM25 scores of each query; kept until those of other settings are needed."""
        key = bm25.lexical_key(settings)
        if self._lexical is None or self._lexical[0] != key:
            start = time.perf_counter()
            weights = self.version.weighed(settings)
            scores = [
                bm25.TermScores(words, self.version.postings, weights, mask)
                for words, mask in zip(self._counted(settings), self.masks, strict=True)
            ]
            run = map if len(scores) == 1 else self.version.threads.map
            for _ in run(lambda score: score.best(settings.candidates_lexical), scores):
                pass
            self._lexical = (key, scores)
            self.seconds["lexical"] = time.perf_counter() - start
        return self._lexical[1]

    def candidates(self, settings: SearchSettings) -> pl.DataFrame:
        """The candidates (`fusion.FUSED`) of each query that has terms, one query after the other."""
        # Other threads look at the vectors meanwhile.
        vectors = self._vector_scores(settings)
        scores, words = self.lexical(settings), self.terms(settings)
        parts = []
        for position, vector in enumerate(vectors):
            if not words[position]:
                continue  # the query is nothing but signs and blanks
            places, mask = self.version.arrays.places, self.masks[position]
            logs = None if fusion.is_diagnostic(self.queries[position]) else self.version.arrays.logs
            whole = self._whole_mails(scores[position], settings)
            fused = fusion.Fusion(scores[position], vector, settings, logs, whole)
            parts.append(fusion.fused_candidates(self.first + position, fused, mask, places))
        return pl.concat(parts) if parts else pl.DataFrame(schema=fusion.FUSED)

    def support(self, hits: pl.DataFrame, settings: SearchSettings) -> np.ndarray:
        """The share of the words of its query that stands in each hit; hits are in the order of their queries."""
        queries, chunks = (hits.get_column(name).to_numpy() for name in ("query", "chunk_no"))
        scores = self.lexical(settings)
        edges = np.searchsorted(queries, np.arange(self.first, self.first + len(scores) + 1))
        parts = [
            score.support(chunks[a:b]) for score, a, b in zip(scores, edges[:-1], edges[1:], strict=True)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def _whole_mails(
        self, lexical: bm25.TermScores, settings: SearchSettings
    ) -> Callable[[np.ndarray], fusion.WholeMails] | None:
        """What scores the mails of some chunks as a whole; None where that does not count."""
        if settings.fusion != "blend" or not settings.mail_weight or not lexical.is_scattered:
            return None
        places, mails = self.version.arrays.places, self.version.weighed_mails(settings)
        return lambda found: fusion.WholeMails(lexical, mails, places, found)

    def _vector_scores(self, settings: SearchSettings) -> Iterator[fusion.Scores]:
        """Scores of each query, on the path that `vector_search` names.

        A filter beside the HNSW index would lose hits silently, and so does an index with many
        deleted rows: when it returns fewer chunks than requested, another path is taken.
        """
        near = self._by_hnsw(settings)
        self.vector_path = settings.vector_path(self.version.chunk_count, has_index=near is not None)
        if near is not None:
            return iter(near)
        if self.vector_path == "exact":
            _ = self._comparing
            return (fusion.ExactScores(self.products[n], mask) for n, mask in enumerate(self.masks))
        rescored = max(CODE_RESCORED, settings.candidates_vector)
        candidates = max(CODE_CANDIDATES, rescored)
        coded = self.version.arrays.vectors
        run = self.version.threads.map
        # Begun before what waits for them, so that threads never wait for each other.
        begun = [coded.differing(query, run) for query in self.vectors]
        return run(
            lambda query, mask, differing: CodeScores(query, coded, mask, candidates, rescored, differing),
            self.vectors,
            self.masks,
            begun,
        )

    def _by_hnsw(self, settings: SearchSettings) -> list[HnswScores] | None:
        """Scores by the HNSW index; None if it is not to be used, a query is filtered or one finds too few."""
        path = settings.vector_path(self.version.chunk_count, has_index=self.version.has_vector_index)
        if path != "hnsw" or any(mask is not None for mask in self.masks):
            return None
        k = min(settings.candidates_vector, self.version.chunk_count - len(self.version.unembedded))
        near = [self.version.hnsw_scores(query, k) for query in self.vectors]
        return near if all(len(scores.nearest) == k for scores in near) else None
