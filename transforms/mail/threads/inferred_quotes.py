"""Quotes without any mark: authored lines of a mail that repeat lines of the mail it answers, and the
history below the pasted header of another mail.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.hashing import text_hashes
from transforms.mail.blocks.rules import DISCLAIMER
from transforms.mail.blocks.table import headers_in
from transforms.mail.headers import patch_subjects
from transforms.schemas.relations import COMPARED_REPLIES, INFERRED_QUOTES
from transforms.text.passages import word_sequences
from transforms.text.terms import word_runs

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
"""A mark of quotes that tables and shells use, too: it is one before a line of the answered mail.
"""
_TRAILER = r"^[A-Z][A-Za-z-]+: |^---$"
_KNOWN = 0.5
"""Share of the sequences of words of a paragraph from which the parent has it: mailers break the lines
of history in other places.
"""
_LONG = 5
"""Sequences of words from which a paragraph does not say by chance what the parent says."""
_PARAGRAPH = re.compile(rb"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*\n?")
_NOWHERE = 1 << 62
"""A byte behind the end of each mail."""
_ROWS: dict[str, type[pl.DataType]] = {
    "message_id": pl.String,
    "byte_start": pl.Int64,
    "byte_end": pl.Int64,
    "parent_id": pl.String,
    "line_count": pl.Int64,
    "char_count": pl.Int64,
}


def inferred_quotes(messages: pa.Table, chunks: pa.Table, tree: pa.Table) -> pa.Table:
    """The `inferred_quotes` table of mails that are each present once.

    `messages` needs message_id, subject, from_addr and body; `tree` is `thread_tree`; `chunks` are
    the chunks of bodies with doc_id, spans and has_patch_markers. Looked at are the lines of mails
    that answer another person's, where a chunk without a diff has them as its own text; a patch
    that takes up the text of the one before it is not a quote. They are compared with all lines of
    the parent, blanks at the ends, inner blanks, the parent's quote marks and bars before lines
    left out. A run of such lines, empty ones between them, is a quote if it has `min_lines` lines
    of at least `line_chars` characters, and `min_chars` characters in these; trailers do not count.
    Below the pasted header of another mail the rest is a quote, too, unless the archive shows that it
    is not (`_history`).
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
    others = pairs.filter("answers_another")
    runs = [
        _runs(others[start : start + _BATCH], authored, bodies)
        for start in range(0, others.height, _BATCH)
    ]
    history = _histories(pairs, authored, bodies)
    # History covers the runs below its header.
    repeated = pl.concat(
        [pl.DataFrame(schema=_ROWS), *(of_batch.select(*_ROWS) for of_batch in runs)]
    ).join(
        history.group_by("message_id").agg(first=pl.col("byte_start").min()),
        on="message_id",
        how="left",
    )
    above = repeated.filter(pl.col("byte_start") < pl.col("first").fill_null(_NOWHERE))
    rows = pl.concat([above.select(*_ROWS), history]).sort("message_id", "byte_start")
    return INFERRED_QUOTES.conform(rows.select(INFERRED_QUOTES.names).to_arrow())


def compared_replies(
    messages: pa.Table, chunks: pa.Table, tree: pa.Table, code_version: str
) -> pa.Table:
    """The `compared_replies` table: the pairs of mails that `inferred_quotes` compares, and a hash
    of each.

    `messages` needs no body but COMPARED of each mail, `chunks` doc_id and chunk_id of the chunks
    of bodies: equal hashes mean equal quotes. Code of another version compares all pairs again.
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
            pl.lit(code_version),
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
    """The `inferred_quotes` table: rows of `previous` for `pairs` that are not `compared` again,
    and the `new` rows.
    """
    keys = ["message_id"]  # a mail with another parent is compared again
    retained = pl.DataFrame(previous).join(pl.DataFrame(pairs.select(keys)), on=keys, how="semi")
    retained = retained.join(pl.DataFrame(compared.select(keys)), on=keys, how="anti")
    rows = pl.concat([retained, pl.DataFrame(new).select(retained.columns)]).sort(
        "message_id", "byte_start"
    )
    return INFERRED_QUOTES.conform(rows.select(INFERRED_QUOTES.names).to_arrow())


def _pairs(messages: pa.Table, tree: pa.Table) -> pl.DataFrame:
    """The mails that answer one, patches left out, with the rows of both in `messages`.

    `answers_another` is true if another person wrote that. A reply to a mail that is not at hand is
    its own parent.
    """
    mails = pl.DataFrame(messages.select(["message_id", "from_addr"])).with_row_index("row")
    patch_columns = patch_subjects(pl.Series(messages.column("subject"), dtype=pl.String))
    mails = mails.with_columns(is_reply=patch_columns["is_reply"])
    answers = mails.filter(~patch_columns["is_patch"] | patch_columns["is_reply"])
    tree_rows = pl.DataFrame(tree.select(["message_id", "parent_id"]))
    above = tree_rows.join(mails, left_on="parent_id", right_on="message_id", how="left").select(
        "message_id",
        parent_id=pl.when(pl.col("row").is_null()).then("message_id").otherwise("parent_id"),
    )
    is_own = pl.col("parent_id") == pl.col("message_id")
    return (
        answers.join(above, on="message_id")
        .filter(~is_own | pl.col("is_reply"))
        .join(mails, left_on="parent_id", right_on="message_id", suffix="_parent")
        .with_columns(
            answers_another=~pl.col("from_addr").eq_missing(pl.col("from_addr_parent")) & ~is_own
        )
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


def _histories(pairs: pl.DataFrame, authored: pl.DataFrame, bodies: pa.Array) -> pl.DataFrame:
    """The history below pasted headers of the mails of `pairs`, as rows of INFERRED_QUOTES."""
    headers = headers_in(pa.chunked_array([bodies.take(pairs["row"].to_arrow())]))
    by_mail = headers.sort("row", "byte_start").partition_by("row", as_dict=True)
    own = authored.filter(
        pl.col("message_id").is_in(
            pairs["message_id"].gather([key[0] for key in by_mail]).implode()
        )
    ).partition_by("message_id", as_dict=True)
    rows = []
    for (number,), of_mail in by_mail.items():
        pair = pairs.row(int(number), named=True)
        spans = own.get((pair["message_id"],))
        if spans is None:
            continue
        body = bodies[pair["row"]].as_py().encode()
        is_alone = pair["parent_id"] == pair["message_id"]
        parent = "" if is_alone else bodies[pair["row_parent"]].as_py()
        for start, end, is_known in _history(
            body, spans.select("byte_start", "until").rows(), of_mail, parent
        ):
            text = body[start:end].decode(errors="replace")
            rows.append(
                {
                    "message_id": pair["message_id"],
                    "byte_start": start,
                    "byte_end": end,
                    "parent_id": pair["parent_id" if is_known else "message_id"],
                    "line_count": text.count("\n"),
                    "char_count": len(text),
                }
            )
    return pl.DataFrame(rows, schema=_ROWS)


class _Paragraph(NamedTuple):
    """A paragraph of a mail: its bytes, how many sequences of words it has, and if the parent has them."""

    start: int
    end: int
    count: int
    is_known: bool


def _history(
    body: bytes, spans: Sequence[tuple[int, int]], headers: pl.DataFrame, parent: str
) -> list[tuple[int, int, bool]]:
    """The byte ranges of a mail's own text (`spans`) that are history below its pasted `headers`, and if
    the parent has them.

    If the parent has a long paragraph below the first header, the paragraphs that it lacks are the
    sender's, but for disclaimers and those below another header. Else all of it is history if a reader would say so:
    the sender's words are above the header, no quote with marks follows it, nobody forwarded it.
    """
    first, *further = headers.iter_rows(named=True)
    sequences, words = word_sequences(parent), " ".join(word_runs(parent.lower()))
    below = []
    for start, end in _paragraphs(body, spans, first["byte_start"]):
        text = body[start:end].decode(errors="replace")
        own, line = word_sequences(text), " ".join(word_runs(text.lower()))
        is_known = (
            line in words
            or len(own & sequences) >= _KNOWN * len(own)
            or DISCLAIMER.compiled.search(text.lower().encode()) is not None
        )
        below.append(_Paragraph(start, end, len(own), is_known))
    deep = further[0]["byte_start"] if further else len(body)
    is_read_so = (
        first["is_below_words"] and not first["is_above_quotes"] and not first["is_forwarded"]
    )
    if any(p.is_known and p.count >= _LONG for p in below) or all(p.is_known for p in below):
        chosen = [p for p in below if p.is_known or (is_read_so and p.start > deep)]
    else:
        chosen = below if is_read_so else []
    return [(p.start, p.end, p.is_known) for p in chosen]


def _paragraphs(
    body: bytes, spans: Sequence[tuple[int, int]], start: int
) -> Iterator[tuple[int, int]]:
    """The byte ranges of runs of lines that are not blank, within the spans behind `start`."""
    reached = start
    for first, end in sorted(spans):
        for match in _PARAGRAPH.finditer(body, min(max(first, reached), end), end):
            yield match.span()
        reached = max(reached, end)


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
