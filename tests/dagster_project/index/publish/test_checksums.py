"""Files beside a published file: a byte that differs is named before something in its block is
read.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_project.index.files.checksums import (
    CHECKED_BYTES,
    CheckedRows,
    facts_of,
    file_damages,
    is_comparison_due,
    note_comparison,
    require_intact,
    write_facts,
)
from transforms.errors import IndexUnavailableError

ROWS, WIDTH = 9_000, 300
"""An array of five blocks, whose rows begin in one block and may end in the next one."""


def flip(file: Path, place: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ 1]))


def test_a_file_that_is_not_what_was_written_is_named(tmp_path: Path):
    """Files are read at each opening, large ones of which a search reads parts on demand; files
    that versions share are read once.
    """
    before, folder = tmp_path / "before", tmp_path / "folder"
    for made, text in ((before, "old"), (folder, "new")):
        made.mkdir()
        (made / "small").write_text(text)
    (before / "vectors.npy").write_bytes(bytes(5_000_000))
    (folder / "vectors.npy").hardlink_to(before / "vectors.npy")
    write_facts(before, {"version": "a"}, None)
    write_facts(folder, {"version": "b"}, before)
    assert list(file_damages(folder, reads_all=True)) == []
    flip(folder / "vectors.npy", 3_000_000)
    assert list(file_damages(folder)) == []
    (damage,) = file_damages(folder, reads_all=True)
    assert (
        damage == f"vectors.npy is not what was written in the bytes from {2 * CHECKED_BYTES:,} on"
    )
    (folder / "small").write_text("not")
    assert [d.split(" in ")[0] for d in file_damages(folder)] == ["small is not what was written"]
    with pytest.raises(ValueError, match="small is not what was written"):
        require_intact(folder, [folder / "small"])
    (folder / "small").write_text("longer")
    (folder / "vectors.npy").unlink()
    assert list(file_damages(folder)) == [
        "small has 6 bytes in place of 3",
        "vectors.npy is missing",
    ]
    facts = folder / "facts.json"
    assert facts_of(folder)["version"] == "b"
    facts.write_text(facts.read_text().replace('"b"', '"c"'))
    assert facts_of(folder) == {}


def test_all_bytes_are_compared_again_after_a_day(tmp_path: Path):
    (tmp_path / "small").write_text("text")
    write_facts(tmp_path, {}, None)
    assert not is_comparison_due(tmp_path)
    os.utime(tmp_path / "facts.json", (0, 0))
    assert is_comparison_due(tmp_path)
    note_comparison(tmp_path)
    assert not is_comparison_due(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(0, ROWS * WIDTH * 2 - 1),
    reads=st.lists(
        st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4)
        | st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted).map(tuple),
        max_size=4,
    ),
)
def test_no_row_with_a_flipped_byte_is_read(
    tmp_path: Path, place: int, reads: list[list[int] | tuple[int, int]]
):
    """Rows are read that are as they were written, or the fault names the file and loses its facts."""
    written = np.arange(ROWS * WIDTH, dtype=np.uint16).reshape(ROWS, WIDTH)
    np.save(tmp_path / "vectors.npy", written)
    write_facts(tmp_path, {"version": "a"}, None)
    rows = CheckedRows(tmp_path, "vectors.npy")
    flip(tmp_path / "vectors.npy", (tmp_path / "vectors.npy").stat().st_size - 1 - place)
    assert len(rows) == ROWS
    for read in reads:
        which = slice(*read) if isinstance(read, tuple) else np.array(read)
        try:
            assert (rows[which] == written[which]).all()
        except IndexUnavailableError as fault:
            assert "vectors.npy is not what was written" in str(fault)
            assert facts_of(tmp_path) == {}
            write_facts(tmp_path, {"version": "a"}, None)
