"""One storage for half an hour under builds that are killed, flipped bytes, a disk without room, and
readers.

    python benchmarks/endurance.py [--minutes 30] [--seed 1]

Each round changes the sources and does one of these: builds, kills a build at some moment, flips
bytes of any kind of stored file, or builds on a disk with room for some kilobytes. The storage lies
on a small disk in memory; where this user may not mount one, no file may be larger than so many
kilobytes instead, which a program meets as a full disk. Then `weft build --verify` must end with
exit code 0 and leave an index equal to one that was built from nothing. Meanwhile readers ask by
SQL, by a search that opens the index, and by one that follows it. An answer must be that of one of
the two states of the sources; a fault is allowed from a flip to the end of the build that repairs
it, and only if it is one of Weft's or DuckDB's own. Prints how often each happened; fails at the
first thing that must not.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
from printing import new_parser, new_table
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from dagster_project.index.search.opened_index import FollowedIndex, open_index  # noqa: E402
from dagster_project.index.search.search_index import SearchIndex  # noqa: E402
from dagster_project.index.search.statements.sql import query_current  # noqa: E402
from tests.archives import Workspace, differences, discussion, two_lists  # noqa: E402
from transforms.errors import WeftError  # noqa: E402

QUERY = "compactor"
SQL = f"SELECT doc_id FROM search_text('{QUERY}')"
PAUSE = 0.2
"""Seconds between two questions of a reader."""
BUILD_SECONDS = 20.0
"""A build is killed at some moment of so many seconds."""
FLIPS = 5
FULL_KILOBYTES = (0, 1, 64, 300, 1_000, 4_000)
"""Room on the disk, from one that stops the ledger to one that stops the published file."""
DISK_BYTES = 1 << 30
STORED = (
    "index/weft-*.arrays/**/*",
    "index/weft-*.duckdb",
    "lake/**/*.parquet",
    "cache/**/vectors.sqlite",
)


class Readers:
    """Threads that ask, and what they were answered."""

    def __init__(self, work: Workspace):
        self.work, self.counts = work, Counter[str]()
        self.right: list[frozenset[str]] = []
        self.may_fail, self.over = threading.Event(), threading.Event()
        self.wrong: list[str] = []
        self.followed = FollowedIndex(work.index, lambda: open_index(work.settings))
        ways = {"SQL": self._sql, "search": self._search, "following search": self._following}
        self.threads = [threading.Thread(target=self._ask, args=way) for way in ways.items()]

    def close(self) -> None:
        self.over.set()
        for thread in filter(threading.Thread.is_alive, self.threads):
            thread.join()
        self.followed.close()

    def _ask(self, name: str, way: Callable[[], frozenset[str]]) -> None:
        while not self.over.wait(PAUSE):
            may_fail = self.may_fail.is_set()
            try:
                answer = way()
            except (WeftError, duckdb.Error, OSError) as fault:
                self.counts[f"{name}: named faults"] += 1
                if not (may_fail or self.may_fail.is_set()):
                    self.wrong.append(f"{name}: {type(fault).__name__}: {fault}")
            else:
                self.counts[f"{name}: answers"] += 1
                if answer not in self.right:
                    self.wrong.append(f"{name} answers {sorted(answer)}")

    def _sql(self) -> frozenset[str]:
        return frozenset(query_current(self.work.index, SQL)["doc_id"].to_pylist())

    def _search(self) -> frozenset[str]:
        with closing(open_index(self.work.settings)) as index:
            return hits_of(index)

    def _following(self) -> frozenset[str]:
        with self.followed.index() as index:
            return hits_of(index)


def hits_of(index: SearchIndex) -> frozenset[str]:
    """The mails among the hits of the query."""
    return frozenset(index.search([QUERY], limit=99).hits["doc_id"].to_pylist())


def change(work: Workspace, state: int) -> None:
    """Bring the sources into one of two states; the settings, which readers read, stay as they are."""
    for name in ("dev/dev.2004-03.mbox", "users/users.2004-02.mbox"):
        (work.folder / "mail" / name).unlink(missing_ok=True)
    if state:
        work.write("dev/dev.2004-03.mbox", discussion(600, 5, QUERY))
        work.write("users/users.2004-02.mbox", discussion(700, 4, "shell"))


def started(work: Workspace, *options: str, limit: int | None = None) -> subprocess.Popen[bytes]:
    """A build, under a largest size of files in kilobytes."""
    command = [sys.executable, "-m", "dagster_project.cli", "build", "--quiet", *options]
    shell = f"ulimit -f {limit}; " if limit else ""
    return subprocess.Popen(
        ["bash", "-c", f'{shell}exec "$@"', "bash", *command, "--config", str(work.config)],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def kill(work: Workspace, chance: random.Random) -> str:
    process = started(work)
    try:
        process.communicate(timeout=chance.uniform(0.5, BUILD_SECONDS))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "killed builds"
    return "builds that ended before their kill"


def flip(work: Workspace, chance: random.Random) -> str:
    files = [
        file
        for pattern in STORED
        for file in sorted(work.settings.root.glob(pattern))
        if file.is_file() and not file.is_symlink() and file.stat().st_size
    ]
    for file in chance.sample(files, min(FLIPS, len(files))):
        with file.open("r+b") as opened:
            opened.seek(chance.randrange(file.stat().st_size))
            byte = opened.read(1)[0]
            opened.seek(-1, os.SEEK_CUR)
            opened.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return "flips of five bytes"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own at a new folder, if this user may mount one."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "weft", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def no_room(disk: Path, room: int) -> Iterator[None]:
    """A file that leaves so many bytes of a disk."""
    filler = disk / "filler"
    try:
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - room))
        yield
    finally:
        filler.unlink()


def fill(work: Workspace, chance: random.Random) -> str:
    kilobytes, disk = chance.choice(FULL_KILOBYTES), work.folder.parent
    if os.path.ismount(disk):
        with no_room(disk, kilobytes << 10):
            output, _ = (process := started(work)).communicate()
    else:
        output, _ = (process := started(work, limit=kilobytes)).communicate()
    if b"Traceback" in output:
        raise SystemExit(f"a full disk ends in a traceback: {output.decode()}")
    return "builds without room" if process.returncode else "builds that had room"


def build(work: Workspace, _: random.Random) -> str:
    started(work).communicate()
    return "plain builds"


def repair(work: Workspace, full: Workspace) -> None:
    """End what was begun; the index is as one built from nothing."""
    output, _ = (process := started(work, "--verify")).communicate()
    if process.returncode:
        raise SystemExit(f"a build ends with {process.returncode}: {output.decode()}")
    if found := differences(work.index, full.index):
        raise SystemExit(f"the index differs from one that was built from nothing: {found}")


def references(folder: Path) -> list[Workspace]:
    """A storage for each state of the sources, built from nothing."""
    made = []
    for state in range(2):
        change(work := two_lists(folder / f"state{state}"), state)
        work.build()
        made.append(work)
    return made


def run(folder: Path, minutes: float, chance: random.Random) -> Counter[str]:
    full, counts = references(folder), Counter[str]()
    with small_disk(folder / "disk"):
        counts += rounds(full[0].copied(folder / "disk" / "work"), full, minutes, chance)
    return counts


def rounds(
    work: Workspace, full: Sequence[Workspace], minutes: float, chance: random.Random
) -> Counter[str]:
    repair(work, full[0])
    counts = Counter[str]()
    ends = time.monotonic() + 60 * minutes
    with closing(Readers(work)) as readers:
        for reference in full:
            with closing(open_index(reference.settings)) as index:
                readers.right.append(hits_of(index))
            by_sql = query_current(reference.index, SQL)["doc_id"].to_pylist()
            readers.right.append(frozenset(by_sql))
        for thread in readers.threads:
            thread.start()
        while time.monotonic() < ends and not readers.wrong:
            state = chance.randrange(2)
            action = chance.choice((kill, kill, flip, fill, build))
            change(work, state)
            if action is flip:
                readers.may_fail.set()
            counts[action(work, chance)] += 1
            repair(work, full[state])
            if action is flip:
                time.sleep(5)  # those that follow the index have let go of the damaged version
                readers.may_fail.clear()
            counts["rounds"] += 1
    fail_if(readers.wrong)
    return counts + readers.counts


def fail_if(wrong: Sequence[str]) -> None:
    if wrong:
        raise SystemExit(f"{len(wrong)} answers are wrong or fail, such as: {wrong[0]}")


if __name__ == "__main__":
    parser = new_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-endurance-") as place:
        table = new_table("One storage under faults", ("what", "times"))
        for what, times in sorted(run(Path(place), args.minutes, random.Random(args.seed)).items()):
            table.add_row(what, f"{times:,}")
        Console().print(table)
