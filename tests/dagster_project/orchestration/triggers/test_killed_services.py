"""Dagster's runs, its code server and a `weft build` beside them may be killed at any moment; the next ends the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from assets.partitions import MAIL
from tests.archives import Mail, Workspace, differences, discussion, lake_hashes, rebuilt
from tests.dagster_ui import Server, answered, weft_ui
from tests.processes import Command
from tests.timing import until

pytestmark = pytest.mark.exhaustive

PARTITION = "dev/dev.2004-02"
BEGUN, READ, PUBLISHES = ".runs/*", "lake/messages/dev/dev.2004-02.parquet", "index/.build-*"
KILLS = (
    (("run",), BEGUN),
    (("code server",), READ),
    (("run", "build"), READ),
    (("code server", "run", "build"), PUBLISHES),
)
"""What is killed at one moment, and the file that is new at that moment."""


def change(work: Workspace, kill: int) -> None:
    """Make the lists one of two others; each differs from the other in mails, texts and answers."""
    topic = ("planner", "vacuum")[kill % 2]
    work.write("dev/dev.2004-02.mbox", [*discussion(100, 5, "write-ahead log"), *discussion(500, 4, topic)])
    work.write(
        "users/users.2004-02.mbox", [Mail(600, f"Agreed on the {topic}.", "Re: compactor", reply_to=3)]
    )


@pytest.fixture(scope="module")
def expected(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> list[Workspace]:
    """Both states of the lists, each built from nothing."""
    folder = tmp_path_factory.mktemp("expected")
    made = []
    for kill in range(2):
        before = built_once.copied(folder / f"before-{kill}")
        change(before, kill)
        made.append(rebuilt(before, folder / f"after-{kill}"))
    return made


@pytest.fixture(scope="module")
def work(built_once: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two lists, published."""
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
                found["run"] += [p for p in process.children() if "spawn_main" in " ".join(p.cmdline())]
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
    server: Server, work: Workspace, expected: list[Workspace], kill: int
):
    way, file = KILLS[kill]
    answered(server.is_loaded, "a code server that came back")
    server.rest()
    change(work, kill)
    reached = is_new(work, file)
    server.materialize([*MAIL.tables], {"dagster/partition": PARTITION})
    command = Command(work.folder, "build", "--config", work.config) if "build" in way else None
    until(reached, f"{file} of a run")
    victims = [process for name in way for process in services(server).get(name, [])]
    for process in victims:
        process.kill()
    if command:
        command.killed_after(0)
    if "code server" in way:
        server.reload()
    done = Command(work.folder, "build", "--config", work.config).ended()
    assert done.code == 0, done.err
    assert differences(work.index, expected[kill % 2].index) == {}
    assert lake_hashes(work) == lake_hashes(expected[kill % 2])
