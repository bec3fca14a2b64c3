"""The best of many scores, and small tables without expressions, because an expression takes ten
times as long.
"""

import numpy as np
import polars as pl
import pyarrow as pa


def rows_at(table: pl.DataFrame, rows: np.ndarray) -> pl.DataFrame:
    """The rows at these places, in their order; those that follow each other are not copied."""
    if not len(rows) or (rows[1:] - rows[:-1] == 1).all():
        return table.slice(int(rows[0]) if len(rows) else 0, len(rows))
    return table[pl.Series(rows.astype(np.uint32))]


def with_values(table: pl.DataFrame, **columns: np.ndarray | pl.Series) -> pl.DataFrame:
    """The table with other values in some of its columns, or with more columns.

    >>> with_values(pl.DataFrame({"a": [1], "b": [2]}), b=np.array([3]), c=np.array([4])).row(0)
    (1, 3, 4)
    """
    result, names = table.clone(), table.columns
    for name, values in columns.items():
        series = pl.Series(name, values)
        if name in names:
            result.replace_column(names.index(name), series)
        else:
            result.insert_column(result.width, series)
    return result


def arrow_series(name: str, values: pa.Array) -> pl.Series:
    """A column of Arrow as one of Polars, which for a first `pl.Series` of such a column loads all
    functions of Arrow.
    """
    return pl.DataFrame(pa.RecordBatch.from_arrays([values], [name])).to_series()


def is_given(column: pl.Series) -> np.ndarray:
    """Which values of a column are not null, without an expression and the functions of Arrow."""
    values = column.to_arrow()
    validity = values.buffers()[0]
    if validity is None:
        return np.full(len(values), values.null_count == 0)
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
    return bits[values.offset : values.offset + len(values)].astype(bool)


def top_k(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the `k` highest finite scores, best first, ties by position."""
    chosen = np.flatnonzero(np.isfinite(scores))
    if k < len(chosen):
        best_scores = scores[chosen]
        edge = np.partition(best_scores, len(best_scores) - k)[len(best_scores) - k]
        chosen = chosen[best_scores >= edge]
    return chosen[np.lexsort((chosen, -scores[chosen]))][:k]
