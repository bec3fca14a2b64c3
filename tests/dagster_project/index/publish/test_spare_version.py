"""A version that is not needed any more becomes the next one, unless somebody can see that."""

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from dagster_project.index.files.arrays import folder_of
from dagster_project.index.publish.incremental_build import IndexUpdate
from dagster_project.index.publish.version_inputs import Published
from tests.archives import Mail, Workspace, differences, discussion

pytestmark = pytest.mark.exhaustive

BROKEN = b"From nobody\n\nno header at all\n"
READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM messages").fetchone()[0], flush=True)
sys.stdin.readline()
print(connection.execute("SELECT count(body) FROM messages").fetchone()[0], flush=True)
"""


def published(work: Workspace, mails: int, *more: str) -> Published:
    """Publish three mails, so many mails of a discussion, whose first archive has four, and more archives."""
    later = {"2004-03", *(f"2005-{number:02}" for number in range(mails + 1, 9))}
    return work.publish(*(f"dev/dev.{name}" for name in later.difference(more)))


def from_nothing(work: Workspace, mails: int) -> Path:
    """The published files of so many mails, all of the lake."""
    full = work.copied(work.folder.with_name("full"))
    shutil.rmtree(full.index)
    assert not published(full, mails).reused
    return full.index


def current(work: Workspace) -> Path:
    """The current published file."""
    return (work.index / "CURRENT").resolve()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A lake of eight mails beside three others; of the versions of four, five and six the first is the spare one."""
    work = Workspace(tmp_path_factory.mktemp("three") / "work").configure()
    mails = discussion(0, 8, "compactor")
    work.write("dev.2004-02.mbox", discussion(100, 3, "planner"))
    work.write("dev.2004-03.mbox", BROKEN)
    for number in range(4, 9):
        work.write(f"dev.2005-{number:02}.mbox", mails[:4] if number == 4 else [mails[number - 1]])
    work.build()
    shutil.rmtree(work.index)
    for count in (4, 5, 6):
        assert not published(work, count).in_place
    return work


@pytest.fixture
def work(made_once: Workspace, tmp_path: Path) -> Workspace:
    return made_once.copied(tmp_path / "work")


@pytest.fixture(scope="module")
def of_seven(made_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published files of one mail more, made from nothing."""
    return from_nothing(made_once.copied(tmp_path_factory.mktemp("seven") / "work"), 7)


def spare(work: Workspace) -> Path:
    """The spare version, which holds seven mails."""
    return work.index / ".spare.duckdb"


def test_versions_are_changed_in_place_and_equal_one_that_is_made_from_nothing(work: Workspace):
    for mails in (7, 8):
        inode = spare(work).stat().st_ino
        done = published(work, mails)
        assert done.in_place and done.reused and not done.unusable
        assert current(work).stat().st_ino == inode
    assert differences(work.index, from_nothing(work, 8)) == {}
    files = sorted(path.name for path in work.index.glob("*.duckdb"))
    assert files[0] == ".spare.duckdb" and len(files) == 3


def test_times_are_those_of_the_version_before_not_of_the_one_that_is_changed(work: Workspace):
    published(work, 6, "2004-03")
    # The version that is changed next has neither the sixth mail nor what is in quarantine.
    times = "SELECT doc_id, published_at FROM readiness ORDER BY ALL"
    since = "SELECT first_seen FROM quarantine"
    known, seen = dict(work.sql(times)), work.sql(since)
    work.write("dev.2005-09.mbox", [Mail(30)])
    done = work.build().published
    assert done and done["changed_in_place"] and seen
    later = dict(work.sql(times))
    assert {name: later[name] for name in known} == known
    assert later["m30@example.org"] > max(known.values())
    assert work.sql(since) == seen


def test_a_version_that_this_process_reads_is_left_alone(work: Workspace):
    with duckdb.connect(str(spare(work)), read_only=True) as reader:
        spare(work).read_bytes()  # whoever closes a file loses its locks
        assert not published(work, 7).in_place
        assert reader.execute("SELECT count(body) FROM messages").fetchone() == (7,)
    # That one is deleted, and the next may be changed again.
    assert published(work, 8).in_place


def test_a_version_that_another_process_reads_is_left_alone(work: Workspace):
    command = [sys.executable, "-c", READER, str(spare(work))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout and reader.stdout.readline() == "7\n"
        assert not published(work, 7).in_place
        assert reader.communicate("\n")[0] == "7\n"


def test_a_version_with_another_name_is_left_alone(work: Workspace, tmp_path: Path):
    (tmp_path / "backup").hardlink_to(spare(work))
    assert not published(work, 7).in_place
    with duckdb.connect(str(tmp_path / "backup"), read_only=True) as reader:
        assert reader.execute("SELECT count(body) FROM messages").fetchone() == (7,)


@pytest.mark.parametrize("damage", ["no arrays", "a page"])
def test_a_damaged_spare_version_is_done_without(work: Workspace, of_seven: Path, damage: str):
    size = spare(work).stat().st_size
    if damage == "no arrays":
        shutil.rmtree(folder_of(spare(work)))
    else:
        with spare(work).open("r+b") as file:
            for place in range(4096 * 4, size, 4096):
                file.seek(place)
                file.write(b"\xff" * 64)
    done = published(work, 7)
    assert done.reused and done.in_place == (damage == "no arrays")
    assert differences(work.index, of_seven) == {}


def test_a_failure_midway_leaves_what_is_published_and_the_next_build_copies(
    work: Workspace, of_seven: Path, monkeypatch: pytest.MonkeyPatch
):
    before = current(work)

    def fails(update: IndexUpdate) -> None:
        raise RuntimeError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(IndexUpdate, "_vectors", fails)
        with pytest.raises(Exception, match="no more"):
            published(work, 7)
    assert current(work) == before
    assert work.sql("SELECT count(body) FROM messages") == [(9,)]
    assert not list(work.index.glob(".[!l]*"))
    assert not published(work, 7).in_place
    assert differences(work.index, of_seven) == {}


def test_small_files_are_copied_and_a_spare_version_that_nobody_wants_is_deleted(work: Workspace):
    work.configure(index={"spare_min_bytes": 1 << 30})
    assert published(work, 7).reused
    assert not list(work.index.glob(".spare*"))
