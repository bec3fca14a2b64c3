"""Scores to candidates: the best of both lists, their threads, and one fused score for each."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.retrieval import bm25
from transforms.retrieval.postings import Postings
from transforms.retrieval.small_tables import arrow_series, top_k
from transforms.settings.search import SearchSettings
from transforms.signs import is_question

_LOG_WEIGHT = 0.7
"""Factor on the score of logs and build output, unless the query is diagnostic."""
_DIAGNOSTIC = (
    r"\b(?:ERROR|FATAL|PANIC|WARNING|NOTICE|BUG|KASAN|SIG[A-Z]{3,5}|[A-Za-z]+(?:Error|Exception))\b|0x[0-9a-f]+|"
    r"(?i:\b(?:logs?|dmesg|segfault|segmentation fault|core dump(?:ed)?|stack ?trace|back ?trace|traceback|call trace|"
    r"oops|panic|crash(?:es|ed)?|assertion|undefined reference|exit code|build fail(?:s|ed|ure)?)\b)"
)
"""A query that this finds something in is diagnostic."""
_SYMBOL = re.compile(
    r"\w_\w|[a-z][A-Z][a-z]|\w(?:::|->|\(\))|\w\.\w+\(|/\w+/\w|\w/[\w-]+\.\w|\b\w+\.[a-z]{1,4}\b|(?<!\S)--\w|0x[0-9a-f]|"
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b|`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”"
)
"""A query that this finds something in names a symbol, an identifier, a path or a quoted string."""

FUSED = {
    "query": pl.Int32,
    "chunk_no": pl.Int64,
    "document": pl.Int32,
    "thread": pl.Int32,
    "is_mail": pl.Boolean,
    "score": pl.Float64,
    "fused_score": pl.Float64,
    "thread_score": pl.Float64,
    "lexical_score": pl.Float64,
    "vector_score": pl.Float64,
    "lexical_rank": pl.Int32,
    "vector_rank": pl.Int32,
}
"""Columns of candidates. `score` orders them; a rank is null if the list of that search does not
hold the chunk; document and thread are numbers. `thread_score` is the share of the best score of
its thread that a mail is to receive, and later the share that it received.
"""


_LOOKED_AT = 4
"""Chunks that are compared in full at first, for each document that a query returns."""


@dataclass(frozen=True)
class Places:
    """The document (mail, note) and the thread of every chunk, as numbers, int32 arrays by chunk
    number.

    A chunk that belongs to no mail (`is_mail`) forms its own thread; `is_page` masks documents that
    are not chats. `given_members` are the `members`, where they are known already.
    """

    document: np.ndarray
    thread: np.ndarray
    is_mail: np.ndarray
    is_page: np.ndarray
    given_members: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def members(self) -> tuple[np.ndarray, np.ndarray]:
        """Chunk numbers by thread, and where each thread begins among them, with the end of the
        last.
        """
        return self.given_members or members(self.thread)

    def weighed(
        self, postings: Postings, settings: SearchSettings
    ) -> tuple[bm25.WeighedWholes, bm25.WeighedWholes]:
        """The frequencies and lengths of mails, and of pages, as a whole."""
        of = partial(bm25.weighed_wholes, postings, settings, self.document)
        return of(self.is_mail, by_chunk=False), of(self.is_page, by_chunk=True)

    def mails_around(self, hits: np.ndarray) -> np.ndarray:
        """All chunks of the mails in the threads of the `hits`."""
        return with_threads(hits[self.is_mail[hits]], None, self)[0]

    def pages_of(self, hits: np.ndarray) -> np.ndarray:
        """All chunks of the pages of the `hits`."""
        return self.of_documents(self.document[hits[self.is_page[hits]]])

    def of_documents(self, documents: np.ndarray) -> np.ndarray:
        """The numbers of all chunks of these documents, which ascend."""
        chunks, starts = self._by_document
        parts = [chunks[starts[n] : starts[n + 1]] for n in np.unique(documents).tolist()]
        return np.sort(np.concatenate([chunks[:0], *parts]))

    @cached_property
    def _by_document(self) -> tuple[np.ndarray, np.ndarray]:
        return members(self.document)


def members(thread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions by number of the thread, ascending in each, and where each number begins among
    them.
    """
    ordered = np.argsort(thread, kind="stable").astype(np.int32)
    counts = np.bincount(thread)
    return ordered, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def is_diagnostic(query: str) -> bool:
    """True if a query looks for the output of a program: logs then count in full (the pginbox
    design).
    """
    return re.search(_DIAGNOSTIC, query) is not None


def lexical_weight(query: str, settings: SearchSettings, *, demands_text: bool = False) -> float:
    """The weight of the lexical score for a query (an open question of the pginbox design): that of
    queries with symbols or quoted strings, else that of questions, else that of all.

    The query `demands_text` if a quoted string of it is a condition.

    >>> settings = SearchSettings(lexical_weight_symbols=0.9, lexical_weight_questions=0.5)
    >>> queries = "where is pg_stat_activity?", "where is the view?", "view of activity"
    >>> [lexical_weight(query, settings) for query in queries]
    [0.9, 0.5, 0.7]
    """
    of_symbols, of_questions = settings.lexical_weight_symbols, settings.lexical_weight_questions
    if of_symbols is not None and (demands_text or _SYMBOL.search(query)):
        return of_symbols
    if of_questions is not None and is_question(query):
        return of_questions
    return settings.lexical_weight


class QueryScores(Protocol):
    """The scores of one query, however they are found; `low` and `high` bound those of all allowed
    chunks.
    """

    @property
    def low(self) -> float:
        """The lowest."""

    @property
    def high(self) -> float:
        """The highest."""

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first, ties by number."""

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""


class ExactScores:
    """The scores of all chunks at hand, `allowed` masking those that a filter keeps.

    Only chunks with a score above `least` are among the best. A chunk without a vector has the
    score -inf: it is not a candidate of the vector search, and counts as the least similar chunk
    where its terms make it one.
    """

    def __init__(self, scores: np.ndarray, allowed: np.ndarray | None, least: float = -np.inf):
        self.scores, self.allowed, self.least = scores, allowed, least
        eligible = scores if allowed is None else scores[allowed]
        if len(eligible) and not np.isfinite(eligible.min()):
            eligible = eligible[np.isfinite(eligible)]
        self.low, self.high = (
            (float(eligible.min()), float(eligible.max())) if len(eligible) else (0.0, 0.0)
        )

    def best(self, k: int) -> np.ndarray:
        """The `k` allowed chunks with the highest scores, best first, ties by number."""
        if self.allowed is None and self.least == -np.inf:
            return top_k(self.scores, k)
        eligible = (
            self.scores > self.least
            if self.allowed is None
            else self.allowed & (self.scores > self.least)
        )
        chosen = np.flatnonzero(eligible)
        return chosen[top_k(self.scores[chosen], k)]

    def of(self, chunks: np.ndarray) -> np.ndarray:
        """The scores of these chunks, float64."""
        return np.maximum(self.scores[chunks], self.low).astype(np.float64)


class WholeScores:
    """BM25 scores of mails, quotes included, or of pages as a whole, for a query whose words no
    chunk holds together.

    A mail of few words that answers a long quote, or a page that says half of a matter in each of
    two sections, is found by all it says. `chunks` are all of these mails (pages), of those that
    `is_of` masks; the highest score is that of the best of them.
    """

    def __init__(
        self,
        lexical: bm25.TermScores,
        wholes: bm25.WeighedWholes,
        document: np.ndarray,
        is_of: np.ndarray,
        chunks: np.ndarray,
    ) -> None:
        self.document, self.is_of = document, is_of
        self.numbers, scores = lexical.of_wholes(chunks, wholes)
        self.scores = (
            scores * lexical.of(chunks).max(initial=0.0) / (scores.max(initial=0.0) or 1.0)
        )

    def blended(self, chunks: np.ndarray, own: np.ndarray, share: float) -> np.ndarray:
        """The lexical scores of these chunks, which are `own`, with that share of their mail
        (page), float64.
        """
        whole, is_of = own.copy(), self.is_of[chunks]
        whole[is_of] = self.scores[np.searchsorted(self.numbers, self.document[chunks[is_of]])]
        return (1 - share) * own + share * whole


class Fusion:
    """One score for each candidate of a query, of the scores of its words and those of its vector.

    `lexical` and `vector` are scores of all chunks that a filter keeps; candidates of their own are
    the best `candidates_lexical` and the best `candidates_vector`. `whole` scores mails and pages
    as a whole, None if that does not count. `logs` masks chunks whose score is weighed by
    `log_weight`; `more` are further candidates.
    """

    def __init__(
        self,
        lexical: QueryScores,
        vector: QueryScores,
        settings: SearchSettings,
        logs: np.ndarray | None = None,
        whole: Callable[[np.ndarray], tuple[WholeScores, WholeScores]] | None = None,
        more: np.ndarray | None = None,
    ):
        self.lexical, self.vector, self.settings, self.logs = lexical, vector, settings, logs
        self.by_lexical = lexical.best(settings.candidates_lexical)
        self.by_vector = vector.best(settings.candidates_vector)
        parts = (self.by_lexical, self.by_vector, *([] if more is None else [more]))
        self.chunks = np.unique(np.concatenate(parts))
        self.wholes = None if whole is None else whole(self.chunks)

    def of(self, chunks: np.ndarray, words: np.ndarray, similar: np.ndarray) -> np.ndarray:
        """The fused scores of these chunks, from the additions of their `words` and their cosines
        (`similar`); float64.

        `blend` weighs both scores, scaled to 0..1 by their minimum and maximum over all allowed
        chunks; `mail_weight` (`page_weight`) of the lexical score is that of the whole mail (page).
        `rrf` adds 1 / (rrf_k + rank) for each list of candidates that holds the chunk (Cormack,
        Clarke and Buettcher 2009).
        """
        if self.settings.fusion == "rrf":
            lists = (self.by_lexical, self.by_vector)
            parts = [
                np.where(ranks > 0, 1.0 / (self.settings.rrf_k + np.maximum(ranks, 1)), 0.0)
                for ranks in (_ranks(chunks, ordered) for ordered in lists)
            ]
            return self._weighed(chunks, parts[0] + parts[1])
        return self._blended(chunks, words, similar)

    def words(self, chunks: np.ndarray, lexical: np.ndarray) -> np.ndarray:
        """The additions of words to the fused scores of chunks with these `lexical` scores, but for
        the weight of logs.
        """
        if self.settings.fusion == "rrf":
            return np.zeros(len(chunks))
        if self.wholes is not None:
            mails, pages = self.wholes
            lexical = mails.blended(chunks, lexical, self.settings.mail_weight)
            lexical = pages.blended(chunks, lexical, self.settings.page_weight)
        return self.settings.lexical_weight * scaled(lexical, self.lexical.low, self.lexical.high)

    def at_most(self, chunks: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Upper bounds of the scores of these chunks, if the search found none of them itself;
        reads no vector.
        """
        if self.settings.fusion == "rrf":
            return np.zeros(len(chunks))
        nearest = (
            self.vector.of(self.by_vector[-1:])
            if len(self.by_vector)
            else np.array([self.vector.high])
        )
        return self._blended(chunks, words, nearest)

    def _blended(self, chunks: np.ndarray, words: np.ndarray, similar: np.ndarray) -> np.ndarray:
        share = 1 - self.settings.lexical_weight
        return self._weighed(
            chunks, words + share * scaled(similar, self.vector.low, self.vector.high)
        )

    def _weighed(self, chunks: np.ndarray, fused: np.ndarray) -> np.ndarray:
        if self.logs is None:
            return fused
        return np.where(self.logs[chunks], _LOG_WEIGHT * fused, fused)


def fused_candidates(
    query: int, fusion: Fusion, allowed: np.ndarray | None, places: Places
) -> pl.DataFrame:
    """The candidates of one query, best first, ties by chunk number: the columns FUSED.

    `allowed` masks the chunks that a filter keeps; the scores know of it. Candidates are those that
    were found, and with a thread weight all chunks of their threads that could be among the `pool`
    best documents.
    """
    settings, hits = fusion.settings, fusion.chunks
    if not len(hits):
        return pl.DataFrame(schema=FUSED)
    chosen, threads = (
        with_threads(hits, allowed, places) if settings.thread_weight else (hits, hits)
    )
    lexical = fusion.lexical.of(chosen)
    words = fusion.words(chosen, lexical)
    if settings.thread_weight:
        rows = np.arange(len(chosen))
        if settings.similarity_threshold is None and not settings.is_strict:
            rows = _within_reach(chosen, threads, words, places, fusion)
        rows = rows[np.argsort(chosen[rows])]
        chosen, lexical, words = chosen[rows], lexical[rows], words[rows]
    similar = fusion.vector.of(chosen)
    fused = fusion.of(chosen, words, similar)
    order = np.lexsort((chosen, -fused))
    columns: dict[str, np.ndarray] = {
        "query": np.full(len(chosen), query, dtype=np.int32),
        "chunk_no": chosen.astype(np.int64),
        "document": places.document[chosen],
        "thread": places.thread[chosen],
        "is_mail": places.is_mail[chosen],
        "score": fused,
        "fused_score": fused,
        "thread_score": np.full(len(chosen), float(settings.thread_weight)),
        "lexical_score": lexical,
        "vector_score": similar,
    }
    series = [pl.Series(name, values[order]) for name, values in columns.items()]
    for name, ordered in (("lexical_rank", fusion.by_lexical), ("vector_rank", fusion.by_vector)):
        ranks = _ranks(chosen, ordered)[order]
        series.append(arrow_series(name, pa.array(ranks, mask=ranks == 0)))
    return pl.DataFrame(series)


def with_threads(
    hits: np.ndarray, allowed: np.ndarray | None, places: Places
) -> tuple[np.ndarray, np.ndarray]:
    """All allowed chunks in the threads of the found ones, thread by thread, and the number of its
    thread from 0.
    """
    chunks, starts = places.members
    threads = np.unique(places.thread[hits])
    sizes = starts[threads + 1] - starts[threads]
    # The places of the members of each thread, one after the other.
    steps = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = chunks[np.repeat(starts[threads], sizes) + steps]
    numbers = np.repeat(np.arange(len(threads)), sizes)
    return (
        (chosen, numbers)
        if allowed is None
        else (chosen[allowed[chosen]], numbers[allowed[chosen]])
    )


def _within_reach(
    chosen: np.ndarray, threads: np.ndarray, words: np.ndarray, places: Places, fusion: Fusion
) -> np.ndarray:
    """Which of the chosen chunks were found or could be one of the `pool` best documents with their
    thread's share.

    `threads` numbers their threads, `words` has the additions of their words. Bounds of scores need
    no vector; as soon as enough documents are known with theirs, chunks that cannot reach them are
    dropped (as the threshold algorithm does, Fagin et al. 2003). A dropped chunk could not lift
    another one of its thread among the best: it would be there itself.
    """
    settings = fusion.settings
    needed = max(settings.pool, settings.limit)
    depth = _LOOKED_AT * needed
    if len(chosen) <= depth:
        return np.arange(len(chosen))
    places_found = np.minimum(np.searchsorted(fusion.chunks, chosen), len(fusion.chunks) - 1)
    is_hit = fusion.chunks[places_found] == chosen
    score = fusion.at_most(chosen, words)
    is_exact = is_hit.copy()
    score[is_exact] = fusion.of(
        chosen[is_exact], words[is_exact], fusion.vector.of(chosen[is_exact])
    )
    while True:
        reach = _with_share(score, threads, settings.thread_weight)
        first = np.argpartition(-reach, depth - 1)[:depth]
        first = first[~is_exact[first]]
        score[first] = fusion.of(chosen[first], words[first], fusion.vector.of(chosen[first]))
        is_exact[first] = True
        sure = _with_share(score[is_exact], threads[is_exact], settings.thread_weight)
        document = places.document[chosen[is_exact]]
        order = np.argsort(document)
        _, best = _most(sure[order], document[order])
        if len(best) >= needed:
            break
        depth *= _LOOKED_AT
        if depth >= len(chosen):
            return np.arange(len(chosen))
    reach = _with_share(score, threads, settings.thread_weight)
    edge = np.partition(best, len(best) - needed)[len(best) - needed]
    return np.flatnonzero(is_hit | (reach >= edge))


def _most(scores: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The groups that there are, whose numbers ascend, and the highest score of each."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return groups[starts], np.maximum.reduceat(scores, starts)


def _with_share(scores: np.ndarray, threads: np.ndarray, weight: float) -> np.ndarray:
    """Scores with so much of the best of their thread added to them; the numbers of threads ascend."""
    numbers, best = _most(scores, threads)
    of_thread = np.zeros(int(threads[-1]) + 1)
    of_thread[numbers] = best
    return scores + weight * of_thread[threads]


def _ranks(chosen: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Rank from 1 of each chosen position in an ordered list, 0 if it is not in it."""
    ranks = np.zeros(len(chosen), dtype=np.int32)
    order = np.argsort(chosen, kind="stable")
    places = np.searchsorted(chosen, ordered, sorter=order)
    listed = np.flatnonzero(places < len(chosen))
    at = order[places[listed]]
    matches = chosen[at] == ordered[listed]
    ranks[at[matches]] = listed[matches] + 1
    return ranks


def scaled(scores: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scores with `low` at 0 and `high` at 1; where all are equal, 1 if they are above 0.

    The only hit that a filter leaves is the best there is, and not worth nothing.
    """
    return (scores - low) / (high - low) if high > low else np.full(len(scores), float(high > 0))
