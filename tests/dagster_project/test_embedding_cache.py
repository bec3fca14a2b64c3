"""The cache of vectors: kept by content, safe against killed and concurrent writers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dagster_project.resources.embedding_cache import ParquetEmbeddingCache

KEY = ("model", 4, "document")


@pytest.fixture
def cache(tmp_path: Path) -> ParquetEmbeddingCache:
    return ParquetEmbeddingCache(tmp_path / "cache")


def vectors(*values: float) -> np.ndarray:
    return np.array([[v] * 4 for v in values], dtype=np.float32)


def test_an_empty_cache_knows_nothing(cache: ParquetEmbeddingCache):
    assert cache.hashes(*KEY) == set()
    assert cache.vectors(*KEY, ["a"]).to_pydict() == {"text_hash": [], "vector": []}


def test_vectors_come_back_once_and_sorted_by_hash(cache: ParquetEmbeddingCache):
    cache.store(*KEY, ["b", "a"], vectors(2, 1))
    cache.store(*KEY, ["c", "a"], vectors(3, 1))
    assert cache.hashes(*KEY) == {"a", "b", "c"}
    found = cache.vectors(*KEY, ["c", "a", "c", "unknown"]).to_pydict()
    assert found == {"text_hash": ["a", "c"], "vector": [[1.0] * 4, [3.0] * 4]}


@pytest.mark.parametrize(
    "other", [("another", 4, "document"), ("model", 8, "document"), ("model", 4, "query")]
)
def test_vectors_of_another_model_width_or_task_are_not_found(cache: ParquetEmbeddingCache, other):
    cache.store(*KEY, ["a"], vectors(1))
    assert cache.hashes(*other) == set()


def test_a_damaged_segment_is_as_if_its_texts_were_never_embedded(cache: ParquetEmbeddingCache):
    cache.store(*KEY, ["a"], vectors(1))
    (segment,) = cache.root.rglob("*.parquet")
    cache.store(*KEY, ["b"], vectors(2))
    segment.write_bytes(segment.read_bytes()[:-5])
    assert cache.hashes(*KEY) == {"b"}
    assert cache.vectors(*KEY, ["a", "b"]).column("text_hash").to_pylist() == ["b"]


def test_many_segments_become_one_with_the_same_vectors(cache: ParquetEmbeddingCache):
    names = [f"{n:03}" for n in range(70)]
    for n, name in enumerate(names):
        cache.store(*KEY, [name, "shared"], vectors(n, -1))
    before = cache.vectors(*KEY, [*names, "shared"])
    cache.compact(*KEY)
    assert len(list(cache.root.rglob("*.parquet"))) == 1
    assert cache.vectors(*KEY, [*names, "shared"]).equals(before)


def test_a_sweep_deletes_batches_that_killed_processes_left(cache: ParquetEmbeddingCache):
    cache.store(*KEY, ["a"], vectors(1))
    (segment,) = cache.root.rglob("*.parquet")
    (segment.parent / f".tmp-{2**22 + 1}-ff").write_bytes(b"half")
    cache.sweep()
    assert [p.name for p in segment.parent.iterdir()] == [segment.name]
