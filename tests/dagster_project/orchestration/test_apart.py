"""One mail or note never stops the others: a stage over the whole lake that fails on its rows is
made without it, in the same build, and it is in quarantine with the reason.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import pytest

from assets.pipeline import relation_stages
from assets.stages.apart import TextInPartition, set_aside
from assets.stages.stage_run import StageRun
from dagster_project.composition.objects import make_sources
from dagster_project.lake.set_aside import SetAside
from dagster_project.orchestration.reconcile import UNCHANGED
from dagster_project.orchestration.triggers.following import Follower, Hint
from tests.archives import Mail, Workspace, discussion
from tests.cases import some
from tests.daemon import Daemon
from tests.dagster_project.orchestration.test_set_aside import CHAT
from transforms.errors import LakeDamageError

POISON = "arsenic"
STAGES = (
    *("memberships", "mail_buckets", "build_threads", "inferred_quotes", "message_links"),
    *("patch_series", "build_chunk_context", "measure_counts", "document_links"),
)
OF_NO_MAIL = {"people", "corpus_measures"}
"""Stages over sums of many mails, of which no row is of one."""
SOURCES = (
    {"name": "notes", "kind": "vault", "path": "notes"},
    {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
    {"name": "ops", "kind": "mbox", "path": "mail/ops/*"},
)
Fails = Callable[[int, bool], bool]
"""Says by the number of rows, and by whether the word is in them, if a stage fails."""
REASONS = (
    "SELECT source, place, reason FROM quarantine WHERE reason LIKE 'stage_failed%' ORDER BY 1"
)


def poisoned_reason(name: str) -> str:
    """The reason of each text in quarantine."""
    return f"stage_failed: {name}: KeyError: 'no such flour'"


@pytest.fixture
def mails_and_notes(work: Workspace) -> Workspace:
    """Two lists and a vault; a mail that is in both lists has the word, and a note."""
    work.configure(*SOURCES)
    poisoned = Mail(50, "Whose?", ident=f"{POISON}@example.org")
    work.write("dev/dev.2004-01.mbox", [*discussion(1, 4, "compactor"), poisoned])
    work.write("ops/ops.2004-01.mbox", [*discussion(20, 4, "scheduler"), poisoned])
    for name in ("Plan", POISON, "Rest"):
        work.put(f"notes/{name}.md", f"# {name}\n\nRye flour, see [[Plan]].\n")
    return work


def let_fail(monkeypatch: pytest.MonkeyPatch, name: str, fails: Fails) -> list[int]:
    """Let a stage over the whole lake fail on some inputs; the list of its tries."""
    make, tries = StageRun.make, []

    def failing_make(self: StageRun, inputs: Any, *more: Any, **others: Any) -> Any:
        if self.stage.name == name:
            tables = [t.to_pyarrow() if isinstance(t, ibis.Table) else t for t in inputs]
            rows = [row for table in tables for row in table.to_pylist()]
            tries.append(len(rows))
            if fails(len(rows), POISON in str(rows)):
                raise KeyError("no such flour")
        return make(self, inputs, *more, **others)

    monkeypatch.setattr(StageRun, "make", failing_make)
    return tries


@pytest.mark.parametrize("name", some(STAGES, each=8))
def test_a_stage_over_the_whole_lake_is_made_without_what_it_fails_on(
    mails_and_notes: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
):
    work = mails_and_notes
    assert {stage.name for stage in relation_stages(work.settings)} == {*STAGES} | OF_NO_MAIL
    with monkeypatch.context() as patch:
        tries = let_fail(patch, name, lambda rows, is_poisoned: is_poisoned)
        result = work.build()
    reason = poisoned_reason(name)
    mail = [("dev", "dev.2004-01.mbox:893", reason), ("ops", "ops.2004-01.mbox:902", reason)]
    note = [("notes", f"{POISON}.md", reason)] if name == "document_links" else []
    assert work.sql(REASONS) == sorted(mail + note)
    assert all(any(why in line for line in result.warnings()) for *_, why in work.sql(REASONS))
    assert work.column("SELECT count(*) FROM messages") == [8]
    assert work.column("SELECT count(*) FROM documents") == [3 - len(note)]
    assert len(tries) < 60
    assert work.plan().is_empty
    assert work.weft("search", "compactor").exit_code == 0


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("build_threads", lambda rows, is_poisoned: rows > 4),
        ("patch_series", lambda rows, is_poisoned: True),
    ],
    ids=["on many", "on nothing"],
)
def test_a_fault_of_the_machine_or_of_the_stage_is_the_fault_of_no_mail(
    mails_and_notes: Workspace, monkeypatch: pytest.MonkeyPatch, name: str, fails: Fails
):
    with monkeypatch.context() as patch:
        tries = let_fail(patch, name, fails)
        failed = mails_and_notes.weft("build")
    assert failed.exit_code == 1
    assert f"error: step {name} failed: KeyError: 'no such flour'" in failed.stderr
    assert len(tries) < 60
    assert SetAside(mails_and_notes.lake.base).all() == {}


def test_a_damaged_file_of_the_lake_is_the_fault_of_no_mail(built: Workspace):
    lake, sources = built.lake, make_sources(built.settings)
    partition = next(p for p in sources.discover() if p.source_type == "mail").key
    (ident, *_) = lake.ids("messages", partition)
    file = Path(str(lake.path("messages", partition)))
    data = file.read_bytes()
    file.write_bytes(data[:200] + bytes(600) + data[800:])
    with pytest.raises(LakeDamageError):
        set_aside(
            "build_threads", lake, sources, ["messages"], {TextInPartition(partition, ident): "why"}
        )
    assert SetAside(lake.base).all() == {}


def news(work: Workspace) -> None:
    """A month with a mail that has the word, and with others."""
    poisoned = Mail(90, "Whose?", ident=f"{POISON}@example.org")
    work.write("dev/dev.2004-03.mbox", [*discussion(80, 4, "ziggurat"), poisoned])


def assert_set_aside(work: Workspace, name: str) -> None:
    """The bad mail of the news is in quarantine, all others are found."""
    assert work.sql(REASONS) == [("dev", "dev.2004-03.mbox:895", poisoned_reason(name))]
    assert work.column("SELECT count(*) FROM messages") == [8]
    assert work.weft("search", "ziggurat").exit_code == 0


@pytest.fixture
def two_lists(work: Workspace) -> Workspace:
    """Two lists with good mails."""
    work.configure(*SOURCES[1:])
    work.write("dev/dev.2004-01.mbox", discussion(1, 2, "compactor"))
    work.write("ops/ops.2004-01.mbox", discussion(20, 2, "scheduler"))
    return work


@pytest.mark.parametrize("name", some(("build_threads", "memberships"), each=2))
def test_an_hour_goes_on_without_what_a_stage_fails_on(
    two_lists: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
):
    work = two_lists
    with work.instance() as instance, monkeypatch.context() as patch:
        daemon = Daemon(work, instance)
        daemon.hour()
        daemon.rest()
        tries = let_fail(patch, name, lambda rows, is_poisoned: is_poisoned)
        news(work)
        daemon.restart()
        assert daemon.hour()
        daemon.rest()
        assert_set_aside(work, name)
        of_hour = len(tries)
        assert daemon.hour() == [] and daemon.why == UNCHANGED
        assert daemon.look() == [] and len(tries) == of_hour


@pytest.mark.parametrize("name", some(("build_threads", "memberships"), each=2))
def test_a_process_that_follows_goes_on_without_what_a_stage_fails_on(
    two_lists: Workspace, monkeypatch: pytest.MonkeyPatch, name: str
):
    work = two_lists
    with work.instance() as instance, monkeypatch.context() as patch:
        batches = Follower(work.settings, instance, fetch=False).batches()
        next(batches)
        tries = let_fail(patch, name, lambda rows, is_poisoned: is_poisoned)
        news(work)
        batch = next(batches)
        assert not batch.fault and batch.result and batch.result.failed_files
        assert_set_aside(work, name)
        of_batch = len(tries)
        daemon = Daemon(work, instance)
        assert daemon.hour() == [] and daemon.why == UNCHANGED and len(tries) == of_batch


def test_the_hour_after_a_run_that_failed_before_its_checks_tries_again(
    two_lists: Workspace, monkeypatch: pytest.MonkeyPatch
):
    with two_lists.instance() as instance:
        daemon = Daemon(two_lists, instance)
        with monkeypatch.context() as patch:
            let_fail(patch, "memberships", lambda rows, is_poisoned: True)
            daemon.hour()
            daemon.rest()
        daemon.hour()
        daemon.rest()
    assert two_lists.column("SELECT count(*) FROM messages") == [4]


def test_a_process_that_follows_says_a_lasting_fault_once_and_its_end(
    two_lists: Workspace, monkeypatch: pytest.MonkeyPatch
):
    again = Hint(reason="tries again")
    with two_lists.instance() as instance:
        follower = Follower(two_lists.settings, instance, fetch=False)
        with monkeypatch.context() as patch:
            let_fail(patch, "memberships", lambda rows, is_poisoned: True)
            (batch,) = follower._built(again)
            assert "step memberships failed" in batch.fault
            assert list(follower._built(again)) == []
        (batch,) = follower._built(again)
        assert not batch.fault and batch.result and batch.result.published
        assert list(follower._built(again)) == []


def test_a_window_without_context_keeps_no_other_from_its_own(
    work: Workspace, monkeypatch: pytest.MonkeyPatch
):
    name = "conversation_candidates"
    work.configure({"name": "chat", "kind": "conversation", "path": "chat/*"})
    for member in ("Ann", POISON, "Zoe"):
        work.put(f"chat/WhatsApp Chat with {member}.txt", CHAT.format(member))
    with monkeypatch.context() as patch:
        let_fail(patch, name, lambda rows, is_poisoned: is_poisoned)
        for _ in range(2):
            (line,) = work.build().failed_files
            assert POISON in line and f"context: step {name} failed: KeyError" in line
    assert work.column("SELECT count(*) FROM conversation_windows") == [3]
    assert len([*work.settings.root.glob("lake/conversation_context/**/*.parquet")]) == 2
    assert work.build().failed_files == ()
