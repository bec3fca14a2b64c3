"""Readers while new versions are published: no question fails, and nobody is shown an older version after a newer one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing

import duckdb
import pytest

from dagster_project.evaluation import open_index
from dagster_project.resources.published_files import CURRENT
from dagster_project.resources.search_index import query_current
from tests.archives import Mail, Workspace
from tests.processes import weft
from transforms.errors import WeftError

PUBLISHES = 2
PAUSE = 0.5
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


def following_search(work: Workspace) -> Callable[[Workspace], str]:
    """A search that keeps the index open until another version is current, as `weft mcp` does."""
    opened = [open_index(work.settings)]

    def ask(work: Workspace) -> str:
        if opened[0].path != (work.index / CURRENT).resolve():
            opened.pop().close()
            opened.append(open_index(work.settings))
        assert opened[0].search(["compactor"]).hits.num_rows
        return opened[0].manifest["version"]

    return ask


class Reader(threading.Thread):
    """Asks one question after the other until it is told to stop; keeps the versions that answered, and what failed."""

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
def readers(built: Workspace) -> list[Reader]:
    ways = [by_sql, by_new_search, following_search(built)]
    return [Reader(built, way) for way in ways for _ in range(OF_SQL if way is by_sql else 1)]


def test_readers_meet_no_fault_and_no_older_version_while_versions_are_published(
    built: Workspace, readers: list[Reader]
):
    published = [by_sql(built)]
    for reader in readers:
        reader.start()
    for number in range(PUBLISHES):
        built.write(
            f"dev/dev.2005-0{number + 1}.mbox", [Mail(900 + number, f"News of round {number}.", "News")]
        )
        done = weft(built.folder, "build", "--json", "--config", built.config)
        assert done.code == 0, done.err
        published.append(done.told["published"]["version"])
    for reader in readers:
        reader.over.set()
        reader.join()
    for reader in readers:
        assert reader.faults == []
        seen = [published.index(version) for version in reader.versions]
        assert seen == sorted(seen)
        assert len(set(seen)) > 1, "the reader saw a switch"
