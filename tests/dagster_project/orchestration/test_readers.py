"""Readers while new versions are published: no question fails, and nobody is shown an older version
after a newer one.
"""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import duckdb
import pytest

from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.opened_index import FollowedIndex, open_index
from dagster_project.index.search.statements.sql import query_current
from tests.archives import Mail, Workspace
from tests.processes import weft
from tests.timing import until
from transforms.errors import WeftError

pytestmark = pytest.mark.exhaustive

PUBLISHES = 2
PAUSE = 0.2
"""Seconds between two questions of a reader."""
OF_SQL = 2
"""Readers by SQL; the other ways have one each."""
SQL = (
    "SELECT (SELECT value FROM manifest WHERE key = 'version') AS version, count(*) AS hits "
    "FROM search_text('compactor')"
)


def by_sql(work: Workspace) -> str:
    """The version that answers SQL on a connection of its own."""
    (row,) = query_current(work.index, SQL).to_pylist()
    assert row["hits"]
    return str(row["version"])


def by_new_search(work: Workspace) -> str:
    """The version that answers a search which opens the index, as `weft search` does."""
    with closing(open_index(work.settings)) as index:
        assert index.search(["compactor"]).hits.num_rows
        return index.manifest["version"]


def following_search(followed: FollowedIndex) -> Callable[[Workspace], str]:
    """A search that keeps the index open and follows what is current, as `weft mcp` does."""

    def ask(work: Workspace) -> str:
        with followed.index() as index:
            assert index.search(["compactor"]).hits.num_rows
            return index.manifest["version"]

    return ask


class Reader(threading.Thread):
    """Asks one question after the other until it is told to stop; keeps the versions that answered,
    and what failed.
    """

    def __init__(self, work: Workspace, ask: Callable[[Workspace], str]):
        super().__init__()
        self.work, self.ask = work, ask
        self.versions: list[str] = []
        self.faults: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(PAUSE):
            try:
                self.versions.append(self.ask(self.work))
            except (duckdb.Error, WeftError, OSError, AssertionError) as error:
                self.faults.append(f"{type(error).__name__}: {error}")


@pytest.fixture
def followed(built: Workspace) -> Iterator[FollowedIndex]:
    with closing(FollowedIndex(built.index, lambda: open_index(built.settings))) as index:
        yield index


@pytest.fixture
def readers(built: Workspace, followed: FollowedIndex) -> list[Reader]:
    ways = [by_sql, by_new_search, following_search(followed)]
    return [Reader(built, way) for way in ways for _ in range(OF_SQL if way is by_sql else 1)]


def test_readers_meet_no_fault_and_no_older_version_while_versions_are_published(
    built: Workspace, readers: list[Reader]
):
    published = [by_sql(built)]
    for reader in readers:
        reader.start()
    for number in range(PUBLISHES):
        built.write(
            f"dev/dev.2005-0{number + 1}.mbox",
            [Mail(900 + number, f"News of round {number}.", "News")],
        )
        done = weft(built.folder, "build", "--json", "--config", built.config)
        assert done.code == 0, done.err
        published.append(done.told["published"]["version"])
    for reader in readers:
        is_current = lambda: reader.faults or published[-1] in reader.versions  # noqa: B023, E731
        until(is_current, "a reader of the last version")
        reader.over.set()
        reader.join()
    for reader in readers:
        assert reader.faults == []
        seen = [published.index(version) for version in reader.versions]
        assert seen == sorted(seen)
        assert len(set(seen)) > 1, "the reader saw a switch"


def point_to(work: Workspace, name: str) -> None:
    """Make a file the current version at once, as publishing does."""
    link = work.index / "next"
    link.symlink_to(name)
    link.replace(work.index / CURRENT)


def test_what_is_followed_changes_when_the_other_is_open_and_a_fault_is_told(
    built: Workspace, followed: FollowedIndex
):
    def answering() -> str:
        with followed.index() as index:
            assert index.search(["compactor"]).hits.num_rows
            return index.path.name

    first = answering()
    (built.index / "weft-0.duckdb").write_bytes(b"no database")
    point_to(built, "weft-0.duckdb")
    assert answering() == first, "nobody waits for what is not open yet"
    with pytest.raises(WeftError, match="weft-0.duckdb"):
        until(lambda: answering() != first, "a fault of the new version")
    point_to(built, first)
    assert answering() == first
    shutil.copy(built.index / first, built.index / "weft-1.duckdb")
    shutil.copytree((built.index / first).with_suffix(".arrays"), built.index / "weft-1.arrays")
    point_to(built, "weft-1.duckdb")
    until(lambda: answering() != first, "the new version")
    assert answering() == "weft-1.duckdb"
