"""Postings of one version made from those of the one before: renumbered, and new ones put in their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

GONE = -1
_HALF = 32


def merged_postings(
    before: Iterable[pa.RecordBatch], term_of: np.ndarray, chunk_of: np.ndarray, added: pa.Table
) -> Iterator[pa.RecordBatch]:
    """All postings in order of term and chunk, in batches with the columns of `added`.

    `before` and `added` have the columns term_id, chunk_no and frequencies, both in this order. Numbers of
    `before` become those that `term_of` and `chunk_of` have at their place, which must keep their order; a
    posting of a term or chunk that is GONE is left out. Numbers of `added` are the new ones. One pass over both,
    in memory a batch and what is added.
    """
    columns = {name: added.column(name).to_numpy() for name in added.column_names}
    wanted = _keys(columns["term_id"], columns["chunk_no"])
    taken = 0
    for batch in before:
        kept = {name: batch.column(name).to_numpy() for name in columns}
        kept["term_id"], kept["chunk_no"] = term_of[kept["term_id"]], chunk_of[kept["chunk_no"]]
        stays = (kept["term_id"] != GONE) & (kept["chunk_no"] != GONE)
        kept = {name: values[stays] for name, values in kept.items()}
        keys = _keys(kept["term_id"], kept["chunk_no"])
        if not len(keys):
            continue
        until = int(np.searchsorted(wanted, keys[-1]))
        places = np.searchsorted(keys, wanted[taken:until])
        yield _batch(
            {name: np.insert(kept[name], places, columns[name][taken:until]) for name in columns},
            added.schema,
        )
        taken = until
    yield _batch({name: values[taken:] for name, values in columns.items()}, added.schema)


def _keys(terms: np.ndarray, chunks: np.ndarray) -> np.ndarray:
    return terms.astype(np.int64) << _HALF | chunks


def _batch(columns: dict[str, np.ndarray], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema
    )
