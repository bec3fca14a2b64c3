"""Which chunks of documents are code, by the two rules of the Information Graph: that of its text
and that of its data.
"""

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.extras.graph.transforms.schema import CHUNK_CLASSES
from dagster_project.extras.graph.transforms.settings import GraphSettings
from transforms.documents.markdown import outline
from transforms.schemas.table import rows_of
from transforms.settings.documents import PLAIN_FORMATS

HALF = 0.5
"""Share of all lines beyond which a chunk is code (Information Graph, section 5)."""


def chunk_classes(documents: pa.Table, chunks: pa.Table, settings: GraphSettings) -> pa.Table:
    """The class of every chunk, as `schemas.CHUNK_CLASSES`, ordered by document and position.

    `documents` has doc_id, format, text and body_start, `chunks` chunk_id, doc_id, chunk_index,
    text_display, spans and is_code, which is the rule over lines with text. The other rule
    takes lines inside fences against all lines of the chunk, the fences themselves among them.
    """
    frame = pl.DataFrame(chunks.sort_by([("doc_id", "ascending"), ("chunk_index", "ascending")]))
    spans = pl.col("spans").list
    frame = frame.with_columns(
        start=spans.eval(pl.element().struct.field("byte_start")).list.min().fill_null(0),
        end=spans.eval(pl.element().struct.field("byte_end")).list.max().fill_null(0),
        line_count=pl.col("text_display").str.count_matches("\n", literal=True).cast(pl.Int64) + 1,
    )
    counts = _code_lines(documents, frame.select("doc_id", "start", "end"))
    lines = pl.col("code_line_count") > HALF * pl.col("line_count")
    frame = frame.with_columns(code_line_count=counts, is_code_text="is_code").with_columns(
        is_code_lines=lines
    )
    rule = "is_code_text" if settings.profile == "data" else "is_code_lines"
    return CHUNK_CLASSES.conform(
        frame.with_columns(is_code=rule).select(CHUNK_CLASSES.names).to_arrow()
    )


def _code_lines(documents: pa.Table, ranges: pl.DataFrame) -> pl.Series:
    """For each range of bytes of a document, in order of documents, the lines inside its fences."""
    counts = np.zeros(len(ranges), dtype=np.int64)
    runs = ranges["doc_id"].rle().struct.unnest()
    ends = runs["len"].cum_sum().to_list()
    row_ranges = {
        d: slice(e - n, e) for d, e, n in zip(runs["value"], ends, runs["len"], strict=True)
    }
    starts, closes = ranges["start"].to_numpy(), ranges["end"].to_numpy()
    names = ("doc_id", "format", "text", "body_start")
    for doc_id, kind, text, body_start in rows_of(documents, *names):
        rows = row_ranges.get(doc_id)
        if rows is None or kind in PLAIN_FORMATS or ("```" not in text and "~~~" not in text):
            continue
        inside = _lines_in_fences(text, body_start)
        counts[rows] = np.searchsorted(inside, closes[rows]) - np.searchsorted(inside, starts[rows])
    return pl.Series(counts, dtype=pl.Int64)


def _lines_in_fences(text: str, body_start: int) -> np.ndarray:
    """The first bytes of the lines inside the fenced code of a text, in order."""
    data = text.encode()
    lines = np.append(0, np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1)
    inside = []
    for start, end, fenced in outline(text, body_start).code:
        if fenced:
            first = np.searchsorted(lines, start, side="right")
            between = lines[first : np.searchsorted(lines, end)]
            closed = data[start:end].rstrip().endswith((b"```", b"~~~")) and len(between)
            inside.append(between[:-1] if closed else between)
    return np.concatenate([*inside, np.zeros(0, dtype=np.int64)])
