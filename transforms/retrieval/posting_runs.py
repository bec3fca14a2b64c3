"""Terms of many chunks to postings by sorted runs, so that memory holds a run or a range of terms,
never all of them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from transforms.retrieval import bm25

_HALF = 32
_FIELD = 16
_MOST = 65_535
"""The highest frequency that is kept; a posting has two bytes for it."""
_ROWS_AT_ONCE = 1 << 21
_STATED = ("text", "quote")
"""The fields of a chunk with inferred quotes that `context_terms` has."""
_SCHEMA = pa.schema(
    [
        ("term_id", pa.int32()),
        ("chunk_no", pa.int32()),
        *((f"{f}_tf", pa.uint16()) for f in bm25.FIELDS),
    ]
)


class Run(NamedTuple):
    """Rows of `terms` in order of term and chunk.

    `terms` are the distinct terms, ascending; the rows of the term at place p are `starts[p]` to
    `starts[p + 1]` of `chunks` (the chunk's number, int32) and `counts` (place in `lexical.FIELDS`
    << 16 | frequency, uint32).
    """

    terms: pl.Series
    starts: np.ndarray
    chunks: np.ndarray
    counts: np.ndarray


class Range(NamedTuple):
    """Terms that follow each other, with all their rows: the first and the one after the last, and
    a part of each run.
    """

    first: int
    end: int
    parts: tuple[tuple[int, int], ...]


def posting_run(
    rows: pa.Table,
    chunk_ids: pa.Array,
    numbers: np.ndarray,
    restated: pa.Array,
    lengths: np.ndarray,
) -> Run:
    """Those rows of a `terms` table that are of the chunks `chunk_ids`, whose numbers are
    `numbers`.

    Text and quote of the chunks `restated` are left out. Frequencies are added to `lengths` (int32,
    fields × chunks). Text columns may be dictionaries, which is several times faster.
    """
    import pyarrow.compute as pc  # takes 25 ms, which a search does without

    chunk, field, term = (_encoded(rows.column(n)) for n in ("chunk_id", "field", "term"))
    of_row, fields = chunk.indices.to_numpy(), field.indices.to_numpy()
    place = pc.fill_null(pc.index_in(chunk.dictionary, value_set=chunk_ids), -1).to_numpy()
    is_restated = pc.is_in(chunk.dictionary, value_set=restated).to_numpy(zero_copy_only=False)
    is_stated = pc.is_in(field.dictionary, value_set=pa.array(_STATED)).to_numpy(
        zero_copy_only=False
    )
    is_retained = (place[of_row] >= 0) & ~(is_restated[of_row] & is_stated[fields])
    of_row = place[of_row[is_retained]]
    fields = pc.index_in(field.dictionary, value_set=pa.array(bm25.FIELDS)).to_numpy()[
        fields[is_retained]
    ]
    tf = np.minimum(rows.column("tf").to_numpy()[is_retained], _MOST)
    size = (len(bm25.FIELDS), len(numbers))
    sums = np.bincount(
        fields.astype(np.int64) * size[1] + of_row, weights=tf, minlength=size[0] * size[1]
    )
    lengths[:, numbers] += sums.reshape(size).astype(lengths.dtype)
    codes, terms = _ranked(
        term.indices.to_numpy()[is_retained], pl.Series(term.dictionary, dtype=pl.String)
    )
    chunks = numbers[of_row].astype(np.int32)
    order = np.argsort(codes.astype(np.int64) << _HALF | chunks)
    starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(terms)))])
    counts = fields.astype(np.uint32) << _FIELD | tf.astype(np.uint32)
    return Run(terms, starts, chunks[order], counts[order])


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    unified = column.unify_dictionaries().combine_chunks()
    if isinstance(unified, pa.ChunkedArray):  # of no rows
        return pa.array([], column.type)
    return unified


def _ranked(codes: np.ndarray, dictionary: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The place of each code's term among those that occur, and these in ascending order."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(dictionary)))
    ranks = pl.DataFrame({"code": used, "term": dictionary.gather(used)}).sort("term")
    rank = np.zeros(len(dictionary), dtype=np.int32)
    rank[ranks.get_column("code").to_numpy()] = np.arange(len(used), dtype=np.int32)
    return rank[codes], ranks.get_column("term")


def term_numbers(terms: Sequence[pl.Series]) -> tuple[pl.Series, list[np.ndarray]]:
    """All terms of the runs once, ascending, and for each run the number of each of its terms."""
    encoded = pl.concat([*terms, pl.Series([], dtype=pl.String)]).to_arrow().dictionary_encode()
    every = pl.Series(encoded.dictionary, dtype=pl.String)
    numbers, order = np.empty(len(every), dtype=np.int64), every.arg_sort()
    numbers[order.to_numpy()] = np.arange(len(every))
    ends = np.cumsum([len(own) for own in terms], dtype=np.int64)
    return every.gather(order), np.split(numbers[encoded.indices.to_numpy()], ends)[: len(terms)]


def ranges(
    term_count: int,
    numbers: Sequence[np.ndarray],
    starts: Sequence[np.ndarray],
    rows: int = _ROWS_AT_ONCE,
) -> Iterator[Range]:
    """All terms in ranges of about `rows` rows; a term is never cut."""
    counts = np.zeros(term_count, dtype=np.int64)
    for own, begin in zip(numbers, starts, strict=True):
        counts[own] += np.diff(begin)
    block = (np.cumsum(counts) - counts) // rows
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), term_count] if term_count else []
    for first, end in zip(edges[:-1], edges[1:], strict=True):
        places = (np.searchsorted(own, (first, end)).tolist() for own in numbers)
        yield Range(first, end, tuple((low, high) for low, high in places))


def postings(
    parts: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
) -> pa.RecordBatch:
    """The postings of parts of runs, in order of term and chunk.

    A part is the numbers of its terms, how many rows each has, and the rows' chunks and counts as
    in `Run`.
    """
    keys = np.concatenate(
        [np.repeat(n, r).astype(np.int64) << _HALF | chunks for n, r, chunks, _ in parts]
    )
    counts = np.concatenate([part[3] for part in parts])
    order = np.argsort(keys)
    keys, counts = keys[order], counts[order]
    is_new = np.diff(keys, prepend=-1) != 0
    tfs = np.zeros((len(bm25.FIELDS), int(is_new.sum())), dtype=np.uint16)
    tfs[counts >> _FIELD, np.cumsum(is_new) - 1] = counts & _MOST
    keys = keys[is_new]
    columns = [(keys >> _HALF).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32), *tfs]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=_SCHEMA)


def no_postings() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_arrays(
        [pa.array([], field.type) for field in _SCHEMA], schema=_SCHEMA
    )
