"""Postings, vectors and ids of a version as arrays in files, which a search maps into memory."""

from __future__ import annotations

import hashlib
import re
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from transforms.embedding.sign_codes import WORD_BITS, sign_codes
from transforms.embedding.vectors import fixed_point, matrix
from transforms.retrieval import bm25

_WIDTH = -(-len(bm25.FIELDS) // 4) * 4
_FREQUENCY = np.dtype("<u2")


class WrittenArray(AbstractContextManager["WrittenArray"]):
    """An array that is written row by row; mapped pages would count as memory of the process."""

    def __init__(self, file: Path, type_: type[np.generic], *row: int):
        """`row` is the shape of one row."""
        self.file, self.type, self.row, self.count = file.open("wb"), np.dtype(type_), row, 0
        self._write_head()

    def __exit__(self, *fault: object) -> None:
        self.file.seek(0)
        self._write_head()
        self.file.close()

    def _write_head(self) -> None:
        """The head of the file, whose length does not depend on the number of rows."""
        shape = (self.count, *self.row)
        head = {
            "descr": np.lib.format.dtype_to_descr(self.type),
            "fortran_order": False,
            "shape": shape,
        }
        np.lib.format.write_array_header_1_0(self.file, head)

    def add(self, rows: np.ndarray) -> None:
        """Write the rows that follow."""
        np.ascontiguousarray(rows, dtype=self.type).tofile(self.file)
        self.count += len(rows)


class PostingArrays(AbstractContextManager["PostingArrays"]):
    """Chunk numbers of all postings by term, their codes, and the frequencies per field of each
    code.

    Few thousand combinations of frequencies occur in millions of postings, so a posting is a chunk
    and the number of a combination, in the order of their bytes.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._chunks = WrittenArray(folder / "chunks.npy", np.int32)
        self._coded = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._parts: list[tuple[np.dtype, int]] = []
        self._code_of: dict[bytes, int] = {}

    def __exit__(self, fault: type[BaseException] | None, *more: object) -> None:
        with self._coded:
            self._chunks.__exit__()
            if fault is None:
                self._write_codes()

    def _write_codes(self) -> None:
        """Write the frequencies of all combinations in the order of their bytes, and the number of
        each posting's in it.
        """
        in_order = sorted(self._code_of)
        counts = np.frombuffer(b"".join(in_order), dtype=_FREQUENCY).reshape(-1, _WIDTH)
        np.save(self.folder / "counts.npy", counts[:, : len(bm25.FIELDS)])
        numbers = np.zeros(len(in_order), np.uint16 if len(in_order) <= 1 << 16 else np.uint32)
        numbers[[self._code_of[word] for word in in_order]] = np.arange(len(in_order))
        self._coded.seek(0)
        with WrittenArray(self.folder / "codes.npy", numbers.dtype.type) as array:
            for type_, count in self._parts:
                array.add(numbers[np.fromfile(self._coded, type_, count)])

    def add(self, chunks: np.ndarray, counts: np.ndarray) -> None:
        """The postings that follow in order of term and chunk: their chunks, and their
        `frequencies`.
        """
        self._chunks.add(chunks)
        codes = _coded(counts, self._code_of)
        codes.tofile(self._coded)
        self._parts.append((codes.dtype, len(codes)))


def _coded(counts: np.ndarray, code_of: dict[bytes, int]) -> np.ndarray:
    """The code of each posting with these `frequencies`; combinations that are new are added to
    `code_of`.
    """
    width = counts.shape[1] * counts.itemsize
    rows = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(counts), [None, pa.py_buffer(np.ascontiguousarray(counts))]
    ).dictionary_encode()
    numbers = [code_of.setdefault(key, len(code_of)) for key in rows.dictionary.to_pylist()]
    small = np.uint16 if len(code_of) <= 1 << 16 else np.uint32
    return np.array(numbers, dtype=small)[rows.indices.to_numpy()]


def frequencies(batch: pa.RecordBatch) -> np.ndarray:
    """The frequencies of postings in each field, uint16 of shape (postings, fields), padded to
    whole words.
    """
    counts = np.zeros((batch.num_rows, _WIDTH), dtype=_FREQUENCY)
    for place, field in enumerate(bm25.FIELDS):
        counts[:, place] = batch.column(f"{field}_tf").to_numpy()
    return counts


def padded(counts: np.ndarray) -> np.ndarray:
    """The frequencies that stand in `counts.npy`, of shape (rows, fields), as `frequencies` gives
    them.
    """
    return np.pad(counts, ((0, 0), (0, _WIDTH - counts.shape[1])))


FREQUENCIES = ", ".join(f"{field}_tf" for field in bm25.FIELDS)
"""The columns that `frequencies` reads."""


VECTORS_IN = "vectors_in"
"""The entry of the manifest with the service that has the vectors of a version without vectors and
a table of postings.
"""
_VECTORS_AT_ONCE = 1 << 15


def write_vectors(
    connection: duckdb.DuckDBPyConnection, folder: Path, count: int, dimensions: int, relation: str
) -> None:
    """Write the vectors of a relation by chunk number, zeros if there is none, and the words of
    their signs.
    """
    folder.mkdir(exist_ok=True)
    codes = np.zeros((-(-dimensions // WORD_BITS), count), dtype=np.uint64)
    done = 0
    with WrittenArray(folder / "vectors.npy", np.int16, dimensions) as array:
        numbers = connection.execute(f"SELECT chunk_no FROM {relation}").fetchnumpy()["chunk_no"]
        in_order = "" if (np.diff(numbers) > 0).all() else "ORDER BY chunk_no"
        result = connection.execute(f"SELECT chunk_no, vector FROM {relation} {in_order}")
        for batch in result.to_arrow_reader(_VECTORS_AT_ONCE):
            rows = batch.column("chunk_no").to_numpy()
            part = np.zeros((int(rows[-1]) + 1 - done, dimensions), dtype=np.float32)
            part[rows - done] = matrix(pa.chunked_array([batch.column("vector")]))
            codes[:, done : done + len(part)] = sign_codes(part)
            array.add(fixed_point(part))
            done += len(part)
        array.add(np.zeros((count - done, dimensions), dtype=np.int16))
    np.save(folder / "vector_codes.npy", codes)


def vectors_at(
    connection: duckdb.DuckDBPyConnection, statement: str, chunks: np.ndarray, dimensions: int
) -> np.ndarray:
    """The `fixed_point` of the vectors that a statement selects, by ascending number; zeros for a
    chunk without one.
    """
    vectors = np.zeros((len(chunks), dimensions), dtype=np.int16)
    table = connection.execute(statement).to_arrow_table()
    rows = np.searchsorted(chunks, table.column("chunk_no").to_numpy())
    vectors[rows] = fixed_point(matrix(table.column("vector")))
    return vectors


_CHUNK_ID = re.compile("[0-9a-f]{16,}")
_KEY_DIGITS = 16


class KnownIds(NamedTuple):
    """The `id_hash` of every mail, document, window and section, and the keys of all chunks; both
    ascend.
    """

    hashes: np.ndarray
    chunk_keys: np.ndarray

    def may_have(self, name: str) -> bool:
        """False if nothing has this id."""
        if _CHUNK_ID.fullmatch(name) and _holds(self.chunk_keys, int(name[:_KEY_DIGITS], 16)):
            return True
        return _holds(self.hashes, id_hash(name))


def id_hash(name: str) -> int:
    """The lower half of the MD5 hash of an id, as DuckDB's `md5_number_lower` gives it."""
    return int.from_bytes(hashlib.md5(name.encode(), usedforsecurity=False).digest()[8:], "little")


def _holds(ascending: np.ndarray, value: int) -> bool:
    place = int(np.searchsorted(ascending, np.uint64(value)))
    return place < len(ascending) and int(ascending[place]) == value


ID_HASHES = """
SELECT md5_number_lower(message_id) AS hash FROM messages
UNION ALL SELECT md5_number_lower(doc_id) FROM documents
UNION ALL SELECT md5_number_lower(doc_id) FROM conversation_windows
UNION ALL SELECT md5_number_lower(node_id) FROM nodes
"""
"""The statement that selects the hashes of `KnownIds`, in any order."""
