"""Builds may be killed at any step, one after the other: what is published stays whole, and the next ends the work."""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.orchestration.runs import UNFINISHED
from dagster_project.system.locks import RUNS, runs_of
from tests.archives import Mail, Once, Workspace, differences, discussion, lake_hashes, two_lists
from tests.processes import Command

KEPT = (
    ".build.lock", ".lake.lock", ".queue.lock", ".runs", ".lock", ".claims",
    *(".db", ".db-shm", ".db-wal"),  # Dagster's own, of what no run reports
)  # fmt: skip
WAYS = {
    "run": ("*/lake/messages/*", "*/index/*.arrays", "*/index/CURRENT"),
    "backfill": (
        "*/history/runs/*", "*/lake/message_terms/*", "*/lake/memberships.parquet", "*/cache/embeddings/*",
    ),
    "publish": ("*/index/weft-*.duckdb", "*/lake/corpus_measures.parquet", "*/cache/files.json"),
}  # fmt: skip
"""An incremental build, a first build of everything, and a build that has to publish alone; by each, the renames before
which builds are killed, one after the other. The lists change before each."""


def start_build(work: Workspace, home: Path | None = None, dies_at: str = "") -> Command:
    """`weft build` in a process of its own."""
    return Command(work.folder, "build", "--json", "--config", work.config, home=home, dies_at=dies_at)


def change(work: Workspace) -> None:
    """Add, change and remove mail."""
    work.write(
        "dev/dev.2004-02.mbox", [*discussion(100, 5, "write-ahead log"), *discussion(500, 4, "planner")]
    )
    work.write("dev/dev.2004-03.mbox", [Mail(600, "Agreed.", "Re: compactor", reply_to=3)])
    (work.folder / "mail" / "users" / "users.2004-01.mbox").unlink(missing_ok=True)
    work.write("users/users.2004-02.mbox", discussion(700, 4, "shell"))


def change_back(work: Workspace) -> None:
    """Undo `change`."""
    for name in ("dev/dev.2004-03.mbox", "users/users.2004-02.mbox"):
        (work.folder / "mail" / name).unlink(missing_ok=True)
    two_lists(work.folder)


def leftovers(work: Workspace) -> list[str]:
    """Files that only a running build has."""
    root = work.settings.root
    hidden = [p for p in root.rglob(".*") if p.name not in KEPT] + list((root / RUNS).glob("*"))
    return sorted(str(p.relative_to(root)) for p in [*hidden, *(root / "cache").glob("files.json.*")])


def changed(once: Once, folder: Path) -> Workspace:
    """Two lists after `change`, built from nothing; for reading only."""
    change(work := two_lists(folder))
    return once(work)


@dataclass(frozen=True)
class Undisturbed:
    """By way of building the workspace before it; and the workspaces after `change` and `change_back`, from nothing."""

    before: dict[str, Workspace]
    after: tuple[Workspace, Workspace]


@pytest.fixture(scope="module")
def undisturbed(built_once: Workspace, once: Once, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    before = {"run": built_once.copied(folder / "run"), "backfill": two_lists(folder / "backfill")}
    for work in before.values():
        change(work)
    before["publish"] = before["run"].copied(folder / "publish")
    before["publish"].build()
    _unpublish(before["publish"])
    return Undisturbed(before, (changed(once, folder / "changed"), built_once))


def _unpublish(work: Workspace) -> None:
    """Go back to the version before, while the lake stays as it is."""
    current = (work.index / "CURRENT").resolve()
    (older,) = set(work.index.glob("weft-*.duckdb")) - {current}
    current.unlink()
    (work.index / "CURRENT").unlink()
    (work.index / "CURRENT").symlink_to(older.name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
def test_killed_builds_are_ended_by_the_next(undisturbed: Undisturbed, tmp_path: Path, way: str):
    work = undisturbed.before[way].copied(tmp_path / "work")
    for kill, step in enumerate(WAYS[way]):
        (change, change_back)[kill % 2](work)
        was_killed = start_build(work, dies_at=step).has_died()
        under_way = _runs_under_way(work)
        assert not any(runs_of(work.settings.root).values())
        assert was_killed or not under_way
        if (work.index / "CURRENT").exists():
            assert work.sql("SELECT count(*) FROM messages") in ([(20,)], [(21,)])
    done = start_build(work).ended()
    assert done.code == 0, done.err
    assert {found["run"] for found in done.told["interrupted"]} == under_way
    after = undisturbed.after[kill % 2]
    assert differences(work.index, after.index) == {}
    assert lake_hashes(work) == lake_hashes(after)
    assert leftovers(work) == []
    assert not _runs_under_way(work)
    assert work.plan().is_empty


def _runs_under_way(work: Workspace) -> set[str]:
    with work.instance() as instance:
        return set(instance.get_run_ids(filters=dg.RunsFilter(statuses=UNFINISHED)))


@pytest.mark.exhaustive
def test_of_two_builds_at_once_one_builds_and_the_other_says_so_or_finds_nothing_to_do(
    undisturbed: Undisturbed, tmp_path: Path
):
    """Though each of them is of a Dagster instance of its own, as when somebody starts a second one by mistake."""
    work = undisturbed.before["run"].copied(tmp_path / "work")
    started = (start_build(work), start_build(work, home=tmp_path / "second"))
    ended = [command.ended() for command in started]
    assert sorted(done.code for done in ended) in ([0, 8], [0, 0])
    assert all("another build" in done.err for done in ended if done.code == 8)
    assert differences(work.index, undisturbed.after[0].index) == {}
