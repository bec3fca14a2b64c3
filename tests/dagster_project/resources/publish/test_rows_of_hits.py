"""Rows of hits: the same in whatever groups documents are written, and none of what a build removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_project.resources.arrays import hit_rows
from dagster_project.resources.arrays.arrays import folder_of
from dagster_project.resources.arrays.checksums import write_facts
from dagster_project.resources.arrays.hit_files import OPTIONS, files_of, take_over
from dagster_project.resources.arrays.hit_rows import HitRows, write_hit_rows
from tests.archives import Workspace, discussion
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


def stored_texts(folder: Path) -> str:
    """All that the files of rows and texts of a version hold, whether anything refers to it or not."""
    found = []
    for path in sorted(folder.glob("hit_*.arrow")):
        with pa.memory_map(str(path)) as file:
            found.append(str(pa.ipc.open_file(file).read_all().to_pylist()))
    return "".join(found)


@pytest.mark.exhaustive
def test_a_removed_mail_is_in_no_row_of_the_version_that_removes_it(built: Workspace):
    gone = "The shell was measured in run 203"
    before = (built.index / "CURRENT").resolve()
    assert gone in stored_texts(folder_of(before))
    shared = discussion(300, 3, "garbage collector")
    remaining = [mail for mail in discussion(200, 6, "shell") if mail.number != 203]
    built.write("users/users.2004-01.mbox", [*remaining, *shared])
    assert built.build().published
    now = folder_of((built.index / "CURRENT").resolve())
    assert now != folder_of(before)
    assert gone not in stored_texts(now) and "in run 204" in stored_texts(now)


def test_a_removed_row_rewrites_its_file_alone_and_numbers_stay(tmp_path: Path):
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    values = [[[f"{file} {batch} {row}" for row in range(3)] for batch in range(2)] for file in range(4)]
    for number, batches in enumerate(values):
        name = f"texts.{number:05}.arrow" if number else "texts.arrow"
        with pa.ipc.new_file(str(before / name), pa.schema([("text", pa.string())]), options=OPTIONS) as file:
            for texts in batches:
                file.write_batch(pa.record_batch({"text": texts}))
    write_facts(before, {}, None)
    is_removed = np.zeros(24, dtype=bool)
    is_removed[[7, 9]] = True
    take_over(before, after, "texts", list(range(0, 25, 3)), is_removed)
    files = files_of(after, "texts")
    assert [file.samefile(before / file.name) for file in files] == [True, False, True, True]
    found = []
    for path in files:
        with pa.memory_map(str(path)) as file:
            found += pa.ipc.open_file(file).read_all().column("text").to_pylist()
    every = [text for batches in values for texts in batches for text in texts]
    assert found == ["" if removed else text for text, removed in zip(every, is_removed, strict=True)]
