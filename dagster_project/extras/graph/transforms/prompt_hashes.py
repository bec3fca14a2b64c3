"""Questions that chunks answer, as 64-bit SimHashes: a search that needs no vector of the query.

It reads `qa-pairs.md`, computes the hashes, and gives each question to its chunks (experimental in
the Information Graph). Vectors come from the embedder.
"""

import re
import unicodedata
from collections.abc import Sequence, Set
from itertools import takewhile
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from dagster_project.extras.graph.transforms.schema import PROMPT_HASHES
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import DECIMALS
from transforms.embedding.vectors import matrix
from transforms.schemas.table import rows_of

FILE_NAME = "qa-pairs.md"
BITS = 64
MOST_BITS = 12
"""Bits by which a query and a stored question may differ and count as the same."""

_QUESTION = re.compile(
    r"[ \t]{0,3}(?:#{1,6}[ \t]+)?(?:\*\*|__)?Q(?:uestion)?[ \t]*\d*[.:](?:\*\*|__)?[ \t]*(.*)"
)
_END = re.compile(
    r"\s*(?:#|$)|[ \t]{0,3}(?:(?:\*\*|__)?(?:Q(?:uestion)?|A(?:nswer)?)[ \t]*\d*[.:]|(?:-[ \t]*){3,}$)"
)
"""A line that is not of the question above it."""
_TOKEN = re.compile(r"[^\W_]+(?:_[^\W_]+)*")
_COMMON = (
    "a an and are as at be but by can could did do does for from had has have how i if in into is it its me my no not of "
    "on or our should so than that the their them then there these they this those to was we were what when where which "
    "who why will with would you your"
)
_IGNORED = frozenset(_COMMON.split())
"""Words that a hash ignores if there are others."""
_FNV_START, _FNV_PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << BITS) - 1


def is_question_list(path: str) -> bool:
    """True for a document that lists questions and their answers."""
    return path.rpartition("/")[2].lower() == FILE_NAME


def questions(text: str) -> list[str]:
    """The questions of a list, in order.

    A question begins with `Q:`, as a heading or not, bold or not, and goes on to the next question,
    answer, heading, rule or blank line. Several may share an answer.
    """
    lines, texts = text.splitlines(), []
    for number, line in enumerate(lines):
        if match := _QUESTION.match(line):
            following = [] if line.lstrip().startswith("#") else lines[number + 1 :]
            more = takewhile(lambda after: not _END.match(after), following)
            texts.append(
                " ".join([match[1], *map(str.strip, more)]).strip().removesuffix("**").strip()
            )
    return [question for question in texts if question]


def document_questions(documents: pa.Table) -> pa.Table:
    """Columns source, folder, asked_in and question: the questions of every `qa-pairs.md`, each
    once.
    """
    rows: dict[tuple[str, str, str], str] = {}
    names = ("doc_id", "source", "path", "text")
    for doc_id, source, path, text in sorted(rows_of(documents, *names)):
        if is_question_list(path):
            for question in questions(text):
                rows.setdefault((source, path.rpartition("/")[0], question), doc_id)
    values = [
        (source, folder, asked_in, question)
        for (source, folder, question), asked_in in rows.items()
    ]
    schema = dict.fromkeys(("source", "folder", "asked_in", "question"), pl.String)
    return pl.DataFrame(values, schema=schema, orient="row").to_arrow()


def simhash(text: str) -> int:
    """The 64-bit SimHash of a text (Charikar 2002).

    Tokens are the distinct runs of letters and digits, single underscores inside them included, of
    the NFKC text in lower case, without common words if there are others; each weighs 1. A token's
    hash is FNV-1a over its UTF-8 bytes, stirred by MurmurHash3's 64-bit finalizer. Bit i is set
    where more tokens have it set than not; 0 for a text without tokens.
    """
    tokens = set(_TOKEN.findall(unicodedata.normalize("NFKC", text).lower()))
    tokens = (tokens - _IGNORED) or tokens
    votes = [0] * BITS
    for value in map(_token_hash, tokens):
        for bit in range(BITS):
            votes[bit] += 1 if value >> bit & 1 else -1
    return sum(1 << bit for bit, vote in enumerate(votes) if vote > 0)


def distances(simhashes: np.ndarray, query: int) -> np.ndarray:
    """The bits by which each of several SimHashes (uint64) differs from one."""
    return np.bitwise_count(simhashes ^ np.uint64(query)).astype(np.int64)


def prompt_hashes(
    chunks: pa.Table,
    documents: pa.Table,
    question_table: pa.Table,
    vectors: np.ndarray,
    settings: GraphSettings,
) -> pa.Table:
    """The questions near to each chunk, as `schemas.PROMPT_HASHES`, by document, chunk and
    similarity.

    `chunks` is the result of `embedded_text.embedded_chunks`, `question_table` that of
    `document_questions`, `vectors` has a unit-length row for each question. A question is compared
    with the chunks of the documents in the folder of its list and below, the list itself among
    them, and kept as `prompts` says. The chunk that has it with its answer keeps it always.
    """
    paths = {d: (s, p) for d, s, p in rows_of(documents, "doc_id", "source", "path")}
    chunk_rows = chunks.select(["chunk_id", "doc_id"]).to_pylist()
    chunk_paths = [paths.get(row["doc_id"], ("", "")) for row in chunk_rows]
    embedded = matrix(chunks.column("vector"))
    verbatim = _own_chunks(chunks, question_table)
    question_rows = pl.DataFrame(
        question_table.append_column("row", pa.array(range(question_table.num_rows), pa.int64()))
    )
    rows: list[dict[str, Any]] = []
    for (source, folder), group in question_rows.group_by(
        ["source", "folder"], maintain_order=True
    ):
        prefix = f"{folder}/" if folder else ""
        nearby = [
            n for n, (s, path) in enumerate(chunk_paths) if s == source and path.startswith(prefix)
        ]
        if nearby:
            question_vectors = vectors[group["row"].to_numpy()].astype(np.float64)
            scores = np.round(
                question_vectors @ embedded[nearby].astype(np.float64).T, DECIMALS
            ).clip(-1, 1)
            questions_of_list = group.select("question", "asked_in").rows()
            rows += _near(
                [chunk_rows[n] for n in nearby],
                questions_of_list,
                scores,
                verbatim,
                settings,
            )
    rows.sort(key=lambda row: (row["doc_id"], row["chunk_id"], -row["similarity"], row["question"]))
    distinct = {(row["chunk_id"], row["question"]): row for row in reversed(rows)}
    return PROMPT_HASHES.from_rows(list(reversed(distinct.values())))


def _own_chunks(chunks: pa.Table, question_table: pa.Table) -> set[tuple[str, str]]:
    """Each question with the chunks of its list that hold it word for word."""
    lists = chunks.filter(
        pc.is_in(chunks["doc_id"], value_set=question_table["asked_in"].combine_chunks())
    )
    texts = [" ".join(text.split()) for text in lists["text_display"].to_pylist()]
    rows = list(zip(lists["chunk_id"].to_pylist(), lists["doc_id"].to_pylist(), texts, strict=True))
    pairs = zip(
        question_table["question"].to_pylist(), question_table["asked_in"].to_pylist(), strict=True
    )
    return {
        (q, chunk_id)
        for q, d in pairs
        for chunk_id, doc_id, text in rows
        if d == doc_id and q in text
    }


def _near(
    chunks: Sequence[dict[str, str]],
    question_list: Sequence[tuple[str, str]],
    scores: np.ndarray,
    verbatim: Set[tuple[str, str]],
    settings: GraphSettings,
) -> list[dict[str, Any]]:
    """The rows of the questions of one list; `scores` has a row per question and a column per
    chunk.
    """
    is_best = np.arange(len(chunks)) == scores.argmax(axis=1)[:, None]
    retained = is_best if settings.prompts == "top" else scores >= settings.prompt_similarity
    for number, (question, _) in enumerate(question_list):
        retained[number] |= [(question, chunk["chunk_id"]) in verbatim for chunk in chunks]
    hashes = [simhash(question) for question, _ in question_list]
    return [
        {
            **chunks[chunk],
            "question": question_list[number][0],
            "asked_in": question_list[number][1],
            "similarity": float(scores[number, chunk]),
            "simhash": hashes[number],
        }
        for number, chunk in np.argwhere(retained).tolist()
    ]


def _token_hash(token: str) -> int:
    value = _FNV_START
    for byte in token.encode():
        value = (value ^ byte) * _FNV_PRIME & _MASK
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ value >> 33) * factor & _MASK
    return value ^ value >> 33
