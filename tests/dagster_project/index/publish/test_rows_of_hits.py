"""Rows of hits: the same in whatever groups documents are written, and when."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dagster_project.index.files import hit_rows
from dagster_project.index.files.arrays import folder_of
from dagster_project.index.files.hit_rows import FILE, LATER, HitRows, write_hit_rows
from tests.archives import Workspace, differences
from transforms.errors import IndexUnavailableError


def rows(
    connection: duckdb.DuckDBPyConnection, folder: Path
) -> list[tuple[dict[str, Any], str | None]]:
    """The row of each chunk, and its text."""
    folder.mkdir()
    keys = connection.execute("SELECT chunk_key FROM chunks ORDER BY chunk_no").fetchnumpy()[
        "chunk_key"
    ]
    write_hit_rows(connection, folder)
    written = HitRows(folder, keys)
    found = written.of(range(len(keys)))
    texts = written.texts(row["text_key"] for row in found.values())
    return [(found[number], texts.get(found[number]["text_key"])) for number in range(len(keys))]


@pytest.mark.exhaustive
@pytest.mark.parametrize("at_once", [1, 7])
def test_groups_of_documents_give_the_rows_that_all_at_once_give(
    built: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    with duckdb.connect(str((built.index / "CURRENT").resolve()), read_only=True) as connection:
        expected = rows(connection, tmp_path / "whole")
        monkeypatch.setattr(hit_rows, "_CHUNKS_AT_ONCE", at_once)
        assert rows(connection, tmp_path / "groups") == expected
        assert (
            any(text for _, text in expected)
            and len({row["doc_id"] for row, _ in expected}) > at_once
        )


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE packs SET data = substr(data, 1, 20)",
        "UPDATE packs SET size = size - 1",
        "UPDATE chunks SET byte_end = byte_end - 1",
        "UPDATE texts SET stop = stop - 1",
        "DELETE FROM chunks",
    ],
)
def test_a_row_that_is_not_what_was_written_is_named_with_the_way_out(
    built: Workspace, tmp_path: Path, damage: str
):
    with duckdb.connect(str((built.index / "CURRENT").resolve()), read_only=True) as connection:
        rows(connection, tmp_path / "rows")
    with closing(sqlite3.connect(tmp_path / "rows" / FILE)) as file, file:
        file.execute(damage)
    keys = np.load(folder_of((built.index / "CURRENT").resolve()) / "chunk_keys.npy")
    with pytest.raises(IndexUnavailableError, match="rows is damaged .*makes it again"):
        HitRows(tmp_path / "rows", keys).of(range(len(keys)))


def test_versions_share_first_rows_and_later_ones_take_their_place(
    built: Workspace, built_once: Workspace
):
    folders = []
    for without in ("dev/2004-02", "dev/2004-01", ""):
        built.publish(without)
        folders.append(folder_of((built.index / "CURRENT").resolve()))
    assert differences(built.index, built_once.index) == {}
    assert (folders[1] / FILE).samefile(folders[2] / FILE) and (folders[2] / LATER).exists()
