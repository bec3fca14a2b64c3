"""Blocks: the ordered runs of lines of one kind that a mail's body consists of.

A batch of bodies stays one buffer of bytes and lines stay positions in it (`lines`). Each step
classifies the lines that it recognises: quotes, patches, headers, signatures, code, each in its own
module, by the patterns of `rules` and `languages`. Reach (of a hunk, a signature, a run of code) is
array arithmetic. No step looks at a line more than a fixed number of times, so the cost is linear
in the text.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from transforms.mail.blocks.code import mark_code, mark_fences, mark_patches
from transforms.mail.blocks.headers import (
    PASTED,
    Openings,
    mark_headers,
    mark_history,
    pasted_headers,
)
from transforms.mail.blocks.lines import LINE_KINDS, Lines, Mask, read_words
from transforms.mail.blocks.quotes import Marks, mark_initials, mark_quotes
from transforms.mail.blocks.signatures import mark_signatures
from transforms.schemas.mail import MESSAGE_BLOCKS
from transforms.settings.mail import BlockSettings

# Bytes of mail that are read together: enough to pay for compiling the expressions, few enough for
# the processor's cache. The threads that read batches at the same time; more than cores do no harm.
BATCH_SIZE = 16 << 20
_THREADS = 2


def message_blocks(
    messages: pa.Table, settings: BlockSettings, threads: int = _THREADS
) -> pa.Table:
    """The blocks of every body, ordered by message and position.

    Columns: those of `schemas.MESSAGE_BLOCKS`. The blocks of one message are contiguous, from byte
    0 to the end of its body; an empty body has no block. `inferred` is true for a quote that
    carries no mark (text under an Outlook header, the rest of a line a mailer folded) and for code
    that is recognised by the shape of its lines only. The kinds are those of the pginbox design;
    positions are UTF-8 bytes, characters and lines. The result does not depend on `threads`, which
    read batches of mails side by side.
    """
    batches = list(_batches(messages.select(["message_id", "body"])))
    if len(batches) < 2:  # a thread of its own costs a small month a tenth of its time
        parts = [_blocks(batch, settings) for batch in batches]
    else:
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(lambda batch: _blocks(batch, settings), batches))
    return pa.concat_tables([MESSAGE_BLOCKS.empty(), *parts]).combine_chunks()


def headers_in(bodies: pa.ChunkedArray) -> pl.DataFrame:
    """The headers of other mails that are pasted in bodies (`headers.pasted_headers`), by row and byte."""
    numbers = pa.array(range(len(bodies)), pa.int64())
    tables = []
    for batch in _batches(pa.table({"message_id": numbers, "body": bodies})):
        lines = _lines(batch)
        if lines is not None:
            _, diff, openings = _openings(lines)
            first = batch["message_id"][0].as_py()
            tables.append(pasted_headers(lines, openings, diff).with_columns(pl.col("row") + first))
    return pl.concat([pl.DataFrame(schema=PASTED), *tables])


def _batches(messages: pa.Table) -> Iterator[pa.Table]:
    """The mails in runs whose line tables stay in the processor's cache."""
    sizes = np.cumsum(pc.binary_length(messages["body"]).to_numpy())
    start = 0
    while start < len(messages):
        done = sizes[start - 1] if start else 0
        stop = max(int(np.searchsorted(sizes, done + BATCH_SIZE)), start + 1)
        yield messages.slice(start, stop - start)
        start = stop


def _blocks(messages: pa.Table, settings: BlockSettings) -> pa.Table:
    lines = _lines(messages)
    if lines is None:
        return MESSAGE_BLOCKS.empty()
    _classify(lines, settings)
    return _run_length(lines, messages["message_id"])


def _lines(messages: pa.Table) -> Lines | None:
    """The lines of the bodies, None if all of these are empty."""
    body = messages["body"].cast(pa.large_string()).combine_chunks()
    offsets = np.frombuffer(body.buffers()[1], dtype=np.int64)[
        body.offset : body.offset + len(body) + 1
    ]
    if offsets[0] == offsets[-1]:
        return None
    return Lines(body.buffers()[2][offsets[0] : offsets[-1]], offsets - offsets[0])


def _openings(lines: Lines) -> tuple[Marks, Mask, Openings]:
    """Marks quotes, patches and headers; the marks, the rows of diffs, where history may begin."""
    marks = mark_quotes(lines)
    diff = mark_patches(lines)
    mark_fences(lines)
    mark_initials(lines, marks.supercite)
    return marks, diff, mark_headers(lines, marks.supercite)


def _classify(lines: Lines, settings: BlockSettings) -> None:
    """Set the kind, quote depth and inferred mark of every line; an earlier step wins."""
    marks, diff, openings = _openings(lines)
    if settings.unmarked_history != "never":
        mark_history(lines, openings, diff, lists_too=settings.unmarked_history == "always")
    words = read_words(lines)
    mark_signatures(lines, words, diff)
    mark_code(lines, words, diff, marks.python)


def _run_length(lines: Lines, ids: pa.ChunkedArray) -> pa.Table:
    """Equal neighbours of classified lines as blocks with their positions."""
    changed = lines.first.copy()
    for column in (lines.kind, lines.depth, lines.inferred):
        changed[1:] |= column[1:] != column[:-1]
    rows = np.flatnonzero(changed)
    ends = np.append(rows[1:], lines.n)
    opening = lines.message_start[rows]
    m, kind = lines.m[rows], lines.kind[rows]
    index = np.arange(len(rows))
    byte0 = lines.starts[opening]
    stop = np.append(lines.starts[rows[1:]], len(lines.data))
    continued = np.flatnonzero(lines.data.view(np.int8) < -64)
    chars = np.diff(np.searchsorted(continued, np.append(lines.starts[rows], len(lines.data))))
    chars = stop - lines.starts[rows] - chars
    table = pa.table(
        {
            "message_id": ids.take(pa.array(m)),
            "block_index": index - np.maximum.accumulate(np.where(lines.first[rows], index, 0)),
            "kind": pa.DictionaryArray.from_arrays(pa.array(kind), pa.array(LINE_KINDS)).cast(
                pa.string()
            ),
            "quote_depth": lines.depth[rows].astype(np.int64),
            "char_length": chars,
            "line_count": ends - rows,
            "start_line": rows - opening,
            "end_line": ends - opening,
            "byte_start": lines.starts[rows] - byte0,
            "byte_end": stop - byte0,
            "inferred": lines.inferred[rows],
        }
    )
    return MESSAGE_BLOCKS.conform(table)
