"""The cache of vectors: kept by content, safe against killed and concurrent writers, and open to
checks.
"""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets import embedding
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from tests.processes import write_that_is_killed
from transforms.embedding.vectors import fixed_point, table_of, unit_length
from transforms.errors import AnswerCacheError, EmbeddingError
from transforms.hashing import text_hash

KEY = ("model", 4, "document")
A, B, C, UNKNOWN = (text_hash(t) for t in "abcd")
MANY = [text_hash(str(n)) for n in range(3_000)]


@pytest.fixture
def cache(tmp_path: Path) -> SQLiteEmbeddingCache:
    return SQLiteEmbeddingCache(tmp_path / "cache")


def vectors(*angles: float) -> np.ndarray:
    """Unit vectors, one per angle."""
    return unit_length(np.array([[np.cos(a), np.sin(a), 0, 0] for a in angles]))


def files(cache: SQLiteEmbeddingCache) -> list[Path]:
    return sorted(cache.root.rglob("vectors.sqlite"))


def known(cache: SQLiteEmbeddingCache, key: tuple[str, int, str] = KEY) -> set[str]:
    names = [A, B, C, *MANY]
    return {*names} - cache.missing(key, names)


@pytest.mark.parametrize("cuts", [(), (3,), (1, 1, 6)])
@pytest.mark.parametrize("rows", [1, 2, 64])
def test_vectors_come_in_order_some_at_a_time(
    cache: SQLiteEmbeddingCache, monkeypatch: pytest.MonkeyPatch, rows: int, cuts: tuple[int, ...]
):
    monkeypatch.setattr(embedding, "_READ_TEXTS", rows)
    names = MANY[:9]
    for first, last in ((5, 9), (0, 3), (2, 6)):  # some are stored twice
        cache.store(KEY, names[first:last], vectors(*range(first, last)))
    wanted = [7, None, *range(1, 7)]
    laid = embedding.StoredVectors(cache, KEY, [UNKNOWN if n is None else names[n] for n in wanted])
    parts = [
        t for first, end in pairwise([0, *cuts, len(wanted)]) for t in laid.between(first, end)
    ]
    in_order = [n for n in wanted if n is not None]
    assert pa.concat_tables(parts).to_pydict() == {
        "text_hash": [names[n] for n in in_order],
        "vector": vectors(*in_order).tolist(),
    }
    assert laid.count == len(in_order)


def test_an_empty_cache_knows_nothing(cache: SQLiteEmbeddingCache):
    assert known(cache) == set()
    assert (cache.vectors(KEY, [A])[0], cache.count(KEY)) == ([], 0)
    assert (cache.stats(), cache.verify(), cache.prune([A])) == ([], [], 0)


def test_a_vector_is_stored_once(cache: SQLiteEmbeddingCache):
    cache.store(KEY, [B, A], vectors(2, 1))
    cache.store(KEY, [C, A], vectors(3, 1))
    assert (known(cache), cache.count(KEY)) == ({A, B, C}, 3)
    names, rows = cache.vectors(KEY, [C, A, UNKNOWN])
    assert (names, rows.tolist()) == ([C, A], vectors(3, 1).tolist())


@pytest.mark.parametrize(
    "other", [("another", 4, "document"), ("model", 8, "document"), ("model", 4, "query")]
)
def test_vectors_of_another_model_width_or_task_are_not_found(cache: SQLiteEmbeddingCache, other):
    cache.store(KEY, [A], vectors(1))
    assert known(cache, other) == set()


def test_a_model_name_with_slashes_is_one_folder(cache: SQLiteEmbeddingCache):
    cache.store(("../some/model@1+2", 4, "document"), [A], vectors(1))
    (holding,) = cache.stats()
    assert (holding.model, holding.count) == ("../some/model@1+2", 1)
    assert {p.parents[2] for p in files(cache)} == {cache.root / "..%2Fsome%2Fmodel@1+2"}


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
def test_bad_vectors_are_refused_at_the_door(cache: SQLiteEmbeddingCache, bad: np.ndarray):
    with pytest.raises(EmbeddingError):
        cache.store(KEY, [A], bad)
    assert files(cache) == []


def flip(path: Path) -> None:
    """Flip a bit of a vector."""
    data = bytearray(path.read_bytes())
    data[data.index(fixed_point(vectors(1)).tobytes())] ^= 1
    path.write_bytes(data)


def tear(path: Path) -> None:
    """Write zeros over a page in the middle of the rows."""
    data = bytearray(path.read_bytes())
    leaves = [start for start in range(0, len(data), 32768) if data[start] == 13]
    data[leaves[5] : leaves[5] + 32768] = bytes(32768)
    path.write_bytes(data)


def test_a_damaged_vector_is_missing_and_is_stored_again(cache: SQLiteEmbeddingCache):
    cache.store(KEY, [A, B], vectors(1, 2))
    flip(files(cache)[0])
    assert known(cache) == {B}
    (damage,) = cache.verify()
    assert (damage.path, damage.reason) == (files(cache)[0], "1 entries are not what was stored")
    cache.store(KEY, [A], vectors(1))
    assert (known(cache), cache.verify()) == ({A, B}, [])


def test_a_torn_file_is_named_and_what_can_be_read_of_it_stays(cache: SQLiteEmbeddingCache):
    cache.store(KEY, MANY, vectors(*range(len(MANY))))
    tear(files(cache)[0])
    with pytest.raises(
        AnswerCacheError, match=r"vectors\.sqlite cannot be used .*--discard what can be read"
    ):
        cache.missing(KEY, MANY)
    (damage,) = cache.verify()
    kept = damage.discard()
    assert len(MANY) * 0.8 < kept == len(known(cache)) < len(MANY)
    names, rows = cache.vectors(KEY, MANY)
    places = [MANY.index(name) for name in names]
    assert np.array_equal(rows, vectors(*range(len(MANY)))[places])
    cache.store(KEY, MANY, vectors(*range(len(MANY))))
    assert (cache.count(KEY), cache.verify()) == (len(MANY), [])


def test_a_file_that_is_no_database_is_deleted(cache: SQLiteEmbeddingCache):
    cache.store(KEY, [A], vectors(1))
    files(cache)[0].write_bytes(b"no database" * 99)
    (damage,) = cache.verify()
    assert (damage.discard(), files(cache), cache.verify()) == (0, [], [])


def test_files_of_an_earlier_version_are_read_in_and_damaged_ones_set_aside(
    cache: SQLiteEmbeddingCache,
):
    folder = cache.root / "model" / "4" / "document"
    folder.mkdir(parents=True)
    pq.write_table(table_of([A, B], vectors(1, 2)), folder / "1-a.parquet")
    pq.write_table(table_of([B, C], vectors(2, 3)), folder / "1-b.parquet")
    pq.write_table(table_of([UNKNOWN], vectors(4) * 2), folder / "1-long.parquet")
    pq.write_table(pa.table({"other": [1]}), folder / "1-other.parquet")
    (folder / "1-torn.parquet").write_bytes((folder / "1-a.parquet").read_bytes()[:-5])
    assert known(cache) == {A, B, C}
    assert cache.vectors(KEY, [C])[1].tolist() == vectors(3).tolist()
    assert list(folder.glob("*.parquet")) == []
    damages = cache.verify()
    assert [d.path.stem for d in damages] == ["1-long", "1-other", "1-torn"]
    assert sum(d.discard() for d in damages) == 0 and cache.verify() == []


def test_prune_drops_what_is_not_used_and_other_models_when_asked(cache: SQLiteEmbeddingCache):
    cache.store(KEY, [A, B], vectors(1, 2))
    cache.store(KEY, [C], vectors(3))
    cache.store(("old", 4, "document"), [A], vectors(1))
    for key in (KEY, ("old", 4, "document")):
        cache.refuse(key, {A: "why", B: "why"})
    assert cache.prune([A]) == 2
    assert set(cache.refusal_counts().values()) == {1}
    assert (known(cache), known(cache, ("old", 4, "document"))) == ({A}, {A})
    assert cache.vectors(KEY, [A])[1].tolist() == vectors(1).tolist()
    assert cache.prune([A], models=["model"]) == 1
    assert [h.model for h in cache.stats()] == ["model"]
    assert cache.refusal_counts() == {KEY: 1}


CLAIMER = """
import sys
from pathlib import Path
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
cache = SQLiteEmbeddingCache(Path(sys.argv[1]))
cache.claim(("model", 4, "document"), sys.argv[2:])
print("claimed", flush=True)
sys.stdin.read()
"""


def test_claims_keep_other_processes_out_until_their_process_ends(cache: SQLiteEmbeddingCache):
    command = [sys.executable, "-c", CLAIMER, str(cache.root), A, B]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout and other.stdout.readline() == "claimed\n"
        assert cache.claim(KEY, [A, B, C]) == {C}
        other.kill()
        cache.await_others(KEY, [A, B])
    assert cache.claim(KEY, [A, B, C]) == {A, B, C}


def test_a_first_write_that_was_killed_before_its_end_is_undone_to_no_answers(tmp_path: Path):
    place = tmp_path / "answers.sqlite"
    write_that_is_killed(
        place,
        "CREATE TABLE answers (key TEXT PRIMARY KEY, answer NOT NULL, checksum)",
        "INSERT INTO answers SELECT 'key', zeroblob(999999), NULL",
    )
    cache = SQLiteAnswerCache(tmp_path / "link.sqlite")
    cache.path.symlink_to(place)
    assert (cache.known(["key"]), cache.all_keys(), cache.count(), cache.verify()) == (
        {},
        [],
        0,
        [],
    )
    cache.copy(tmp_path / "copy.sqlite")
    cache.store({"key": "answer"})
    assert cache.known(["key"]) == {"key": "answer"}
