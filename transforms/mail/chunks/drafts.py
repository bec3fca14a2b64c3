"""Drafts: chunks with their final ranges, collected into the columns of the table `chunks`."""

from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from transforms.chunks.table import chunk_table
from transforms.hashing import parts_hash, text_hashes
from transforms.schemas.kinds import UNAUTHORED
from transforms.settings.mail import ChunkSettings
from transforms.text.diffs import DIFF_MARK, HUNK_FUNCTION, diff_columns
from transforms.text.spans import Offsets, Span

QUOTE_SIGNS = r"(?m)^[ \t]*(?:(?:>[ \t]?)+|[A-Za-z]{1,4}>+ ?|\|(?: |$))"
"""Marks of quoted lines; a pattern for Python and Polars."""


class SharedColumns(NamedTuple):
    """The columns that all chunks of one body or of one attachment share."""

    doc_id: str
    content_hash: str
    source: str
    partition: str
    subject: str
    is_reply: bool
    parent_id: str | None
    attachment_id: str | None
    filename: str
    document_lane: str


class Draft(NamedTuple):
    """One chunk: its kind and its texts as the body or attachment has them.

    `own` is the authored text, `display` the display text if that differs, `point` the anchor with
    its quote marks, `diff` the ranges of `own` that are a diff and `prose` the others, `picture`
    that of the vector.
    """

    chunk_kind: str
    own: str
    display: str | None = None
    point: str = ""
    is_hunk: bool = False
    file: str = ""
    hunk: str = ""
    diff: str = ""
    prose: str = ""
    content_class: str = "text"
    is_slow: bool = False
    picture: str | None = None


class Drafts:
    """The drafts and exclusions of a batch, added document by document."""

    def __init__(self) -> None:
        self.documents: list[SharedColumns] = []
        self.counts: list[int] = []
        self.rests: list[list[str]] = []
        self.rows: list[Draft] = []
        self.span_starts: list[int] = []
        self.span_ends: list[int] = []
        self.span_roles: list[str] = []
        self.span_offsets: list[int] = [0]
        self.excluded: list[tuple[str, str | None, str, str, int, int, str]] = []

    def open(self, document: SharedColumns) -> None:
        """Begin a document: later drafts and exclusions belong to it."""
        self.documents.append(document)
        self.counts.append(0)
        self.rests.append([])

    def add(self, draft: Draft, spans: list[Span], offsets: Offsets) -> None:
        """Add one chunk to the open document."""
        self.rows.append(draft)
        self.counts[-1] += 1
        for start, end, role in spans:
            self.span_starts.append(offsets(start))
            self.span_ends.append(offsets(end))
            self.span_roles.append(role)
        self.span_offsets.append(len(self.span_starts))

    def exclude(self, start: int, end: int, reason: str, text: str = "") -> None:
        """Record a byte range of the open document that is in no chunk, the reason, and the text to
        find it by.
        """
        self.rests[-1].append(text)
        d = self.documents[-1]
        self.excluded.append((d.doc_id, d.attachment_id, d.source, d.partition, start, end, reason))

    def chunks(self, chunker: str, id_counts: dict[str, int], settings: ChunkSettings) -> pa.Table:
        """The table `chunks`; `id_counts` has how often each id occurs in all batches and is
        updated.

        If a body or attachment has more than `log_vector_chars` characters of logs, these have no
        text to embed.
        """
        frame = pl.DataFrame(self.rows, schema=_schema(Draft), orient="row")
        numbers = pl.Series(range(len(self.counts)), dtype=pl.Int64)
        owners = numbers.repeat_by(pl.Series(self.counts)).explode()
        documents = pl.DataFrame(
            self.documents, schema=_schema(SharedColumns), orient="row"
        ).with_columns(
            chunk_count=pl.Series(self.counts, dtype=pl.Int64),
            base=pl.Series(map(_base, self.documents)),
            rest_lex=pl.Series(["\n".join(texts) for texts in self.rests], dtype=pl.String),
        )
        frame = pl.concat([frame, documents[owners.drop_nulls()]], how="horizontal")
        frame = frame.with_columns(chunk_index=pl.int_range(pl.len()).over("base"))
        frame = frame.with_columns(
            pl.when(pl.col("chunk_index") == 0).then("rest_lex").otherwise(pl.lit(""))
        )
        frame = _with_diffs(_with_texts(frame, settings.short_reply_chars))
        if settings.log_vector_chars is not None:
            is_log = pl.col("content_class") == "log"
            log_length = pl.when(is_log).then("char_count").otherwise(0).sum().over("base")
            is_long = is_log & (log_length > settings.log_vector_chars)
            frame = frame.with_columns(
                text_embed=pl.when(is_long).then(pl.lit("")).otherwise("text_embed")
            )
        table = frame.select(_DERIVED).to_arrow()
        ids = _chunk_ids(frame, id_counts)
        struct = pa.StructArray.from_arrays(
            [pa.array(self.span_starts, pa.int64()), pa.array(self.span_ends, pa.int64())]
            + [pa.array(self.span_roles, pa.string())],
            names=["byte_start", "byte_end", "role"],
        )
        columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
        columns["spans"] = pa.ListArray.from_arrays(pa.array(self.span_offsets, pa.int32()), struct)
        columns["chunk_id"] = pa.array(ids, pa.string())
        columns["checksum"] = pa.array(text_hashes(table.column("text_embed")), pa.string())
        columns["chunker"] = pa.array([chunker] * len(ids), pa.string())
        return chunk_table(columns)


_DERIVED = [
    "source_kind",
    "source",
    "partition",
    "doc_id",
    "attachment_id",
    "parent_id",
    "chunk_kind",
    "chunk_index",
    "chunk_count",
    "title",
    "text_display",
    "text_embed",
    "text_lex",
    "quote_lex",
    "added_lex",
    "removed_lex",
    "rest_lex",
    "char_count",
    "quote_anchor_chars",
    "anchor_source",
    "quote_depth_max",
    "has_patch_markers",
    "content_class",
    "diff_files",
    "diff_functions",
    "lines_added",
    "lines_removed",
    "is_quote_heavy",
    "is_code",
    "lane",
    "needs_parent",
]


def _schema(row: type[Draft | SharedColumns]) -> dict[str, type[pl.DataType]]:
    """The columns of rows: texts, but for the marks."""
    return {
        name: pl.Boolean if kind is bool else pl.String
        for name, kind in row.__annotations__.items()
    }


def _base(document: SharedColumns) -> str:
    """Hash of the document ids: the common base of the ids of its chunks."""
    if document.attachment_id is None:
        return parts_hash(("message", document.doc_id, document.content_hash))
    return parts_hash(("attachment", document.doc_id, document.attachment_id))


def _with_texts(frame: pl.DataFrame, short_chars: int) -> pl.DataFrame:
    """The frame with display texts, texts to embed, and the columns that follow from them."""
    point, own = pl.col("point"), pl.col("own")
    is_attachment = pl.col("attachment_id").is_not_null()
    # No ranking is to find a chunk without a word of its author, not by its subject either.
    frame = frame.with_columns(
        pl.when(pl.col("chunk_kind") == UNAUTHORED)
        .then(pl.lit(""))
        .otherwise("subject")
        .alias("subject")
    )
    frame = frame.with_columns(
        text_display=pl.coalesce("display", own),
        quote_lex=pl.when("is_hunk").then(point).otherwise(point.str.replace_all(QUOTE_SIGNS, "")),
        reply=own.str.strip_chars_end(),
        context=pl.concat_str(
            _text_if(pl.col("filename") != "", "filename", pl.lit("\n")),
            _text_if(pl.col("file") != "", "file", pl.lit("\n")),
            _text_if(pl.col("hunk") != "", "hunk", pl.lit("\n")),
        ),
        title=pl.when(pl.col("filename") != "")
        .then(
            pl.concat_str(
                pl.col("subject").replace("", None), "filename", separator=" · ", ignore_nulls=True
            )
        )
        .otherwise("subject"),
    ).with_columns(pl.col("quote_lex").str.strip_chars("\n").str.strip_chars_end())
    quoted = pl.col("quote_lex")
    frame = frame.with_columns(
        text_embed=pl.coalesce(
            "picture",
            pl.concat_str(
                _text_if(pl.col("subject") != "", pl.lit("Subject: "), "subject", pl.lit("\n\n")),
                _text_if(point != "", pl.lit("Quoted point:\n"), quoted, pl.lit("\n\nReply:\n")),
                "context",
                "reply",
            ),
        ),
        char_count=pl.col("text_display").str.len_chars().cast(pl.Int64),
        quote_anchor_chars=quoted.str.len_chars().cast(pl.Int64),
        anchor_source=pl.when(point != "").then(pl.lit("quote")).otherwise(pl.lit("none")),
        quote_depth_max=((point != "") & ~pl.col("is_hunk")).cast(pl.Int64),
        is_quote_heavy=quoted.str.len_chars() > pl.col("reply").str.len_chars(),
        has_patch_markers=(pl.col("file") != "")
        | (pl.col("diff") != "")
        | own.str.contains(DIFF_MARK)
        | quoted.str.contains(DIFF_MARK),
    )
    short = pl.col("reply").str.len_chars() < short_chars
    return frame.with_columns(
        is_code=pl.col("content_class") != "text",
        lane=pl.when("is_slow").then(pl.lit("slow")).otherwise("document_lane"),
        source_kind=pl.when(is_attachment).then(pl.lit("attachment")).otherwise(pl.lit("message")),
        needs_parent=short
        & (point == "")
        & (pl.col("diff") == "")
        & (pl.col("chunk_kind") == "authored_message")
        & pl.col("is_reply"),
    )


def _text_if(condition: pl.Expr, *texts: str | pl.Expr) -> pl.Expr:
    """The texts in one where the condition holds, else an empty text."""
    return pl.when(condition).then(pl.concat_str(*texts)).otherwise(pl.lit(""))


def _with_diffs(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the changes of diffs, and `text_lex` without the changed lines."""
    has_diff = pl.col("diff") != ""
    rows = frame.select(has_diff.arg_true()).to_series()
    changes = diff_columns(frame.select("diff", "file", "hunk")[rows])
    function = pl.col("hunk").str.extract(HUNK_FUNCTION, 1)
    spread = pl.DataFrame({"row": rows}).hstack(changes)
    every = pl.DataFrame({"row": pl.int_range(len(frame), dtype=pl.UInt32, eager=True)})
    changes = every.join(spread, on="row", how="left", maintain_order="left").drop("row")
    rest = pl.concat_str(_text_if(pl.col("prose") != "", "prose", pl.lit("\n")), "rest")
    return frame.hstack(changes).with_columns(
        pl.col("added_lex", "removed_lex").fill_null(""),
        # A comment on a patch is found by the file and function that it is about.
        pl.col("diff_files").fill_null(
            pl.concat_list(pl.col("file").replace("", None)).list.drop_nulls()
        ),
        pl.col("diff_functions").fill_null(pl.concat_list(function).list.drop_nulls()),
        text_lex=pl.when(has_diff).then(rest).otherwise("own"),
    )


def _chunk_ids(frame: pl.DataFrame, id_counts: dict[str, int]) -> list[str]:
    """Hashes of document, kind and text; an occurrence number distinguishes equal ones."""
    ids = []
    texts = text_hashes(frame["text_display"].to_arrow())
    for parts in zip(frame["base"], frame["chunk_kind"], texts, strict=True):
        base = parts_hash(parts)
        count = id_counts.get(base, 0)
        id_counts[base] = count + 1
        ids.append(base if not count else parts_hash((base, str(count))))
    return ids
