"""One file never stops the others, though the kernel ends the process that reads it: the next try
finds it on halves, puts it into quarantine, and the build goes on.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dagster_project.orchestration import isolation
from dagster_project.orchestration.isolation import ending
from tests.archives import Mail, Workspace
from tests.daemon import Daemon
from tests.timing import HUNG

DEADLY = "DEADLY"
"""The word over which a library ends its process."""
INJECTED = f"""
import email.utils, os, signal, pyromark

def deadly(real):
    def function(text, *more, **options):
        if "{DEADLY}" in text:
            os.kill(os.getpid(), signal.SIGSEGV)
        return real(text, *more, **options)
    return function

email.utils.parseaddr = deadly(email.utils.parseaddr)
for name in ("events", "events_with_range"):
    setattr(pyromark, name, deadly(getattr(pyromark, name)))
"""
SOURCES = (
    {"name": "notes", "kind": "vault", "path": "notes"},
    {"name": "dev", "kind": "mbox", "path": "mail/*"},
)
SET_ASIDE = "SELECT place FROM quarantine WHERE reason LIKE 'stage_failed%SIGSEGV' ORDER BY ALL"


@pytest.fixture
def deadly(work: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Notes and mails; over one of each a library ends each process that tests start."""
    work.configure(*SOURCES, engine={"tasks": 2})
    for number in range(9):
        text = DEADLY if number == 5 else "rye flour"
        work.put(f"notes/{number}.md", f"# Note {number}\n\nThe recipe wants {text}.\n")
    for month in ("01", "02"):
        names = (DEADLY if (n, month) == (2, "02") else "Ada" for n in range(4))
        mails = [
            Mail(n, ident=f"{month}.{n}@example.org", sender=f"a@example.org (née {name})")
            for n, name in enumerate(names)
        ]
        work.write(f"dev.2004-{month}.mbox", mails)
    work.put("inject/sitecustomize.py", INJECTED)
    monkeypatch.setenv("PYTHONPATH", str(work.folder / "inject"))
    return work


def test_the_files_over_which_a_process_ends_are_found_on_halves(deadly: Workspace):
    assert ending(deadly.settings, ["notes/all"]) == {
        "notes/all": {
            "notes:5.md": "stage_failed: read_documents: its process was ended by SIGSEGV"
        }
    }
    assert not (deadly.settings.root / "lake" / "documents").exists()


def test_a_process_that_asks_for_more_memory_than_is_free_ends_by_its_bound(work: Workspace):
    """Nothing writes to the memory: without the bound the system would give all of it."""
    search = isolation._Search(work.configure(*SOURCES).settings, "notes/all")
    why, _ = search._forked(lambda: len([np.empty(1 << 30, "u1") for _ in range(200)]))
    assert why and "SIGKILL" in why


@pytest.mark.exhaustive
def test_a_build_ends_though_its_workers_die(deadly: Workspace):
    """With one processor the build itself is the process that dies, and the next one ends."""
    ended = built(deadly)
    if ended.returncode < 0:
        ended = built(deadly)
    assert ended.returncode == 0, ended.stderr
    places = deadly.column(SET_ASIDE)
    assert len(places) == 2 and "5.md" in places
    assert deadly.column("SELECT count(*) FROM documents") == [8]
    assert deadly.column("SELECT count(*) FROM messages") == [7]


@pytest.mark.exhaustive
def test_the_daemon_goes_on_where_the_processes_of_its_runs_died(deadly: Workspace):
    """Each run that reads files is lost once; those of the next hour look first."""
    with deadly.instance() as instance:
        daemon = Daemon(deadly, instance)
        daemon.hour()
        while daemon.queued:
            daemon.kill()
        assert daemon.look() == []
        daemon.hour()
        daemon.rest()
        assert all(run.is_finished for run in instance.get_runs())
    places = deadly.column(SET_ASIDE)
    assert len(places) == 2 and "5.md" in places
    assert deadly.column("SELECT count(*) FROM documents") == [8]
    assert deadly.column("SELECT count(*) FROM messages") == [7]


def built(work: Workspace) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "dagster_project.cli", "build", "--config", str(work.config)]
    root = Path(__file__).parents[3]
    return subprocess.run(command, capture_output=True, cwd=root, timeout=HUNG)
