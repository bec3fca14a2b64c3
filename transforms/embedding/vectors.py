"""Vectors as tables: how many texts go out at once, checked vectors coming back."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from transforms.errors import EmbeddingError
from transforms.schemas.chunks import EMBEDDING_REFUSALS, embeddings_table

_STEPS = 1 << 14
"""Steps between 0 and 1 of a number of a vector: 16 bits hold it, and float32 holds it exactly."""


def batch_ranges(
    counts: Sequence[int], most_texts: int, most_tokens: int | None
) -> Iterator[range]:
    """Neighbouring texts as ranges of at most `most_texts` texts and `most_tokens` tokens, in
    order.

    `counts` are the tokens of each text; a text of more tokens is a range of its own.

    >>> list(batch_ranges([3, 3, 9, 1], most_texts=2, most_tokens=8))
    [range(0, 2), range(2, 3), range(3, 4)]
    """
    start = tokens = 0
    for position, count in enumerate(counts):
        full = position - start == most_texts or (
            most_tokens is not None and tokens + count > most_tokens
        )
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += count
    if start < len(counts):
        yield range(start, len(counts))


def matrix(vectors: pa.ChunkedArray) -> np.ndarray:
    """A column of vectors of one length as float32 of shape (rows, dimensions)."""
    parts = [chunk.flatten().to_numpy() for chunk in vectors.chunks]
    width = getattr(vectors.type, "list_size", -1 if len(vectors) else 0)
    return np.concatenate([np.empty(0, np.float32), *parts]).reshape(len(vectors), width)


def table_of(hashes: Sequence[str], vectors: np.ndarray) -> pa.Table:
    """Columns `text_hash` and `vector` of texts and their vectors, float32 of shape (texts,
    dimensions).
    """
    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    names = pa.array(hashes, pa.string())
    return pa.table(
        {"text_hash": names, "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])}
    )


def require_usable(vectors: np.ndarray, count: int, dimensions: int) -> None:
    """EmbeddingError unless there are `count` vectors of `dimensions` finite numbers and unit
    length.
    """
    if vectors.shape != (count, dimensions):
        raise EmbeddingError(
            f"{count} texts of {dimensions} dimensions went out, {vectors.shape} came back"
        )
    norms = np.linalg.norm(vectors, axis=1)
    far = ~(np.abs(norms - 1) < 1e-3)
    if far.any():
        raise EmbeddingError(
            f"a vector of length {norms[np.argmax(far)]} came back; they must be 1"
        )


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """`vectors` scaled to length 1, rounded as `fixed_point` is, float32; EmbeddingError if one is
    zero or not finite.
    """
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(np.asarray(vectors, dtype=np.float64), axis=1, keepdims=True)
    bad = ~(np.isfinite(norms) & (norms > 0)).ravel()
    if bad.any():
        raise EmbeddingError(
            f"the model returned a zero or non-finite vector for text {int(np.argmax(bad))} of the batch"
        )
    return from_fixed_point(fixed_point(np.asarray(vectors / norms)))


def fixed_point(vectors: np.ndarray) -> np.ndarray:
    """Vectors whose numbers are between -1 and 1 as 16-bit fixed point, int16 of the same shape."""
    return np.rint(vectors * np.float32(_STEPS)).astype(np.int16)


def from_fixed_point(vectors: np.ndarray) -> np.ndarray:
    """Vectors in 16-bit fixed point as float32."""
    return vectors.astype(np.float32) * np.float32(1 / _STEPS)


def embedded_hashes(table: pa.Table | None, model: str) -> set[str]:
    """The hashes of the texts with a vector of `model` in an `embeddings` table (text_hash, model)."""
    import pyarrow.compute as pc  # takes 25 ms, which a search does without

    if table is None:
        return set()
    return set(table.filter(pc.equal(table.column("model"), model)).column("text_hash").to_pylist())


def embeddings(texts: pa.Table, model: str, dimensions: int) -> pa.Table:
    """The `embeddings` table from `text_hash` and `vector`."""
    count = texts.num_rows
    own = {
        "model": [model] * count,
        "dimensions": [dimensions] * count,
        "task": ["document"] * count,
    }
    vectors = {name: texts.column(name) for name in ("text_hash", "vector")}
    return embeddings_table(dimensions).from_columns(own | vectors)


def embedding_refusals(reasons: Mapping[str, str], model: str, dimensions: int) -> pa.Table:
    """The `embedding_refusals` table from the reasons by hash of the text."""
    own = {"model": model, "dimensions": dimensions}
    return EMBEDDING_REFUSALS.from_rows(
        [{"text_hash": name, "reason": why, **own} for name, why in sorted(reasons.items())]
    )
