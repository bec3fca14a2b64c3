"""The lake: whole files under a declared schema, told apart by their content."""

import itertools
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.partitions import MAIL
from assets.protocols.lake import Parts
from dagster_project.index.publish.lake_views import lake_file
from dagster_project.lake import parquet_files
from dagster_project.lake.io_manager import LakeIOManager
from dagster_project.lake.lake import ParquetLake
from dagster_project.lake.parquet_files import CORRUPT
from dagster_project.lake.recorded_footers import recorded_footers
from dagster_project.ledger.ledger import Ledger
from tests.archives import flip
from transforms.errors import LakeDamageError, SchemaError
from transforms.schemas.chunks import CHUNKS, TERMS
from transforms.schemas.mail import MESSAGES
from transforms.schemas.registry import REGISTRY

ROWS = {"chunk_id": ["a", "b"], "field": ["text", "text"], "term": ["fox", "dog"], "tf": [1, 2]}
REGISTERED = {name: entry.schema for name, entry in REGISTRY.items()}
NO_PROCESS = 2**22 + 1
"""More than the largest process id Linux gives out."""


def ended_unasked() -> int:
    """The id of a child that has ended and is still listed; pytest's end asks how."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


@pytest.fixture
def lake(tmp_path: Path) -> ParquetLake:
    return ParquetLake(str(tmp_path / "lake"), {"messages": MESSAGES, "terms": TERMS})


def stage(
    lake: ParquetLake,
    data: pa.Table,
    partition: str | None = "dev/2004-01",
    code: str = "1",
    **inputs: str,
):
    return lake.stage("terms", partition, data, code_version=code, inputs=inputs)


def test_a_staged_file_is_invisible_until_it_is_committed(lake: ParquetLake):
    staged = stage(lake, pa.table(ROWS))
    assert lake.partitions("terms") == []
    assert lake.footer("terms", "dev/2004-01") is None
    staged.commit()
    assert lake.partitions("terms") == ["dev/2004-01"]
    assert lake.read("terms", "dev/2004-01").table.to_pydict() == ROWS


def test_a_commit_replaces_what_was_there(lake: ParquetLake):
    stage(lake, pa.table(ROWS)).commit()
    stage(lake, pa.table(ROWS).slice(1)).commit()
    assert lake.read("terms", "dev/2004-01").table.num_rows == 1
    assert [p.name for p in Path(str(lake.base)).rglob("*.parquet")] == ["2004-01.parquet"]


def test_a_file_of_other_columns_than_its_table_has_now_is_not_there(lake: ParquetLake):
    stage(lake, pa.table(ROWS)).commit()
    assert lake.footer("terms", "dev/2004-01")
    assert ParquetLake(str(lake.base), {"terms": MESSAGES}).footer("terms", "dev/2004-01") is None


def test_a_footer_is_recorded_for_the_next_run_until_its_file_changes(tmp_path: Path):
    ledger = Ledger(tmp_path / "state.sqlite")
    place = ("terms", "dev/2004-01")

    def looked() -> str | None:
        """The version that a process which has just begun takes a file to be of."""
        recorded_footers.cache_clear()
        lake = ParquetLake(str(tmp_path / "lake"), {"terms": TERMS}, tmp_path, ledger)
        with lake.one_look():
            footer = lake.footer(*place)
        return footer and footer.code_version

    lake = ParquetLake(str(tmp_path / "lake"), {"terms": TERMS}, tmp_path, ledger)
    stage(lake, pa.table(ROWS)).commit()
    assert looked() == "1"
    state, columns, _, *rest = ledger.rows("outputs")[place]
    ledger.record("outputs", {place: (state, columns, "0", *rest)})
    assert looked() == "0", "the record was not asked"
    with closing(sqlite3.connect(ledger.file)) as opened, opened:
        opened.execute("UPDATE outputs SET row_count = 7")
    assert looked() == "1", "a row that is not what was written is read again"
    assert ledger.take_faults() == ["1 rows of outputs are damaged"]
    Path(str(lake.path(*place))).touch()
    assert looked() == "1"
    Path(str(lake.path(*place))).unlink()
    assert looked() is None
    stage(lake, pa.table(ROWS), "dev/2004-02").commit()
    recorded_footers.cache_clear()
    lake = ParquetLake(str(tmp_path / "lake"), {"terms": TERMS}, tmp_path, ledger)
    with lake.one_look():
        assert lake.footer("terms", "dev/2004-02")
    assert list(ledger.rows("outputs")) == [("terms", "dev/2004-02")], (
        "one that is gone is left out"
    )


def test_a_table_is_shown_to_duckdb_once_with_files_or_without(lake: ParquetLake):
    shown = LakeIOManager(lake)
    without = shown.table("terms", [])
    assert without.count().to_pyarrow().as_py() == 0
    assert shown.table("terms", []) is without
    stage(lake, pa.table(ROWS), None).commit()
    rows = shown.table("terms", [None])
    assert rows.to_pyarrow().to_pydict() == ROWS
    assert shown.table("terms", [None]) is rows


def _in_parts(folder: Path) -> ParquetLake:
    """A lake with a table of two parts, and with two tables of one finished partition."""
    lake = ParquetLake(str(folder / "lake"), REGISTERED)
    staged = {}
    for name in ("b/1", "b/2"):
        rows = REGISTERED["threads"].empty()
        staged[name] = lake.stage("threads", name, rows, code_version="1", inputs={"bucket": name})
    lake.stage_parts("threads", Parts((), staged.items()), code_version="1").commit()
    for table in MAIL.tables:
        lake.stage(table, "dev/1", REGISTERED[table].empty(), code_version="1", inputs={}).commit()
    return lake


READERS: dict[str, tuple[str, str | None, Callable[[ParquetLake], object]]] = {
    "a table": ("threads", "b/2", lambda lake: lake.read("threads")),
    "an input of an asset": (
        "threads",
        "b/2",
        lambda lake: LakeIOManager(lake).table("threads", [None]),
    ),
    "views of the lake": (
        "threads",
        "b/2",
        lambda lake: lake_file(lake, Path(str(lake.base)).with_name("views")),
    ),
    "the list of parts": (
        "threads",
        None,
        lambda lake: LakeIOManager(lake).table("threads", [None]),
    ),
    "parts by name": ("threads", None, lambda lake: lake.parts("threads")),
    "a whole table": ("people", None, lambda lake: LakeIOManager(lake).table("people", [None])),
    "a partition": (
        "message_blocks",
        "dev/1",
        lambda lake: LakeIOManager(lake).table("message_blocks", ["dev/1"]),
    ),
}
"""By reader: the table and the part or partition whose file is missing, and the reader."""


@pytest.mark.parametrize("reader", READERS)
def test_a_missing_file_is_a_fault_for_all_who_read_its_table(tmp_path: Path, reader: str):
    lake = _in_parts(tmp_path)
    table, part, read = READERS[reader]
    lake.path(table, part).unlink(missing_ok=True)
    with pytest.raises(LakeDamageError, match=rf"{table}.*weft build"):
        read(lake)


def test_what_nothing_makes_again_is_not_taken_for_absent_if_it_is_damaged(tmp_path: Path):
    lake = _in_parts(tmp_path)
    assert lake.intact("search_results", ["query"]) is None
    lake.stage(
        "search_results", None, REGISTERED["search_results"].empty(), code_version="1", inputs={}
    ).commit()
    Path(str(lake.path("search_results"))).write_bytes(b"PAR1")
    with pytest.raises(LakeDamageError, match="search_results"):
        lake.intact("search_results", ["query"])


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_no_flipped_byte_of_a_file_gives_other_rows(lake: ParquetLake, step: int):
    """Wherever in a file a byte is another, it is named where its footer or its rows are read, or
    says nothing else.
    """
    stage(lake, pa.table(ROWS)).commit()
    place = Path(str(lake.path("terms", "dev/2004-01")))
    written, footer = place.read_bytes(), lake.footer("terms", "dev/2004-01")
    columns = list(ROWS)
    silent = []
    for byte in range(0, len(written), step):
        flipped = bytearray(written)
        flipped[byte] ^= 0x10
        place.write_bytes(flipped)
        found = lake.footer("terms", "dev/2004-01")
        if found not in (None, footer):
            silent.append(byte)
        rows = lake.stored("terms", columns, "dev/2004-01")
        if rows is not None and rows.to_pydict() != ROWS:
            silent.append(byte)
    assert silent == []


def test_a_partition_that_is_not_finished_is_left_out(tmp_path: Path):
    lake = _in_parts(tmp_path)
    lake.stage("messages", "dev/2", MESSAGES.empty(), code_version="1", inputs={}).commit()
    rows = LakeIOManager(lake).table("message_blocks", ["dev/1", "dev/2"])
    assert rows.count().to_pyarrow().as_py() == 0


def test_the_footer_says_what_the_file_was_made_from(lake: ParquetLake):
    staged = stage(lake, pa.table(ROWS), code="7", messages="abc")
    staged.commit()
    footer = lake.footer("terms", "dev/2004-01")
    assert footer is not None
    assert (footer.code_version, footer.inputs, footer.row_count) == ("7", {"messages": "abc"}, 2)
    assert (
        footer.content_hash == staged.content_hash == lake.read("terms", "dev/2004-01").content_hash
    )


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(
            pa.table(ROWS).select(["tf", "term", "field", "chunk_id"]), id="another order"
        ),
        pytest.param(pa.table({**ROWS, "tf": pa.array([1, 2], pa.int64())}), id="a wider type"),
        pytest.param(
            pa.concat_tables([pa.table(ROWS).slice(0, 1), pa.table(ROWS).slice(1)]), id="in pieces"
        ),
        pytest.param(
            pa.table(ROWS).replace_schema_metadata({"made": "elsewhere"}), id="with other metadata"
        ),
        pytest.param(
            pa.table({**ROWS, "term": pa.array(["fox", "dog"]).dictionary_encode()}),
            id="as a dictionary",
        ),
    ],
)
def test_equal_tables_have_equal_hashes_whatever_they_were_made_from(
    lake: ParquetLake, same: pa.Table
):
    schema = TERMS.arrow
    reference = stage(lake, pa.table(ROWS, schema=schema), None, "1", messages="a")
    assert (
        stage(lake, same, "dev/2004-01", "2", messages="b").content_hash == reference.content_hash
    )


def test_other_content_has_another_hash(lake: ParquetLake):
    hashes = {stage(lake, pa.table({**ROWS, "tf": [1, n]})).content_hash for n in range(5)}
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        pytest.param(
            pa.table(ROWS).drop_columns(["tf"]), r"terms: missing columns \['tf'\]", id="missing"
        ),
        pytest.param(
            pa.table({**ROWS, "more": [1, 2]}),
            r"terms.*undeclared columns \['more'\]",
            id="undeclared",
        ),
        pytest.param(pa.table({**ROWS, "tf": ["one", "two"]}), "terms, column tf", id="wrong type"),
        pytest.param(pa.table({**ROWS, "tf": [1, 2**40]}), "terms, column tf", id="too large"),
        pytest.param(
            pa.table({**ROWS, "term": ["fox", None]}), "terms, column term: 1 nulls", id="null"
        ),
    ],
)
def test_a_table_that_is_not_as_declared_is_refused(lake: ParquetLake, wrong: pa.Table, said: str):
    with pytest.raises(SchemaError, match=said):
        stage(lake, wrong)
    assert not [p for p in Path(str(lake.base)).rglob("*") if p.is_file()]


def test_tables_that_come_one_by_one_are_written_as_one(lake: ParquetLake, monkeypatch):
    monkeypatch.setattr(parquet_files, "_ROW_GROUP", 4)
    whole = pa.table(
        {
            "chunk_id": [f"c{n}" for n in range(11)],
            "field": ["text"] * 11,
            "term": ["t"] * 11,
            "tf": pa.array(range(11), pa.int32()),
        }
    )

    def staged(data) -> str:
        return lake.stage("terms", None, data, code_version="", inputs={}).content_hash

    expected = staged(whole)
    for edges in ([0, 11], [0, 0, 3, 4, 9, 11], range(12)):
        assert staged(whole.slice(a, b - a) for a, b in itertools.pairwise(edges)) == expected
    assert staged(iter([])) == staged(whole.slice(0, 0))
    before = set(Path(str(lake.base)).rglob("*"))
    with pytest.raises(SchemaError, match="tf"):
        staged(iter([whole, whole.drop_columns(["tf"])]))
    assert set(Path(str(lake.base)).rglob("*")) == before


@pytest.mark.parametrize(
    "partition", ["", "dev", "dev/", "/2004", "../x", "dev/..", "./x", "a/b/c", "dev/../../x"]
)
def test_no_partition_lies_outside_its_table(lake: ParquetLake, partition: str):
    with pytest.raises(ValueError, match="is not a partition"):
        lake.path("terms", partition)


@pytest.mark.parametrize(
    "damage", [b"", b"PAR1", b"no parquet at all", b"PAR1" + bytes(64) + b"PAR1"]
)
def test_a_file_that_is_no_parquet_has_no_footer(lake: ParquetLake, damage: bytes):
    stage(lake, pa.table(ROWS)).commit()
    Path(str(lake.path("terms", "dev/2004-01"))).write_bytes(damage)
    assert lake.footer("terms", "dev/2004-01") is None


def test_a_file_of_other_columns_or_another_maker_has_no_footer(lake: ParquetLake):
    stage(lake, pa.table(ROWS)).commit()
    path = str(lake.path("terms", "dev/2004-01"))
    pq.write_table(pa.table(ROWS, schema=TERMS.arrow), path)
    assert lake.footer("terms", "dev/2004-01") is None


def test_removing_a_partition_removes_it_from_every_table(lake: ParquetLake):
    for partition in ("dev/2004-01", "dev/2004-02"):
        stage(lake, pa.table(ROWS), partition).commit()
        lake.stage("messages", partition, MESSAGES.empty(), code_version="1", inputs={}).commit()
    lake.remove("dev/2004-01")
    lake.remove("dev/2004-01")
    assert lake.partitions("terms") == lake.partitions("messages") == ["dev/2004-02"]


def test_a_removal_that_broke_off_is_seen_in_the_table_that_lists_the_partitions(lake: ParquetLake):
    stage(lake, pa.table(ROWS)).commit()
    lake.stage("messages", "dev/2004-01", MESSAGES.empty(), code_version="1", inputs={}).commit()
    Path(str(lake.path("terms", "dev/2004-01"))).unlink()
    Path(str(lake.base / "terms" / "dev")).rmdir()
    Path(str(lake.base / "terms")).rmdir()
    Path(str(lake.base / "terms")).write_text("in the way")
    with pytest.raises(OSError, match="terms"):
        lake.remove("dev/2004-01")
    assert lake.partitions("messages") == ["dev/2004-01"]


@pytest.mark.parametrize(
    ("writer", "days", "kept"),
    [
        pytest.param(lambda: NO_PROCESS, 0, 0, id="dead"),
        pytest.param(os.getppid, 0, 1, id="alive"),
        pytest.param(os.getppid, 999, 0, id="alive, and younger than the file"),
        pytest.param(os.getpid, 0, 0, id="with the id of this one"),
        pytest.param(ended_unasked, 0, 0, id="ended, and nobody has asked how"),
    ],
)
def test_a_sweep_deletes_what_dead_processes_left(
    lake: ParquetLake, writer: Callable[[], int], days: int, kept: int
):
    stage(lake, pa.table(ROWS)).commit()
    folder = Path(str(lake.path("terms", "dev/2004-01"))).parent
    file = folder / f".tmp-{writer()}-a"
    file.write_bytes(b"half")
    os.utime(file, (then := time.time() - days * 86400, then))
    assert lake.sweep() == 1 - kept
    assert len(list(folder.glob(".tmp-*"))) == kept
    assert lake.read("terms", "dev/2004-01").table.num_rows == 2


def test_texts_over_two_gibibytes_are_possible(lake: ParquetLake):
    declared = {c.name: c.type for t in (MESSAGES, CHUNKS) for c in t.columns}
    assert {declared[n] for n in ("body", "text_display", "text_embed", "text_lex")} == {
        pa.large_string()
    }


def test_a_flipped_bit_is_found_by_who_reads_the_file_and_by_who_looks_for_it(lake: ParquetLake):
    rows = pa.table({name: values * 5000 for name, values in ROWS.items()})
    for partition in ("dev/2004-01", "dev/2004-02"):
        stage(lake, rows, partition).commit()
    flip(Path(str(lake.path("terms", "dev/2004-02"))))
    assert lake.footer("terms", "dev/2004-02"), "the footer is whole"
    for read in (lake.read, lake.verified):
        read("terms", "dev/2004-01")
        with pytest.raises(LakeDamageError, match=r"2004-02.*weft build --verify"):
            read("terms", "dev/2004-02")
    assert lake.corrupt_files() == [("terms", "dev/2004-02")]
    assert lake.discard_corrupt() == {str(lake.path("terms", "dev/2004-02")): CORRUPT}
    assert lake.places() == [("terms", "dev/2004-01")]
