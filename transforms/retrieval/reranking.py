"""A second look at the best hits: features that need no model, the prompt of a model, and the new
order.

This module is pure; models that give scores are in dagster_project/models/language_models.py.
"""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Annotated, Any, NamedTuple, TypeVar
from unicodedata import category

import numpy as np
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, create_model

from transforms.languages import OR
from transforms.retrieval.small_tables import arrow_series, is_given, rows_at, with_values
from transforms.signs import has_sign, is_question
from transforms.text.terms import WORD, word_runs

WEIGHTS = {"own": 1.5, "title": 0.1, "opens": 0.5, "recency": 0.2, "brief": 0.2, "asker": 0.5}
"""Weights of the parts of a score beside the fused one; `benchmarks/second_look.py` has what each
gives on each kind of text.
"""
PARTS = ("fused", "own", "title", "opens", "recency", "kind", "brief", "asker")
"""The parts of a score of features."""
_USUAL_CHARS = 1_200
"""Characters of a text whose share of the words counts as it is."""
_MOST_USUAL = 6
"""Usual lengths from which a text is as long as one can be."""
_IS_SUBJECT = 0.8
"""Share of the words of a query from which a title that holds them is the one that is looked for.
"""
_OPENING = 3.0
"""Factor on the cosine of an opening: those of pages differ less than shares of words do."""
_BRIEF = 80
"""Characters of its author below which a reply says the less the fewer they are."""
_QUOTED = re.compile(r"(?m)^>.*$")
_KINDS = {"attachment_segment": -0.1}
"""The addition for a kind of chunk."""
_HALF_LIFE = timedelta(180)
"""Time after which recency counts half."""
PART = pl.Struct({"part": pl.String, "value": pl.Float64})
RERANKED: dict[str, pl.DataType | type[pl.DataType]] = {
    "reranker": pl.String,
    "rerank_score": pl.Float64,
    "rank_before": pl.Int32,
    "rerank_parts": pl.List(PART),
}
"""Columns that reranking adds to ranked hits. All are null if nothing was reranked; behind the hits
that were looked at, only `rank_before` is given. `reranker` says who gave the score, and why nobody
better did.
"""


class Candidate(NamedTuple):
    """The facts of a hit that reranking reads: its query, rank, score and thread, and of its chunk
    the rest.

    `opens` is true for a mail that is not a reply. `own` is the share of the query that the text
    says itself (`own_share`), in a search `for_its_length`; None of mail and code, whose
    surroundings do not find them. `opening` is the cosine of the query with what the page of a
    section begins with; None of other texts, and of code.
    """

    query: int
    rank: int
    score: float
    thread: int
    title: str
    text: str
    chunk_kind: str
    content_class: str
    effective_at: datetime | None
    opens: bool
    is_mail: bool
    own: float | None
    author: str = ""
    opening: float | None = None


INSTRUCTION = (
    "You judge how well passages of mails and documents answer a search query. Under `query` stands the query, under "
    "`passages` the passages, each with its number, title and the beginning of its text. Give every passage a score "
    "from 0 (has nothing to do with the query) to 10 (is exactly what is looked for), in the order of the passages."
)
Word = TypeVar("Word", bound=Hashable)


class Scores(BaseModel):
    """The answer of a language model: one score per passage, in their order."""

    model_config = ConfigDict(allow_inf_nan=False)
    scores: list[float]


def scores_shape(count: int) -> type[Scores]:
    """The shape of an answer on `count` passages: any other number of scores is not an answer."""
    exactly = Annotated[list[float], Field(min_length=count, max_length=count)]
    return create_model("Scores", __base__=Scores, scores=(exactly, ...))


def passages_prompt(
    query: str, titles: Sequence[str], texts: Sequence[str], chars: int
) -> dict[str, Any]:
    """The data of a prompt: the query and the first `chars` characters of each passage."""
    passages = [
        {"number": n, "title": title[:chars], "text": text[:chars]}
        for n, (title, text) in enumerate(zip(titles, texts, strict=True), 1)
    ]
    return {"query": query, "passages": passages}


def clamped(scores: Sequence[float]) -> np.ndarray:
    """Scores within 0 and 10, float64."""
    return np.clip(np.asarray(scores, dtype=np.float64), 0.0, 10.0)


def own_share(weights: Mapping[str, float], terms: Collection[str]) -> float:
    """The share of the weight of a query's terms that is of `terms`, those of a text without its
    surroundings.

    >>> own_share({"insulin": 3.0, "cost": 1.0}, {"cost", "cap"})
    0.25
    """
    names = {name for term in terms for name in term.split(OR)}
    held = sum(w for term, w in weights.items() if not names.isdisjoint(term.split(OR)))
    return held / (sum(weights.values()) or 1.0)


def features(
    candidates: Sequence[Candidate],
    queries: Mapping[int, str],
    weights: Mapping[str, float] = WEIGHTS,
) -> np.ndarray:
    """The PARTS of each candidate, already weighed, float64 of shape (candidates, PARTS).

    Candidates are one query after the other; `queries` are by number.

    `fused`: the score of the search, 0 to 1 between the candidates of a query. `own`: the share of
    the query's words, rare ones weighing more, that a section or turn holds itself, less the mean
    of all of them, so that mail loses nothing: the text around it finds it, too, and does not make
    it an answer. `title`: the share of the words that
    the title holds just as they were typed. `opens`: that of the title for a mail that is not a
    reply, if the title holds nearly all of the words: all of its thread have its subject; for a
    section how much nearer the opening of its page is than those of the others: it says what the
    page is about, and a page on something else may have the words more often.
    `recency`: if the query asks for news, halved for each half-life by which the newest candidate
    is younger. `kind`: the weight of the chunk's kind. `brief`: how much a reply lacks to _BRIEF
    characters of its author ("Thanks, applied."), times the share of the words that they do not
    hold. `asker`: of a query that is a question, 1 for
    later mails of the author of the first mail of a thread, and for that mail if it asks and
    somebody else of the thread is a candidate.
    """
    parts: list[tuple[float, ...]] = []
    for query, of_query in (
        (n, list(group)) for n, group in groupby(candidates, key=lambda c: c.query)
    ):
        times = [c.effective_at for c in of_query if c.effective_at is not None]
        newest = max(times, default=None) if has_sign(queries[query], "recency") else None
        asks = _of_askers(of_query) if is_question(queries[query]) else set()
        scores = [c.score for c in of_query]
        low, high = min(scores), max(scores)
        own = [c.own for c in of_query if c.own is not None]
        mean = sum(own) / len(own) if own else 0.0
        openings = [c.opening for c in of_query if c.opening is not None]
        usual = sum(openings) / len(openings) if openings else 0.0
        words = set(_words(queries[query]))
        for c in of_query:
            in_title = _share(words, _words(c.title))
            age = None if newest is None or c.effective_at is None else newest - c.effective_at
            of_part = {
                "fused": (c.score - low) / (high - low) if high > low else 0.0,
                "own": 0.0 if c.own is None else weights["own"] * (c.own - mean),
                "title": weights["title"] * in_title,
                "opens": weights["opens"] * _opens(c, in_title, usual),
                "recency": weights["recency"] * (0.0 if age is None else 0.5 ** (age / _HALF_LIFE)),
                "kind": _KINDS.get(c.chunk_kind, 0.0),
                "brief": -weights["brief"] * _lacks(c, words),
                "asker": -weights["asker"] * (c.rank in asks),
            }
            parts.append(tuple(of_part[name] for name in PARTS))
    return np.array(parts).reshape(-1, len(PARTS))


def _opens(candidate: Candidate, in_title: float, usual: float) -> float:
    """The part of a mail that is not a reply, by its title, and of a section, by the opening of its
    page beside the `usual` cosine of openings.
    """
    if candidate.opening is not None:
        return _OPENING * (candidate.opening - usual)
    return in_title if candidate.opens and in_title >= _IS_SUBJECT else 0.0


def _lacks(candidate: Candidate, words: set[str]) -> float:
    """How much a reply lacks of words, 0 to 1; nothing of others."""
    if candidate.opens or not candidate.is_mail:
        return 0.0
    own = _QUOTED.sub("", candidate.text).strip()
    if len(own) >= _BRIEF:
        return 0.0
    return (1 - len(own) / _BRIEF) * (1 - _share(words, _words(own)))


def for_its_length(share: float, chars: int) -> float:
    """An own share (`own_share`) for the length of its text, as BM25 with b = .5 has it: a long text
    holds more words by chance.
    """
    return share / (0.5 + 0.5 * min(chars / _USUAL_CHARS, _MOST_USUAL))


def _share(sought: set[Word], present: Iterable[Word]) -> float:
    return len(sought.intersection(present)) / len(sought) if sought else 0.0


def holds_all(query: str, title: str) -> bool:
    """True of a title that holds nearly all words of a query."""
    return _share(set(_words(query)), _words(title)) >= _IS_SUBJECT


def _of_askers(candidates: Sequence[Candidate]) -> set[int]:
    """The ranks of the mails of those who began a thread: later ones, and the first if it asks and
    somebody else answers.
    """
    askers = {c.thread: c.author for c in candidates if c.opens and c.is_mail and c.author}
    answered = {c.thread for c in candidates if c.author != askers.get(c.thread, c.author)}
    opening = {
        c.rank for c in candidates if c.opens and "?" in c.text and c.content_class == "text"
    }
    later = {c.rank for c in candidates if not c.opens and c.author == askers.get(c.thread)}
    return later | {c.rank for c in candidates if c.rank in opening and c.thread in answered}


def _words(text: str) -> list[str]:
    """The words of a text (`terms.WORD`) in lower case."""
    text = text.lower()
    if not text.isascii() and any(category(sign)[0] == "M" for sign in set(text)):
        return pl.Series([text]).str.extract_all(WORD).explode().drop_nulls().to_list()
    # A pattern that knows no marks is faster, without a column.
    return [word for word in word_runs(text) if word[0] != "_" or word.strip("_")]


def feature_scores(candidates: Sequence[Candidate], parts: np.ndarray, label: str) -> pl.DataFrame:
    """Columns query, rank and the first and last two of RERANKED, from the result of `features`."""
    # As Arrow: an expression for each part takes longer than all of its values.
    values = pa.array(np.round(parts, 6).ravel())
    of_part = pa.array(PARTS * len(parts), pa.large_string())
    ends = pa.array(np.arange(0, len(values) + 1, len(PARTS)))
    lists = pa.LargeListArray.from_arrays(
        ends, pa.StructArray.from_arrays([of_part, values], ["part", "value"])
    )
    score = np.zeros(len(parts))
    for column in parts.T:
        score += column
    return _scores(candidates, label, score, arrow_series("rerank_parts", lists))


def model_scores(candidates: Sequence[Candidate], scores: np.ndarray, label: str) -> pl.DataFrame:
    """The same for the scores of a model on the first hits of a query, in the order of their ranks."""
    scored = candidates[: len(scores)]
    none = pl.Series("rerank_parts", [None] * len(scored), RERANKED["rerank_parts"])
    return _scores(scored, label, scores.astype(np.float64), none)


def _scores(
    candidates: Sequence[Candidate], label: str, score: np.ndarray, parts: pl.Series
) -> pl.DataFrame:
    places = np.array([(c.query, c.rank) for c in candidates], dtype=np.int32).reshape(-1, 2)
    return pl.DataFrame(
        [
            pl.Series("query", places[:, 0]),
            pl.Series("rank", places[:, 1]),
            pl.Series("reranker", [label] * len(candidates), pl.String),
            pl.Series("rerank_score", score),
            parts,
        ]
    )


def unranked(ranked: pl.DataFrame) -> pl.DataFrame:
    """`ranked` with the columns RERANKED, all null."""
    return ranked.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in RERANKED.items()
    )


def on_one_scale(hits: pl.DataFrame) -> pl.DataFrame:
    """Hits whose `score` is that of the reranker, where it gave one; the others keep theirs, made
    smaller in one proportion (below 0: by one amount) where they would stand above the lowest of
    those.

    A score of features is one between the lowest and the highest score of the hits that it was
    given to.
    """
    score, queries = (hits.get_column(c).to_numpy() for c in ("score", "query"))
    again = hits.get_column("rerank_score").to_numpy(writable=True)
    by_features = is_given(hits.get_column("rerank_parts"))
    edges = [0, *(np.flatnonzero(np.diff(queries)) + 1).tolist(), len(hits)]
    scaled = [_one_scale(score[a:b], again[a:b], by_features[a:b]) for a, b in pairwise(edges)]
    return with_values(hits, score=np.concatenate(scaled))


def _one_scale(score: np.ndarray, again: np.ndarray, by_features: np.ndarray) -> np.ndarray:
    """`on_one_scale` of one query; hits that were not reranked are NaN in `again`."""
    has = ~np.isnan(again)
    if not has.any():
        return score
    least, most = score[has].min(), score[has].max()
    again[by_features] = least + again[by_features] * (most - least)
    low, rest = min(again[np.isfinite(again)], default=np.inf), max(score[~has], default=-np.inf)
    behind = score
    if rest > low:
        behind = score * low / rest if low > 0 else score + low - rest
    return np.where(has, again, behind)


def reordered(ranked: pl.DataFrame, scores: pl.DataFrame, limit: int) -> pl.DataFrame:
    """The first `limit` hits of each query in the order of the scores, ranks from 1, with the
    columns RERANKED.

    Hits without a score follow those that have one. Ties keep their order.
    """
    queries, before = (ranked.get_column(name).to_numpy() for name in ("query", "rank"))
    of_scores, ranks = (scores.get_column(name).to_numpy() for name in ("query", "rank"))
    scored = np.searchsorted(queries, of_scores) + ranks - 1
    again, row = np.full(len(ranked), -np.inf), np.full(len(ranked), -1)
    again[scored], row[scored] = (
        scores.get_column("rerank_score").to_numpy(),
        np.arange(len(scored)),
    )
    order = np.lexsort((before, -again, queries))
    of_query = queries[order]
    rank = (1 + np.arange(len(order)) - np.searchsorted(of_query, of_query)).astype(np.int32)
    order, rank = order[rank <= limit], rank[rank <= limit]
    rows = arrow_series("row", pa.array(row[order].astype(np.uint32), mask=row[order] < 0))
    frame = scores[:, ["reranker", "rerank_score", "rerank_parts"]][rows]
    columns = {column.name: column for column in frame} | {"rank_before": before[order]}
    return with_values(
        rows_at(ranked, order), rank=rank, **{name: columns[name] for name in RERANKED}
    )
