"""The segments of the arrays beside a published file, shared by versions."""

import bisect
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from dagster_project.index.files.checksums import damaged, file_damages
from dagster_project.index.files.posting_arrays import PostingArrays, WrittenArray, padded
from transforms.retrieval import bm25
from transforms.retrieval.posting_runs import Range, ranges, term_numbers

_FACTOR = 4
_TERMS_PER_GUIDE = 512
"""Terms between two that are kept in memory to be searched first."""
_TERMS_KNOWN = 1 << 16
"""Terms whose numbers are remembered: some 10 MB."""
_VECTORS_AT_ONCE = 1 << 15


class SortedTerms:
    """Numbers of terms by binary search in their sorted UTF-8 bytes."""

    def __init__(self, data: np.ndarray, ends: np.ndarray):
        self.data, self.ends, self.count = data.data, ends.data, len(ends) - 1
        self.guides = [self._at(number) for number in range(0, self.count, _TERMS_PER_GUIDE)]
        self._known: dict[str, int | None] = {}

    def get(self, term: str, /) -> int | None:
        """The number of a term; None if there is none."""
        if term in self._known:
            return self._known[term]
        if len(self._known) >= _TERMS_KNOWN:
            self._known.clear()
        self._known[term] = self._number(term)
        return self._known[term]

    def _number(self, term: str, /) -> int | None:
        key = term.encode()
        high = bisect.bisect_right(self.guides, key) * _TERMS_PER_GUIDE
        between = range(max(0, high - _TERMS_PER_GUIDE), min(high, self.count))
        place = between.start + bisect.bisect_left(between, key, key=self._at)
        return place if place < between.stop and self._at(place) == key else None

    def _at(self, number: int) -> bytes:
        return self.data[self.ends[number] : self.ends[number + 1]].tobytes()


def segment_name(number: int) -> str:
    """The folder of a segment; chunks have their slots in the order of these names."""
    return f"segment-{number:05}"


def segments_of(folder: Path) -> list[Path]:
    """The segments of a version, in their order."""
    return sorted(folder.glob("segment-*"))


def chunks_in(segment: Path) -> int:
    """The chunks of a segment, those included that are gone."""
    return int(np.load(segment / "lengths.npy", mmap_mode="r").shape[1])


def share(segment: Path, folder: Path) -> None:
    """Put a segment of another version into the folder of this one."""
    (folder / segment.name).mkdir()
    for path in segment.iterdir():
        os.link(path, folder / segment.name / path.name)


def write_terms(folder: Path, terms: pa.ChunkedArray, counts: np.ndarray | None = None) -> None:
    """The bytes of all terms, which ascend, and where each ends; and where its postings begin, if
    there are `counts`.
    """
    data = terms.cast(pa.large_binary()).to_pylist()
    np.save(folder / "term_bytes.npy", np.frombuffer(b"".join(data), dtype=np.uint8))
    np.save(folder / "term_ends.npy", np.cumsum([0, *map(len, data)]))
    if counts is not None:
        np.save(folder / "starts.npy", np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def read_terms(folder: Path) -> pl.Series:
    """The terms that `write_terms` wrote."""
    data, ends = (np.load(folder / f"{name}.npy") for name in ("term_bytes", "term_ends"))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pl.Series(
        "term", pa.Array.from_buffers(pa.large_string(), len(ends) - 1, buffers), pl.String
    )


def postings_of(folder: Path, chunks: np.ndarray) -> pl.DataFrame:
    """The postings of some chunks of a version, by number: columns term, chunk_no and the
    frequencies.

    IndexUnavailableError if a file of the version is damaged.
    """
    if damage := next(file_damages(folder, reads_all=True), None):
        raise damaged(folder, damage)
    columns = {"term": pl.String, "chunk_no": pl.Int32} | {
        f"{field}_tf": pl.UInt16 for field in bm25.FIELDS
    }
    parts, first = [pl.DataFrame(schema=columns)], 0
    slots = np.load(folder / "slots.npy")[chunks]
    for segment in segments_of(folder):
        postings = _Stored(segment)
        number = np.full(chunks_in(segment), -1, dtype=np.int32)
        is_here = (slots >= first) & (slots < first + len(number))
        number[slots[is_here] - first] = chunks[is_here]
        first += len(number)
        rows = np.flatnonzero(number[postings.chunks] >= 0)
        terms = postings.terms.gather(np.searchsorted(postings.starts, rows, side="right") - 1)
        frequencies = postings.counts[postings.codes[rows]].T[: len(bm25.FIELDS)]
        values = dict(
            zip(columns, (terms, number[postings.chunks[rows]], *frequencies), strict=True)
        )
        parts.append(pl.DataFrame(values, schema=columns))
    return pl.concat(parts)


def first_merged(sizes: Sequence[int]) -> int:
    """The place of the first segment that is merged with all behind it; that of the last one if
    none is.
    """
    first = len(sizes) - 1
    while first > 0 and sizes[first - 1] < _FACTOR * sum(sizes[first:]):
        first -= 1
    return first


def merge(segments: Sequence[Path], stays: Sequence[np.ndarray], merged: Path) -> pl.DataFrame:
    """Write the chunks of some segments that stay, one segment after the other, as one.

    Returns the terms of the chunks that do not stay, and of how many each was: columns term and df.
    """
    merged.mkdir()
    lengths = [
        np.load(s / "lengths.npy", mmap_mode="r")[:, rows]
        for s, rows in zip(segments, stays, strict=True)
    ]
    np.save(merged / "lengths.npy", np.concatenate(lengths, axis=1))
    if (segments[0] / "vectors.npy").exists():
        _merge_vectors(segments, stays, merged)
    return _merge_postings([_Stored(segment) for segment in segments], stays, merged)


def _merge_vectors(segments: Sequence[Path], stays: Sequence[np.ndarray], merged: Path) -> None:
    parts = list(zip(segments, stays, strict=True))
    codes = [np.load(s / "vector_codes.npy", mmap_mode="r")[:, rows] for s, rows in parts]
    np.save(merged / "vector_codes.npy", np.concatenate(codes, axis=1))
    dimensions = np.load(segments[0] / "vectors.npy", mmap_mode="r").shape[1]
    with WrittenArray(merged / "vectors.npy", np.int16, dimensions) as array:
        for segment, rows in parts:
            vectors = np.load(segment / "vectors.npy", mmap_mode="r")
            for start in range(0, len(vectors), _VECTORS_AT_ONCE):
                part = slice(start, start + _VECTORS_AT_ONCE)
                array.add(vectors[part][rows[part]])


class _Stored:
    """The postings of a segment."""

    def __init__(self, segment: Path):
        self.starts, self.chunks, self.codes, self.counts = (
            np.load(segment / f"{name}.npy", mmap_mode="r")
            for name in ("starts", "chunks", "codes", "counts")
        )
        self.counts = padded(self.counts)
        self.terms = read_terms(segment)

    def rows(self, low: int, high: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How many postings each term from `low` to `high` has, their chunks, and their frequencies
        by field.
        """
        part = slice(int(self.starts[low]), int(self.starts[high]))
        return (
            np.diff(self.starts[low : high + 1]),
            self.chunks[part],
            self.counts[self.codes[part]],
        )


def _merge_postings(
    stored: Sequence[_Stored], stays: Sequence[np.ndarray], merged: Path
) -> pl.DataFrame:
    terms, numbers = term_numbers([segment.terms for segment in stored])
    before, after = np.zeros((2, len(terms)), dtype=np.int64)
    with PostingArrays(merged) as arrays:
        for part in ranges(len(terms), numbers, [segment.starts for segment in stored]):
            term, is_there, chunk, counts = _of_range(part, stored, numbers, stays)
            before += np.bincount(term, minlength=len(terms))
            order = np.argsort(term[is_there], kind="stable")
            arrays.add(chunk[is_there][order], counts[is_there][order])
            after += np.bincount(term[is_there], minlength=len(terms))
    write_terms(merged, pa.chunked_array([terms.filter(after > 0).to_arrow()]), after[after > 0])
    lost = before > after
    return pl.DataFrame({"term": terms.filter(lost), "df": (before - after)[lost]})


def _of_range(
    part: Range,
    stored: Sequence[_Stored],
    numbers: Sequence[np.ndarray],
    stays: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The postings of a range of terms, segment by segment: term, whether the chunk stays, its
    number, frequencies.
    """
    columns, first = [], 0
    for segment, own, rows, (low, high) in zip(stored, numbers, stays, part.parts, strict=True):
        sizes, chunks, counts = segment.rows(low, high)
        places = first + np.cumsum(rows, dtype=np.int32) - np.int32(1)
        columns.append((np.repeat(own[low:high], sizes), rows[chunks], places[chunks], counts))
        first += int(np.count_nonzero(rows))
    term, is_there, chunk, counts = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    return term, is_there, chunk, counts
