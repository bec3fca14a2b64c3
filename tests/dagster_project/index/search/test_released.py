"""A version that is replaced is let go of: nothing of it stays open, mapped or in memory."""

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dagster_project.context.conversation_context import context_of, read_conversation
from dagster_project.index.files import checksums
from dagster_project.index.files.checksums import file_damages
from dagster_project.index.files.segments import segments_of
from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.opened_index import FollowedIndex, open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.system.durable import remove
from dagster_project.system.open_files import deleted_files, programs_with_deleted
from tests.archives import Workspace
from tests.timing import until
from transforms.errors import IndexUnavailableError
from transforms.settings.search import SearchSettings

PUBLISHES = 50
OWN = Path("/proc/self")

pytestmark = pytest.mark.skipif(not OWN.exists(), reason="only Linux says what a process has open")


@pytest.fixture
def without_collector() -> Iterator[None]:
    """Nothing is freed that only a search for cycles would find."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def publish(work: Workspace, number: int) -> None:
    """Publish a copy of the current version, and delete the one before."""
    current = (work.index / CURRENT).resolve()
    arrays = current.with_suffix(".arrays")
    place = work.index / f"weft-{number}.duckdb"
    shutil.copytree(arrays, place.with_suffix(".arrays"))
    shutil.copy(current, place)
    link = work.index / "next"
    link.symlink_to(place.name)
    link.replace(work.index / CURRENT)
    remove([current, arrays])


def ask(work: Workspace, index: SearchIndex) -> None:
    """Questions that read all kinds of files."""
    assert index.search(["compactor", '"the compactor"', "from:p1 shell"]).hits.num_rows
    index.search(["garbage"], settings=SearchSettings(vector_search="exact", per_document=1))
    assert context_of(
        work.settings, read_conversation(work.settings, None, "compactor"), index
    ).block


def opened(work: Workspace) -> int:
    """The descriptors of files of the index."""
    files = [handle.readlink() for handle in (OWN / "fd").iterdir() if handle.is_symlink()]
    return sum(file.is_relative_to(work.index.resolve()) for file in files)


def test_fifty_publishes_cost_no_descriptor_and_hold_no_deleted_file(
    built: Workspace, without_collector: None
):
    with closing(FollowedIndex(built.index, lambda: open_index(built.settings), 0.01)) as followed:

        def answering() -> str:
            with followed.index() as index:
                index.search(["compactor"])
                return index.path.name

        with followed.index() as index:
            ask(built, index)
        before = opened(built)
        assert before
        for number in range(PUBLISHES):
            publish(built, number)
            until(lambda: answering() == f"weft-{number}.duckdb", "the new version")  # noqa: B023
        with followed.index() as index:
            ask(built, index)
        until(lambda: not deleted_files(OWN, built.index.resolve()), "the last one is let go of")
        until(lambda: opened(built) <= before, "what was opened twice is let go of")


def test_a_closed_version_holds_nothing(built: Workspace, without_collector: None):
    before = opened(built)
    index = open_index(built.settings)
    ask(built, index)
    index.close()
    assert opened(built) <= before


def test_who_holds_deleted_files_is_named(built: Workspace):
    with closing(open_index(built.settings)) as index:
        ask(built, index)
        publish(built, 1)
        (program,) = programs_with_deleted(built.settings.root, 0) or []
        assert program.startswith(f"{os.getpid()} ")
    assert programs_with_deleted(built.settings.root, 0) == []


def test_a_reader_opens_again_after_damage(built: Workspace):
    """The damaged file is named once; the next question is answered from rebuilt arrays."""
    with closing(FollowedIndex(built.index, lambda: open_index(built.settings))) as followed:
        arrays = (built.index / CURRENT).resolve().with_suffix(".arrays")
        file = arrays / "hits.sqlite"
        data = bytearray(file.read_bytes())
        data[len(data) // 3 :] = bytes(len(data) - len(data) // 3)
        with (
            pytest.raises(IndexUnavailableError, match="makes it again"),
            followed.index() as index,
        ):
            assert index.arrays
            file.write_bytes(data)
            index.search(["garbage collector load", "compactor"])
        with followed.index() as index:
            assert index.search(["garbage collector load", "compactor"]).hits.num_rows


def test_a_reader_that_stays_finds_damage_that_no_question_meets(
    built: Workspace, caplog: pytest.LogCaptureFixture
):
    """Each kind of file is compared once a day, is named, and is there again as it was."""
    arrays = (built.index / CURRENT).resolve().with_suffix(".arrays")
    facts = arrays / "facts.json"
    kinds = {file.suffix: file for file in arrays.rglob("*.*") if file != facts}
    with closing(FollowedIndex(built.index, lambda: open_index(built.settings), 0.01)) as followed:
        for file in kinds.values():
            with followed.index() as index:
                index.search(["compactor"])
            data = file.read_bytes()
            with file.open("r+b") as damaged:
                damaged.write(bytes([data[0] ^ 1]))
            os.utime(facts, (0, 0))
            name = f"{file.relative_to(arrays)} is not what was written in the bytes from 0 on"
            until(lambda: name in caplog.text and facts.exists(), "the damage is named")  # noqa: B023
            assert file.stat().st_size == len(data)
    assert list(file_damages(arrays, reads_all=True)) == [] and {".npy", ".sqlite"} <= kinds.keys()


def test_a_version_that_is_deleted_while_it_is_opened_is_a_named_fault(
    built: Workspace, monkeypatch: pytest.MonkeyPatch
):
    def deleting(folder: Path, **how: bool) -> Iterator[str]:
        for segment in segments_of(folder):
            shutil.rmtree(segment)
        return iter(())

    monkeypatch.setattr(checksums, "file_damages", deleting)
    with (
        closing(open_index(built.settings)) as index,
        pytest.raises(IndexUnavailableError, match="could not be opened"),
    ):
        index.search(["compactor"])
