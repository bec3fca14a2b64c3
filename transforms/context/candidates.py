"""The parts of a text that are asked, and the results of one window as one list without
repetitions: dedup, order.

Frames of candidates have one row per window, query and chunk: `window_id`, `query` (number in the
window), `chunk_id`, `document_id`, `similarity` (cosine), `score` (for the rank).
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from transforms.languages import UNSPACED
from transforms.settings.conversations import ContextSettings
from transforms.settings.search import SearchSettings, TermSettings
from transforms.signs import asks_inside, sign_languages, sign_pattern
from transforms.text.terms import counted_terms, stems

_ADAPTIVE_MESSAGES = 100
"""Messages up to which, with strategy = "adaptive", a window is one query (egregora)."""
_ADAPTIVE_TOKENS = 1_800
"""Tokens up to which, with strategy = "adaptive_tokens", a window is one query: as many as a query
chunk may have.
"""
_SHARPNESS = 4
_NEAR_TURNS, _NEAR_BYTES = 6, 1_000
"""Turns before and behind one of a chat, and bytes between the two, to which its score gives a share,
the nearer the more: six turns of people have so many bytes, of an assistant a paragraph has.
"""
_FEW, _DECADES, _MANY, _OF_MANY = 200, 2.5, 10, 0.9
"""Evidence that opens a query: of WEAK among so few chunks, of PASS among so many powers of ten
more, or this share of it in the mean of so many. By chance more chunks hold words of a text about
other matters (`benchmarks/off_topic.py`).
"""
_LONG_BYTES = 2_400
"""Bytes of a passage from which its score counts by token: it must be worth the several that its
tokens would show.
"""
_BEHIND = 0.5
"""The share of the score of a candidate that counts if it fills the rest of a budget."""
_SHORT = 2_000
"""Characters of a window up to which parts are asked by themselves, too: in longer ones they add
chance finds.
"""


def strategy_queries(
    windows: pl.DataFrame, chunks: pl.DataFrame, settings: ContextSettings
) -> pl.DataFrame:
    """The queries: `window_id`, `query` and `text`, by the strategy of the settings (egregora).

    `windows` has doc_id, message_count and text (all its messages); `chunks` has doc_id,
    chunk_index, token_count and text.
    """
    by_window = windows.select(
        "text", window_id="doc_id", query=pl.lit(-1, pl.Int64), messages="message_count"
    )
    by_chunk = chunks.select(
        window_id="doc_id", query=pl.col("chunk_index").cast(pl.Int64), text="text"
    )
    if settings.strategy in ("window", "off"):
        by_chunk = by_chunk.clear()
    if settings.strategy in ("chunks", "off"):
        by_window = by_window.clear()
    elif settings.strategy == "adaptive":
        by_window = by_window.filter(pl.col("messages") <= _ADAPTIVE_MESSAGES)
        by_chunk = by_chunk.join(by_window, on="window_id", how="anti")
    elif settings.strategy == "adaptive_tokens":
        is_small = pl.col("token_count").sum() <= _ADAPTIVE_TOKENS
        small = chunks.group_by(window_id="doc_id").agg(is_small=is_small).filter("is_small")
        by_window = by_window.join(small, on="window_id", how="semi")
        by_chunk = by_chunk.join(by_window, on="window_id", how="anti")
    queries = pl.concat([by_window.select(by_chunk.columns), by_chunk])
    if settings.by_parts:
        queries = pl.concat([queries, _parts_of_short(queries)])
    return queries.filter(pl.col("text").str.contains(r"[\p{L}\p{N}]")).sort("window_id", "query")


def _parts_of_short(queries: pl.DataFrame) -> pl.DataFrame:
    """The parts of the queries of short windows that have several, numbered on behind the last
    query of their window.
    """
    is_short = pl.col("text").str.len_chars().sum().over("window_id") <= _SHORT
    short = queries.filter(is_short).with_columns(
        text=pl.col("text").map_elements(_asked_parts, return_dtype=pl.List(pl.String))
    )
    last = queries.group_by("window_id").agg(last=pl.col("query").max())
    return (
        short.filter(pl.col("text").list.len() > 0)
        .sort("window_id", "query")
        .explode("text")
        .join(last, on="window_id")
        .with_columns(query=pl.col("last") + pl.int_range(1, pl.len() + 1).over("window_id"))
        .select("window_id", "query", "text")
    )


def _asked_parts(text: str) -> list[str]:
    """The parts of a text that has several, and the halves of each that names two things."""
    whole = query_parts(text)
    return [*(whole if len(whole) > 1 else ()), *(half for part in whole for half in _halves(part))]


def _halves(part: str) -> list[str]:
    """The texts before and behind each "and" or "or" with enough words on both sides; empty without
    one.

    The halves of a question ("How long have Ann and her husband …") ask nothing: `parts` knows
    those of several questions. Nor do those of several sentences, such as turns of a chat ("and it
    was loud").

    >>> _halves("Add two-phase commit and allow scans of the index alone")
    ['Add two-phase commit', 'and allow scans of the index alone']
    >>> _halves("I was awake. It rained on that night and it was as loud as a train")
    []
    """
    halves: list[str] = []
    cuts = _cuts(sign_languages(part))
    is_whole = cuts.question.match(part) or _SENTENCES.search(part)
    for piece in [] if is_whole else cuts.joins.split(part):
        if halves and min(_word_count(halves[-1]), _word_count(piece) - 1) >= _LEAST_OF_HALF:
            halves.append(piece)
        else:
            halves = [*halves[:-1], " ".join([*halves[-1:], piece])]
    return halves if len(halves) > 1 else []


def telling_terms(
    texts: Sequence[str],
    df: Callable[[str], int],
    chunk_count: int,
    limit: int,
    stopwords: Sequence[str],
    settings: TermSettings,
) -> pl.DataFrame:
    """Columns `query` and `term`: of each text the `limit` terms with the highest tf times idf.

    As Lucene's MoreLikeThis chooses them; `df` says how many chunks hold a term.
    """
    weight = pl.col("tf") * (1 + (chunk_count - pl.col("df") + 0.5) / (pl.col("df") + 0.5)).log()
    return (
        counted_terms(pl.Series(list(texts), dtype=pl.String), settings)
        .with_columns(df=pl.col("term").map_elements(df, return_dtype=pl.Int64))
        .filter(pl.col("df") > 0, ~pl.col("term").is_in(stems(list(stopwords), settings)))
        .with_columns(weight=weight)
        .sort("row", "weight", "term", descending=[False, True, False])
        .group_by("row", maintain_order=True)
        .head(limit)
        .select(query=pl.col("row").cast(pl.Int32), term="term")
    )


def borne_out(
    candidates: pl.DataFrame, searched: Sequence[int], settings: SearchSettings
) -> pl.DataFrame:
    """`candidates` (row, evidence) with `near`, the share of its score that counts: 1 for one that
    bears out its query, less for one that may fill the budget, 0 for the others and for all of a
    query that nothing opens. A query of row n was asked of `searched[n]` chunks.
    """
    evidence, weak = pl.col("evidence"), settings.label_weak
    way = np.clip(np.log10(np.maximum(searched, 1) / _FEW) / _DECADES, 0.0, 1.0)
    opening = pl.Series(weak + way * (settings.label_pass - weak)).gather(
        candidates.get_column("row")
    )
    of_many = evidence.top_k(_MANY).sum().over("row") / _MANY
    is_open = (evidence.max().over("row") >= opening) | (of_many >= _OF_MANY * opening)
    fills = evidence >= settings.least_evidence
    near = pl.when(evidence >= weak).then(1.0).when(fills).then(_BEHIND).otherwise(0.0)
    return candidates.with_columns(near=near * is_open)


def worth(candidates: pl.DataFrame) -> pl.DataFrame:
    """The candidates (score, near, byte_start, byte_end) with the scores by which they compete for
    the budget: as much as is `near`, of a long passage by token.
    """
    size = (pl.col("byte_end") - pl.col("byte_start")).clip(_LONG_BYTES).fill_null(_LONG_BYTES)
    return candidates.with_columns(score=pl.col("score") * pl.col("near") * _LONG_BYTES / size)


def in_stretches(candidates: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """The candidates with, in place of single turns of chats, the stretches around them: turns by
    the near ones.

    They have row, chunk_no, document_id, score, byte_start, byte_end, `near` (`borne_out`),
    `is_segment` (of a chat) and `turn` (its number in the document, else null). A turn's score is
    its own or a power mean of those of the found turns around it, scaled to the best: turns that
    answer together are as high as the best one; so much of it counts as `near`. `turns`
    (document_id, turn, chunk_no and further columns) are the turns that may be shown. Those around
    one that is near stay, as near as that; a segment that is near speaks for the turns that it
    holds, and is not shown beside them.
    """
    steps = pl.DataFrame({"step": range(-_NEAR_TURNS, _NEAR_TURNS + 1)}, schema={"step": pl.Int64})
    segments = candidates.filter("is_segment").join(turns, on="document_id", how="semi")
    holding = segments.select(
        "row", "document_id", first="byte_start", last="byte_end", held="near"
    )
    in_segment = pl.col("byte_start").is_between("first", "last").fill_null(False)
    chats = (
        candidates.drop_nulls("turn")
        .join(holding, on=("row", "document_id"), how="left")
        .with_columns(near=pl.max_horizontal("near", pl.when(in_segment).then("held")))
        .group_by("row", "chunk_no", maintain_order=True)
        .agg(pl.exclude("near", "first", "last", "held").first(), pl.col("near").max())
    )
    gap = pl.max_horizontal(
        pl.col("byte_start") - pl.col("end"), pl.col("start") - pl.col("byte_end"), 0
    )
    share = (1 - gap / _NEAR_BYTES) * pl.col("score").clip(0.0) ** _SHARPNESS
    near = (
        chats.select(
            "row", "document_id", "turn", "score", "near", start="byte_start", end="byte_end"
        )
        .join(steps, how="cross")
        .with_columns(turn=pl.col("turn") + pl.col("step"))
        .join(turns, on=("document_id", "turn"))
        .filter(gap < _NEAR_BYTES)
        .with_columns(share=share)
        .group_by("row", "document_id", "turn")
        .agg(pl.col("share").sum(), pl.col("near").max())
        .filter(pl.col("near") > 0)
        .join(turns, on=("document_id", "turn"))
        .join(chats.group_by("row").agg(best=pl.col("score").max()), on="row")
    )
    part = (pl.col("share") / pl.col("share").max().over("row")).fill_nan(0.0)
    own = chats.rename({"score": "alone"}).drop(
        "near", *set(turns.columns) - {"document_id", "turn"}, strict=False
    )
    spread = near.join(own, on=("row", "document_id", "turn"), how="left").with_columns(
        score=pl.max_horizontal(pl.col("best") * part ** (1 / _SHARPNESS), pl.col("alone"))
    )
    others = candidates.filter(pl.col("turn").is_null() & (pl.col("near") > 0))
    others = others.join(segments, on=("row", "chunk_no"), how="anti")
    return pl.concat([others, spread.drop("share", "best", "alone")], how="diagonal")


def deduplicate(candidates: pl.DataFrame, n: int = 1) -> pl.DataFrame:
    """The `n` best chunks of each document and window, each chunk once (egregora).

    A candidate without document counts as a document of its own; one without score is last of its
    document. Documents stay in the order of their first candidate, chunks best first.
    """
    document = pl.coalesce("document_id", pl.format("\x00{}", "chunk_id"))
    numbered = candidates.with_row_index("_found").with_columns(_document=document)
    numbered = numbered.with_columns(_first=pl.col("_found").min().over("window_id", "_document"))
    best = numbered.sort("score", "_found", descending=[True, False], nulls_last=True)
    best = best.unique(["window_id", "chunk_id"], keep="first", maintain_order=True)
    best = best.filter(pl.int_range(pl.len()).over("window_id", "_document") < n)
    return best.sort("_first", maintain_order=True).drop("_found", "_document", "_first")


def drop_similar(
    documents: pl.DataFrame, vectors: Mapping[str, np.ndarray], similarity: float
) -> pl.DataFrame:
    """The chunks of each window that are less like every better one than `similarity`, in their
    order.
    """
    selected: list[int] = []
    order_documents = documents.with_row_index("_row").sort(
        "window_id", "score", "chunk_id", descending=[False, True, False]
    )
    for _, rows in order_documents.group_by("window_id", maintain_order=True):
        chosen_vectors: list[np.ndarray] = []
        for row, chunk in rows.select("_row", "chunk_id").iter_rows():
            if all(float(other @ vectors[chunk]) < similarity for other in chosen_vectors):
                chosen_vectors.append(vectors[chunk])
                selected.append(row)
    return documents[sorted(selected)]


def order_documents(
    candidates: pl.DataFrame, documents: pl.DataFrame, settings: ContextSettings
) -> pl.DataFrame:
    """`documents` with the column `place`: 1 for the best of a window; the order of
    `settings.pick`, ties by chunk.
    """
    frames = []
    for (window,), rows in documents.sort(
        "window_id", "score", "chunk_id", descending=[False, True, False]
    ).group_by("window_id", maintain_order=True):
        if settings.pick == "coverage":
            rows = rows[_coverage(rows, candidates.filter(pl.col("window_id") == window))]
        frames.append(rows.with_columns(place=pl.int_range(1, pl.len() + 1)))
    return pl.concat(frames) if frames else documents.with_columns(place=pl.lit(None, pl.Int64))


def _coverage(rows: pl.DataFrame, candidates: pl.DataFrame) -> list[int]:
    """The documents that add most to the sum, over queries, of the best score among those chosen,
    greedily.

    Facility location (Lin and Bilmes 2011) over the scores of the candidates, so that every part of
    a conversation pulls towards its own documents. Scores count with their fourth power, so that
    one good match is worth more than many middling ones. Documents that add nothing follow by
    score.
    """
    unit = pl.coalesce("document_id", pl.format("\x00{}", "chunk_id")).alias("unit")
    most = candidates.group_by("query", unit).agg(pl.col("score").max()).sort("query")
    table = most.pivot(on="query", index="unit", values="score")
    scores = (
        rows.select(unit).join(table, on="unit", how="left", maintain_order="left").drop("unit")
    )
    matrix = np.maximum(scores.fill_null(0.0).to_numpy().T, 0.0) ** _SHARPNESS
    covered = np.zeros(len(matrix))
    remaining = np.ones(len(rows), dtype=bool)
    order = []
    for _ in range(len(rows) if len(matrix) else 0):
        gain = np.maximum(matrix - covered[:, None], 0.0).sum(axis=0)
        best = int(np.argmax(np.where(remaining, gain, -1.0)))
        if gain[best] <= 0:
            break
        order.append(best)
        remaining[best] = False
        covered = np.maximum(covered, matrix[:, best])
    return [*order, *np.flatnonzero(remaining).tolist()]


_SENTENCES = re.compile(r"[.!?。！？]\s|\n")
_SIGN = re.compile(rf"[{UNSPACED}]")
_SIGNS_OF_WORD = 2
"""Signs that count as a word where words have no blanks between them."""
_LEAST_WORDS, _LEAST_OF_QUESTION, _LEAST_OF_HALF = 15, 4, 3
_MOST = 16


class _Cuts(NamedTuple):
    """The signs at which a text is cut, in its languages.

    `ends`: where a paragraph ends, or a question, also one of several in a sentence; `question`
    matches one, `joins` stand before each "and" or "or".
    """

    ends: re.Pattern[str]
    question: re.Pattern[str]
    joins: re.Pattern[str]


@cache
def _cuts(languages: tuple[str, ...]) -> _Cuts:
    asks, joins = (sign_pattern((kind,), languages) for kind in ("clause", "joins"))
    joined = rf"(?:{joins})[ ¿]*"
    before = ".*" if asks_inside(languages) else ""
    return _Cuts(
        ends=re.compile(
            rf"\n\s*\n|(?<=\?)[\"')\]]*\s+|(?<=\uff1f)\s*|,?[^\S\n]+(?={joined}(?:{asks}))|[、，](?={joined}(?:{asks}))",
            re.I,
        ),
        question=re.compile(rf"(?:{joined})?¿?{before}(?:{asks})|.*[?\uff1f]$", re.I | re.S),
        joins=re.compile(rf",?\s+(?=(?:{joins})\s)|[、，](?={joins})", re.I),
    )


def _word_count(text: str) -> int:
    """The words of a text; _SIGNS_OF_WORD signs count as one where words have no blanks."""
    return len(text.split()) + len(_SIGN.findall(text)) // _SIGNS_OF_WORD


def query_parts(text: str) -> list[str]:
    """The parts of a text in order: questions, and paragraphs, small ones together; at most 16,
    longer in a long text.

    >>> query_parts("We moved to a new host. Why is the index bloated? And which lock does a vacuum take?")
    ['We moved to a new host. Why is the index bloated?', 'And which lock does a vacuum take?']
    >>> len(query_parts("\\n\\n".join(["a topic of its own " * 4] * 3)))
    3
    """
    cuts = _cuts(sign_languages(text))
    pieces = [piece.strip() for piece in cuts.ends.split(text) if piece.strip()]
    least = max(_LEAST_WORDS, _word_count(text) // _MOST)
    parts: list[str] = []
    is_open = False
    for piece in pieces:
        parts.append(f"{parts.pop()}\n{piece}" if is_open else piece)
        words = _word_count(parts[-1])
        is_question = least == _LEAST_WORDS and cuts.question.match(piece)
        is_open = words < (_LEAST_OF_QUESTION if is_question else least)
    if is_open and len(parts) > 1:
        last = parts.pop()
        parts[-1] = f"{parts[-1]}\n{last}"
    return parts


_DAYS_APART = 7
"""Days within which texts may be on one matter, such as a chat and the mails of that week."""


def strangers(
    facts: Sequence[Mapping[str, Any]], linked: Collection[tuple[str, str]]
) -> list[np.ndarray]:
    """Two choices of pairs of chunks that tell little of each other, above the diagonal of a square.

    The first are of no conversation, which asks for what others answer, of documents without a link
    between them, and more than a week apart where both have a time; the second are any. Both are of
    two sources, else of two documents. A choice without pairs is left out. The more true answers
    are among them, the nearer pairs are: the choice with the lower cosines is the better one.
    """

    def column(name: str) -> np.ndarray:
        return np.array([fact[name] or "" for fact in facts], dtype=object)

    def differ(values: np.ndarray) -> np.ndarray:
        return np.triu(values[:, np.newaxis] != values, 1)

    documents = column("doc_id")
    is_text = column("source_kind") != "conversation"
    apart = np.logical_and.outer(is_text, is_text) & ~_joined(documents, linked)
    days = np.array([_day(fact["effective_at"]) for fact in facts])
    apart &= ~(np.abs(days[:, np.newaxis] - days) <= _DAYS_APART)
    sources, others = differ(column("source")), differ(documents)
    choices = ((sources & apart, others & apart), (sources, others))
    chosen = (next((pairs for pairs in tries if pairs.any()), None) for tries in choices)
    return [pairs for pairs in chosen if pairs is not None]


def _joined(documents: np.ndarray, linked: Collection[tuple[str, str]]) -> np.ndarray:
    """The pairs of chunks with a link between their documents, in either direction."""
    rows = {name: np.flatnonzero(documents == name) for name in set(documents)}
    joined = np.zeros((len(documents), len(documents)), dtype=bool)
    for one, other in linked:
        if one in rows and other in rows:
            joined[np.ix_(rows[one], rows[other])] = True
    return joined | joined.T


def _day(time: datetime | None) -> float:
    """The day of a time as a number; NaN, which is near no other, if there is none."""
    return time.timestamp() / 86_400 if time else np.nan
