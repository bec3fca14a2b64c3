"""The tables of conversations, their windows, and the context that is retrieved for them."""

import pyarrow as pa

from transforms.schemas.table import PARTITION, SOURCE, TEXT, TIME, Column, Table, required

WINDOW_ID = required(
    "doc_id", pa.string(), "window of a conversation, as `source:conversation@window`"
)
CONVERSATION_ID = required("conversation_id", pa.string(), "conversation, as `source:name`")

CONVERSATION_MESSAGES = Table(
    "conversation_messages",
    "One turn of a conversation, with the author's pseudonym.",
    ("conversation_id", "turn"),
    (
        CONVERSATION_ID,
        WINDOW_ID,
        SOURCE,
        PARTITION,
        required("window", pa.string(), "key of the window in its conversation"),
        required("title", pa.string(), "name of the conversation"),
        required("turn", pa.int64(), "position in the conversation, from 0"),
        required("sent_at", TIME, "time the export gives"),
        Column(
            "author",
            pa.string(),
            "pseudonym of the author, the name where pseudonyms are off; null for system",
        ),
        required("text", TEXT, "what was said, names of known people replaced by pseudonyms"),
        required("kind", pa.string(), "message, media (without text), deleted or system"),
        Column(
            "message_key", pa.string(), "id of the message in its program; null if it lacks one"
        ),
        Column(
            "answers_key",
            pa.string(),
            "message_key of the message of the conversation that it answers, or whose thread it belongs to",
        ),
        Column(
            "answered_turn",
            pa.int64(),
            "turn of that message in the conversation, in whatever window; null if the export does not have it",
        ),
        required("reaction_count", pa.int64(), "reactions, each person's counted"),
        required("is_edited", pa.bool_(), "true if the export says that the text was changed"),
        required(
            "file_count",
            pa.int64(),
            "files that it names, which `attachments` has in the same order",
        ),
    ),
)

CONVERSATION_WINDOWS = Table(
    "conversation_windows",
    "One window of a conversation as consolidated Markdown.",
    ("doc_id",),
    (
        WINDOW_ID,
        CONVERSATION_ID,
        SOURCE,
        PARTITION,
        required("window", pa.string(), "key of the window in its conversation"),
        required("title", pa.string(), "name of the conversation"),
        required("first_at", TIME, "time of the first entry"),
        required("last_at", TIME, "time of the last entry"),
        required("message_count", pa.int64(), "messages with text"),
        required("author_count", pa.int64(), "people who wrote them"),
        required(
            "markdown",
            TEXT,
            "the messages under headings; offsets of chunks are UTF-8 bytes into it",
        ),
        required("content_hash", pa.string(), "hash of the Markdown"),
    ),
)

CONVERSATION_QUERY_CHUNKS = Table(
    "conversation_query_chunks",
    "One segment of a window, used as a query.",
    ("query_id",),
    (
        required(
            "query_id", pa.string(), "hash of window, text and occurrence; no position inside"
        ),
        WINDOW_ID,
        SOURCE,
        PARTITION,
        required("chunk_index", pa.int64(), "position in the window, from 0"),
        required("chunk_count", pa.int64(), "segments of the window"),
        required("token_count", pa.int64(), "tokens of text"),
        required(
            "overlap_start",
            pa.int64(),
            "first byte in the Markdown; bytes before byte_start are repeated",
        ),
        required(
            "byte_start",
            pa.int64(),
            "first byte in the Markdown that the previous segment does not contain (bytes: use `slice_text`)",
        ),
        required("byte_end", pa.int64(), "byte behind the last (bytes: use `slice_text`)"),
        required("text", TEXT, "the segment of the Markdown"),
        required(
            "text_query",
            TEXT,
            "what was said in it, without headings; what is asked with by default",
        ),
    ),
)


_WINDOW = required(
    "window_id", pa.string(), "window of a conversation that asked; doc_id of its messages"
)
_QUERY = required(
    "query", pa.int64(), "query chunk of the window that found it; -1 for the whole window"
)
_CHUNK_FOUND = required("chunk_id", pa.string(), "the chunk that was found")
_DOCUMENT_FOUND = Column(
    "document_id", pa.string(), "Message-ID, document or window that holds the chunk"
)
_SIMILARITY = Column("similarity", pa.float64(), "cosine of query and chunk")
_SCORE = required(
    "score", pa.float64(), "score of the rank: similarity and lexical score, scaled and blended"
)

CONVERSATION_CANDIDATES = Table(
    "conversation_candidates",
    "One chunk that one query of a window found in the published index.",
    ("window_id", "query", "rank"),
    (
        _WINDOW,
        _QUERY,
        required(
            "rank",
            pa.int64(),
            "place among the hits of the query, from 1; 0: the first hit, which too little bears out to be shown",
        ),
        _CHUNK_FOUND,
        _DOCUMENT_FOUND,
        required("source_kind", pa.string(), "message, attachment, document or conversation"),
        _SIMILARITY,
        required("lexical_score", pa.float64(), "BM25 of the query's telling terms"),
        _SCORE,
        Column(
            "evidence",
            pa.float64(),
            "share of the words of the part of the query that it answers best, plus its cosine; null in the profile seed",
        ),
        required("fills", pa.bool_(), "true if it may only fill the rest of the budget"),
    ),
)

CONVERSATION_DOCUMENTS = Table(
    "conversation_documents",
    "One chunk that is left of a window's candidates after dedup, in the order in which the context takes it.",
    ("window_id", "place"),
    (
        _WINDOW,
        required("place", pa.int64(), "place in the order of the context, from 1"),
        _CHUNK_FOUND,
        _DOCUMENT_FOUND,
        _QUERY,
        required("found_by", pa.int64(), "queries of the window that found the document"),
        _SIMILARITY,
        _SCORE,
    ),
)

_RECORD = pa.struct(
    [
        ("chunk_id", pa.string()),
        ("document_id", pa.string()),
        ("place", pa.string()),
        ("title", pa.string()),
        ("date", TIME),
        ("similarity", pa.float64()),
        ("byte_start", pa.int64()),
        ("byte_end", pa.int64()),
        ("text", pa.large_string()),
    ]
)

CONVERSATION_CONTEXT = Table(
    "conversation_context",
    "The context of one window.",
    ("window_id",),
    (
        _WINDOW,
        required("index_version", pa.string(), "version of the published index that was searched"),
        required("outcome", pa.string(), "CONTEXT, or NO_HITS"),
        required("query_count", pa.int64(), "queries the window made"),
        required("result_count", pa.int64(), "candidates over all queries"),
        required("document_count", pa.int64(), "chunks left after dedup"),
        required("final_count", pa.int64(), "passages in the block of related posts"),
        required(
            "block", TEXT, "the best passages as Markdown under one heading; empty without hits"
        ),
        required("records", pa.list_(_RECORD), "the passages of the block"),
        required(
            "compiled",
            TEXT,
            "the passages that a budget of tokens holds, with citations; empty without hits",
        ),
        required(
            "manifest", TEXT, "JSON of the inputs of `compiled`, from which it can be made again"
        ),
    ),
)
