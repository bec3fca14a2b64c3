"""Quotes without any mark: authored lines of a mail that repeat lines of the mail it answers."""

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.hashing import text_hashes
from transforms.mail.headers import patch_subjects
from transforms.schemas.relations import COMPARED_REPLIES, INFERRED_QUOTES

VERSION = "2"
COMPARED = (
    "message_id",
    "subject",
    "from_addr",
    "source",
    "partition",
    "content_hash",
    "raw_bytes",
)
"""Columns of a mail that say whether it has to be compared again."""
_LINE_CHARS = 20
"""Characters; a shorter common line may be a coincidence."""
_MIN_LINES = 2
"""Such lines that a run of the answered mail's lines must have."""
_MIN_CHARS = 80
"""Characters that these lines must have together."""
_BATCH = 10_000
_MARKS = r"^[\s>|]+"
_BAR = r"^\|[\s>|]*"
"""A mark of quotes that tables and shells use, too: it is one before a line of the answered mail."""
_TRAILER = r"^[A-Z][A-Za-z-]+: |^---$"


def inferred_quotes(messages: pa.Table, chunks: pa.Table, tree: pa.Table) -> pa.Table:
    """The `inferred_quotes` table of mails that are each present once.

    `messages` needs message_id, subject, from_addr and body; `tree` is `thread_tree`; `chunks` are
    the chunks of bodies with doc_id, spans and has_patch_markers. Looked at are the lines of mails
    that answer another person's, where a chunk without a diff has them as its own text; a patch that
    takes up the text of the one before it is not a quote. They are compared with all lines of the
    parent, blanks at the ends, inner blanks, the parent's quote marks and bars before lines left out. A run of such
    lines, empty ones between them, is a quote if it has `min_lines` lines of at least `line_chars`
    characters, and `min_chars` characters in these; trailers do not count.
    """
    pairs = _pairs(messages, tree)
    span = pl.col("spans").struct
    authored = (
        pl.DataFrame(chunks.select(["doc_id", "spans", "has_patch_markers"]))
        .filter(~pl.col("has_patch_markers"))
        .explode("spans")
        .filter(span.field("role") == "own")
        .select(
            message_id="doc_id", byte_start=span.field("byte_start"), until=span.field("byte_end")
        )
    )
    bodies = messages.column("body").combine_chunks()
    runs = [
        _runs(pairs[start : start + _BATCH], authored, bodies)
        for start in range(0, pairs.height, _BATCH)
    ]
    if not runs:
        return INFERRED_QUOTES.empty()
    rows = pl.concat(runs).sort("message_id", "byte_start")
    return INFERRED_QUOTES.conform(rows.select(INFERRED_QUOTES.names).to_arrow())


def compared_replies(messages: pa.Table, chunks: pa.Table, tree: pa.Table) -> pa.Table:
    """The `compared_replies` table: the pairs of mails that `inferred_quotes` compares, and a hash of each.

    `messages` needs no body but COMPARED of each mail, `chunks` doc_id and chunk_id of the chunks of bodies: equal
    hashes mean equal quotes.
    """
    # The hash of a mail leaves out the footer of its list, so its size and its archive count, too.
    mail_state = pl.concat_str(
        *(pl.col(name).cast(pl.String) for name in COMPARED[3:]), separator=" "
    )
    mails = pl.DataFrame(messages.select(["message_id", *COMPARED[3:]])).select(
        "message_id", mail_state=mail_state
    )
    chunk_ids = (
        pl.DataFrame(chunks.select(["doc_id", "chunk_id"]))
        .group_by("doc_id")
        .agg(chunk_ids=pl.col("chunk_id").sort().str.join(" "))
    )
    version = pl.lit(VERSION)
    rows = (
        _pairs(messages, tree)
        .select("message_id", "parent_id")
        .join(mails, on="message_id")
        .join(mails, left_on="parent_id", right_on="message_id", suffix="_parent")
        .join(chunk_ids, left_on="message_id", right_on="doc_id", how="left")
        .sort("message_id")
    )
    inputs = rows.select(
        pl.concat_str(
            version,
            "mail_state",
            "mail_state_parent",
            pl.col("chunk_ids").fill_null(""),
            separator="\n",
        )
    )
    checksums = text_hashes(inputs.to_series().to_arrow())
    pairs = rows.select("message_id", "parent_id").with_columns(
        checksum=pl.Series(checksums, dtype=pl.String)
    )
    return COMPARED_REPLIES.conform(pairs.to_arrow())


def pairs_to_compare(pairs: pa.Table, previous: pa.Table | None) -> pa.Table:
    """The rows of `compared_replies` that are not in the `previous` table of these."""
    if previous is None:
        return pairs
    earlier = pl.DataFrame(previous)
    return pl.DataFrame(pairs).join(earlier, on=COMPARED_REPLIES.names, how="anti").to_arrow()


def merged_quotes(
    previous: pa.Table, pairs: pa.Table, compared: pa.Table, new: pa.Table
) -> pa.Table:
    """The `inferred_quotes` table: rows of `previous` for `pairs` that are not `compared` again, and the `new` rows."""
    keys = ["message_id", "parent_id"]
    retained = pl.DataFrame(previous).join(pl.DataFrame(pairs.select(keys)), on=keys, how="semi")
    retained = retained.join(pl.DataFrame(compared.select(keys)), on=keys, how="anti")
    rows = pl.concat([retained, pl.DataFrame(new).select(retained.columns)]).sort(
        "message_id", "byte_start"
    )
    return INFERRED_QUOTES.conform(rows.select(INFERRED_QUOTES.names).to_arrow())


def _pairs(messages: pa.Table, tree: pa.Table) -> pl.DataFrame:
    """The mails that answer another person's, patches left out, with the rows of both in `messages`."""
    mails = pl.DataFrame(messages.select(["message_id", "from_addr"])).with_row_index("row")
    patch_columns = patch_subjects(pl.Series(messages.column("subject"), dtype=pl.String))
    answers = mails.filter(~patch_columns["is_patch"] | patch_columns["is_reply"])
    above = pl.DataFrame(tree.select(["message_id", "parent_id"])).drop_nulls()
    return (
        answers.join(above, on="message_id")
        .join(mails, left_on="parent_id", right_on="message_id", suffix="_parent")
        .filter(~pl.col("from_addr").eq_missing(pl.col("from_addr_parent")))
        .sort("parent_id", "message_id")
    )


def _runs(pairs: pl.DataFrame, authored: pl.DataFrame, bodies: pa.Array) -> pl.DataFrame:
    parents = pairs.select("row_parent").unique(maintain_order=True).with_row_index("parent")
    pairs = pairs.join(parents, on="row_parent", maintain_order="left").with_columns(
        row=pl.int_range(pl.len(), dtype=pl.Int64),
        mail_row="row",
        parent=pl.col("parent").cast(pl.Int64),
    )
    own = body_lines(bodies.take(pairs["mail_row"].to_arrow()))
    parent_lines = body_lines(bodies.take(parents["row_parent"].to_arrow()))
    answered = parent_lines.select(
        parent="row", line=_plain(pl.col("line").str.replace(_MARKS, ""))
    ).unique()
    ranges = pairs.select("message_id", "row", "parent").join(authored, on="message_id")
    inside = own.join_asof(
        ranges.select("row", "parent", "byte_start", "until").sort("row", "byte_start"),
        on="byte_start",
        by="row",
        check_sortedness=False,
    ).with_columns(is_own=(pl.col("byte_start") < pl.col("until")).fill_null(False))
    inside = inside.with_columns(
        line=pl.when("is_own").then(_plain(pl.col("line").str.replace(_BAR, ""))).otherwise("line")
    )
    matches = inside.filter(pl.col("line").str.strip_chars() != "").join(
        answered.with_columns(is_quoted=True),
        on=["parent", "line"],
        how="left",
        maintain_order="left",
    )
    is_quoted = pl.col("is_quoted").fill_null(False) & pl.col("is_own")
    chars = pl.col("line").str.len_chars()
    counts = (chars >= _LINE_CHARS) & ~pl.col("line").str.contains(_TRAILER)
    return (
        matches.with_columns(run=(~is_quoted).cum_sum().over("row"), is_quoted=is_quoted)
        .filter("is_quoted")
        .group_by("row", "run", maintain_order=True)
        .agg(
            byte_start=pl.col("byte_start").min(),
            byte_end=pl.col("byte_end").max(),
            line_count=counts.sum().cast(pl.Int64),
            char_count=chars.filter(counts).sum().cast(pl.Int64),
        )
        .filter((pl.col("line_count") >= _MIN_LINES) & (pl.col("char_count") >= _MIN_CHARS))
        .join(pairs.select("message_id", "parent_id", "row"), on="row")
        .drop("row", "run")
    )


def _plain(line: pl.Expr) -> pl.Expr:
    return line.str.replace_all(r"\s+", " ").str.strip_chars()


def body_lines(bodies: pa.Array) -> pl.DataFrame:
    """Every line of `bodies` in order: row, byte_start, byte_end (its end included) and line."""
    array = pa.concat_arrays([bodies.cast(pa.large_string())])
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    total = int(ends[-1]) if len(array) else 0
    text = np.frombuffer(data or b"", dtype=np.uint8)[:total]
    begins = np.zeros(total + 1, dtype=bool)
    begins[1:] = text == ord("\n")
    begins[ends] = True  # of texts that are empty, too, and the end of the last
    starts = np.flatnonzero(begins[ends[0] :]) + ends[0]
    row = np.searchsorted(ends, starts[:-1], side="right") - 1
    cut = pa.Array.from_buffers(
        pa.large_string(), len(starts) - 1, [None, pa.py_buffer(starts.astype(np.int64)), data]
    )
    line = pl.Series(pl.from_arrow(cut), dtype=pl.String)
    return pl.DataFrame(
        {
            "row": row.astype(np.int64),
            "byte_start": starts[:-1] - ends[row],
            "byte_end": starts[1:] - ends[row],
            "line": line,
        }
    )
