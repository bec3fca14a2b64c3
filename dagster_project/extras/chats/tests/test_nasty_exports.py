"""One export of a chat never stops the others, whatever its program."""

from pathlib import Path

import pytest

from tests.archives import Workspace
from tests.nasty_files import Kind, assert_accounted_for, with_nasty_files

FILES = {
    file.name: file
    for file in sorted((Path(__file__).parent / "files").iterdir())
    if file.is_file() and file.name != "signal-export.json"
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FILES)
def test_fifty_nasty_exports_stop_none_of_the_others(work: Workspace, name: str):
    data = FILES[name].read_bytes()
    assert b"sluice" in data
    ending = f".2024-03-01{FILES[name].suffix}"  # transcripts have the day in their names
    kind = Kind("conversation", ending, lambda word: data.replace(b"sluice", word.encode()))
    with_nasty_files(work, kind)
    done = work.weft("build")
    assert done.exit_code == 0, done.output
    assert "Traceback" not in done.output
    assert_accounted_for(work, kind)
