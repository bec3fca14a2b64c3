"""A process that stays builds what comes: once for many files, again after a fault, and never for
what no source reads.
"""

import multiprocessing
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import dagster as dg
import pytest

from dagster_project.cli.follow import follower_beside
from dagster_project.orchestration.build import build, build_batch
from dagster_project.orchestration.direct_runs import DirectRuns
from dagster_project.orchestration.partitions import planned
from dagster_project.orchestration.triggers.following import Follower
from dagster_project.orchestration.triggers.watching import SourceWatch, watched_places
from dagster_project.system.locks import BUILD_LOCK, is_held, only_build, runs_of
from tests.archives import Mail, Workspace, differences, lake_hashes
from tests.dagster_project.orchestration.triggers.test_killed_services import is_new
from tests.processes import Command
from tests.timing import HUNG, until

MAILDIR = {"name": "mail", "kind": "maildir", "path": "maildir"}
VAULT = {"name": "notes", "kind": "vault", "path": "notes"}


def deliver(work: Workspace, mail: Mail) -> Path:
    """Deliver a mail as a program does: written in tmp, renamed into new."""
    folder = work.folder / "maildir"
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    draft = folder / "tmp" / f"{mail.number}.host"
    draft.write_text(mail.text())
    return draft.rename(folder / "new" / draft.name)


@pytest.fixture
def followed(tmp_path: Path) -> Workspace:
    """A Maildir and a vault, which holds the storage, with a mail and a note."""
    work = Workspace(tmp_path / "work")
    work.configure(MAILDIR, VAULT, storage={"root": "notes/state"})
    deliver(work, Mail(1))
    work.put("notes/first.md", "# Heron\n\nOne heron a week.\n")
    return work


@pytest.fixture
def watch(followed: Workspace) -> Iterator[SourceWatch]:
    settings = followed.settings
    places = watched_places(settings)
    with SourceWatch(places, [settings.root], threading.Event()) as opened:
        yield opened


def seen(watch: SourceWatch, *paths: Path) -> set[Path]:
    """All that the watch reports until it has reported some paths."""
    found: set[Path] = set()

    def are_found() -> bool:
        found.update(watch.wait(0.05))
        return found.issuperset(paths)

    until(are_found, f"a report of {paths}")
    return found


def test_folders_of_all_sources_are_watched_but_those_of_remotes(tmp_path: Path):
    fetch = {"kind": "http", "url": "https://a.org/{year}-{month:02}", "since": "2024-01"}
    work = Workspace(tmp_path / "work").configure(
        MAILDIR,
        VAULT,
        {"name": "dev", "kind": "mbox", "path": "mail/*.mbox"},
        {"name": "far", "kind": "mbox", "fetch": fetch},
    )
    work.put("maildir/cur/1", "")
    found = [str(place.relative_to(work.folder)) for place in watched_places(work.settings)]
    assert found == ["maildir", "notes", "mail"]


def test_files_that_come_together_are_reported_together_and_own_files_never(
    watch: SourceWatch, followed: Workspace
):
    followed.put("notes/state/lake/own", "")
    found = seen(watch, followed.put("notes/second.md", "# Second\n"), deliver(followed, Mail(2)))
    assert not any("state" in path.parts for path in found)


def test_a_folder_that_is_renamed_away_and_back_is_watched_again(
    watch: SourceWatch, followed: Workspace
):
    place, aside = followed.folder / "maildir", followed.folder / "aside"
    place.rename(aside)
    seen(watch, place)
    aside.rename(place)
    seen(watch, place)
    seen(watch, deliver(followed, Mail(2)))
    shutil.rmtree(place)
    seen(watch, place)
    deliver(followed, Mail(3))
    seen(watch, place)


def test_a_wait_ends_when_it_is_woken(followed: Workspace):
    wake = threading.Event()
    with SourceWatch([followed.folder / "maildir"], (), wake) as watch:
        Thread(target=wake.set).start()
        assert watch.wait(HUNG) == set() and not wake.is_set()


def test_a_clock_that_moved_is_a_reason_to_look(followed: Workspace):
    now = [1_000_000.0]
    with followed.instance() as instance:
        follower = Follower(followed.settings, instance, fetch=False, clock=lambda: now[0])
        assert follower._reason() == "a look", "nothing was looked at yet"
        follower._looked = float("inf")
        assert follower._reason() == ""
        now[0] += 3 * 3600
        assert follower._reason() == "the clock moved"
        assert follower._reason() == ""


@pytest.mark.exhaustive
def test_news_of_all_folders_are_one_batch_and_searchable(followed: Workspace):
    with followed.instance() as instance:
        batches = Follower(followed.settings, instance).batches()
        assert " the sources as they are: searchable after " in str(next(batches))
        deliver(followed, Mail(2))
        followed.put("notes/second.md", "# Kingfisher\n\nA kingfisher.\n")
        batch = next(batches)
    assert batch.came == "2.host, second.md"
    facts = batch.as_json()
    assert facts["outcome"] == "PUBLISHED" and sorted(facts["made"]) == [
        "mail/all",
        "notes/all",
    ]
    assert (
        facts["version"] == followed.column("SELECT value FROM manifest WHERE key = 'version'")[0]
    )
    assert facts["steps"].keys() >= {"messages", "documents", "search_index"}
    assert followed.column("SELECT count(*) FROM messages") == [2]
    assert followed.column("SELECT count(*) FROM documents") == [2]


@pytest.mark.exhaustive
def test_a_fault_is_reported_once_and_tried_again(followed: Workspace):
    place, aside = followed.folder / "maildir", followed.folder / "aside"
    with followed.instance() as instance:
        follower = Follower(followed.settings, instance)
        batches = follower.batches()
        next(batches)
        place.rename(aside)
        fault = next(batches)
        assert fault.as_json()["outcome"] == "FAILED" and "no maildir file at" in fault.fault
        follower._again_at = 0.001
        followed.put("notes/second.md", "# Second\n")
        batch = next(batches)
        assert batch.result and batch.result.published and "no maildir file at" in batch.fault
        assert followed.column("SELECT count(*) FROM messages") == [1], "texts stay"
        aside.rename(place)
        deliver(followed, Mail(2))
        assert not next(batches).fault
    assert followed.column("SELECT count(*) FROM messages") == [2]


@pytest.mark.exhaustive
def test_a_batch_waits_for_another_build(followed: Workspace):
    with followed.instance() as instance:
        batches = Follower(followed.settings, instance).batches()
        next(batches)
        deliver(followed, Mail(2))
        begun, lines = threading.Event(), []
        with only_build(followed.settings.root):
            waiting = Thread(target=lambda: (begun.set(), lines.append(next(batches))))
            waiting.start()
            begun.wait(HUNG)
            waiting.join(1)
            assert not lines
        waiting.join(HUNG)
    assert not lines[0].fault and followed.column("SELECT count(*) FROM messages") == [2]


def grown(work: Workspace) -> None:
    """Add a reply, a mail of another month, and a note; take the first note away."""
    deliver(work, Mail(2, "It does, as the measurements show.", "Re: Foxes", reply_to=1))
    deliver(work, Mail(1_000, "A kingfisher dives.", "Birds"))
    work.put("notes/second.md", "# Kingfisher\n\nSee [[first]].\n")


@pytest.mark.exhaustive
def test_a_batch_is_equal_to_a_build_and_dagster_hears_of_it_in_one_run(
    followed: Workspace, tmp_path: Path
):
    with followed.instance() as instance:
        build(followed.settings, instance)
        other = followed.copied(tmp_path / "other")
        runs = len(instance.get_runs())
        direct = DirectRuns(followed.settings, instance)
        grown(followed)
        assert build_batch(direct, ()).published
        assert len(instance.get_runs()) == runs, "no run of Dagster was needed"
        direct.record()
        assert len(instance.get_runs()) == runs, "an hour is one run"
        direct.record(at_once=True)
        (run,) = instance.get_runs(limit=1)
        assert (run.job_name, run.is_success) == ("followed", True)
        for table, partition in (("memberships", None), ("messages", "mail/all")):
            key, footer = dg.AssetKey(table), followed.lake.footer(table, partition)
            record = instance.get_latest_data_version_record(key, partition_key=partition)
            assert footer and record and record.run_id == run.run_id
            assert record.asset_materialization
            tags = record.asset_materialization.tags or {}
            assert tags["dagster/data_version"] == footer.content_hash
        assert planned(followed.settings, instance).is_empty, "the schedule finds nothing to do"
    grown(other)
    other.build()
    assert differences(followed.index, other.index) == {}
    assert lake_hashes(followed) == lake_hashes(other)


@pytest.mark.exhaustive
def test_dagster_lists_the_run_of_a_batch_that_fails(followed: Workspace):
    with followed.instance() as instance:
        build(followed.settings, instance)
        Path(str(followed.lake.path("address_uses", "mail/all"))).write_bytes(b"PAR1")
        deliver(followed, Mail(2))
        direct = DirectRuns(followed.settings, instance)
        assert build_batch(direct, ()).published
    assert followed.column("SELECT count(*) FROM messages") == [2]


@pytest.mark.exhaustive
def test_a_server_replaces_the_process_that_follows_beside_it(
    built: Workspace, capfd: pytest.CaptureFixture[str]
):
    root = built.settings.root
    with follower_beside(built.config, again_seconds=0.1):
        until(multiprocessing.active_children, "the process that follows")
        (first,) = multiprocessing.active_children()
        first.kill()
        built.write("dev/dev.2004-03.mbox", [Mail(400, "A heron nests.")])
        until(lambda: any(runs_of(root).values()), "a run of a new process")
        (second,) = multiprocessing.active_children()
        assert second.pid != first.pid
    assert multiprocessing.active_children() == [] and not is_held(root / BUILD_LOCK)
    said = capfd.readouterr().err
    assert "the process that follows ended with code -9; a new one begins in 0.1 s" in said


@pytest.mark.exhaustive
def test_a_follower_that_is_killed_amid_batches_loses_nothing(followed: Workspace, tmp_path: Path):
    work = followed
    work.build()
    files = ("lake/messages/mail/*.parquet", "lake/memberships.parquet", "index/.build-*")
    for number in range(2 * len(files)):
        command = Command(work.folder, "follow", "--config", work.config)
        until(lambda: is_held(work.settings.root / BUILD_LOCK), "the first build")
        until(lambda: not is_held(work.settings.root / BUILD_LOCK), "its end")
        reached = is_new(work, files[number % len(files)])
        deliver(work, Mail(10 + number, f"The heron of day {number}.", reply_to=1))
        until(reached, "a batch")
        assert command.killed_after(0)
    work.build()
    anew = work.copied(tmp_path / "anew")
    shutil.rmtree(anew.settings.root)
    anew.build()
    assert work.column("SELECT count(*) FROM messages") == [1 + 2 * len(files)]
    assert differences(work.index, anew.index) == {}
    assert lake_hashes(work) == lake_hashes(anew)
