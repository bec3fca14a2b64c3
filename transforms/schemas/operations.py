"""The tables that say how the pipeline fares: quarantine, readiness, measures, and the tables of an
evaluation.
"""

import pyarrow as pa

from transforms.schemas.table import PARTITION, SOURCE, TIME, Column, Table, required

QUARANTINE = Table(
    "quarantine",
    "Something that could not be read, or a copy that is not kept twice, with the reason.",
    ("source", "partition", "place"),
    (
        SOURCE,
        PARTITION,
        required("place", pa.string(), "file, and byte offset where one is known"),
        required("reason", pa.string(), "code and explanation, as `code: explanation`"),
        Column("message_id", pa.string(), "Message-ID where one is known"),
        required("byte_count", pa.int64(), "bytes that were set aside"),
        Column(
            "bytes_sha256",
            pa.string(),
            "SHA-256 of the bytes that were set aside; null for a lesser copy that came before the fuller one",
        ),
    ),
)


CORPUS_MEASURES = Table(
    "corpus_measures",
    "One measure of the mail of one list: a share of a count.",
    ("list_id", "measure", "detail"),
    (
        required("list_id", pa.string(), "the mailing list; empty for mail of no list"),
        required("measure", pa.string(), "name of the measure; `weft help concepts` explains each"),
        required("detail", pa.string(), "kind of defect, for parse_defects; else empty"),
        required("numerator", pa.int64(), "how many"),
        required(
            "denominator",
            pa.int64(),
            "of how many; of a sample where the measure is taken from one",
        ),
        required("value", pa.float64(), "numerator / denominator, 0 where there are none"),
    ),
)


MEASURE_COUNTS = Table(
    "measure_counts",
    "Additions of the mails of one bucket to a measure of their list.",
    ("list_id", "measure", "detail"),
    CORPUS_MEASURES.columns[:-1],
)


READINESS = Table(
    "readiness",
    "One row per mail, document and window of a conversation: whether search can find it, if not why, and when it got "
    "how far. Times of one and the same content stay what they were in the version that held it first.",
    ("doc_id", "kind"),
    (
        required("doc_id", pa.string(), "Message-ID, or id of the document or window"),
        required("kind", pa.string(), "message, document or conversation"),
        SOURCE,
        PARTITION,
        Column("title", pa.string(), "subject, or title"),
        Column(
            "effective_at",
            TIME,
            "time of the mail, of the document's last change, or of the first turn",
        ),
        required("content_hash", pa.string(), "hash of its content, as its own table has it"),
        required("chunk_count", pa.int64(), "chunks of it, those of its attachments included"),
        required("is_searchable", pa.bool_(), "true if it has a chunk, and so can be found"),
        required("excluded_for", pa.list_(pa.string()), "reasons why segments of it have no chunk"),
        Column(
            "waits_for",
            pa.string(),
            "slow lane, where its body or an attachment waits for that; else null",
        ),
        required(
            "seen_at",
            TIME,
            "when a build first found the change of its partition's files that brought it; where no build noted that, "
            "parsed_at",
        ),
        required(
            "parsed_at",
            TIME,
            "when the partition of messages, documents or conversations was written",
        ),
        required("chunked_at", TIME, "when the partition's chunks were written"),
        Column(
            "embedded_at", TIME, "when the table of all vectors was written; null without a chunk"
        ),
        required(
            "published_at",
            TIME,
            "when the first version that holds it whole was built; while it waits, the last",
        ),
        required(
            "lag_seconds", pa.float64(), "published_at minus seen_at, 0 where a clock was set back"
        ),
    ),
)


EVALUATION_QUERIES = Table(
    "evaluation_queries",
    "One query that quality is measured with.",
    ("query_id",),
    (
        required("query_id", pa.string(), "id the file gives the query"),
        required("query", pa.string(), "what is asked"),
        required("tags", pa.list_(pa.string()), "kind of query"),
        required("file", pa.string(), "file it comes from"),
        required(
            "is_draft", pa.bool_(), "true if a program drafted it and nobody has looked at it"
        ),
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
        Column(
            "text",
            pa.string(),
            "exact text of a passage or of a part of a chat turn; null for others",
        ),
        required("grade", pa.int64(), "how good the answer is; 0 is wrong"),
        Column("topic", pa.string(), "name of the part of the query that the entry answers"),
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
