"""Dagster's runs and its code server may be killed at any moment; the next ends the work."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from assets.partitions import MAIL
from tests.archives import Once, Workspace, differences, lake_hashes
from tests.dagster_project.orchestration.test_killed_builds import change, change_back, changed
from tests.dagster_ui import Server, answered, weft_ui
from tests.processes import Command
from tests.timing import until

pytestmark = pytest.mark.exhaustive

PARTITION = "dev/2004-02"
BEGUN, READ, PUBLISHES = ".runs/*", "lake/messages/dev/2004-02.parquet", "index/.build-*"
KILLS = ((("run",), BEGUN), (("code server",), READ), (("code server", "run"), PUBLISHES))
"""What is killed at one moment, and the file that is new at that moment."""


@pytest.fixture(scope="module")
def expected(
    built_once: Workspace, once: Once, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Workspace, Workspace]:
    """The lists after `change` and `change_back`, each built from nothing."""
    return changed(once, tmp_path_factory.mktemp("expected") / "work"), built_once


@pytest.fixture(scope="module")
def work(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_once.copied(tmp_path_factory.mktemp("services") / "work")


@pytest.fixture(scope="module")
def server(work: Workspace) -> Iterator[Server]:
    """`weft ui` of the lists; at its end no run is open."""
    with weft_ui(work, work.folder) as running:
        yield running
        answered(running.at_rest, "the end of all runs")


def services(server: Server) -> dict[str, list[psutil.Process]]:
    """The processes of `weft ui`: the code server, and the runs that it started."""
    found: dict[str, list[psutil.Process]] = {"code server": [], "run": []}
    for process in psutil.Process(server.pid).children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            if " api grpc " in command:
                found["code server"].append(process)
                forks = [p for p in process.children() if "forkserver" in " ".join(p.cmdline())]
                found["run"] += [run for fork in forks for run in fork.children()]
        except psutil.Error:
            continue
    return found


def is_new(work: Workspace, pattern: str) -> Callable[[], bool]:
    """Whether a file, or another state of it, has come since this call."""

    def files() -> set[tuple[str, int, int]]:
        found = set()
        for path in work.settings.root.glob(pattern):
            with suppress(FileNotFoundError):
                found.add((path.name, (stat := path.stat()).st_ino, stat.st_mtime_ns))
        return found

    before = files()
    return lambda: bool(files() - before)


@pytest.mark.parametrize("kill", range(len(KILLS)))
def test_the_next_build_ends_what_was_killed(
    server: Server, work: Workspace, expected: tuple[Workspace, Workspace], kill: int
):
    way, file = KILLS[kill]
    answered(server.is_loaded, "a code server that came back")
    server.rest()
    (change, change_back)[kill % 2](work)
    reached = is_new(work, file)
    server.materialize([*MAIL.tables], {"dagster/partition": PARTITION})
    until(reached, f"{file} of a run")
    victims = [process for name in way for process in services(server).get(name, [])]
    for process in victims:
        process.kill()
    if "code server" in way:
        server.reload()
    done = Command(work.folder, "build", "--config", work.config).ended()
    assert done.code == 0, done.err
    assert differences(work.index, expected[kill % 2].index) == {}
    assert lake_hashes(work) == lake_hashes(expected[kill % 2])
