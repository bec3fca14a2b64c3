"""Whatever happens to the ledger, the next plan is that of an empty one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from dagster_project.composition.objects import make_lake, make_seen_partitions, make_sources
from dagster_project.lake.recorded_footers import recorded_footers
from dagster_project.ledger.ledger import Ledger, Row
from dagster_project.orchestration.plan import Plan, make_plan
from tests.archives import Mail, Workspace, discussion
from tests.processes import forked

TABLES = ("files", "sources", "changes", "outputs")


def looked(work: Workspace) -> Plan:
    """The plan of a process that has just begun."""
    recorded_footers.cache_clear()
    return make_plan(work.settings, make_sources(work.settings), make_lake(work.settings))


def noted(work: Workspace) -> Plan:
    plan = looked(work)
    names = [source.name for source in work.settings.sources]
    make_seen_partitions(work.settings).note(plan.partitions, make_lake(work.settings), names)
    return plan


def written(work: Workspace) -> bytes:
    """The bytes of the ledger, all of them in one file."""
    with closing(sqlite3.connect(ledger_of(work).file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ledger_of(work).file.read_bytes()


def ledger_of(work: Workspace) -> Ledger:
    return Ledger(work.settings.root / "state.sqlite")


def without_lines(plan: Plan) -> str:
    """A plan without what it says of the ledger."""
    return str(plan).partition(", lost=")[0]


@pytest.fixture
def stale(built: Workspace) -> Workspace:
    """A workspace with a new archive, a changed one, and a file of the lake that is gone."""
    noted(built)
    built.write("users/users.2004-07.mbox", [Mail(900, "Other mail.", "News")])
    built.write("dev/dev.2004-01.mbox", discussion(0, 4, "compactor"))
    lake = Path(built.settings.lake_uri)
    next((lake / "message_chunks").rglob("*.parquet")).unlink()
    return built


def damages(work: Workspace, older: bytes) -> Iterator[str]:
    """Damage after damage to a ledger that is whole before each."""
    ledger, random = ledger_of(work), Random(7)
    whole = written(work)
    for table in TABLES:
        for key in list(ledger.rows(table))[::4]:
            ledger.record(table, {}, [key])
            yield f"{table} without {key}"
            ledger.file.write_bytes(whole)
    for _ in range(20):
        data, place = bytearray(whole), random.randrange(len(whole))
        data[place] ^= 1 << random.randrange(8)
        ledger.file.write_bytes(data)
        yield f"byte {place}"
    for what, data in {"older": older, "cut": whole[:5000], "of another": b"{" * 9}.items():
        ledger.file.write_bytes(data)
        yield what
    ledger.file.unlink()
    yield "missing"


def test_the_plan_is_that_of_an_empty_ledger_after_any_damage(stale: Workspace):
    older = written(stale)
    plan = noted(stale)
    ledger_of(stale).file.unlink()
    expected = without_lines(noted(stale))
    assert plan.stale and expected == without_lines(plan)
    for damage in damages(stale, older):
        assert without_lines(looked(stale)) == expected, damage


def test_a_plan_says_that_the_ledger_was_lost_or_damaged(stale: Workspace):
    file = ledger_of(stale).file
    noted(stale)
    assert not looked(stale).lost
    file.unlink()
    assert "state.sqlite: it is missing" in looked(stale).warnings()[0]
    assert not looked(stale).lost
    file.write_bytes(b"x" * 9_000)
    assert "not a database" in looked(stale).warnings()[0]


def test_a_ledger_of_another_layout_is_empty(tmp_path: Path):
    ledger, row = Ledger(tmp_path / "state.sqlite"), {("a",): ("b", "c")}
    ledger.record("changes", row)
    with closing(sqlite3.connect(ledger.file)) as connection:
        connection.execute("ALTER TABLE changes ADD COLUMN more")
        connection.execute("PRAGMA user_version = 1")
    assert ledger.rows("changes") == {}
    ledger.record("changes", row)
    assert ledger.rows("changes") == row and not ledger.take_faults()


def numbers(first: int) -> dict[Row, Row]:
    return {(f"{n:05d}",): ("", str(n)) for n in range(first, 20_000, 2)}


def write_often(file: Path, times: int) -> None:
    for _ in range(times):
        Ledger(file).record("changes", numbers(0))


def test_two_writers_and_one_that_is_killed_leave_whole_rows(tmp_path: Path):
    ledger = Ledger(tmp_path / "state.sqlite")
    one = forked(write_often, ledger.file, 1)
    one.start()
    ledger.record("changes", numbers(1))
    one.join()
    assert ledger.rows("changes") == numbers(0) | numbers(1)
    one = forked(write_often, ledger.file, 99)
    one.start()
    one.join(1)
    one.kill()
    one.join()
    assert ledger.rows("changes") == numbers(0) | numbers(1)
    ledger.record("changes", {}, numbers(0).keys())
    assert ledger.rows("changes") == numbers(1)
