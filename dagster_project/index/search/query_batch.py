"""Queries that are scored together: their terms and vectors, their candidates of both kinds."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import polars as pl

from dagster_project.index.search.opened_version import HnswScores, OpenedVersion
from dagster_project.index.search.preferences import MORE, Preferences
from transforms.embedding.sign_codes import CodeScores
from transforms.errors import RefusedTextError
from transforms.retrieval import bm25, fusion, labels
from transforms.retrieval.understanding import given_names
from transforms.settings.search import SearchSettings
from transforms.text.terms import stems

CODE_CANDIDATES = 15_000
"""Vectors with the most signs in common with a query, which are looked at twice; of a million they
hold .983 of the ten nearest, 10,000 hold .980.
"""
CODE_RESCORED = 2_000
"""The best of these, whose cosines are computed."""
_SURE = 1.5
"""Factor on the share that a thread gives, if the words of the query stand together in some chunk:
then the thread is hardly the wrong one.
"""

_SETTLING = 5
"""The best chunks by words, which mostly say if any chunk has those of the query."""

Allow = np.ndarray | None


class QueryBatch:
    """Queries numbered from `first`; the common work of several settings is done once.

    `masks` say which chunks each query may find, None for all; `factors` the weights of words of
    each, where that is not 1. `vector_path` is how vectors were searched last, `seconds` the time
    of each kind of candidates.
    """

    def __init__(
        self,
        version: OpenedVersion,
        queries: Sequence[str],
        first: int,
        masks: Sequence[Allow],
        factors: Sequence[Mapping[str, float]] = (),
    ):
        self.factors = factors
        self.version, self.queries, self.first, self.masks = (
            version,
            list(queries),
            first,
            list(masks),
        )
        self.numbers = range(first, first + len(self.queries))
        self.vector_path = "exact"
        self.preferences: Sequence[Preferences] = ()
        """Those of each query beside its words; empty without any."""
        self.preferred: dict[int, np.ndarray] = {}
        """The chunks that `candidates` adds for the preferences of a query."""
        self.demanding: Collection[int] = ()
        """The queries with a condition on words, such as a quoted string."""
        self.history: set[int] = set()
        """The queries whose words stand in quoted history alone."""
        self.seconds = {"lexical": 0.0, "vector": 0.0}
        self._lexical: tuple[str, list[bm25.TermScores]] | None = None
        self._terms: dict[tuple[str, ...], list[list[str]]] = {}
        self.near: Callable[[np.ndarray, Sequence[Allow]], Iterator[fusion.QueryScores]] | None = (
            None
        )
        """A function that scores the vectors in place of the path that settings name."""

    def knows(
        self, vectors: np.ndarray, terms: Sequence[list[str]], settings: SearchSettings
    ) -> None:
        """Take these vectors and terms for those of the queries, which are parts of a text and no
        questions.
        """
        self.__dict__["vectors"] = vectors
        self._terms[settings.stopwords] = list(terms)

    @cached_property
    def vectors(self) -> np.ndarray:
        """The vectors of the queries; zeros for one that the model refuses, which its words alone
        find.
        """
        try:
            return self.version.embedder.embed_queries(
                [q if q.strip() else "?" for q in self.queries]
            )
        except RefusedTextError as refusal:
            refusal.vectors[list(refusal.reasons)] = 0
            return refusal.vectors

    @property
    def missing(self) -> list[str]:
        """The legs that a search of the batch lacks: vectors of queries."""
        count = int((~self.vectors.any(axis=1)).sum())
        return (
            [f"vectors (the model refuses {count} of {len(self.queries)} queries)"] if count else []
        )

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
            self._terms[settings.stopwords] = self.version.query_terms(
                self.queries, settings.stopwords
            )
        return self._terms[settings.stopwords]

    def _counted(self, settings: SearchSettings) -> list[list[str] | dict[str, float]]:
        """The terms of each query, and the weight of each where the query gives it."""
        counted: list[list[str] | dict[str, float]] = [*self.terms(settings)]
        for number, factors in enumerate(self.factors):
            if factors:
                of_words = self.version.query_terms(list(factors), ())
                factor_of = {
                    t: f for words, f in zip(of_words, factors.values(), strict=True) for t in words
                }
                counted[number] = {term: factor_of.get(term, 1.0) for term in counted[number]}
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
            if self.preferences:
                scores = [self._with_history(n, own, settings) for n, own in enumerate(scores)]
            self._lexical = (key, scores)
            self.seconds["lexical"] = time.perf_counter() - start
        return self._lexical[1]

    def _with_history(
        self, position: int, scores: bm25.TermScores, settings: SearchSettings
    ) -> bm25.TermScores:
        """The scores of a query; those with quoted history if its words find nothing else and a
        history has them, which `history` notes.
        """
        best = scores.best(settings.candidates_lexical)
        # The first of them settle most queries.
        for some in (best[:_SETTLING], best[_SETTLING:]):
            if scores.support(some).max(initial=0.0) >= settings.label_weak:
                return scores
        if not scores.lists:
            return scores
        words, weights = self._counted(settings)[position], self.version.history_weights
        old = bm25.TermScores(words, self.version.postings, weights, self.masks[position])
        if old.support(old.best(1)).max(initial=0.0) < settings.label_pass:
            return scores
        self.history.add(self.first + position)
        return old

    def candidates(self, settings: SearchSettings) -> pl.DataFrame:
        """The candidates (`fusion.FUSED`) of each query that has terms, one query after the other."""
        # Other threads look at the vectors meanwhile.
        vectors = self._vector_scores(settings)
        scores, words = self.lexical(settings), self.terms(settings)
        sure = settings.model_copy(update={"thread_weight": _SURE * settings.thread_weight})
        places, arrays = self.version.arrays.places, self.version.arrays

        def fused(position: int, vector: fusion.QueryScores) -> pl.DataFrame:
            logs = None if fusion.is_diagnostic(self.queries[position]) else arrays.logs
            whole, mask = self._wholes(scores[position], settings), self.masks[position]
            weights = settings if scores[position].is_scattered else sure
            demands_text = self.first + position in self.demanding
            weight = fusion.lexical_weight(
                self.queries[position], settings, demands_text=demands_text
            )
            if weight != settings.lexical_weight:
                weights = weights.model_copy(update={"lexical_weight": weight})
            more = self._more(position, settings)
            if more is not None:
                self.preferred[self.first + position] = more
            of_query = fusion.Fusion(scores[position], vector, weights, logs, whole, more)
            return fusion.fused_candidates(self.first + position, of_query, mask, places)

        # A query that is nothing but signs and blanks has no candidates.
        pairs = [(position, vector) for position, vector in enumerate(vectors) if words[position]]
        run = map if len(pairs) == 1 else self.version.threads.map
        parts = list(run(lambda pair: fused(*pair), pairs))
        return pl.concat(parts) if parts else pl.DataFrame(schema=fusion.FUSED)

    def _more(self, position: int, settings: SearchSettings) -> np.ndarray | None:
        """Chunks that are candidates as they meet what a query asks for beside its words."""
        if not self.preferences or not self.preferences[position].wishes.prefers:
            return None
        preferences, allowed = self.preferences[position], self.masks[position]
        met = preferences.mask
        if met is not None and allowed is not None:
            met = met & allowed
        scores = self.lexical(settings)[position]
        if met is not None:
            weights = self.version.weighed(settings)
            counted = self._counted(settings)[position]
            scores = bm25.TermScores(counted, self.version.postings, weights, met)
        if preferences.wishes.order:
            return preferences.more(scores)
        return None if met is None else scores.best(MORE)

    def evidence(self, hits: pl.DataFrame, settings: SearchSettings) -> dict[str, np.ndarray]:
        """For each hit the share of the words of its query that it holds (`support`), and its
        `evidence`.

        Hits are in the order of their queries. For a query that names nothing the evidence is at
        most `label_weak`, and less for one without a word of any text; names of people that
        pseudonyms replaced take nothing from it up to that.
        """
        queries, chunks, cosine = (
            hits.get_column(name).to_numpy() for name in ("query", "chunk_no", "vector_score")
        )
        scores = self.lexical(settings)
        edges = np.searchsorted(queries, np.arange(self.first, self.first + len(scores) + 1))
        parts = [
            own.support(chunks[a:b])
            for own, a, b in zip(scores, edges[:-1], edges[1:], strict=True)
        ]
        support = np.concatenate([np.zeros(0), *parts])
        usual = self.version.usual_cosines(self.vectors)
        usual = usual[queries - self.first]
        values = labels.evidence(support, cosine, usual)
        stop = set(stems(list(settings.stopwords), self.version.term_settings))
        is_chat = ~hits.get_column("is_mail").to_numpy()
        for text, own, a, b in zip(self.queries, scores, edges[:-1], edges[1:], strict=True):
            if (unknown := self._pseudonymous(text)) and own.most > unknown:
                without = labels.evidence(
                    support[a:b] * own.most / (own.most - unknown), cosine[a:b], usual[a:b]
                )
                values[a:b] = np.maximum(
                    values[a:b], np.minimum(without, settings.label_weak) * is_chat[a:b]
                )
        for terms, own, a, b in zip(
            self.terms(settings), scores, edges[:-1], edges[1:], strict=True
        ):
            if labels.names_nothing(terms, stop):
                values[a:b] = np.minimum(values[a:b], settings.label_weak)
            if not own.lists:
                values[a:b] *= labels.UNKNOWN
        return {"support": support, "evidence": values}

    def _pseudonymous(self, query: str) -> float:
        """The weight of names of people in a query that no text holds, where the speakers of chats
        have pseudonyms.
        """
        postings = self.version.postings
        words = {*stems(given_names(query), self.version.term_settings)}
        unknown = sum(not postings.df(word) for word in words)
        return (
            unknown * bm25.idf(0, postings.ranked_count)
            if unknown and self.version.has_pseudonyms
            else 0.0
        )

    def _wholes(
        self, lexical: bm25.TermScores, settings: SearchSettings
    ) -> Callable[[np.ndarray], tuple[fusion.WholeScores, fusion.WholeScores]] | None:
        """A function that scores the mails and the pages around some chunks as a whole; None where
        that does not count.
        """
        counts = settings.mail_weight or settings.page_weight
        if settings.fusion != "blend" or not counts or not lexical.is_scattered:
            return None
        places, (mails, pages) = self.version.arrays.places, self.version.weighed_wholes(settings)
        of = partial(fusion.WholeScores, lexical)
        return lambda hits: (
            of(mails, places.document, places.is_mail, places.mails_around(hits)),
            of(pages, places.document, places.is_page, places.pages_of(hits)),
        )

    def _vector_scores(self, settings: SearchSettings) -> Iterator[fusion.QueryScores]:
        """Scores of each query, on the path that `vector_search` names.

        A filter beside the HNSW index would lose hits silently, and so does an index with many
        deleted rows: when it returns fewer chunks than requested, another path is taken.
        """
        if self.near is not None:
            return self.near(self.vectors, self.masks)
        near = self._by_hnsw(settings)
        self.vector_path = settings.vector_path(
            self.version.chunk_count, has_index=near is not None
        )
        if near is not None:
            return iter(near)
        if self.vector_path == "exact":
            _ = self._comparing
            return (fusion.ExactScores(self.products[n], mask) for n, mask in enumerate(self.masks))
        rescored = max(CODE_RESCORED, settings.candidates_vector)
        candidates = max(CODE_CANDIDATES, rescored)
        coded = self.version.arrays.vectors
        run = self.version.threads.map
        # Begun before the work that waits for them, so that threads never wait for each other.
        pending = [coded.differing(query, run) for query in self.vectors]
        return run(
            lambda query, mask, differing: CodeScores(
                query, coded, mask, candidates, rescored, differing
            ),
            self.vectors,
            self.masks,
            pending,
        )

    def _by_hnsw(self, settings: SearchSettings) -> list[HnswScores] | None:
        """Scores by the HNSW index; None if it is not to be used, a query is filtered or one finds
        too few.
        """
        path = settings.vector_path(
            self.version.chunk_count, has_index=self.version.has_vector_index
        )
        if path != "hnsw" or any(mask is not None for mask in self.masks):
            return None
        k = min(settings.candidates_vector, self.version.chunk_count - len(self.version.unembedded))
        near = [self.version.hnsw_scores(query, k) for query in self.vectors]
        return near if all(len(scores.nearest) == k for scores in near) else None
