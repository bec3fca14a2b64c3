"""The tables of an evaluation: queries, relevance, runs."""

from __future__ import annotations

import pyarrow as pa

from transforms.schemas.table import Column, Table, required

EVALUATION_QUERIES = Table(
    "evaluation_queries",
    "One query that quality is measured with.",
    ("query_id",),
    (
        required("query_id", pa.string(), "id the file gives the query"),
        required("query", pa.string(), "what is asked"),
        required("tags", pa.list_(pa.string()), "what kind of query it is"),
        required("file", pa.string(), "file it comes from"),
        required("is_draft", pa.bool_(), "true if a program drafted it and nobody has looked at it"),
    ),
)

EVALUATION_RELEVANCE = Table(
    "evaluation_relevance",
    "One right answer of a query, as its file names it.",
    ("query_id", "entry"),
    (
        required("query_id", pa.string(), "the query"),
        required("entry", pa.int64(), "place in the list of the query, from 0"),
        required("form", pa.string(), "message, thread, node, document, chunk, passage or chat"),
        Column("target", pa.string(), "Message-ID, node, document or chunk; null for chat"),
        Column("text", pa.string(), "exact text of a passage or of a part of a chat turn; null for others"),
        required("grade", pa.int64(), "how good the answer is; 0 is wrong"),
        Column("topic", pa.string(), "what entries that answer the same part of the query share"),
    ),
)

EVALUATION_RUNS = Table(
    "evaluation_runs",
    "One chunk at one place of the list that one stage of a search made for one query.",
    ("profile", "query_id", "stage", "rank"),
    (
        required("profile", pa.string(), "named search settings"),
        required("query_id", pa.string(), "the query"),
        required(
            "stage",
            pa.string(),
            "name of the stage, as `weft help search` has them; final is what is returned",
        ),
        required("rank", pa.int64(), "place in the list, from 1"),
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "mail or document of the chunk"),
        required("thread_id", pa.string(), "its thread; the document itself where there is none"),
        required("score", pa.float64(), "score of the stage"),
        Column("similarity", pa.float64(), "cosine of chunk and query; of final hits only"),
        Column("label", pa.string(), "what the search says of its result; of final hits only"),
        Column("reason", pa.string(), "why the next stage dropped it; null where it stays"),
    ),
)
