"""The one declaration of every table: column names, Arrow types, units and meaning.

The lake writer enforces these schemas by name, the Dagster UI shows them as column
metadata and the published DuckDB file carries them as comments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from transforms.errors import SchemaError

TIME = pa.timestamp("us", tz="UTC")
TEXT = pa.large_string()
SPAN = pa.struct([("byte_start", pa.int64()), ("byte_end", pa.int64()), ("role", pa.string())])


@dataclass(frozen=True)
class Column:
    """One column: its name, its Arrow type, what it means, and whether it may be null."""

    name: str
    type: pa.DataType
    comment: str
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """One table: its name, what one row is, the columns of its key, and its columns."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def arrow(self) -> pa.Schema:
        """The table as an Arrow schema, comments kept as field metadata."""
        return pa.schema(
            [pa.field(c.name, c.type, c.nullable, {b"comment": c.comment.encode()}) for c in self.columns]
        )

    @property
    def names(self) -> list[str]:
        """The column names in declared order."""
        return [c.name for c in self.columns]

    def empty(self) -> pa.Table:
        """The table with no rows."""
        return self.arrow.empty_table()

    def from_rows(self, rows: list[dict[str, Any]]) -> pa.Table:
        """The table from a list of row dictionaries; a key that is no column is a SchemaError."""
        known = set(self.names)
        if rows and (odd := set(rows[0]) - known):
            raise SchemaError(f"table {self.name}: undeclared columns {sorted(odd)}")
        return pa.Table.from_pylist(rows, schema=self.arrow)

    def conform(self, data: pa.Table) -> pa.Table:
        """`data` with exactly the declared columns, matched by name and cast to type.

        Raises SchemaError naming the table and the column when a column is missing,
        undeclared, of a type that cannot be cast without loss, or null where it must not be.
        """
        missing = [n for n in self.names if n not in data.column_names]
        odd = [n for n in data.column_names if n not in set(self.names)]
        if missing or odd:
            raise SchemaError(
                f"table {self.name}: missing columns {missing}, undeclared columns {odd}; "
                "the declaration is in transforms/schemas.py"
            )
        arrays = []
        for column in self.columns:
            array = data.column(column.name)
            if array.type != column.type:
                try:
                    array = array.cast(column.type)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                    raise SchemaError(
                        f"table {self.name}, column {column.name}: {array.type} does not fit "
                        f"the declared {column.type}: {error}"
                    ) from error
            if not column.nullable and array.null_count:
                raise SchemaError(
                    f"table {self.name}, column {column.name}: {array.null_count} nulls where none is allowed"
                )
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=self.arrow)


def _column(name: str, type_: pa.DataType, comment: str) -> Column:
    return Column(name, type_, comment, nullable=False)


SOURCE = _column("source", pa.string(), "name of the configured source")
UNIT = _column("unit", pa.string(), "unit of the source, the part behind the slash of a partition")
MESSAGE_ID = _column(
    "message_id",
    pa.string(),
    "Message-ID without angle brackets; synthesised from the content where the mail has none",
)

MESSAGES = Table(
    "messages",
    "One mail as stored in one archive.",
    ("message_id", "source"),
    (
        MESSAGE_ID,
        Column("header_message_id", pa.string(), "Message-ID as the mail's header gives it; null if none"),
        SOURCE,
        UNIT,
        Column("list_id", pa.string(), "mailing list the mail was found in"),
        _column("place", pa.string(), "file and byte offset of the mail in its archive"),
        _column(
            "content_hash",
            pa.string(),
            "hash of author, date, subject and body without list footer; equal for copies of one mail",
        ),
        Column("in_reply_to", pa.string(), "last Message-ID in the In-Reply-To header"),
        _column("refs", pa.list_(pa.string()), "Message-IDs of the References header, oldest first"),
        _column("subject", pa.string(), "decoded Subject, unfolded"),
        _column("subject_norm", pa.string(), "subject without Re:, Fwd: and list tags, lower case"),
        Column("from_name", pa.string(), "decoded display name of the author"),
        Column("from_addr", pa.string(), "address of the author, lower case"),
        Column("sent_at", TIME, "time of the Date header"),
        Column("received_at", TIME, "first plausible time of the Received headers"),
        Column(
            "effective_at",
            TIME,
            "the time to sort by: sent if plausible, else received, else envelope (the time in the archive)",
        ),
        _column(
            "date_quality",
            pa.string(),
            "where effective_at comes from: sent, sent_repaired, received, envelope or none",
        ),
        _column("body", TEXT, "stored text of the mail; all offsets are UTF-8 bytes into it"),
        _column(
            "body_format",
            pa.string(),
            "plain, flowed (RFC 3676, soft line breaks stay in the body), flowed_delsp (with DelSp=yes), "
            "html or none",
        ),
        _column(
            "charset_outcome",
            pa.string(),
            "how the body was decoded: declared, alias, utf-8, detected:<name>, replaced or none",
        ),
        _column("defects", pa.list_(pa.string()), "what was broken and repaired, as short codes"),
        _column("raw_bytes", pa.int64(), "size of the mail in the archive in bytes"),
    ),
)

ATTACHMENTS = Table(
    "attachments",
    "One attached part, with its text or the reason why there is none.",
    ("attachment_id",),
    (
        _column(
            "attachment_id",
            pa.string(),
            "hash of Message-ID, content of the mail, part index and content of the part",
        ),
        MESSAGE_ID,
        SOURCE,
        UNIT,
        _column("part_index", pa.int64(), "position of the part in the mail's MIME tree, from 0"),
        Column("filename", pa.string(), "decoded file name, without any directory"),
        _column("declared_type", pa.string(), "MIME type the mail declares"),
        _column(
            "content_class", pa.string(), "what the content is: patch, code, log, text, archive or other"
        ),
        Column("text", TEXT, "text of the attachment, null where there is none"),
        _column("char_count", pa.int64(), "characters of the text, 0 where there is none"),
        _column("byte_count", pa.int64(), "bytes of the decoded part"),
        Column("reason", pa.string(), "why there is no text"),
        _column("lane", pa.string(), "fast, or slow for oversized text and giant logs"),
    ),
)

QUARANTINE = Table(
    "quarantine",
    "Something that could not be read, or a copy that is not kept twice, with the reason.",
    ("source", "unit", "place"),
    (
        SOURCE,
        UNIT,
        _column("place", pa.string(), "file, and byte offset where one is known"),
        _column("reason", pa.string(), "code and explanation, as `code: explanation`"),
        Column("message_id", pa.string(), "Message-ID where one is known"),
        _column("byte_count", pa.int64(), "bytes that were set aside"),
        _column("bytes_sha256", pa.string(), "SHA-256 of the bytes that were set aside"),
    ),
)

MESSAGE_BLOCKS = Table(
    "message_blocks",
    "One run of lines of one kind in a mail's body; the blocks in order are the body.",
    ("message_id", "block_index"),
    (
        MESSAGE_ID,
        _column("block_index", pa.int64(), "position in the mail, from 0"),
        _column("kind", pa.string(), "header, quote, author, patch_or_code, signature or blank"),
        _column("quote_depth", pa.int64(), "depth of a quote, 0 for what is not quoted"),
        _column("char_length", pa.int64(), "characters, line ends included"),
        _column("line_count", pa.int64(), "lines"),
        _column("start_line", pa.int64(), "first line, from 0"),
        _column("end_line", pa.int64(), "line behind the last"),
        _column("byte_start", pa.int64(), "first byte in the body"),
        _column("byte_end", pa.int64(), "byte behind the last"),
        _column("inferred", pa.bool_(), "true where no mark in the text says the kind"),
    ),
)

CHUNKS = Table(
    "chunks",
    "One retrieval unit.",
    ("chunk_id",),
    (
        _column(
            "chunk_id",
            pa.string(),
            "hash of document, its content, kind, text and occurrence; no position inside",
        ),
        _column("source_kind", pa.string(), "message, attachment or document"),
        SOURCE,
        UNIT,
        _column("doc_id", pa.string(), "what per-document dedup counts: Message-ID, or id of the document"),
        Column("attachment_id", pa.string(), "attachment the text comes from, null for the body"),
        Column("parent_id", pa.string(), "Message-ID this mail answers, or node the text stands in"),
        _column(
            "chunk_kind",
            pa.string(),
            "authored_message, quote_reply_pair, review_pair, long_authored_segment or attachment_segment of "
            "mail; node, section or semantic_section of documents",
        ),
        _column("chunk_index", pa.int64(), "position in the document, from 0"),
        _column("chunk_count", pa.int64(), "chunks of the document (of the attachment, for attachments)"),
        _column(
            "heading_path", pa.list_(pa.string()), "headings down to the text, without the document's title"
        ),
        _column(
            "title", pa.string(), "subject, with the file name for attachments; titles from the document down"
        ),
        _column("text_display", TEXT, "the text as people see it, quote marks kept"),
        _column("text_embed", TEXT, "the text that is embedded"),
        _column("text_lex", TEXT, "authored text for the lexical index, without the changed lines of a diff"),
        _column("quote_lex", TEXT, "quoted text for the lexical index"),
        _column("added_lex", TEXT, "lines a diff adds, for the lexical index"),
        _column("removed_lex", TEXT, "lines a diff removes, for the lexical index"),
        _column(
            "spans",
            pa.list_(SPAN),
            "where the text stands in the body or attachment: half-open UTF-8 byte ranges, "
            "role anchor (quoted) or own",
        ),
        _column("char_count", pa.int64(), "characters of text_display"),
        _column("quote_anchor_chars", pa.int64(), "characters of the quote anchor, marks removed"),
        _column(
            "anchor_source",
            pa.string(),
            "where the anchor comes from: quote (quoted text or a hunk of the same mail), parent (the answered "
            "mail, in the published table only) or none",
        ),
        _column("quote_depth_max", pa.int64(), "deepest quote in the chunk"),
        _column("has_patch_markers", pa.bool_(), "true if a diff is inside"),
        _column("content_class", pa.string(), "what most of the text is: text, code, patch or log"),
        _column("diff_files", pa.list_(pa.string()), "files a diff in it changes; empty without one"),
        _column(
            "diff_functions",
            pa.list_(pa.string()),
            "functions or sections that the hunk headers name; empty without a diff",
        ),
        Column("lines_added", pa.int64(), "lines the diff adds; null without one"),
        Column("lines_removed", pa.int64(), "lines the diff removes; null without one"),
        _column("is_quote_heavy", pa.bool_(), "true if the anchor is longer than the authored text"),
        _column("is_code", pa.bool_(), "true if most of it is patch or code"),
        _column("lane", pa.string(), "lane that made the chunk: fast or slow"),
        _column("needs_parent", pa.bool_(), "true if it is too short to be understood alone"),
        _column("checksum", pa.string(), "hash of text_embed"),
        _column("chunker", pa.string(), "name and version of the chunker"),
    ),
)

EXCLUSIONS = Table(
    "exclusions",
    "A piece of a mail or document that became no chunk, with the reason.",
    ("doc_id", "attachment_id", "byte_start"),
    (
        _column("doc_id", pa.string(), "Message-ID, or id of the document"),
        Column("attachment_id", pa.string(), "attachment, null for the body"),
        SOURCE,
        UNIT,
        _column("byte_start", pa.int64(), "first byte in the text"),
        _column("byte_end", pa.int64(), "byte behind the last"),
        _column(
            "reason",
            pa.string(),
            "empty, quote_only, too_little_text, deep_quote, unused_quote, signature, header, "
            "no_text or binary; of documents frontmatter, comment, empty_section or lost_rest; slow_lane for what "
            "waits to be made into chunks",
        ),
    ),
)

SLOW_QUEUE = Table(
    "slow_queue",
    "A body or attachment of mail that the slow lane makes chunks of.",
    ("doc_id", "attachment_id"),
    (
        *(c for c in EXCLUSIONS.columns if c.name != "reason"),
        _column("reason", pa.string(), "slow_lane"),
        _column("kind", pa.string(), "body, attachment, log or patch"),
        _column("checksum", pa.string(), "hash of all that its chunks are made of"),
    ),
)

TERMS = Table(
    "terms",
    "One term of one chunk in one field.",
    ("chunk_id", "field", "term"),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column(
            "field", pa.string(), "title, text, quote, context, or of a diff: file, function, added, removed"
        ),
        _column("term", pa.string(), "the term after the tokenizer and the stemmer"),
        _column("tf", pa.int32(), "occurrences of the term in the field"),
    ),
)

THREADS = Table(
    "threads",
    "One discussion.",
    ("thread_id",),
    (
        _column(
            "thread_id",
            pa.string(),
            "hash of the oldest Message-ID that the earliest mail refers to; stays while the thread grows",
        ),
        _column("root_id", pa.string(), "Message-ID of the root, which may be a ghost"),
        _column("subject", pa.string(), "subject of the earliest mail"),
        _column("message_count", pa.int64(), "mails, without ghosts"),
        _column("ghost_count", pa.int64(), "mails that others refer to and no archive holds"),
        _column("participant_count", pa.int64(), "distinct authors"),
        Column("first_at", TIME, "effective time of the earliest mail"),
        Column("last_at", TIME, "effective time of the latest mail"),
    ),
)

THREAD_TREE = Table(
    "thread_tree",
    "The place of one mail, or of one ghost, in its thread.",
    ("message_id",),
    (
        MESSAGE_ID,
        _column("thread_id", pa.string(), "the thread"),
        Column("parent_id", pa.string(), "Message-ID it answers; null for the root"),
        _column("depth", pa.int64(), "steps from the root"),
        _column("position", pa.int64(), "place in the thread read depth first, from 0"),
        _column(
            "link_method",
            pa.string(),
            "how the parent was found: in_reply_to, references, subject, or inferred (of a ghost, from the "
            "References of others); root if there is none",
        ),
        _column("is_ghost", pa.bool_(), "true if no archive holds the mail"),
    ),
)

FAMILIES = Table(
    "families",
    "One patch mail, or one mail of the discussion below it, in the family of all revisions of its series.",
    ("message_id",),
    (
        MESSAGE_ID,
        _column(
            "family_id",
            pa.string(),
            "the family: hash of the Message-ID of its earliest patch; stays while revisions come",
        ),
        _column("series_id", pa.string(), "one posting: hash of the Message-ID of its earliest patch"),
        _column(
            "patch_id",
            pa.string(),
            "Message-ID of the patch or cover letter; for others the one they discuss",
        ),
        _column("version", pa.int64(), "version that the subject of the patch names, 1 if none"),
        Column(
            "part", pa.int64(), "part of the series, 0 for a cover letter; null for a patch that is alone"
        ),
        Column(
            "parts", pa.int64(), "parts of the series, the cover letter not counted; null for a patch alone"
        ),
        _column("title", pa.string(), "title of the patch, lower case, without tags and version"),
        _column("is_cover", pa.bool_(), "true for the cover letter and what discusses it"),
        _column("is_reply", pa.bool_(), "true for a mail of the discussion, false for the patch itself"),
        Column(
            "previous_id",
            pa.string(),
            "Message-ID of the patch or cover letter in the revision before; null for replies and what is new",
        ),
        _column("is_latest", pa.bool_(), "true in the latest posting of the highest version of the family"),
    ),
)

INFERRED_QUOTES = Table(
    "inferred_quotes",
    "Lines of a mail that look like its author's and are the answered mail's, without a quote mark.",
    ("message_id", "byte_start"),
    (
        MESSAGE_ID,
        _column("byte_start", pa.int64(), "first byte in the body"),
        _column("byte_end", pa.int64(), "byte behind the last"),
        _column("parent_id", pa.string(), "Message-ID of the mail that the lines are found in"),
        _column("line_count", pa.int64(), "lines that are long enough to count"),
        _column("char_count", pa.int64(), "characters of these lines"),
    ),
)

COMPARED_REPLIES = Table(
    "compared_replies",
    "A mail that was compared with the one it answers, for inferred_quotes, and a hash of what both were then.",
    ("message_id",),
    (
        MESSAGE_ID,
        _column("parent_id", pa.string(), "Message-ID of the mail that it answers"),
        _column(
            "checksum", pa.string(), "hash of both mails, of the reply's chunks and of how they were compared"
        ),
    ),
)

MEMBERSHIPS = Table(
    "memberships",
    "One mail in one archive: a cross-post has several rows, one of them canonical.",
    ("message_id", "source", "unit"),
    (
        MESSAGE_ID,
        Column("list_id", pa.string(), "mailing list the mail was found in"),
        SOURCE,
        UNIT,
        _column("stored_message_id", pa.string(), "message_id in the archive's own tables"),
        _column("is_canonical", pa.bool_(), "true for the copy whose text is published"),
    ),
)

CHUNK_CONTEXT = Table(
    "chunk_context",
    "What a join over the lake adds to the texts of a chunk.",
    ("chunk_id",),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column("context", TEXT, "the added text; empty if none"),
        _column(
            "context_kind",
            pa.string(),
            "parent: text of the answered mail is added; unquoted: inferred quotes are taken out of the chunk's "
            "own text; parent_unquoted: both; quote: the chunk is an inferred quote and nothing else; sentence: "
            "nothing but the sentence is added",
        ),
        _column("sentence", TEXT, "the sentence put before the embedded text; empty if none"),
        _column("sentence_kind", pa.string(), "structural or gemini, as it was made; empty without one"),
        _column("text_embed", TEXT, "the text that is embedded, in place of the chunk's own"),
        _column("checksum", pa.string(), "hash of text_embed"),
    ),
)


CORPUS_MEASURES = Table(
    "corpus_measures",
    "One measure of the mail of one list: what share of what.",
    ("list_id", "measure", "detail"),
    (
        _column("list_id", pa.string(), "the mailing list; empty for mail of no list"),
        _column("measure", pa.string(), "name of the measure; docs/concepts.md explains each"),
        _column("detail", pa.string(), "kind of defect, for parse_defects; else empty"),
        _column("numerator", pa.int64(), "how many"),
        _column("denominator", pa.int64(), "of how many; of a sample where the measure is taken from one"),
        _column("value", pa.float64(), "numerator / denominator, 0 where there are none"),
    ),
)

DOCUMENTS = Table(
    "documents",
    "One file of a vault or a documentation tree.",
    ("doc_id",),
    (
        _column("doc_id", pa.string(), "source and path, as `source:path`"),
        SOURCE,
        UNIT,
        _column("path", pa.string(), "path below the root of the source, with forward slashes"),
        _column("title", pa.string(), "title of the frontmatter, else the first h1, else the file name"),
        _column("has_own_title", pa.bool_(), "false where the title is the file's name"),
        _column("format", pa.string(), "markdown, text, rst or html"),
        Column("doc_type", pa.string(), "type of the frontmatter"),
        Column("description", pa.string(), "description of the frontmatter"),
        _column("tags", pa.list_(pa.string()), "tags of the frontmatter and of the text, without #"),
        _column("aliases", pa.list_(pa.string()), "other names the frontmatter gives"),
        Column("frontmatter", pa.string(), "the frontmatter as JSON"),
        Column("created_at", TIME, "time of creation the frontmatter gives"),
        Column("modified_at", TIME, "time of change the frontmatter gives"),
        _column(
            "text",
            TEXT,
            "stored text: the file's own, or the Markdown made of it; all offsets are UTF-8 bytes into it",
        ),
        _column("body_start", pa.int64(), "first byte behind the frontmatter"),
        _column("content_hash", pa.string(), "hash of the text"),
        _column("defects", pa.list_(pa.string()), "what was broken and repaired, as short codes"),
    ),
)

DOCUMENT_NODES = Table(
    "document_nodes",
    "One heading of a document, or the document itself.",
    ("node_id",),
    (
        _column("node_id", pa.string(), "the document's id, and `#slug` for a heading"),
        _column("doc_id", pa.string(), "the document"),
        Column("parent_id", pa.string(), "node above; null for the document"),
        _column("depth", pa.int64(), "0 for the document, 1 to 6 for headings"),
        _column("position", pa.int64(), "place in the document, from 0"),
        _column("title", pa.string(), "text of the heading, or title of the document"),
        Column("slug", pa.string(), "fragment identifier, unique in the document; null for the document"),
        _column("breadcrumb", pa.string(), "titles from the document down to the node"),
        _column("heading_start", pa.int64(), "first byte of the heading; 0 for the document"),
        _column("byte_start", pa.int64(), "first byte of the span, behind the heading"),
        _column("byte_end", pa.int64(), "byte behind the span, children included"),
        _column("body_end", pa.int64(), "byte behind the node's own text, which begins at byte_start"),
        _column("sibling_count", pa.int64(), "children of the parent, this node included"),
    ),
)

MESSAGE_REFERENCES = Table(
    "message_references",
    "One place in a mail that names another mail, by its Message-ID or by the title of its patch.",
    ("message_id", "byte_start"),
    (
        MESSAGE_ID,
        SOURCE,
        UNIT,
        _column("byte_start", pa.int64(), "first byte of the reference in the body"),
        _column("byte_end", pa.int64(), "byte behind it"),
        _column(
            "kind",
            pa.string(),
            "name of the trailer in lower case, such as link or fixes; url, commit or mention outside of "
            "trailers; quoted in a marked quote",
        ),
        _column("target", pa.string(), "what the reference says, as written"),
        Column("named_id", pa.string(), "Message-ID it names, decoded; null if it names a title"),
        Column("named_title", pa.string(), "title of the patch it names, lower case"),
        _column("text", pa.string(), "title of the patch as written; empty for others"),
        _column(
            "is_explicit",
            pa.bool_(),
            "true if a trailer or an archive's URL says that a mail is meant; false where that is known "
            "only when such a mail is found",
        ),
    ),
)

DOCUMENT_REFERENCES = Table(
    "document_references",
    "One reference in a document, not yet looked up, or one block id that references can lead to.",
    ("doc_id", "byte_start"),
    (
        _column("doc_id", pa.string(), "document that holds the reference"),
        SOURCE,
        UNIT,
        _column("byte_start", pa.int64(), "first byte of the reference in the stored text"),
        _column("byte_end", pa.int64(), "byte behind it"),
        _column(
            "kind",
            pa.string(),
            "wiki, embed, markdown, image, url (another scheme or host), or block_id (`^id`, the place itself)",
        ),
        _column("target", pa.string(), "what the reference says, unescaped; the id for block_id"),
        _column("text", pa.string(), "text shown for the reference; empty if none"),
    ),
)

LINKS = Table(
    "links",
    "One reference from a place in a text to another mail, document or node.",
    ("from_id", "byte_start"),
    (
        _column("from_id", pa.string(), "Message-ID, document or node that holds the reference"),
        _column("source_kind", pa.string(), "message or document"),
        _column("byte_start", pa.int64(), "first byte of the reference in the stored text"),
        _column("byte_end", pa.int64(), "byte behind it"),
        Column("to_id", pa.string(), "Message-ID, document or node it leads to; null if nothing is there"),
        _column("target", pa.string(), "what the reference says, as written"),
        _column(
            "kind",
            pa.string(),
            "what the reference is: of mail the trailer's name in lower case, url, commit, mention or "
            "quoted; of documents wiki, embed, markdown, image or url",
        ),
        _column("text", pa.string(), "text shown for the reference; empty if none"),
    ),
)

CHUNK_CLASSES = Table(
    "chunk_classes",
    "Whether a chunk of a document is code, by two rules.",
    ("chunk_id",),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "its document"),
        _column("line_count", pa.int64(), "lines of the chunk, blank ones included"),
        _column("code_line_count", pa.int64(), "lines inside fences, without the fences themselves"),
        _column("is_code_text", pa.bool_(), "code by its share of the lines with text"),
        _column("is_code_lines", pa.bool_(), "code by its share of all lines"),
        _column("is_code", pa.bool_(), "the rule of the settings"),
    ),
)

CHUNK_SIMILARITIES = Table(
    "chunk_similarities",
    "How near a chunk of a document is to a baseline of it.",
    ("chunk_id", "baseline"),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "its document"),
        _column("chunk_index", pa.int64(), "position in the document, from 0"),
        _column("baseline", pa.string(), "conceptual or technical"),
        _column("baseline_index", pa.int64(), "position of the baseline's chunk"),
        _column("cosine", pa.float64(), "cosine of the two vectors"),
        Column("jaccard", pa.float64(), "shared words : all words of the two; null where only vectors count"),
        _column("similarity", pa.float64(), "what chunks are ordered by"),
    ),
)

STRIPE_ORDERS = Table(
    "stripe_orders",
    "The place of a chunk in an order whose every beginning represents the document.",
    ("doc_id", "baseline", "place"),
    (
        _column("doc_id", pa.string(), "the document"),
        _column("baseline", pa.string(), "conceptual or technical"),
        _column("place", pa.int64(), "0 for the baseline, then the places of the order"),
        _column("chunk_id", pa.string(), "the chunk"),
        _column("chunk_index", pa.int64(), "position in the document, from 0"),
    ),
)

KEYWORDS = Table(
    "keywords",
    "A keyword of a source, or of a folder that lists its own.",
    ("source", "folder", "keyword"),
    (
        SOURCE,
        _column("folder", pa.string(), "folder that the keyword holds for; empty for all of the source"),
        _column("keyword", pa.string(), "the keyword as it is written"),
        _column("score", pa.float64(), "authority: count times the factors of heading, kind and rarity"),
        Column("count", pa.int64(), "occurrences; null if the list does not say"),
        _column("origin", pa.string(), "list (a `_keywords/words.md`) or computed"),
    ),
)

CHUNK_KEYWORDS = Table(
    "chunk_keywords",
    "A keyword that stands in a chunk of a document.",
    ("chunk_id", "keyword"),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "its document"),
        _column("keyword", pa.string(), "the keyword"),
        _column("score", pa.float64(), "its authority"),
    ),
)

PROMPT_HASHES = Table(
    "prompt_hashes",
    "A question that a chunk of a document is near to.",
    ("chunk_id", "question"),
    (
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "its document"),
        _column("question", pa.string(), "the question"),
        _column("asked_in", pa.string(), "document that lists the question"),
        _column("similarity", pa.float64(), "cosine of question and chunk"),
        _column("simhash", pa.uint64(), "64-bit SimHash of the question"),
    ),
)

DOCUMENT_GRAPH = Table(
    "document_graph",
    "One file of the exported graph.",
    ("path",),
    (
        _column("path", pa.string(), "path below the folder of the graph"),
        Column("doc_id", pa.string(), "document it belongs to; null for folders"),
        _column("byte_count", pa.int64(), "bytes"),
        _column("content_hash", pa.string(), "hash of the content"),
    ),
)

WINDOW_ID = _column("doc_id", pa.string(), "window of a conversation, as `source:conversation@window`")
CONVERSATION_ID = _column("conversation_id", pa.string(), "conversation, as `source:name`")

CONVERSATION_MESSAGES = Table(
    "conversation_messages",
    "One turn of a conversation, with the author's pseudonym.",
    ("conversation_id", "turn"),
    (
        CONVERSATION_ID,
        WINDOW_ID,
        SOURCE,
        UNIT,
        _column("window", pa.string(), "key of the window in its conversation"),
        _column("title", pa.string(), "name of the conversation"),
        _column("turn", pa.int64(), "position in the conversation, from 0"),
        _column("sent_at", TIME, "time the export gives"),
        Column(
            "author",
            pa.string(),
            "pseudonym of the author, the name where pseudonyms are off; null for system",
        ),
        _column("text", TEXT, "what was said, names of known people replaced by pseudonyms"),
        _column("kind", pa.string(), "message, media (without text), deleted or system"),
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
        UNIT,
        _column("window", pa.string(), "key of the window in its conversation"),
        _column("title", pa.string(), "name of the conversation"),
        _column("first_at", TIME, "time of the first entry"),
        _column("last_at", TIME, "time of the last entry"),
        _column("message_count", pa.int64(), "messages with text"),
        _column("author_count", pa.int64(), "people who wrote them"),
        _column("markdown", TEXT, "the messages under headings; offsets of chunks are UTF-8 bytes into it"),
        _column("content_hash", pa.string(), "hash of the Markdown"),
    ),
)

CONVERSATION_QUERY_CHUNKS = Table(
    "conversation_query_chunks",
    "One piece of a window that is asked with.",
    ("query_id",),
    (
        _column("query_id", pa.string(), "hash of window, text and occurrence; no position inside"),
        WINDOW_ID,
        SOURCE,
        UNIT,
        _column("chunk_index", pa.int64(), "position in the window, from 0"),
        _column("chunk_count", pa.int64(), "pieces of the window"),
        _column("token_count", pa.int64(), "tokens of text"),
        _column(
            "overlap_start", pa.int64(), "first byte in the Markdown; what is before byte_start is repeated"
        ),
        _column("byte_start", pa.int64(), "first byte in the Markdown that the piece before does not hold"),
        _column("byte_end", pa.int64(), "byte behind the last"),
        _column("text", TEXT, "the piece of the Markdown"),
        _column("text_query", TEXT, "what was said in it, without headings; what is asked with by default"),
    ),
)


_WINDOW = _column("window_id", pa.string(), "window of a conversation that asked; doc_id of its messages")
_QUERY = _column("query", pa.int64(), "query chunk of the window that found it; -1 for the whole window")
_CHUNK_FOUND = _column("chunk_id", pa.string(), "the chunk that was found")
_DOCUMENT_FOUND = Column("document_id", pa.string(), "Message-ID, document or window that holds the chunk")
_SIMILARITY = Column("similarity", pa.float64(), "cosine of query and chunk")
_SCORE = _column("score", pa.float64(), "what is ranked by: similarity and lexical score, scaled and blended")

CONVERSATION_CANDIDATES = Table(
    "conversation_candidates",
    "One chunk that one query of a window found in the published index.",
    ("window_id", "query", "rank"),
    (
        _WINDOW,
        _QUERY,
        _column("rank", pa.int64(), "place among what the query found, from 1"),
        _CHUNK_FOUND,
        _DOCUMENT_FOUND,
        _column("source_kind", pa.string(), "message, attachment, document or conversation"),
        _SIMILARITY,
        _column("lexical_score", pa.float64(), "BM25 of the query's telling terms"),
        _SCORE,
    ),
)

CONVERSATION_DOCUMENTS = Table(
    "conversation_documents",
    "One chunk that is left of a window's candidates after dedup, in the order in which the context takes it.",
    ("window_id", "place"),
    (
        _WINDOW,
        _column("place", pa.int64(), "place in the order of the context, from 1"),
        _CHUNK_FOUND,
        _DOCUMENT_FOUND,
        _QUERY,
        _column("found_by", pa.int64(), "queries of the window that found the document"),
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
        _column("index_version", pa.string(), "version of the published index that was searched"),
        _column("outcome", pa.string(), "CONTEXT, or NO_HITS"),
        _column("query_count", pa.int64(), "queries the window made"),
        _column("result_count", pa.int64(), "candidates over all queries"),
        _column("document_count", pa.int64(), "chunks left after dedup"),
        _column("final_count", pa.int64(), "passages in the block of related posts"),
        _column("block", TEXT, "the best passages as Markdown under one heading; empty without hits"),
        _column("records", pa.list_(_RECORD), "the passages of the block"),
        _column(
            "compiled", TEXT, "the passages that a budget of tokens holds, with citations; empty without hits"
        ),
        _column("manifest", TEXT, "JSON of what made `compiled`, from which it can be made again"),
    ),
)


READINESS = Table(
    "readiness",
    "One row per mail, document and window of a conversation: whether search can find it, if not why, and when it got "
    "how far. Times of one and the same content stay what they were in the version that held it first.",
    ("doc_id", "kind"),
    (
        _column("doc_id", pa.string(), "Message-ID, or id of the document or window"),
        _column("kind", pa.string(), "message, document or conversation"),
        SOURCE,
        _column("partition", pa.string(), "partition of the lake that the row comes from, as source/unit"),
        Column("title", pa.string(), "subject, or title"),
        Column("effective_at", TIME, "time of the mail, of the document's last change, or of the first turn"),
        _column("content_hash", pa.string(), "hash of its content, as its own table has it"),
        _column("chunk_count", pa.int64(), "chunks of it, those of its attachments included"),
        _column("is_searchable", pa.bool_(), "true if it has a chunk, and so can be found"),
        _column("excluded_for", pa.list_(pa.string()), "reasons for which pieces of it became no chunk"),
        Column(
            "waits_for", pa.string(), "slow lane, where its body or an attachment waits for that; else null"
        ),
        _column(
            "seen_at",
            TIME,
            "when a build first found the change of its partition's files that brought it; where no build noted that, "
            "parsed_at",
        ),
        _column("parsed_at", TIME, "when the partition of messages, documents or conversations was written"),
        _column("chunked_at", TIME, "when the partition's chunks were written"),
        Column("embedded_at", TIME, "when the table of all vectors was written; null without a chunk"),
        _column(
            "published_at",
            TIME,
            "when the first version that holds it whole was built; while it waits, the last",
        ),
        _column("lag_seconds", pa.float64(), "published_at minus seen_at, 0 where a clock was set back"),
    ),
)

EVALUATION_QUERIES = Table(
    "evaluation_queries",
    "One query that quality is measured with.",
    ("query_id",),
    (
        _column("query_id", pa.string(), "id the file gives the query"),
        _column("query", pa.string(), "what is asked"),
        _column("tags", pa.list_(pa.string()), "what kind of query it is"),
        _column("file", pa.string(), "file it comes from"),
        _column("is_draft", pa.bool_(), "true if a program drafted it and nobody has looked at it"),
    ),
)

EVALUATION_RELEVANCE = Table(
    "evaluation_relevance",
    "One right answer of a query, as its file names it.",
    ("query_id", "entry"),
    (
        _column("query_id", pa.string(), "the query"),
        _column("entry", pa.int64(), "place in the list of the query, from 0"),
        _column("form", pa.string(), "message, thread, node, document, chunk, passage or chat"),
        Column("target", pa.string(), "Message-ID, node, document or chunk; null for chat"),
        Column("text", pa.string(), "exact text of a passage or of a part of a chat turn; null for others"),
        _column("grade", pa.int64(), "how good the answer is; 0 is wrong"),
        Column("topic", pa.string(), "what entries that answer the same part of the query share"),
    ),
)

EVALUATION_RUNS = Table(
    "evaluation_runs",
    "One chunk at one place of the list that one stage of a search made for one query.",
    ("profile", "query_id", "stage", "rank"),
    (
        _column("profile", pa.string(), "named search settings"),
        _column("query_id", pa.string(), "the query"),
        _column("stage", pa.string(), "name of the stage, as in docs/search.md; final is what is returned"),
        _column("rank", pa.int64(), "place in the list, from 1"),
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "mail or document of the chunk"),
        _column("thread_id", pa.string(), "its thread; the document itself where there is none"),
        _column("score", pa.float64(), "score of the stage"),
        Column("similarity", pa.float64(), "cosine of chunk and query; of final hits only"),
        Column("label", pa.string(), "what the search says of its result; of final hits only"),
        Column("reason", pa.string(), "why the next stage dropped it; null where it stays"),
    ),
)


_PART_OF_SCORE = pa.struct([("part", pa.string()), ("value", pa.float64())])
_BYTES = pa.struct([("byte_start", pa.int64()), ("byte_end", pa.int64())])
_CONSTITUENT = pa.struct([("chunk_id", pa.string()), ("doc_id", pa.string()), ("reason", pa.string())])
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
        _column("query", pa.int32(), "number of the query in the batch, from 0"),
        _column("rank", pa.int32(), "place among the hits of the query, from 1"),
        _column("chunk_no", pa.int64(), "number of the chunk in the published file"),
        _column("chunk_id", pa.string(), "the chunk; of a hit that stands for a section the best one in it"),
        _column("doc_id", pa.string(), "mail, document or window of a conversation"),
        _column("source_kind", pa.string(), "message, attachment, document or conversation"),
        _column("chunk_kind", pa.string(), "what kind of chunk it is"),
        _column("source", pa.string(), "name of the configured source"),
        Column("list_id", pa.string(), "mailing list"),
        Column("subject", pa.string(), "subject of the mail, title of the document"),
        Column("path", pa.string(), "path of the document below the root of its source"),
        Column("from_name", pa.string(), "name of the sender"),
        Column("from_addr", pa.string(), "address of the sender"),
        Column("effective_at", TIME, "time of the mail, the document or the window"),
        Column("node_id", pa.string(), "section of the document that is shown"),
        Column("breadcrumb", pa.string(), "titles from the document down to the section"),
        Column("attachment_id", pa.string(), "attachment that the text comes from"),
        Column("filename", pa.string(), "name of that attachment"),
        Column("block_index", pa.int64(), "block of the mail that the text begins in"),
        Column("byte_start", pa.int64(), "first byte of the hit in the stored text"),
        Column("byte_end", pa.int64(), "byte behind the last"),
        _column("citation", pa.string(), "where the text stands, to be opened again: place and bytes"),
        Column("thread_id", pa.string(), "thread of the mail"),
        Column("thread_subject", pa.string(), "its subject"),
        Column("thread_position", pa.int64(), "place of the mail in the thread, from 0"),
        Column("thread_size", pa.int64(), "mails of the thread"),
        _column("snippet", pa.string(), "the part of the text that shows best why it was found"),
        _column(
            "highlights",
            pa.list_(pa.list_(pa.int64())),
            "words of the query in snippet, as ranges of characters",
        ),
        _column(
            "highlight_bytes",
            pa.list_(_BYTES),
            "where these words stand in the stored text, in the same order",
        ),
        _column("score", pa.float64(), "what hits are ordered by"),
        _column("fused_score", pa.float64(), "lexical and vector score made one"),
        _column("thread_score", pa.float64(), "what the thread of the mail added"),
        _column("lexical_score", pa.float64(), "BM25"),
        _column("vector_score", pa.float64(), "cosine"),
        _column(
            "support", pa.float64(), "share of the query's words that stand in it, rare ones weighing more"
        ),
        Column("lexical_rank", pa.int32(), "place among the lexical candidates; null if it is none"),
        Column("vector_rank", pa.int32(), "place among the vector candidates; null if it is none"),
        Column(
            "stands_for", pa.string(), "section that is shown in place of its parts; null for a single chunk"
        ),
        Column("reranker", pa.string(), "who reranked the hit, and why nobody better did"),
        Column("rerank_score", pa.float64(), "score of the reranker"),
        Column("rank_before", pa.int32(), "place before reranking"),
        Column("rerank_parts", pa.list_(_PART_OF_SCORE), "parts of that score, of features alone"),
        _column("constituents", pa.list_(_CONSTITUENT), "other chunks that the hit stands for, and why"),
        _column(
            "expansions",
            pa.list_(_EXPANSION),
            "texts shown with the hit that the query did not find: parent, previous, next, section or link",
        ),
    ),
)


EMBEDDING_REFUSALS = Table(
    "embedding_refusals",
    "A text that the model refuses to embed; its chunks are found by their words alone.",
    ("text_hash",),
    (
        _column("text_hash", pa.string(), "hash of the text; the checksum of a chunk"),
        _column("model", pa.string(), "model that refuses it"),
        _column("dimensions", pa.int32(), "width of the vector that was asked for"),
        _column("reason", pa.string(), "what the model's service says"),
    ),
)

SEARCH_RESULTS = Table(
    "search_results",
    "One hit of one query of a saved search, as its latest run found it.",
    ("search", "query_no", "rank"),
    (
        _column("search", pa.string(), "name of the saved search"),
        _column("run_id", pa.string(), "Dagster run that searched"),
        _column("searched_at", TIME, "when that run was created"),
        _column("index_version", pa.string(), "version of the published file that was asked"),
        _column("query_no", pa.int32(), "number of the query in the search, from 0"),
        _column("query", pa.string(), "the query"),
        _column("label", pa.string(), "how far its result can be trusted"),
        _column("rank", pa.int32(), "place among the hits of the query, from 1"),
        _column("chunk_id", pa.string(), "the chunk"),
        _column("doc_id", pa.string(), "mail, document or window of a conversation"),
        Column("subject", pa.string(), "subject of the mail, title of the document"),
        _column("score", pa.float64(), "what hits are ordered by"),
        _column("snippet", pa.string(), "the part of the text that shows best why it was found"),
        _column("citation", pa.string(), "where the text stands, for `weft get`"),
    ),
)


def embeddings(dimensions: int) -> Table:
    """The table of vectors of one width: `vector` is a fixed-size list of 32-bit floats."""
    return Table(
        "embeddings",
        "The vector of one text under one model. In the lake it is stored by partition: with the first that has the text.",
        ("text_hash",),
        (
            _column("text_hash", pa.string(), "hash of the embedded text; the checksum of a chunk"),
            _column("model", pa.string(), "model that made the vector"),
            _column("dimensions", pa.int32(), "width of the vector"),
            _column("task", pa.string(), "document or query"),
            _column("vector", pa.list_(pa.float32(), dimensions), "unit-length vector"),
        ),
    )
