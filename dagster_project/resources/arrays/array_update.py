"""The arrays beside a published file made of those of the version before: what is new is put between what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np

from dagster_project.resources.arrays.arrays import SortedTerms, appearing, write_narrow
from dagster_project.resources.arrays.hit_rows import update_hit_rows
from dagster_project.resources.arrays.posting_arrays import (
    FREQUENCIES,
    WrittenArray,
    coded,
    frequencies,
    known_codes,
    write_codes,
)
from transforms.embedding.sign_codes import sign_codes
from transforms.embedding.vectors import stacked
from transforms.retrieval.merged_postings import GONE, AddedTerms, SortedPostings, merged_postings

_VECTORS_AT_ONCE = 1 << 15
_POSTINGS_AT_ONCE = 1 << 20


def update_arrays(
    connection: duckdb.DuckDBPyConnection, folder: Path, facts: dict[str, str], before: Path
) -> None:
    """Write the arrays of the version that `connection` has updated to `folder`; `before` has those of the one before.

    They are the same bytes as after a full rebuild, but for the rows of hits, whose order nobody is promised.
    ValueError if they do not fit each other.
    """
    old_no, new_no, is_recounted = _numbers(connection)
    count_before = np.load(before / "lengths.npy", mmap_mode="r").shape[1]
    was_there = old_no >= 0
    source = np.full(len(new_no), -1, dtype=np.int32)
    source[new_no[was_there]] = old_no[was_there]
    chunk_of = np.full(count_before, GONE, dtype=np.int32)
    stays = was_there & ~is_recounted
    chunk_of[old_no[stays]] = new_no[stays]
    with appearing(folder, facts) as aside:
        # Counting the rows of the file would read for each posting whether it was deleted, all of it into memory.
        _update_postings(connection, aside, before, chunk_of, json.loads(facts["rows"]))
        _update_vectors(connection, aside, before, source)
        update_hit_rows(connection, aside, before, source)
        write_narrow(connection, aside)


def _numbers(connection: duckdb.DuckDBPyConnection) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each chunk its number before (-1 for none) and now, and whether its terms were counted again."""
    rows = connection.execute(_NUMBERS).fetchnumpy()
    return rows["old_no"], rows["new_no"], rows["is_recounted"]


def _update_postings(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    before: Path,
    chunk_of: np.ndarray,
    rows_of: Mapping[str, int],
) -> None:
    data, ends, starts, chunks, codes = (
        np.load(before / f"{name}.npy", mmap_mode="r").view(np.ndarray)
        for name in ("term_bytes", "term_ends", "starts", "chunks", "codes")
    )
    came = connection.execute(_CAME).to_arrow_table()
    terms = [term.encode() for term in came.column("term").to_pylist()]
    new_terms = SortedTerms(data, ends)
    places = [new_terms.place(term) for term in terms]
    added = AddedTerms(
        np.array([place for place, _ in places], dtype=np.int64),
        np.array([not is_there for _, is_there in places], dtype=bool),
        came.column("df").to_numpy().astype(np.int64),
    )
    rows = connection.execute(_ADDED).to_arrow_table().combine_chunks()
    known = known_codes(np.load(before / "counts.npy"))
    new = [coded(frequencies(batch), known) for batch in rows.to_batches()]
    postings, is_empty = merged_postings(
        SortedPostings(starts, chunks, codes),
        chunk_of,
        added,
        rows.column("chunk_no").to_numpy(),
        np.concatenate([np.zeros(0, codes.dtype), *new]),
    )
    if (len(postings.starts) - 1, len(postings.chunks)) != (rows_of["terms"], rows_of["postings"]):
        raise ValueError(f"the arrays in {before} are not those of its file")
    np.save(folder / "starts.npy", postings.starts)
    np.save(folder / "chunks.npy", postings.chunks)
    parts = range(0, len(postings.codes), _POSTINGS_AT_ONCE)
    write_codes(folder, lambda: (postings.codes[start : start + _POSTINGS_AT_ONCE] for start in parts), known)
    _update_terms(
        folder,
        data,
        ends,
        is_empty,
        [(p, t) for (p, there), t in zip(places, terms, strict=True) if not there],
    )


def _update_terms(
    folder: Path, data: np.ndarray, ends: np.ndarray, is_empty: np.ndarray, new: list[tuple[int, bytes]]
) -> None:
    """Write the terms without those that are empty, and with new ones before those that have their places."""
    # At one place, the new ones come first.
    changes = [
        *((place, 0, term) for place, term in new),
        *((int(p), 1, b"") for p in np.flatnonzero(is_empty)),
    ]
    parts, start = [], 0
    for place, is_gone, term in sorted(changes):
        parts += [data[ends[start] : ends[place]].tobytes(), term]
        start = place + is_gone
    parts.append(data[ends[start] :].tobytes())
    sizes = np.diff(ends)
    sizes = np.insert(sizes, [place for place, _ in new], [len(term) for _, term in new])
    removed = np.insert(is_empty, [place for place, _ in new], False)
    np.save(folder / "term_bytes.npy", np.frombuffer(b"".join(parts), dtype=np.uint8))
    np.save(folder / "term_ends.npy", np.concatenate([[0], np.cumsum(sizes[~removed])]).astype(np.int64))


def _update_vectors(
    connection: duckdb.DuckDBPyConnection, folder: Path, before: Path, source: np.ndarray
) -> None:
    old, old_codes = (np.load(before / f"{name}.npy", mmap_mode="r") for name in ("vectors", "vector_codes"))
    count, dimensions = len(source), old.shape[1]
    reembedded = connection.execute(_REEMBEDDED).fetchnumpy()["chunk_no"]
    vectors = np.zeros((len(reembedded), dimensions), dtype=np.float32)
    table = connection.execute(_VECTORS_ANEW).to_arrow_table()
    vectors[np.searchsorted(reembedded, table.column("chunk_no").to_numpy())] = stacked(table, dimensions)
    with WrittenArray(folder / "vectors.npy", np.float32, dimensions) as array:
        for start in range(0, count, _VECTORS_AT_ONCE):
            part = source[start : start + _VECTORS_AT_ONCE]
            rows = old.take(part, axis=0, mode="clip") if len(old) else np.zeros((len(part), dimensions))
            low, high = np.searchsorted(reembedded, (start, start + len(part)))
            rows[reembedded[low:high] - start] = vectors[low:high]
            array.add(rows)
    codes = np.empty((len(old_codes), count), dtype=np.uint64)
    if len(old):
        old_codes.take(source, axis=1, out=codes, mode="clip")
    codes[:, reembedded] = sign_codes(vectors)
    np.save(folder / "vector_codes.npy", codes)
    absent = connection.execute("SELECT chunk_no FROM embedding_refusals ORDER BY chunk_no").fetchnumpy()
    np.save(folder / "absent.npy", absent["chunk_no"].astype(np.int64))


_NUMBERS = """
SELECT coalesce(old_no, -1) AS old_no, new_no, chunk_key IN (SELECT chunk_key FROM recounted) AS is_recounted FROM numbers
"""
_CAME = "SELECT term, df FROM came_to_terms ORDER BY term"
_ADDED = f"SELECT chunk_no, {FREQUENCIES} FROM added JOIN chunks USING (chunk_key) ORDER BY term, chunk_no"
_REEMBEDDED = "SELECT chunk_no FROM chunks WHERE chunk_id IN (FROM reembedded) ORDER BY chunk_no"
# By the numbers of rows: else all vectors would be read before the rows are chosen.
_VECTORS_ANEW = """
SELECT chunk_no, vector FROM embeddings
WHERE rowid IN (SELECT rowid FROM embeddings WHERE chunk_id IN (FROM reembedded))
"""
