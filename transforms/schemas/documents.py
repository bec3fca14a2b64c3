"""The tables that a partition of documents becomes, up to its headings and references."""

import pyarrow as pa

from transforms.schemas.table import PARTITION, SOURCE, TEXT, TIME, Column, Table, required

DOCUMENTS = Table(
    "documents",
    "One file of a vault or a documentation tree.",
    ("doc_id",),
    (
        required("doc_id", pa.string(), "source and path, as `source:path`"),
        SOURCE,
        PARTITION,
        required("path", pa.string(), "path below the root of the source, with forward slashes"),
        required(
            "title",
            pa.string(),
            "title of the frontmatter, fields or properties, else the first heading of level 1, else the file name",
        ),
        required("has_own_title", pa.bool_(), "false where the title is the file's name"),
        required(
            "format",
            pa.string(),
            "markdown, "
            "text, code, rst, html, pdf, docx, pptx, sheet, opendocument, epub, notebook, canvas, calendar, "
            "wikitext, table, contacts, web_archive or picture",
        ),
        Column("doc_type", pa.string(), "types of the frontmatter, divided by commas"),
        Column("description", pa.string(), "description of the frontmatter"),
        required(
            "tags", pa.list_(pa.string()), "tags of the frontmatter and of the text, without #"
        ),
        required("aliases", pa.list_(pa.string()), "other names the frontmatter gives"),
        Column(
            "frontmatter",
            pa.string(),
            "the frontmatter, or the fields of reStructuredText, as JSON",
        ),
        Column(
            "created_at",
            TIME,
            "time of creation by the frontmatter or the properties of the file, else the day its name begins with",
        ),
        Column("modified_at", TIME, "time of change by the frontmatter or the properties"),
        required(
            "text",
            TEXT,
            "stored text: the file's own, or the Markdown made of it; all offsets are UTF-8 bytes into it",
        ),
        required(
            "body_start", pa.int64(), "first byte behind the frontmatter (bytes: use `slice_text`)"
        ),
        Column(
            "page_starts",
            pa.list_(pa.int64()),
            "first byte of each page or slide (bytes: use `slice_text`); null without pages",
        ),
        Column(
            "picture",
            TEXT,
            "of a picture with a vector: the picture, made small, as a `data:` address of PNG or JPEG; null for others",
        ),
        required("content_hash", pa.string(), "hash of the text"),
        required("defects", pa.list_(pa.string()), "repaired faults, as short codes"),
    ),
)

DOCUMENT_NODES = Table(
    "document_nodes",
    "One heading of a document, or the document itself.",
    ("node_id",),
    (
        required("node_id", pa.string(), "the document's id, and `#slug` for a heading"),
        required("doc_id", pa.string(), "the document"),
        Column("parent_id", pa.string(), "node above; null for the document"),
        required("depth", pa.int64(), "0 for the document, 1 to 6 for headings"),
        required("position", pa.int64(), "place in the document, from 0"),
        required("title", pa.string(), "text of the heading, or title of the document"),
        Column(
            "slug",
            pa.string(),
            "fragment identifier, unique in the document; null for the document",
        ),
        required("breadcrumb", pa.string(), "titles from the document down to the node"),
        required(
            "heading_start",
            pa.int64(),
            "first byte of the heading; 0 for the document (bytes: use `slice_text`)",
        ),
        required(
            "byte_start",
            pa.int64(),
            "first byte of the span, behind the heading (bytes: use `slice_text`)",
        ),
        required(
            "byte_end",
            pa.int64(),
            "byte behind the span, children included (bytes: use `slice_text`)",
        ),
        required(
            "body_end",
            pa.int64(),
            "byte behind the node's own text, which begins at byte_start (bytes: use `slice_text`)",
        ),
        required("sibling_count", pa.int64(), "children of the parent, this node included"),
    ),
)

DOCUMENT_REFERENCES = Table(
    "document_references",
    "One reference in a document, not yet looked up, or one block id that references can lead to.",
    ("doc_id", "byte_start"),
    (
        required("doc_id", pa.string(), "document that holds the reference"),
        SOURCE,
        PARTITION,
        required(
            "byte_start",
            pa.int64(),
            "first byte of the reference in the stored text (bytes: use `slice_text`)",
        ),
        required("byte_end", pa.int64(), "byte behind it (bytes: use `slice_text`)"),
        required(
            "kind",
            pa.string(),
            "wiki, embed, markdown, image, url (another scheme or host), or block_id (`^id`, the place itself)",
        ),
        required("target", pa.string(), "target of the reference, unescaped; the id for block_id"),
        required("text", pa.string(), "text shown for the reference; empty if none"),
    ),
)
