"""The tables of hits and of scheduled searches."""

import pyarrow as pa

from transforms.schemas.table import TIME, Column, Table, required

_PART_OF_SCORE = pa.struct([("part", pa.string()), ("value", pa.float64())])
_BYTES = pa.struct([("byte_start", pa.int64()), ("byte_end", pa.int64())])
_FOLDED = pa.struct(
    [(n, pa.string()) for n in ("relation", "chunk_id", "doc_id", "title", "author", "day")]
)
_ALSO = pa.struct([(n, pa.string()) for n in ("kind", "chunk_id", "title", "citation")])
_EXPANSION = pa.struct(
    [
        ("kind", pa.string()),
        ("doc_id", pa.string()),
        ("chunk_id", pa.string()),
        ("title", pa.string()),
        ("citation", pa.string()),
        ("byte_start", pa.int64()),
        ("byte_end", pa.int64()),
        ("text", pa.string()),
    ]
)

SEARCH_HITS = Table(
    "search_hits",
    "One hit of one query, as a search returns it.",
    ("query", "rank"),
    (
        required("query", pa.int32(), "number of the query in the batch, from 0"),
        required("rank", pa.int32(), "place among the hits of the query, from 1"),
        required("chunk_no", pa.int64(), "number of the chunk in the published file"),
        required(
            "chunk_id",
            pa.string(),
            "the chunk that is shown: of a mail the one whose body answers best, of a section the best in it",
        ),
        required("doc_id", pa.string(), "mail, document or window of a conversation"),
        required("source_kind", pa.string(), "message, attachment, document or conversation"),
        required("chunk_kind", pa.string(), "kind of chunk"),
        required(
            "found_by", pa.string(), "the chunk by which it was found, whose scores these are"
        ),
        required(
            "content_class", pa.string(), "kind of most of the text: text, code, patch or log"
        ),
        required("source", pa.string(), "name of the configured source"),
        Column("list_id", pa.string(), "mailing list"),
        Column("subject", pa.string(), "subject of the mail, title of the document"),
        Column("path", pa.string(), "path of the document below the root of its source"),
        Column("from_name", pa.string(), "name of the sender, or who speaks in the turn of a chat"),
        Column("from_addr", pa.string(), "address of the sender"),
        Column("effective_at", TIME, "time of the mail, the document, the window or the turn"),
        Column("node_id", pa.string(), "section of the document that is shown"),
        Column("breadcrumb", pa.string(), "titles from the document down to the section"),
        Column("attachment_id", pa.string(), "attachment that the text comes from"),
        Column("filename", pa.string(), "name of that attachment"),
        Column(
            "page",
            pa.int64(),
            "page or slide of the file that most words found stand on, from 1; null without pages",
        ),
        Column("block_index", pa.int64(), "block of the mail that the text begins in"),
        Column(
            "byte_start",
            pa.int64(),
            "first byte of the hit in the stored text, of a chat of its stretch",
        ),
        Column("byte_end", pa.int64(), "byte behind the last"),
        required("citation", pa.string(), "place and bytes of the text, to open it again"),
        Column("thread_id", pa.string(), "thread of the mail"),
        Column("thread_subject", pa.string(), "its subject"),
        Column(
            "thread_position", pa.int64(), "place of the mail among those of the thread, from 1"
        ),
        Column("thread_size", pa.int64(), "mails of the thread"),
        required(
            "snippet",
            pa.string(),
            "the part of the text that shows best why it was found; of a mail the words of its author",
        ),
        Column(
            "quoted_text",
            pa.string(),
            "of a mail that answers: the quote that it answers, without marks",
        ),
        Column("quoted_name", pa.string(), "who wrote that, if the index holds the mail"),
        Column("before", pa.string(), "of a chat: the turns before in the stretch"),
        Column("after", pa.string(), "of a chat: the turns behind in the stretch"),
        required(
            "more",
            pa.list_(_ALSO),
            "attachments of the mail, or sections of the document, that match as well: kind, title, citation",
        ),
        required(
            "highlights",
            pa.list_(pa.list_(pa.int64())),
            "words of the query in snippet, as ranges of characters",
        ),
        required(
            "highlight_bytes",
            pa.list_(_BYTES),
            "where these words stand in the stored text, in the same order",
        ),
        required("score", pa.float64(), "score that orders hits"),
        required("fused_score", pa.float64(), "lexical and vector score made one"),
        required("thread_score", pa.float64(), "addition of the mail's thread"),
        required("lexical_score", pa.float64(), "BM25"),
        required("vector_score", pa.float64(), "cosine"),
        required(
            "support",
            pa.float64(),
            "share of the query's words that it holds, rare ones weighing more",
        ),
        Column(
            "lexical_rank", pa.int32(), "place among the lexical candidates; null if it is none"
        ),
        Column("vector_rank", pa.int32(), "place among the vector candidates; null if it is none"),
        Column(
            "stands_for",
            pa.string(),
            "section that is shown in place of its parts; null for a single chunk",
        ),
        Column("reranker", pa.string(), "who reranked the hit, and why nobody better did"),
        Column("rerank_score", pa.float64(), "score of the reranker"),
        Column("rank_before", pa.int32(), "place before reranking"),
        Column("rerank_parts", pa.list_(_PART_OF_SCORE), "parts of that score, of features alone"),
        Column(
            "label",
            pa.string(),
            "of a model that reranked the hit: PASS, HALLUCINATION_RISK or IRRELEVANT",
        ),
        required(
            "folded",
            pa.list_(_FOLDED),
            "other chunks that are folded into the hit: how each relates to it, its title, author and day",
        ),
        required(
            "expansions",
            pa.list_(_EXPANSION),
            "texts shown with the hit that the query did not find: parent, previous, next, section or link",
        ),
    ),
)

SEARCH_RESULTS = Table(
    "search_results",
    "One hit of one query of a scheduled search, as its latest run found it.",
    ("search", "query_no", "rank"),
    (
        required("search", pa.string(), "name of the scheduled search"),
        required("run_id", pa.string(), "Dagster run that searched"),
        required("searched_at", TIME, "when that run was created"),
        required("index_version", pa.string(), "version of the published file that was asked"),
        required("query_no", pa.int32(), "number of the query in the search, from 0"),
        required("query", pa.string(), "the query"),
        required("label", pa.string(), "how far its result can be trusted"),
        required("rank", pa.int32(), "place among the hits of the query, from 1"),
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "mail, document or window of a conversation"),
        Column("subject", pa.string(), "subject of the mail, title of the document"),
        required("score", pa.float64(), "score that orders hits"),
        required("snippet", pa.string(), "the part of the text that shows best why it was found"),
        required("citation", pa.string(), "place of the text, for `weft get`"),
        Column(
            "folded",
            pa.list_(_FOLDED),
            "earlier versions, copies and replies folded into the hit; null in rows of an earlier release",
        ),
    ),
)
