"""Rows of hits: the same in whatever groups documents are written and merged."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_project.index.files import hit_rows
from dagster_project.index.files.hit_rows import OPTIONS, HitRows, files_of, take_over, write_hit_rows
from dagster_project.index.files.segments import write_facts
from tests.archives import Workspace
from transforms.errors import IndexUnavailableError


def rows(connection: duckdb.DuckDBPyConnection, folder: Path) -> list[tuple[dict[str, Any], str | None]]:
    """The row of each chunk without the number of its text, and that text."""
    folder.mkdir()
    (count,) = connection.execute("SELECT count(*) FROM chunks").fetchone() or (0,)
    write_hit_rows(connection, folder, count)
    written = HitRows(folder, {path.stem: np.load(path) for path in folder.glob("*.npy")})
    found = written.of(range(count))
    texts = written.texts({row["text_no"] for row in found.values() if row["text_no"] is not None})
    return [
        ({**found[number], "text_no": None}, texts.get(found[number]["text_no"])) for number in range(count)
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("at_once", [1, 7])
def test_groups_of_documents_give_the_rows_that_all_at_once_give(
    built: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    with duckdb.connect(str((built.index / "CURRENT").resolve()), read_only=True) as connection:
        expected = rows(connection, tmp_path / "whole")
        monkeypatch.setattr(hit_rows, "_CHUNKS_AT_ONCE", at_once)
        assert rows(connection, tmp_path / "groups") == expected
        assert any(text for _, text in expected) and len({row["doc_id"] for row, _ in expected}) > at_once


def test_a_row_that_is_not_what_was_written_is_named_with_the_way_out(built: Workspace, tmp_path: Path):
    with duckdb.connect(str((built.index / "CURRENT").resolve()), read_only=True) as connection:
        rows(connection, tmp_path / "damaged")
    path = tmp_path / "damaged" / "hit_chunks.arrow"
    with pa.memory_map(str(path)) as file:
        stored = pa.ipc.open_file(file).read_all()
    place = stored.schema.get_field_index("facts")
    cut = pc.utf8_slice_codeunits(stored.column("facts"), 0, 20)
    with pa.ipc.new_file(str(tmp_path / "cut"), stored.schema) as file:
        file.write_table(stored.set_column(place, stored.schema.field(place), cut), 1 << 20)
    (tmp_path / "cut").rename(path)
    with pytest.raises(IndexUnavailableError, match=r"hit_chunks\.arrow is damaged .*delete its folder"):
        HitRows(path.parent, {path.stem: np.load(path) for path in path.parent.glob("*.npy")}).of([0])


def test_many_small_files_become_one_and_rows_stay_in_their_order(tmp_path: Path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    for number in range(17):
        name = f"texts.{number:05}.arrow" if number else "texts.arrow"
        with pa.ipc.new_file(str(before / name), pa.schema([("text", pa.string())]), options=OPTIONS) as file:
            file.write_batch(pa.record_batch({"text": [f"{number} a", f"{number} b"]}))
    write_facts(before, {}, None)
    after.mkdir()
    take_over(before, after, "texts")
    with pa.memory_map(str(after / "texts.arrow")) as mapped:
        found = pa.ipc.open_file(mapped).read_all()["text"].to_pylist()
    assert (
        found == [f"{number} {row}" for number in range(17) for row in "ab"]
        and len(files_of(after, "texts")) == 1
    )
