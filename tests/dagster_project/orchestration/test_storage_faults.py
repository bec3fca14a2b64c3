"""Whatever stands where Weft's own files belong: a build mends it, or says in one line what is
wrong and what to do.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dagster_project.cli import command
from dagster_project.index.publish.versions import CURRENT
from dagster_project.system.locks import RUNS
from tests.archives import Workspace, differences
from tests.cases import some
from tests.processes import weft

GARBAGE = b"no file of Weft's" * 99


def garbage(*names: str) -> Callable[[Workspace], None]:
    def write(work: Workspace) -> None:
        for name in names:
            (work.settings.root / name).write_bytes(GARBAGE)

    return write


def a_file_for(name: str) -> Callable[[Workspace], None]:
    def write(work: Workspace) -> None:
        shutil.rmtree(work.settings.root / name)
        (work.settings.root / name).write_text("")

    return write


def a_folder_for(name: str) -> Callable[[Workspace], None]:
    def make(work: Workspace) -> None:
        (work.settings.root / name).unlink()
        (work.settings.root / name).mkdir()

    return make


def settings_of(content: bytes) -> Callable[[Workspace], None]:
    """Something before the content of the settings file."""
    return lambda work: work.config.write_bytes(content + work.config.read_bytes()) and None


def other_current(content: str) -> Callable[[Workspace], None]:
    """A plain file in place of the link, as copying with other tools leaves it."""

    def write(work: Workspace) -> None:
        (work.index / CURRENT).unlink()
        (work.index / CURRENT).write_text(content)

    return write


def _current_of_itself(work: Workspace) -> None:
    (work.index / CURRENT).unlink()
    (work.index / CURRENT).symlink_to(CURRENT)


def _pages_of_history_lost(work: Workspace) -> None:
    place = work.settings.root / "dagster" / "history" / "runs" / "index.db"
    place.write_bytes(place.read_bytes()[:8192] + os.urandom(place.stat().st_size - 8192))


def _run_of_no_history(work: Workspace) -> None:
    """The lock of a run that was killed, of which a history that was moved away knows nothing."""
    (work.settings.root / RUNS).mkdir(exist_ok=True)
    (work.settings.root / RUNS / "gone").write_bytes(b"\0\xff\0\0")


def _lock_of_a_process_that_is_gone(work: Workspace) -> None:
    (work.settings.root / ".build.lock").write_text("4194304")


MENDED: dict[str, tuple[tuple[Callable[[Workspace], None], ...], set[str]]] = {
    "empty CURRENT": (
        (other_current(""), garbage("state.sqlite")),
        {"index"},
    ),
    "other CURRENT": ((other_current("weft-0.duckdb\n"), _run_of_no_history), {"index", "work"}),
    "CURRENT of itself": (
        (_current_of_itself, _lock_of_a_process_that_is_gone, settings_of(b"\xef\xbb\xbf")),
        {"index"},
    ),
}
"""By fault, how it and others beside it come about, and the areas that the doctor reports."""

TOLD: dict[str, tuple[Callable[[Workspace], None], int, str | None, tuple[str, ...]]] = {
    "history of runs": (
        garbage("dagster/history/runs.db"),
        1,
        "history",
        ("Dagster's history", "state/dagster", "move that folder"),
    ),
    "pages of the events": (
        _pages_of_history_lost,
        1,
        "history",
        ("Dagster's history", "malformed", "move that folder"),
    ),
    "schedules": (garbage("dagster/schedules/schedules.db"), 1, "history", ("move that folder",)),
    "settings of Dagster": (
        garbage("dagster/dagster.yaml"),
        1,
        "history",
        ("dagster.yaml", "delete it"),
    ),
    "index": (a_file_for("index"), 1, "permissions", ("state/index", "move that away")),
    "lake": (a_file_for("lake"), 1, "permissions", ("state/lake", "move that away")),
    "cache": (a_file_for("cache"), 1, "permissions", ("state/cache", "move that away")),
    "lock": (a_folder_for(".build.lock"), 1, None, (".build.lock", "move that away")),
    "CURRENT": (a_folder_for("index/CURRENT"), 1, "index", ("CURRENT", "move that away")),
    "table": (
        a_folder_for("lake/threads.parquet"),
        1,
        "lake",
        ("threads.parquet", "move that away"),
    ),
    "state": (a_file_for("."), 2, "permissions", ("cannot be used as a folder", "storage.root")),
    "settings in Latin-1": (
        settings_of(b"# caf\xe9\n"),
        2,
        None,
        ("weft.toml", "not UTF-8 at byte 5", "save it"),
    ),
    "settings in UTF-16": (settings_of(b"\xff\xfe"), 2, None, ("weft.toml", "not UTF-8 at byte 0")),
    "settings of zeros": (
        lambda work: work.config.write_bytes(bytes(99)) and None,
        2,
        None,
        ("not valid TOML",),
    ),
    "no settings": (
        lambda work: work.config.unlink(),
        2,
        None,
        ("no settings file at", "--config"),
    ),
    "a folder of settings": (
        lambda work: work.config.unlink() or work.config.mkdir(),
        2,
        None,
        ("no settings file at", "--config"),
    ),
}
"""By fault, how it comes about, the exit code of a build, the area of which the doctor tells it,
words of the message.
"""


def areas(work: Workspace) -> set[str]:
    """What the doctor finds that is not well."""
    done = weft(work.folder, "doctor", "--json", "--config", work.config)
    assert done.code in (0, 7), done.err
    findings = json.loads(
        done.out.splitlines()[0]
    )  # below them may be a fault of the doctor itself
    return {finding["area"] for finding in findings if finding["state"] != "ok"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", MENDED)
def test_a_build_mends_it(built: Workspace, built_once: Workspace, fault: str):
    prepare, expected = MENDED[fault]
    for damage in prepare:
        damage(built)
    assert areas(built) == expected
    done = weft(built.folder, "build", "--json", "--config", built.config)
    assert done.code == 0, done.err
    assert differences(built.index, built_once.index) == {}
    assert built.plan().is_empty
    assert areas(built) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", some(TOLD))
def test_a_build_says_in_one_line_what_is_wrong_and_what_to_do(built: Workspace, fault: str):
    prepare, code, area, words = TOLD[fault]
    prepare(built)
    if area:
        assert area in areas(built)
    done = weft(built.folder, "build", "--config", built.config)
    assert done.code == code, done.err
    (line,) = done.err.splitlines()
    assert line.startswith("error: ") and "Errno" not in line and "Error:" not in line
    for word in words:
        assert word in line
    searched = weft(built.folder, "search", "compactor", "--config", built.config)
    assert len(searched.err.splitlines()) <= 1 and searched.code in (0, 2, 5)


@pytest.mark.exhaustive
def test_a_history_that_was_moved_away_begins_anew(built: Workspace, built_once: Workspace):
    garbage("dagster/history/runs.db")(built)
    (built.settings.root / "dagster").rename(built.folder / "moved")
    built.write("dev/dev.2004-02.mbox", b"")
    source = built_once.folder / "mail/dev/dev.2004-02.mbox"
    built.write("dev/dev.2004-02.mbox", source.read_bytes())
    assert weft(built.folder, "build", "--config", built.config).code == 0
    assert differences(built.index, built_once.index) == {}


def test_what_nobody_foresaw_is_one_line_that_names_a_file_of_the_user_alone(built: Workspace):
    """A file of the published arrays that is no array comes to numpy's own words."""
    names = [p for p in built.index.glob("*.arrays/*/*.npy") if p.stem == "starts"]
    names[0].write_bytes(b"")
    done = weft(built.folder, "search", "compactor", "--config", built.config)
    assert done.code == 5 and len(done.err.splitlines()) == 1, done.err
    script = built.put(
        "fault.py",
        "import sys\nfrom dagster_project.cli import command\n"
        "sys.excepthook = command.unexpected\nraise LookupError('of a bug\\nmore')\n",
    )
    import subprocess
    import sys

    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: LookupError: of a bug (unexpected")
    kept = Path(line.split("traceback is in ")[1].split(")")[0])
    assert "raise LookupError" in kept.read_text() and kept.stat().st_mode & 0o077 == 0
    kept.unlink()


def test_of_many_faults_that_nobody_foresaw_the_last_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(command, "folders", lambda: iter([tmp_path]))
    for number in range(30):
        command.unexpected(LookupError, LookupError(f"fault {number}"), None)
    kept = sorted(tmp_path.glob("fault-*.txt"))
    assert len(kept) == 10 and "fault 29" in kept[-1].read_text()
