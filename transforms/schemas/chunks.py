"""The tables of chunks, their terms and their vectors, which all source types share."""

import pyarrow as pa

from transforms.hashing import text_hash
from transforms.schemas.table import PARTITION, SOURCE, SPAN, TEXT, Column, Table, required

PICTURE = "picture"
"""The kind of the one chunk of a picture that is found by what it shows."""
UNEMBEDDED = text_hash("")
"""The checksum of a chunk that has no vector: nothing of it is embedded."""

CHUNKS = Table(
    "chunks",
    "One text that search retrieves.",
    ("chunk_id",),
    (
        required(
            "chunk_id",
            pa.string(),
            "hash of document, its content, kind, text and occurrence; no position inside",
        ),
        required("source_kind", pa.string(), "message, attachment or document"),
        SOURCE,
        PARTITION,
        required(
            "doc_id", pa.string(), "unit of dedup per document: Message-ID, or id of the document"
        ),
        Column("attachment_id", pa.string(), "attachment the text comes from, null for the body"),
        Column(
            "parent_id", pa.string(), "Message-ID this mail answers, or node that holds the text"
        ),
        required(
            "chunk_kind",
            pa.string(),
            "authored_message, quote_reply_pair, review_pair, long_authored_segment, attachment_segment or "
            "unauthored_message of mail; node, section or semantic_section of documents; picture of all",
        ),
        required("chunk_index", pa.int64(), "position in the document, from 0"),
        required(
            "chunk_count", pa.int64(), "chunks of the document (of the attachment, for attachments)"
        ),
        required(
            "heading_path",
            pa.list_(pa.string()),
            "headings down to the text, without the document's title",
        ),
        required(
            "title",
            pa.string(),
            "subject, with the file name for attachments; titles from the document down",
        ),
        required("text_display", TEXT, "the text as people see it, quote marks kept"),
        required(
            "text_embed",
            TEXT,
            "the text that is embedded, or the picture as a `data:` address; empty if nothing is",
        ),
        required(
            "text_lex",
            TEXT,
            "authored text for the lexical index, without the changed lines of a diff",
        ),
        required("quote_lex", TEXT, "quoted text for the lexical index"),
        required("added_lex", TEXT, "lines a diff adds, for the lexical index"),
        required("removed_lex", TEXT, "lines a diff removes, for the lexical index"),
        required(
            "rest_lex",
            TEXT,
            "on the first chunk of a mail the parts of its body in no chunk: older quotes, headers, signature",
        ),
        required(
            "spans",
            pa.list_(SPAN),
            "place of the text in the body or attachment: half-open UTF-8 byte ranges (use `slice_text`), "
            "role anchor (quoted) or own",
        ),
        required("char_count", pa.int64(), "characters of text_display"),
        required("quote_anchor_chars", pa.int64(), "characters of the quote anchor, marks removed"),
        required(
            "anchor_source",
            pa.string(),
            "where the anchor comes from: quote (quoted text or a hunk of the same mail), parent (the answered "
            "mail, in the published table only) or none",
        ),
        required("quote_depth_max", pa.int64(), "deepest quote in the chunk"),
        required("has_patch_markers", pa.bool_(), "true if a diff is inside"),
        required(
            "content_class", pa.string(), "kind of most of the text: text, code, patch or log"
        ),
        required(
            "diff_files", pa.list_(pa.string()), "files a diff in it changes; empty without one"
        ),
        required(
            "diff_functions",
            pa.list_(pa.string()),
            "functions or sections that the hunk headers of all these files name; empty without a diff",
        ),
        Column("lines_added", pa.int64(), "lines the diff adds; null without one"),
        Column("lines_removed", pa.int64(), "lines the diff removes; null without one"),
        required(
            "is_quote_heavy", pa.bool_(), "true if the anchor is longer than the authored text"
        ),
        required("is_code", pa.bool_(), "true if most of it is patch or code"),
        required("lane", pa.string(), "lane that made the chunk: fast or slow"),
        required("needs_parent", pa.bool_(), "true if it is too short to be understood alone"),
        required("checksum", pa.string(), "hash of text_embed"),
        required("chunker", pa.string(), "name of the chunker"),
    ),
)

EXCLUSIONS = Table(
    "exclusions",
    "A segment of a mail or document without a chunk, with the reason.",
    ("doc_id", "attachment_id", "byte_start"),
    (
        required("doc_id", pa.string(), "Message-ID, or id of the document"),
        Column("attachment_id", pa.string(), "attachment, null for the body"),
        SOURCE,
        PARTITION,
        required("byte_start", pa.int64(), "first byte in the text (bytes: use `slice_text`)"),
        required("byte_end", pa.int64(), "byte behind the last (bytes: use `slice_text`)"),
        required(
            "reason",
            pa.string(),
            "empty, too_little_text, deep_quote, unused_quote, signature, header, "
            "no_text or binary; of documents frontmatter, comment, empty_section, lost_rest or word_list; slow_lane for "
            "what waits to be made into chunks",
        ),
    ),
)

TERMS = Table(
    "terms",
    "One term of one chunk in one field.",
    ("chunk_id", "field", "term"),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required(
            "field",
            pa.string(),
            "title, text, quote, context, rest, or of a diff: file, function, added, removed",
        ),
        required("term", pa.string(), "the term after the tokenizer and the stemmer"),
        required("tf", pa.int32(), "occurrences of the term in the field"),
    ),
)

CHUNK_CONTEXT = Table(
    "chunk_context",
    "Context that a join over the lake adds to the texts of a chunk.",
    ("chunk_id",),
    (
        required("chunk_id", pa.string(), "the chunk"),
        required("context", TEXT, "the added text; empty if none"),
        required(
            "context_kind",
            pa.string(),
            "parent: text of the answered mail is added; unquoted: inferred quotes are taken out of the chunk's "
            "own text; parent_unquoted: both; quote: the chunk is an inferred quote and nothing else; sentence: "
            "nothing but the sentence is added",
        ),
        required("sentence", TEXT, "the sentence put before the embedded text; empty if none"),
        required(
            "sentence_kind", pa.string(), "structural or gemini, as it was made; empty without one"
        ),
        required("text_embed", TEXT, "the text that is embedded, in place of the chunk's own"),
        required("checksum", pa.string(), "hash of text_embed"),
    ),
)


EMBEDDING_REFUSALS = Table(
    "embedding_refusals",
    "A text that the model refuses to embed; its chunks are found by their words alone.",
    ("text_hash",),
    (
        required("text_hash", pa.string(), "hash of the text; the checksum of a chunk"),
        required("model", pa.string(), "model that refuses it"),
        required("dimensions", pa.int32(), "width of the vector that was asked for"),
        required("reason", pa.string(), "reason of the model's service"),
    ),
)


def embeddings_table(dimensions: int) -> Table:
    """The table of vectors of one width: `vector` is a fixed-size list of 32-bit floats."""
    return Table(
        "embeddings",
        "The vector of one text under one model. In the lake it is stored by partition: with the first that has the text.",
        ("text_hash",),
        (
            required(
                "text_hash", pa.string(), "hash of the embedded text; the checksum of a chunk"
            ),
            required("model", pa.string(), "model that made the vector"),
            required("dimensions", pa.int32(), "width of the vector"),
            required("task", pa.string(), "document or query"),
            required("vector", pa.list_(pa.float32(), dimensions), "unit-length vector"),
        ),
    )
