"""Backfills: batches beside which builds go on, turns that are fair, and work that goes on where it was ended."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from dagster_project.orchestration.backfill import backfill

from dagster_project.composition import make_backlog
from dagster_project.orchestration.build import build
from dagster_project.orchestration.names import BACKFILL
from dagster_project.resources.system.locks import is_held, not_building, only_build, only_lane, turn
from tests.archives import Mail, Workspace, differences, discussion
from transforms.errors import BusyError, SettingsError

MONTHS = [f"dev.2004-0{month}" for month in range(1, 6)]


@pytest.fixture
def archives(workspace: Workspace) -> Workspace:
    """Five months of mail, not built, to be made two at a time."""
    workspace.configure(operations={"batch_partitions": 2})
    for number, name in enumerate(MONTHS):
        workspace.write(f"{name}.mbox", discussion(number * 10, 2, f"topic {number}"))
    return workspace


@pytest.mark.exhaustive
def test_a_build_ends_while_a_backfill_is_under_way(archives: Workspace, tmp_path: Path):
    told: list[tuple[str, str | None]] = []
    seen: list[list[str]] = []
    partitions = "SELECT DISTINCT partition FROM messages ORDER BY partition"

    def meanwhile(stage: str, partition: str | None, rows: int) -> None:
        told.append((stage, partition))
        if stage == BACKFILL and not seen:
            archives.write("dev.2004-06.mbox", [Mail(600, "A mail that came meanwhile.", "News")])
            with archives.instance() as other:
                assert build(archives.settings, other).published
            seen.append(archives.column(partitions))
            assert make_backlog(archives.settings).remaining() == {f"dev/{name}" for name in MONTHS[:3]}

    with archives.instance() as instance:
        done = backfill(archives.settings, instance, tell=meanwhile)
    assert seen == [["dev/dev.2004-04", "dev/dev.2004-05", "dev/dev.2004-06"]]
    assert archives.column(partitions) == [f"dev/{name}" for name in (*MONTHS, "dev.2004-06")]
    assert (len(done.partitions), done.batches) == (5, 3)
    assert [stage for stage, _ in told].count("search_index") == 1
    outlook = [partition for stage, partition in told if stage == BACKFILL]
    assert outlook[-1] and outlook[-1].startswith(f"of {done.bytes:,}, ") and outlook[-1].endswith(" left")
    assert archives.plan().is_empty
    assert make_backlog(archives.settings).remaining() is None


def test_a_backfill_goes_on_where_it_was_ended_and_equals_a_build(archives: Workspace, tmp_path: Path):
    class EndedError(Exception):
        pass

    def end(stage: str, partition: str | None, rows: int) -> None:
        if stage == BACKFILL:
            raise EndedError

    with archives.instance() as instance:
        with pytest.raises(EndedError):
            backfill(archives.settings, instance, tell=end)
        assert make_backlog(archives.settings).remaining() is None, "nobody is at it"
        half_made = archives.lake.path("message_terms", "dev/dev.2004-01")
        done = backfill(archives.settings, instance)
    assert half_made.exists()
    assert done.partitions == tuple(f"dev/{name}" for name in reversed(MONTHS[:3]))
    full = Workspace(tmp_path / "full").configure(operations={"batch_partitions": 2})
    for path in (archives.folder / "mail").iterdir():
        full.write(path.name, path.read_bytes())
    full.build()
    assert differences(archives.index, full.index) == {}


def test_a_backfill_of_one_source_leaves_the_others_alone(workspace: Workspace):
    two = workspace.configure(
        {"name": "dev", "kind": "mbox", "path": "mail/dev/*"},
        {"name": "users", "kind": "mbox", "path": "mail/users/*"},
    )
    for number, name in enumerate(("dev", "users")):
        two.write(f"{name}/{name}.2004-01.mbox", discussion(number * 10, 2, name))
    with two.instance() as instance:
        done = backfill(two.settings, instance, ["users"])
    assert done.partitions == ("users/users.2004-01",) and done.build.published
    assert two.column("SELECT DISTINCT source FROM messages") == ["users"]
    assert list(two.plan().stale) == ["dev/dev.2004-01"]


def test_a_source_that_is_none_is_named(archives: Workspace):
    with archives.instance() as instance, pytest.raises(SettingsError, match="no source is called 'users'"):
        backfill(archives.settings, instance, ["users"])


def test_one_backfill_at_a_time(archives: Workspace):
    with (
        only_lane(archives.settings.root, BACKFILL),
        archives.instance() as instance,
        pytest.raises(BusyError, match="backfill"),
    ):
        backfill(archives.settings, instance)


def test_what_a_dead_backfill_took_on_is_nobodys(tmp_path: Path, archives: Workspace):
    backlog = make_backlog(archives.settings)
    backlog.note(["dev/dev.2004-01"])
    assert json.loads(backlog.memory.read_text()) == ["dev/dev.2004-01"]
    assert backlog.remaining() is None
    with only_lane(archives.settings.root, BACKFILL):
        assert backlog.remaining() == {"dev/dev.2004-01"}


def test_who_works_in_many_turns_lets_a_build_in_after_the_one_it_is_at(tmp_path: Path):
    order: list[str] = []
    waits = threading.Event()

    def live() -> None:
        waits.set()
        with only_build(tmp_path):
            order.append("build")

    build_thread = threading.Thread(target=live)
    for number in range(3):
        with turn(tmp_path):
            order.append(f"turn {number}")
            if not number:
                build_thread.start()
                waits.wait()
                # The build waits at the door when it holds its own lock and the door is shut.
                while not _is_shut(tmp_path / ".door.lock"):
                    pass
    build_thread.join()
    assert order == ["turn 0", "build", "turn 1", "turn 2"]


def _is_shut(lock: Path) -> bool:
    return lock.exists() and is_held(lock)


def test_looking_around_waits_for_no_turn(tmp_path: Path):
    with turn(tmp_path), not_building(tmp_path):
        pass
    with only_build(tmp_path), pytest.raises(BusyError, match="another build"), not_building(tmp_path):
        pass
