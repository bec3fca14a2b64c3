"""The tables of the document graph: classes, stripes, keywords and prompts."""

import pyarrow as pa

from transforms.schemas.table import SOURCE, Column, Table, required

CHUNK_CLASSES = Table(
    "chunk_classes",
    "Whether a chunk of a document is code, by two rules.",
    ("chunk_id",),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "its document"),
        required("line_count", pa.int64(), "lines of the chunk, blank ones included"),
        required(
            "code_line_count", pa.int64(), "lines inside fences, without the fences themselves"
        ),
        required("is_code_text", pa.bool_(), "code by its share of the lines with text"),
        required("is_code_lines", pa.bool_(), "code by its share of all lines"),
        required("is_code", pa.bool_(), "the rule of the settings"),
    ),
)

CHUNK_SIMILARITIES = Table(
    "chunk_similarities",
    "How near a chunk of a document is to a baseline of it.",
    ("chunk_id", "baseline"),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "its document"),
        required("chunk_index", pa.int64(), "position in the document, from 0"),
        required("baseline", pa.string(), "conceptual or technical"),
        required("baseline_index", pa.int64(), "position of the baseline's chunk"),
        required("cosine", pa.float64(), "cosine of the two vectors"),
        Column(
            "jaccard",
            pa.float64(),
            "shared words : all words of the two; null where only vectors count",
        ),
        required("similarity", pa.float64(), "order of chunks"),
    ),
)

STRIPE_ORDERS = Table(
    "stripe_orders",
    "The place of a chunk in an order whose every beginning represents the document.",
    ("doc_id", "baseline", "place"),
    (
        required("doc_id", pa.string(), "the document"),
        required("baseline", pa.string(), "conceptual or technical"),
        required("place", pa.int64(), "0 for the baseline, then the places of the order"),
        required("chunk_id", pa.string(), "the chunk"),
        required("chunk_index", pa.int64(), "position in the document, from 0"),
    ),
)

KEYWORDS = Table(
    "keywords",
    "A keyword of a source, or of a folder that lists its own.",
    ("source", "folder", "keyword"),
    (
        SOURCE,
        required(
            "folder", pa.string(), "folder that the keyword holds for; empty for all of the source"
        ),
        required("keyword", pa.string(), "the keyword as it is written"),
        required(
            "score", pa.float64(), "authority: count times the factors of heading, kind and rarity"
        ),
        Column("count", pa.int64(), "occurrences; null if the list does not say"),
        required("origin", pa.string(), "list (a `_keywords/words.md`) or computed"),
    ),
)

CHUNK_KEYWORDS = Table(
    "chunk_keywords",
    "A keyword in a chunk of a document.",
    ("chunk_id", "keyword"),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "its document"),
        required("keyword", pa.string(), "the keyword"),
        required("score", pa.float64(), "its authority"),
    ),
)

PROMPT_HASHES = Table(
    "prompt_hashes",
    "A question that a chunk of a document is near to.",
    ("chunk_id", "question"),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required("doc_id", pa.string(), "its document"),
        required("question", pa.string(), "the question"),
        required("asked_in", pa.string(), "document that lists the question"),
        required("similarity", pa.float64(), "cosine of question and chunk"),
        required("simhash", pa.uint64(), "64-bit SimHash of the question"),
    ),
)

DOCUMENT_GRAPH = Table(
    "document_graph",
    "One file of the exported graph.",
    ("path",),
    (
        required("path", pa.string(), "path below the folder of the graph"),
        Column("doc_id", pa.string(), "document it belongs to; null for folders"),
        required("byte_count", pa.int64(), "bytes"),
        required("content_hash", pa.string(), "hash of the content"),
    ),
)

TABLES = (
    CHUNK_CLASSES,
    CHUNK_SIMILARITIES,
    STRIPE_ORDERS,
    KEYWORDS,
    CHUNK_KEYWORDS,
    PROMPT_HASHES,
    DOCUMENT_GRAPH,
)
