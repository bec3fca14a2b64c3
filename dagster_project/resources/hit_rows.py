"""What is told of a hit, and the text it stands in, in files of Arrow batches that are mapped into memory.

A table of a published file is read in thousands of rows; these cost what the few rows cost that are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.errors import IndexUnavailableError

_ROWS_AT_ONCE = 1 << 12
_BATCH_BYTES = 1 << 17
"""Text of a batch, which is decompressed as a whole; a single text may be longer."""
_CHUNKS, _TEXTS = "hit_chunks", "hit_texts"


class HitRows:
    """The rows of a version's chunks, with what their mail, document, section and thread say, and stored texts."""

    def __init__(self, folder: Path, arrays: Mapping[str, np.ndarray]):
        """`arrays` are those that `write_hit_rows` wrote, by name."""
        self._chunks, self._texts = (_Batches(folder, name, arrays) for name in (_CHUNKS, _TEXTS))
        self._row = arrays[f"{_CHUNKS}_row"]

    def of(self, chunks: Iterable[int]) -> dict[int, dict[str, Any]]:
        """What is told of each of these chunks, by its number.

        `chunk_no` and what `schemas.SEARCH_HITS` has of it; `title`, `text_display`, `spans`, `content_class`;
        `node_start` and `node_end` of its section; `text_no`, the number of the text that its bytes are of.
        """
        numbers = np.fromiter(chunks, dtype=np.int64)
        return {row["chunk_no"]: row for row in self._chunks.rows(np.unique(self._row[numbers]))}

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """Stored texts by their number."""
        wanted = np.unique(np.fromiter(numbers, dtype=np.int64))
        return dict(zip(wanted.tolist(), (row["text"] for row in self._texts.rows(wanted)), strict=True))


class _Batches:
    """An Arrow file, and the number of the first row of each of its batches."""

    def __init__(self, folder: Path, name: str, arrays: Mapping[str, np.ndarray]):
        self.path = folder / f"{name}.arrow"
        # A few small buffers are decompressed sooner than other threads are told to.
        alone = pa.ipc.IpcReadOptions(use_threads=False)
        self.reader = pa.ipc.open_file(pa.memory_map(str(self.path)), options=alone)
        self.starts = arrays[f"{name}_starts"]

    def rows(self, numbers: np.ndarray) -> list[dict[str, Any]]:
        """The rows of these numbers, which ascend."""
        places = np.searchsorted(self.starts, numbers, side="right") - 1
        found: list[dict[str, Any]] = []
        try:
            for place in np.unique(places).tolist():
                batch = self.reader.get_batch(place)
                for row in (numbers[places == place] - self.starts[place]).tolist():
                    found += batch.slice(row, 1).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise IndexUnavailableError(
                f"{self.path} is damaged ({error}): delete its folder, and the next search makes it again"
            ) from error
        return found


def write_hit_rows(connection: duckdb.DuckDBPyConnection, folder: Path, count: int) -> None:
    """Write what HitRows reads of the version that `connection` reads, which has `count` chunks."""
    keys = _written(folder, _TEXTS, connection.execute(_STORED), "text", ["key"]).column("key")
    connection.register("hit_texts", pa.table({"key": keys, "text_no": np.arange(len(keys))}))
    numbers = _written(folder, _CHUNKS, connection.execute(_DESCRIBED), "text_display", [], ["chunk_no"])
    connection.unregister("hit_texts")
    row = np.empty(count, dtype=np.int32)
    row[numbers.column("chunk_no").to_numpy()] = np.arange(count, dtype=np.int32)
    np.save(folder / f"{_CHUNKS}_row.npy", row)


def _written(
    folder: Path,
    name: str,
    rows: duckdb.DuckDBPyConnection,
    text: str,
    left_out: Sequence[str],
    returned: Sequence[str] = (),
) -> pa.Table:
    """Write rows as they come without the columns `left_out`; returns these and those to be `returned`."""
    told, starts, count = [], [0], 0
    reader = rows.to_arrow_reader(_ROWS_AT_ONCE)
    columns = [n for n in reader.schema.names if n not in left_out]
    schema = pa.schema([reader.schema.field(n) for n in columns])
    told_schema = pa.schema([reader.schema.field(n) for n in (*left_out, *returned)])
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(folder / f"{name}.arrow"), schema, options=options) as file:
        for batch in reader:
            told.append(batch.select(told_schema.names))
            for part in _parts(batch.select(columns), text):
                file.write_batch(part)
                count += part.num_rows
                starts.append(count)
    np.save(folder / f"{name}_starts.npy", np.array(starts[:-1] if count else starts, dtype=np.int64))
    return pa.Table.from_batches(told, schema=told_schema)


def _parts(batch: pa.RecordBatch, text: str) -> Iterator[pa.RecordBatch]:
    """Slices of a batch with about `_BATCH_BYTES` of text each."""
    sizes = pc.fill_null(pc.binary_length(batch.column(text)), 0).to_numpy(zero_copy_only=False)
    block = np.cumsum(sizes, dtype=np.int64) // _BATCH_BYTES
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), batch.num_rows]
    for start, end in zip(edges, edges[1:], strict=False):
        if end > start:
            yield batch.slice(start, end - start)


_STORED = """
SELECT message_id AS key, body AS text FROM messages
UNION ALL SELECT doc_id, text FROM documents
UNION ALL SELECT doc_id, markdown FROM conversation_windows
UNION ALL SELECT attachment_id, text FROM attachments
"""

# What is no mail has no thread; a section says its place itself, a mail the blocks that its bytes lie in.
_DESCRIBED = """
WITH documents_ AS (
  SELECT message_id AS doc_id, list_id, subject, NULL AS path, from_name, from_addr, effective_at FROM messages
  UNION ALL BY NAME
  SELECT doc_id, title AS subject, path, coalesce(modified_at, created_at) AS effective_at FROM documents
  UNION ALL BY NAME SELECT doc_id, title AS subject, first_at AS effective_at FROM conversation_windows
),
ends AS (SELECT message_id AS doc_id, list(byte_end) AS block_ends FROM blocks GROUP BY message_id),
own AS (
  SELECT *, list_min([s.byte_start FOR s IN spans IF s.role = 'own']) AS byte_start,
    list_max([s.byte_end FOR s IN spans IF s.role = 'own']) AS byte_end
  FROM chunks
)
SELECT c.chunk_no::BIGINT AS chunk_no, c.chunk_id, c.doc_id, c.source_kind, c.chunk_kind, c.source, c.parent_id,
  c.attachment_id, a.filename, c.title, c.text_display, c.spans, c.content_class, c.byte_start, c.byte_end,
  n.breadcrumb, n.heading_start AS node_start, n.byte_end AS node_end,
  d.list_id, d.subject, d.path, d.from_name, d.from_addr, d.effective_at,
  p.thread_id, t.subject AS thread_subject, p.position AS thread_position, t.message_count AS thread_size,
  CASE WHEN c.attachment_id IS NULL AND c.byte_start IS NOT NULL
    THEN len([e FOR e IN b.block_ends IF e <= c.byte_start]) END AS block_index,
  x.text_no
FROM own c
LEFT JOIN documents_ d USING (doc_id)
LEFT JOIN ends b USING (doc_id)
LEFT JOIN thread_tree p ON p.message_id = c.doc_id
LEFT JOIN threads t USING (thread_id)
LEFT JOIN attachments a ON a.attachment_id = c.attachment_id
LEFT JOIN nodes n ON n.node_id = c.parent_id
LEFT JOIN hit_texts x ON x.key = coalesce(c.attachment_id, c.doc_id)
"""
