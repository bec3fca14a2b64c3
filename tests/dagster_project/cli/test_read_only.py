"""A storage that may not be written: what reads works all the same, what writes says so, and the
doctor never writes.
"""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from dagster_project.index.files.arrays import folder_of
from dagster_project.index.search.opened_index import open_index
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.system.locks import RUNS
from tests.archives import Workspace, discussion, flip, two_lists
from tests.gemini_loopback import FORBIDDEN, KEY, blocks_forbidden, loopback
from tests.processes import weft, write_that_is_killed
from transforms.errors import IndexUnavailableError

READING = (
    ("search", "compactor"),
    ("search", "compactor", "--stages"),
    ("sql", "SELECT 1"),
    ("get", "m0@example.org"),
    ("similar", "m0@example.org"),
    ("plan",),
    ("plan", "--cost"),
    ("cache", "stats"),
    ("cache", "verify"),
)
_NAMED = ("build", "build --fetch-only", "build --backfill", "cache prune", "cache prune --refused")
WRITING = [name.split() for name in _NAMED]


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """`folder` while nobody may write it: mounted read-only for root, whom no permission stops.
    Skips if it may not be.
    """
    if os.getuid():
        for path in (folder, *folder.rglob("*")):
            path.chmod(path.stat().st_mode & 0o555)
        yield
        return
    try:
        subprocess.run(["mount", "--bind", folder, folder], check=True, capture_output=True)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(
            f"to be told that nothing may be written, root needs the right to mount: {error}"
        )
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def trace(folder: Path) -> dict[str, tuple[int, int, str]]:
    """All that could tell that something was written: modes, times and contents of all files and
    folders.
    """
    paths = [folder, *sorted(p for p in folder.rglob("*") if not p.name.startswith("printed-"))]
    facts = {}
    for path in paths:
        seen = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        own_time = (
            0 if path == folder else seen.st_mtime_ns
        )  # what the command prints is kept there
        facts[str(path.relative_to(folder))] = (seen.st_mode, own_time, content)
    return facts


def _without_memories(work: Workspace) -> None:
    for memory in (work.settings.root / "cache").glob("*.json"):
        memory.unlink()
    for lock in work.settings.root.glob(".*.lock"):
        lock.unlink()


def _damaged(work: Workspace) -> None:
    flip(next((work.settings.root / "lake" / "messages").rglob("*.parquet")))
    (work.index / "CURRENT").resolve().write_bytes(b"\0" * 4096)
    (work.settings.root / "cache" / "embeddings" / "refusals.sqlite").write_bytes(
        b"no database" * 99
    )


def _killed(work: Workspace) -> None:
    """As a kill in the middle of a build, and of a write to a cache, leaves it."""
    (work.settings.root / RUNS).mkdir(exist_ok=True)
    (work.settings.root / RUNS / "gone").touch()
    place = work.settings.root / "cache" / "answers.sqlite"
    SQLiteAnswerCache(place).store({f"m/1/{n}": "x" * 999 for n in range(99)})
    write_that_is_killed(place, "UPDATE answers SET answer = 'y' || answer")


def _chats_without_a_key(work: Workspace) -> None:
    work.put("chat/WhatsApp Chat with Ada.txt", "05/01/2004, 10:00 - Ada: Hello there\n")
    with work.config.open("a") as settings:
        settings.write('\n[[sources]]\nname = "chat"\nkind = "conversation"\npath = "chat/*"\n')


STATES: dict[str, tuple[Callable[[Workspace], None], int]] = {
    "whole": (lambda work: None, 0),
    "never built": (lambda work: shutil.rmtree(work.settings.root), 0),
    "without memories": (_without_memories, 0),
    "damaged": (_damaged, 7),
    "killed": (_killed, 0),
    "chats without a key": (_chats_without_a_key, 0),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("state", "is_read_only"),
    [*((state, False) for state in STATES), ("whole", True), ("killed", True)],
)
def test_the_doctor_writes_nothing(built: Workspace, state: str, is_read_only: bool):
    prepare, code = STATES[state]
    prepare(built)
    root = built.settings.root
    shut = is_read_only and root.exists()
    before = trace(built.folder)
    with unwritable(root) if shut else nullcontext():
        done = weft(built.folder, "doctor", "--config", built.config)
    assert done.code == (7 if shut else code), done.out + done.err
    assert trace(built.folder) == before
    assert "Traceback" not in done.err
    assert not shut or f"{root} cannot be written" in " ".join(done.out.split())


def test_what_a_killed_writer_left_is_undone_for_readers_too(built: Workspace):
    _killed(built)
    cache = SQLiteAnswerCache(built.settings.root / "cache" / "answers.sqlite")
    assert cache.known(["m/1/7"]) == {"m/1/7": "x" * 999}
    assert cache.verify() == []
    cache.store({"m/1/new": "answer"})
    assert not cache.path.with_name("answers.sqlite-journal").exists()
    with sqlite3.connect(cache.path) as opened:
        assert opened.execute("SELECT count(*) FROM answers WHERE answer LIKE 'y%'").fetchall() == [
            (0,)
        ]


@pytest.fixture(scope="module")
def shut(tmp_path_factory: pytest.TempPathFactory, built_once: Workspace) -> Iterator[Workspace]:
    """A published storage that nobody may write."""
    work = built_once.copied(tmp_path_factory.mktemp("shut") / "work")
    with unwritable(work.settings.root):
        yield work


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_what_only_reads_works_where_nothing_may_be_written(
    shut: Workspace, command: tuple[str, ...]
):
    done = weft(shut.folder, *command, "--json", "--config", shut.config)
    assert done.code == 0, done.err
    assert done.out and not done.err.startswith("error")


def test_a_context_is_found_where_nothing_may_be_written(shut: Workspace):
    text = shut.put("question.txt", "How does the compactor behave when the load doubles?")
    done = weft(shut.folder, "context", text, "--config", shut.config)
    assert done.code == 0 and "compactor" in done.out, done.err


def test_arrays_that_can_be_kept_nowhere_are_said_so(
    tmp_path: Path, built_once: Workspace, monkeypatch: pytest.MonkeyPatch
):
    work = built_once.copied(tmp_path / "work")
    shutil.rmtree(folder_of((work.index / "CURRENT").resolve()))
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with (
        unwritable(work.settings.root),
        closing(open_index(work.settings)) as index,
        pytest.raises(
            IndexUnavailableError, match="neither beside it nor in a temporary folder .*TMPDIR"
        ),
    ):
        index.search(["compactor"])


@pytest.mark.exhaustive
def test_a_context_of_a_paid_model_is_found_and_its_vectors_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    with loopback() as gemini:
        gemini.rule = blocks_forbidden
        work = Workspace(tmp_path / "work")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", gemini.url)
        work.configure(embedding={"model": "gemini"})
        work.write("dev.2004-01.mbox", discussion(0, 3, "compactor"))
        work.build()

        def answered(text: str) -> bool:
            done = work.weft("context", "--stdin", input=text)
            assert done.exit_code == 0 and "compactor" in done.stdout, done.output
            return gemini.asked[text] > 0

        assert answered("How does the compactor behave?")
        before = trace(work.folder)
        with unwritable(work.settings.root):
            asked = "How does the compactor behave when the load doubles?"
            assert all(map(answered, [asked, f"{asked} Does it like {FORBIDDEN}, too?"]))
            gemini.asked.clear()
            assert not answered("How does the compactor behave?")
        assert trace(work.folder) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_what_writes_says_in_one_line_that_it_may_not(shut: Workspace, command: tuple[str, ...]):
    done = weft(shut.folder, *command, "--config", shut.config)
    assert done.code == 12, done.err
    (line,) = done.err.splitlines()
    assert line.startswith(f"error: {shut.settings.root}/") and "cannot be written" in line
    assert "give it the right to write" in line and "sqlite" not in line.lower()


@pytest.mark.exhaustive
def test_what_an_estimate_of_cost_has_to_make_first_cannot_be_made(
    tmp_path: Path, built_once: Workspace
):
    work = built_once.copied(tmp_path / "work")
    work.write("dev/dev.2004-09.mbox", b"From a@b Mon Jan  5 10:00:00 2004\nFrom: a@b\n\nMore.\n")
    with unwritable(work.settings.root):
        done = weft(work.folder, "plan", "--cost", "--config", work.config)
    assert done.code == 12 and len(done.err.splitlines()) == 1, done.err


@pytest.mark.exhaustive
def test_of_a_storage_whose_lake_alone_may_not_be_written_a_build_says_so(tmp_path: Path):
    work = two_lists(tmp_path / "work")
    lake = work.settings.root / "lake"
    lake.mkdir(parents=True)
    with unwritable(lake):
        done = weft(work.folder, "build", "--config", work.config)
    assert done.code == 12, done.err
    assert str(lake) in done.err.splitlines()[-1] and "Read-only" in done.err.splitlines()[-1]
