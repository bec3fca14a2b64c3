"""Rows of a published file by their number: a scan by id reads a whole column of texts, a row number one row."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import numpy as np
import polars as pl

TABLES = ("chunks", "messages", "thread_tree", "threads")
_BLOCKS = (len(TABLES), len(TABLES) + 1)
_SINGLE_ROWS = 100
"""Rows up to which each is read alone; above, DuckDB looks through the table."""


def row_numbers(connection: duckdb.DuckDBPyConnection, count: int) -> np.ndarray:
    """For each of `count` chunks its row in TABLES, and the first and last row of its mail in `blocks`.

    int32 of shape (tables and 2, chunks), by chunk number; -1 where there is none.
    """
    found = connection.execute(_ROWS).to_arrow_table()
    numbers = found.column("chunk_no").to_numpy()
    rows = np.full((len(TABLES) + len(_BLOCKS), count), -1, dtype=np.int32)
    for place, name in enumerate([*TABLES, "first_block", "last_block"]):
        rows[place, numbers] = found.column(name).fill_null(-1).to_numpy()
    return rows


class TableRows:
    """Statements that give the rows of some chunks, their mails and threads."""

    def __init__(self, rows: np.ndarray):
        self.rows = rows

    def of(self, table: str, chunks: Iterable[int] | pl.Series) -> str:
        """A SELECT of the rows of one of TABLES that belong to the chunks."""
        found = self._numbers(TABLES.index(table), chunks)
        if not found:
            return f"SELECT * FROM {table} LIMIT 0"
        if len(found) > _SINGLE_ROWS:
            return f"SELECT * FROM {table} WHERE rowid IN ({', '.join(map(str, found))})"
        return " UNION ALL ".join(f"SELECT * FROM {table} WHERE rowid = {n}" for n in found)

    def blocks(self, chunks: Iterable[int] | pl.Series) -> str:
        """A SELECT of rows of `blocks` among which are those of the mails of the chunks."""
        first, last = (self.rows[place][_array(chunks)] for place in _BLOCKS)
        ranges = sorted({(int(a), int(b)) for a, b in zip(first, last, strict=True) if a >= 0})
        if not ranges:
            return "SELECT * FROM blocks LIMIT 0"
        if len(ranges) > _SINGLE_ROWS:
            return "SELECT * FROM blocks"
        return " UNION ALL ".join(f"SELECT * FROM blocks WHERE rowid BETWEEN {a} AND {b}" for a, b in ranges)

    def _numbers(self, place: int, chunks: Iterable[int] | pl.Series) -> list[int]:
        return sorted({int(n) for n in self.rows[place][_array(chunks)] if n >= 0})


def _array(chunks: Iterable[int] | pl.Series) -> np.ndarray:
    return np.array(list(chunks), dtype=np.int64)


_ROWS = """
SELECT c.chunk_no, c.row AS chunks, m.row AS messages, p.row AS thread_tree, t.row AS threads,
  b.first_block, b.last_block
FROM (SELECT rowid AS row, chunk_no, doc_id FROM chunks) c
LEFT JOIN (SELECT rowid AS row, message_id FROM messages) m ON m.message_id = c.doc_id
LEFT JOIN (SELECT rowid AS row, message_id, thread_id FROM thread_tree) p ON p.message_id = c.doc_id
LEFT JOIN (SELECT rowid AS row, thread_id FROM threads) t ON t.thread_id = p.thread_id
LEFT JOIN (
  SELECT message_id, min(rowid) AS first_block, max(rowid) AS last_block FROM blocks GROUP BY message_id
) b ON b.message_id = c.doc_id
"""
