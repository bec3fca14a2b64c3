"""Rows of hits: the same in whatever groups documents are written; no removed text is in a version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_project.resources.arrays import hit_rows
from dagster_project.resources.arrays.checksums import write_facts
from dagster_project.resources.arrays.hit_rows import OPTIONS, HitRows, files_of, take_over, write_hit_rows
from tests.archives import Mail, Workspace
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


@pytest.mark.exhaustive
def test_a_removed_mail_is_in_no_file_of_the_version_that_removes_it(built: Workspace, tmp_path: Path):
    """Deleted rows stay in the bytes of a DuckDB file, words in segments: such a version is written from the lake."""
    removed = Mail(203, "The zqxjvkwb was our secret.", "About zqxjvkwb", reply_to=200)
    built.write("users/users.2004-02.mbox", [removed])
    built.write("users/users.2004-03.mbox", b"From nobody\n\nno header at all\n")
    built.build()
    assert {"hit_chunks.00001.arrow", "term_bytes.npy"} <= {*built.files_with("zqxjvkwb")}
    since = built.sql("SELECT first_seen FROM quarantine")
    (built.folder / "mail/users/users.2004-02.mbox").unlink()
    done = built.build().published
    assert done and not done["built_on_previous"] and "previous_version_unusable" not in done
    assert built.files_with("zqxjvkwb") == [] and "term_bytes.npy" in built.files_with("compactor")
    assert built.sql("SELECT first_seen FROM quarantine") == since != []


def test_many_small_files_become_one_and_rows_stay_in_their_order(tmp_path: Path):
    before = tmp_path / "before"
    before.mkdir()
    for number in range(17):
        name = f"texts.{number:05}.arrow" if number else "texts.arrow"
        with pa.ipc.new_file(str(before / name), pa.schema([("text", pa.string())]), options=OPTIONS) as file:
            file.write_batch(pa.record_batch({"text": [f"{number} a", f"{number} b"]}))
    write_facts(before, {}, None)
    for count, shared in ((17, False), (16, True)):
        after = tmp_path / f"after-{count}"
        after.mkdir()
        take_over(before, after, "texts")
        files = files_of(after, "texts")
        assert [file.samefile(before / file.name) for file in files] == ([True] * 16 if shared else [False])
        found = [text for path in files for text in pa.ipc.open_file(path).read_all()["text"].to_pylist()]
        assert found == [f"{number} {row}" for number in range(count) for row in "ab"]
        (before / "texts.00016.arrow").unlink(missing_ok=True)
