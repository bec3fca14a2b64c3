"""The cache of vectors: kept by content, safe against killed and concurrent writers, and open to checks."""

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dagster_project.models import vector_segments
from dagster_project.models.embedding_cache import ParquetEmbeddingCache
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError
from transforms.hashing import text_hash

KEY = ("model", 4, "document")
A, B, C, UNKNOWN = (text_hash(t) for t in "abcd")
SORTED = sorted([A, B, C])


@pytest.fixture
def cache(tmp_path: Path) -> ParquetEmbeddingCache:
    return ParquetEmbeddingCache(tmp_path / "cache")


def vectors(*angles: float) -> np.ndarray:
    """Unit vectors, one per angle."""
    return unit_length(np.array([[np.cos(a), np.sin(a), 0, 0] for a in angles]))


def segments(cache: ParquetEmbeddingCache) -> list[Path]:
    return sorted(cache.root.rglob("*.parquet"))


def some_at_a_time(cache: ParquetEmbeddingCache, names: list[str], cuts: Sequence[int] = ()) -> pa.Table:
    """What `laid_out` gives, in one, asked for between `cuts`; it must be as many as it says."""
    found = cache.laid_out(*KEY, names)
    edges = [0, *cuts, len(names)]
    parts = [t for first, end in pairwise(edges) for t in found.between(first, end)]
    assert found.count == sum(part.num_rows for part in parts)
    return pa.concat_tables(parts or [cache.vectors(*KEY, [])])


@pytest.mark.parametrize("cuts", [(), (3,), (1, 1, 6)])
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_vectors_come_in_order_some_at_a_time(
    cache: ParquetEmbeddingCache, monkeypatch: pytest.MonkeyPatch, rows: int, cuts: tuple[int, ...]
):
    monkeypatch.setattr(vector_segments, "_TABLE_ROWS", rows)
    names = [text_hash(str(n)) for n in range(9)]
    assert some_at_a_time(cache, names).num_rows == 0
    for first, last in ((5, 9), (0, 3), (2, 6)):  # some are stored twice
        cache.store(*KEY, names[first:last], vectors(*range(first, last)))
    wanted = [names[7], UNKNOWN, *names[1:7]]
    for _ in range(2):
        known = {row["text_hash"]: row for row in cache.vectors(*KEY, wanted).to_pylist()}
        assert some_at_a_time(cache, wanted, cuts).to_pylist() == [known[n] for n in wanted if n in known]
        cut(segments(cache)[0])
    assert len(known) < 7


def test_an_empty_cache_knows_nothing(cache: ParquetEmbeddingCache):
    assert cache.hashes(*KEY) == set()
    assert cache.vectors(*KEY, [A]).to_pydict() == {"text_hash": [], "vector": []}
    assert (cache.stats(), cache.verify(), cache.prune([A])) == ([], [], 0)


def test_vectors_come_back_once_and_sorted_by_hash(cache: ParquetEmbeddingCache):
    made = dict(zip([A, B, C], vectors(1, 2, 3), strict=True))
    cache.store(*KEY, [B, A], np.stack([made[B], made[A]]))
    cache.store(*KEY, [C, A], np.stack([made[C], made[A]]))
    assert cache.hashes(*KEY) == {A, B, C}
    assert cache.count(*KEY) == 4
    found = cache.vectors(*KEY, [C, A, B, C, UNKNOWN]).to_pydict()
    assert found == {"text_hash": SORTED, "vector": [made[h].tolist() for h in SORTED]}


def test_a_lookup_finds_what_is_stored_and_merged_after_it_began(cache: ParquetEmbeddingCache):
    cache.store(*KEY, [A], vectors(1))
    lookup = cache.lookup(*KEY, [A, B, UNKNOWN])
    assert lookup.missing() == {B, UNKNOWN}
    cache.store(*KEY, [B, C], vectors(2, 3))
    assert lookup.missing() == {UNKNOWN}
    assert cache.lookup("another", *KEY[1:], [A]).missing() == {A}


@pytest.mark.parametrize(
    "other", [("another", 4, "document"), ("model", 8, "document"), ("model", 4, "query")]
)
def test_vectors_of_another_model_width_or_task_are_not_found(cache: ParquetEmbeddingCache, other):
    cache.store(*KEY, [A], vectors(1))
    assert cache.hashes(*other) == set()


def test_a_model_name_with_slashes_is_one_folder(cache: ParquetEmbeddingCache):
    cache.store("../some/model@1+2", 4, "document", [A], vectors(1))
    (holding,) = cache.stats()
    assert (holding.model, holding.vectors) == ("../some/model@1+2", 1)
    assert {p.parents[2] for p in segments(cache)} == {cache.root / "..%2Fsome%2Fmodel@1+2"}


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(np.zeros((1, 4), np.float32), id="zero"),
        pytest.param(np.full((1, 4), np.nan, np.float32), id="not finite"),
        pytest.param(vectors(1) * 2, id="not of unit length"),
        pytest.param(vectors(1)[:, :3], id="too narrow"),
        pytest.param(vectors(1, 2), id="too many"),
    ],
)
def test_bad_vectors_are_refused_at_the_door(cache: ParquetEmbeddingCache, bad: np.ndarray):
    with pytest.raises(EmbeddingError):
        cache.store(*KEY, [A], bad)
    assert segments(cache) == []


def flip(path: Path) -> None:
    """Flip bits in the middle of the vectors of a file; its structure stays whole."""
    data, column = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata.row_group(0).column(1)
    data[column.data_page_offset + column.total_compressed_size - 2] ^= 0xFF
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def other_width(path: Path) -> None:
    table = pa.table({"text_hash": [A], "vector": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))})
    pq.write_table(table, path)


def zero(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, table.field(1), pa.array([[0.0] * 4], table.field(1).type)), path)


@pytest.mark.parametrize("damage", [flip, cut, other_width])
def test_a_damaged_segment_is_set_aside_and_its_texts_are_missing(cache: ParquetEmbeddingCache, damage):
    cache.store(*KEY, [A], vectors(1))
    (segment,) = segments(cache)
    cache.store(*KEY, [B], vectors(2))
    damage(segment)
    assert cache.vectors(*KEY, [A, B]).column("text_hash").to_pylist() == [B]
    assert cache.hashes(*KEY) == {B}
    (found,) = cache.verify()
    assert found.reason == "set aside as damaged"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(flip, "corrupt"), (cut, "truncated"), (other_width, "width 4"), (zero, "vector of length 0")],
)
def test_verify_names_damaged_files_and_discard_deletes_them(cache: ParquetEmbeddingCache, damage, reason):
    cache.store(*KEY, [A], vectors(1))
    (segment,) = segments(cache)
    cache.store(*KEY, [B], vectors(2))
    damage(segment)
    (found,) = cache.verify()
    assert found.path == segment
    assert reason in found.reason
    found.path.unlink()
    assert cache.verify() == []
    assert ParquetEmbeddingCache(cache.root).hashes(*KEY) == {B}


def test_many_segments_become_one_with_the_same_vectors(cache: ParquetEmbeddingCache):
    names = [text_hash(str(n)) for n in range(70)]
    for n, name in enumerate(names):
        cache.store(*KEY, [name, A], vectors(n, -1))
    before = cache.vectors(*KEY, [*names, A])
    assert cache.hashes(*KEY) == {*names, A}
    cache.compact(*KEY)
    assert len(segments(cache)) == 1
    assert cache.vectors(*KEY, [*names, A]).equals(before)
    assert cache.hashes(*KEY) == {*names, A}


def test_prune_drops_what_is_not_used_and_other_models_when_asked(cache: ParquetEmbeddingCache):
    cache.store(*KEY, [A, B], vectors(1, 2))
    cache.store(*KEY, [C], vectors(3))
    cache.store("old", 4, "document", [A], vectors(1))
    for key in (KEY, ("old", 4, "document")):
        cache.refuse(*key, {A: "why", B: "why"})
    assert cache.prune([A]) == 2
    assert set(cache.refusal_counts().values()) == {1}
    assert (cache.hashes(*KEY), cache.hashes("old", 4, "document")) == ({A}, {A})
    assert cache.vectors(*KEY, [A]).column("vector").to_pylist() == vectors(1).tolist()
    assert cache.prune([A], models=["model"]) == 1
    assert [h.model for h in cache.stats() if h.vectors] == ["model"]
    assert cache.refusal_counts() == {KEY: 1}


CLAIMER = """
import sys
from pathlib import Path
from dagster_project.models.embedding_cache import ParquetEmbeddingCache
cache = ParquetEmbeddingCache(Path(sys.argv[1]))
cache.claim("model", 4, "document", sys.argv[2:])
print("claimed", flush=True)
sys.stdin.read()
"""


def test_claims_keep_other_processes_out_until_their_process_ends(cache: ParquetEmbeddingCache):
    command = [sys.executable, "-c", CLAIMER, str(cache.root), A, B]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout and other.stdout.readline() == "claimed\n"
        assert cache.claim(*KEY, [A, B, C]) == {C}
        other.kill()
        cache.await_others(*KEY, [A, B])
    assert cache.claim(*KEY, [A, B, C]) == {A, B, C}


def test_a_sweep_deletes_batches_that_killed_processes_left(cache: ParquetEmbeddingCache):
    cache.store(*KEY, [A], vectors(1))
    (segment,) = segments(cache)
    (segment.parent / f".tmp-{2**22 + 1}-ff").write_bytes(b"half")
    cache.sweep()
    assert [p.name for p in segment.parent.iterdir()] == [segment.name]
