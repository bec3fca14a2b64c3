"""A second look at the best hits: features that need no model, the prompt of a model, and the new order.

What is here is pure; models that give scores are in dagster_project/resources/models/rerankers.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, create_model

WEIGHTS = {
    "own": 1.5, "title": 0.1, "opens": 0.5, "phrase": 0.05, "thread": 0.02, "recency": 0.2, "log": 0.05, "brief": 0.2,
}  # fmt: skip
"""What the parts of a score count beside the fused one."""
_IS_SUBJECT = 0.8
"""Share of the words of a query from which a title that holds them is the one that is looked for."""
_BRIEF = 80
"""Characters of its author below which a reply says the less the fewer they are."""
_KINDS = {"attachment_segment": -0.1}
"""What is added for a kind of chunk."""
_HALF_LIFE_DAYS = 180
"""Days after which recency counts half."""
_RECENCY = (
    r"(?i)\b(?:latest|newest|most recent|recent(?:ly)?|lately|current(?:ly)?|nowadays|today|up[- ]to[- ]date|"
    r"this (?:week|month|year)|last (?:few )?(?:days?|weeks?|months?|year))\b"
)
"""A query that this finds something in asks for what is new."""
PART = pl.Struct({"part": pl.String, "value": pl.Float64})
RERANKED: dict[str, pl.DataType | type[pl.DataType]] = {
    "reranker": pl.String,
    "rerank_score": pl.Float64,
    "rank_before": pl.Int32,
    "rerank_parts": pl.List(PART),
}
"""Columns that reranking adds to ranked hits. All are null if nothing was reranked; behind the hits that
were looked at, only `rank_before` is given. `reranker` says who gave the score, and why nobody better did."""

CANDIDATES: dict[str, pl.DataType | type[pl.DataType]] = {
    "query": pl.Int32,
    "rank": pl.Int32,
    "score": pl.Float64,
    "thread": pl.Int32,
    "title": pl.String,
    "text": pl.String,
    "chunk_kind": pl.String,
    "content_class": pl.String,
    "effective_at": pl.Datetime("us", "UTC"),
    "opens": pl.Boolean,
    "is_mail": pl.Boolean,
    "own": pl.Float64,
}
"""Columns that reranking reads of each hit: its query, rank and score, and of its chunk the rest; `opens` is true for a
mail that is no reply. `own` is what of the query the text says itself (`own_share`), without what it quotes;
of a mail that is not brief nothing is asked."""

INSTRUCTION = (
    "You judge how well passages of mails and documents answer a search query. Under `query` stands the query, under "
    "`passages` the passages, each with its number, title and the beginning of its text. Give every passage a score "
    "from 0 (has nothing to do with the query) to 10 (is exactly what is looked for), in the order of the passages."
)
_WORD = r"[\p{L}\p{M}\p{N}_]*[\p{L}\p{N}][\p{L}\p{M}\p{N}_]*"


class Scores(BaseModel):
    """What a language model answers: one score per passage, in their order."""

    model_config = ConfigDict(allow_inf_nan=False)
    scores: list[float]


def scores_shape(count: int) -> type[Scores]:
    """The shape of an answer on `count` passages: any other number of scores is not an answer."""
    exactly = Annotated[list[float], Field(min_length=count, max_length=count)]
    return create_model("Scores", __base__=Scores, scores=(exactly, ...))


def passages_prompt(query: str, titles: Sequence[str], texts: Sequence[str], chars: int) -> dict[str, Any]:
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
    """The share of the weight of a query's terms that is of `terms`, those of a text without what surrounds it.

    >>> own_share({"insulin": 3.0, "cost": 1.0}, {"cost", "cap"})
    0.25
    """
    return sum(w for term, w in weights.items() if term in terms) / (sum(weights.values()) or 1.0)


def features(
    candidates: pl.DataFrame,
    queries: Sequence[str],
    diagnostic: Sequence[bool],
    weights: Mapping[str, float] = WEIGHTS,
) -> pl.DataFrame:
    """Columns query, rank and one per part of a score, already weighed, of candidates (CANDIDATES).

    `fused`: the score of the search, 0 to 1 between the candidates of a query. `own`: the share of the query's words, rare
    ones weighing more, that a section or turn holds itself, less the mean of all of them, so that mail is no worse off:
    what stands around it finds it, too, and does not make it an answer. `title`: the share of the words that stand in the
    title just as they were typed. `opens`: that of the title for a mail that is no reply, if the title holds nearly all of
    the words: all of its thread have its subject. `phrase`: the share of its pairs of neighbouring words that are
    neighbours there. `thread`: how many other candidates are of the same thread, 1 - 1 / (1 + number). `recency`: where the
    query asks for what is new, halved for each half-life by which the newest candidate is younger. `kind`: the weight of
    the chunk's kind. `log`: 1 for a log, unless the query is diagnostic. `brief`: how much a reply lacks to _BRIEF
    characters of its author ("Thanks, applied."), times the share of the query's words that they do not say.
    """
    fresh = [re.search(_RECENCY, q) is not None for q in queries]
    score, when = pl.col("score"), pl.col("effective_at")
    low, high = score.min().over("query"), score.max().over("query")
    days = (when.max().over("query") - when).dt.total_seconds() / 86_400
    others = pl.len().over("query", "thread") - 1
    kinds = pl.col("chunk_kind").replace_strict(_KINDS, default=0.0, return_dtype=pl.Float64)
    is_recent = pl.col("query").replace_strict(dict(enumerate(fresh)), default=False, return_dtype=pl.Boolean)
    excused = pl.col("query").replace_strict(
        dict(enumerate(diagnostic)), default=False, return_dtype=pl.Boolean
    )
    of_others = pl.when(~pl.col("is_mail")).then("own")
    is_reply = (pl.col("is_mail") & ~pl.col("opens")).cast(pl.Float64)
    lacking = (1 - unquoted().str.len_chars() / _BRIEF).clip(0.0) * (1 - pl.col("own"))
    shares, in_title = _shares(candidates, queries), pl.col("in_title").fill_null(0.0)
    return candidates.join(shares, on=["query", "rank"], how="left", maintain_order="left").select(
        "query",
        "rank",
        fused=pl.when(high > low).then((score - low) / (high - low)).otherwise(0.0),
        own=weights["own"] * (of_others - of_others.mean().over("query")).fill_null(0.0),
        title=weights["title"] * in_title,
        opens=weights["opens"] * in_title * (pl.col("opens") & (in_title >= _IS_SUBJECT)).cast(pl.Float64),
        phrase=weights["phrase"] * pl.col("phrase").fill_null(0.0),
        thread=weights["thread"] * (1 - 1 / (1 + others)),
        recency=weights["recency"]
        * pl.when(is_recent).then((0.5 ** (days / _HALF_LIFE_DAYS)).fill_null(0.0)).otherwise(0.0),
        kind=kinds,
        log=-weights["log"] * ((pl.col("content_class") == "log") & ~excused).cast(pl.Float64),
        brief=-weights["brief"] * lacking * is_reply,
    )


def asked_text() -> pl.Expr:
    """The text whose words `own` is about: none of a mail that is not brief."""
    return (
        pl.when(~pl.col("is_mail") | (unquoted().str.len_chars() < _BRIEF))
        .then(unquoted())
        .otherwise(pl.lit(""))
    )


def unquoted() -> pl.Expr:
    """The column `text` without lines that begin with a quote mark."""
    return pl.col("text").str.replace_all(r"(?m)^>.*$", "").str.strip_chars()


def _shares(candidates: pl.DataFrame, queries: Sequence[str]) -> pl.DataFrame:
    """Columns query, rank, in_title and phrase: the shares of a query's words and pairs of words."""
    query_words = _words(
        pl.DataFrame(
            {"query": pl.int_range(len(queries), dtype=pl.Int32, eager=True), "text": queries},
            schema_overrides={"text": pl.String},
        ),
        ["query"],
    )
    words = query_words.select("query", "word").unique()
    pairs = query_words.drop_nulls("before").select("query", "before", "word").unique()
    hit = ["query", "rank"]
    body = _words(candidates.select(*hit, text=pl.concat_str("title", pl.lit(" \n"), "text")), hit)
    title = _words(candidates.select(*hit, text="title"), hit)
    shares = candidates.select(hit)
    for name, present, sought, keys in (
        ("in_title", title, words, ["query", "word"]),
        ("phrase", body, pairs, ["query", "before", "word"]),
    ):
        total = sought.group_by("query").agg(total=pl.len())
        shared = present.join(sought, on=keys).unique([*keys, "rank"]).group_by(hit).agg(met=pl.len())
        share = shared.join(total, on="query").select(*hit, (pl.col("met") / pl.col("total")).alias(name))
        shares = shares.join(share, on=hit, how="left")
    return shares


def _words(texts: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Columns `keys`, word, and the word before it (null for the first of a text)."""
    by_text = texts.select(*keys, word=pl.col("text").str.to_lowercase().str.extract_all(_WORD))
    words = by_text.explode("word").drop_nulls("word")
    return words.with_columns(before=pl.col("word").shift().over(keys))


def feature_scores(parts: pl.DataFrame, label: str) -> pl.DataFrame:
    """Columns query, rank and the first and last two of RERANKED, of what `features` returns."""
    names = [name for name in parts.columns if name not in ("query", "rank")]
    structs = [pl.struct(part=pl.lit(name), value=pl.col(name).round(6)) for name in names]
    return parts.select(
        "query",
        "rank",
        reranker=pl.lit(label),
        rerank_score=pl.sum_horizontal(names),
        rerank_parts=pl.concat_list(structs).cast(pl.List(PART)),
    )


def model_scores(query: int, scores: np.ndarray, label: str) -> pl.DataFrame:
    """The same for the scores of a model on the first hits of a query, in the order of their ranks."""
    return pl.DataFrame(
        {
            "query": np.full(len(scores), query, dtype=np.int32),
            "rank": np.arange(1, len(scores) + 1, dtype=np.int32),
            "reranker": [label] * len(scores),
            "rerank_score": scores.astype(np.float64),
            "rerank_parts": [None] * len(scores),
        },
        schema_overrides={"rerank_parts": pl.List(PART)},
    )


def unranked(ranked: pl.DataFrame) -> pl.DataFrame:
    """`ranked` with the columns RERANKED, all null."""
    return ranked.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in RERANKED.items())


def on_one_scale(hits: pl.DataFrame) -> pl.DataFrame:
    """Hits whose `score` is that of the reranker, where it gave one; the others keep theirs, made smaller in
    one proportion (below 0: by one amount) where they would stand above the lowest of those.

    A score of features is one between the lowest and the highest score of the hits that it was given to.
    """
    before = pl.col("score").filter(pl.col("rerank_score").is_not_null())
    least, most = before.min().over("query"), before.max().over("query")
    in_between = least + pl.col("rerank_score") * (most - least)
    rerank_score = pl.when(pl.col("rerank_parts").is_null()).then("rerank_score").otherwise(in_between)
    low = rerank_score.filter(rerank_score.is_finite()).min().over("query")
    rest = pl.when(rerank_score.is_null()).then("score").max().over("query")
    shrunk = pl.when(low > 0).then(pl.col("score") * low / rest).otherwise(pl.col("score") + low - rest)
    score_behind = pl.when(rest > low).then(shrunk).otherwise("score")
    return hits.with_columns(score=pl.coalesce(rerank_score, score_behind))


def reordered(ranked: pl.DataFrame, scores: pl.DataFrame, limit: int) -> pl.DataFrame:
    """The first `limit` hits of each query in the order of the scores, ranks from 1, with the columns RERANKED.

    Hits without a score follow those that have one. Ties keep their order.
    """
    joined = ranked.join(scores, on=["query", "rank"], how="left", maintain_order="left")
    first = pl.col("rerank_score").fill_null(-np.inf)
    by_score = joined.with_columns(rank_before="rank").sort(
        "query", first, "rank_before", descending=[False, True, False]
    )
    reranked = by_score.with_columns(
        rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query"),
    ).filter(pl.col("rank") <= limit)
    return reranked.select(*ranked.columns, *RERANKED)
