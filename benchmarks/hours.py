"""What an hour costs when Dagster runs Weft, beside `weft build` of the same change.

    python benchmarks/hours.py [--partitions 500] [--mails 30] [--stock] [--idle 300] [--folder FOLDER]

Writes a list of `--partitions` archives of `--mails` mails each, builds it, and starts Dagster's
daemon with the code server, as `docs/deploy` does. Prints seconds of CPU of the first build; of the
daemon, the code server and all runs for `--idle` seconds of rest, told by the hour; for a tick that
finds nothing changed; for a tick after a mail came, until what follows it has ended; and of `weft
build` after another mail. Beside that what each adds to Dagster's history. `--stock` uses Dagster's
own SQLite storages in place of those that the shipped dagster.yaml names. A refresh begins every
minute here, so that nobody waits for a full hour.
"""

import argparse
import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from dagster_project.orchestration.instance import open_instance  # noqa: E402
from dagster_project.orchestration.triggers import schedules  # noqa: E402
from tests.archives import Workspace, discussion  # noqa: E402 - benchmarks are run from their folder

HOURLY, QUIET_SECONDS, LONGEST = "refresh_every_hour", 75, 900


def archive(work: Workspace, partitions: int, mails: int) -> None:
    """Write the list: one thread an archive, each with a topic of its own."""
    for number in range(partitions):
        work.write(f"list.{number:04}.mbox", discussion(number * mails, mails, f"topic {number}"))


def grow(work: Workspace, partitions: int, mails: int, number: int) -> None:
    """Add a mail to the last archive."""
    last = partitions - 1
    more = discussion(partitions * mails + 100 * number, 2, f"news {number}")
    work.write(f"list.{last:04}.mbox", [*discussion(last * mails, mails, f"topic {last}"), *more])


def build(work: Workspace) -> float:
    """`weft build`: the seconds of CPU of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        str(Path(sys.executable).parent / "weft"),
        "build",
        "--quiet",
        "--config",
        str(work.config),
    ]
    subprocess.run(command, check=True, cwd=work.folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stored(work: Workspace) -> float:
    """Kilobytes of Dagster's history: runs, events, ticks."""
    home = work.settings.root / "dagster"
    files = [p for name in ("history", "schedules") for p in (home / name).rglob("*.db")]
    for file in files:
        with contextlib.closing(sqlite3.connect(file, timeout=60)) as opened:
            opened.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return sum(file.stat().st_size for file in files) / 1024


class Daemon:
    """Dagster's daemon with the code server and the runs that they start."""

    def __init__(self, work: Workspace):
        home = work.settings.root / "dagster"
        self.place, socket = home / "workspace.yaml", str(home / "socket")
        self.place.write_text(
            yaml.safe_dump(
                {"load_from": [{"grpc_server": {"socket": socket, "location_name": "weft"}}]}
            )
        )
        self.environment = {
            **os.environ,
            "DAGSTER_HOME": str(home),
            "WEFT_CONFIG": str(work.config),
            "PYTHONPATH": str(ROOT),
            "WEFT_SECONDS_OF_LOOKS": str(schedules.INTERVAL_SECONDS),
        }
        commands = (
            ["dagster", "api", "grpc", "--module-name", "tests.every_minute", "--socket", socket],
            ["dagster-daemon", "run", "--workspace", str(self.place)],
        )
        with (work.folder / "daemon.log").open("w") as log:
            self.processes = []
            for program, *arguments in commands:
                command = [self.program(program), *arguments]
                self.processes.append(
                    subprocess.Popen(
                        command,
                        env=self.environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        cwd=ROOT,
                    )
                )
                waited(lambda: Path(socket).exists())

    def program(self, name: str) -> str:
        """A program of Dagster's."""
        return str(Path(sys.executable).parent / name)

    def hourly(self, verb: str) -> None:
        """Start or stop the sensor that begins refreshes."""
        command = [self.program("dagster"), "sensor", verb, "-w", str(self.place), HOURLY]
        subprocess.run(command, env=self.environment, check=True, capture_output=True)

    def cpu(self) -> float:
        """Seconds of CPU of its processes so far, with those that ended."""
        sessions, total = {process.pid for process in self.processes}, 0.0
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) in sessions:
                    total += sum(process.cpu_times()[:4])
            except (ProcessLookupError, psutil.Error):
                continue
        return total

    def ticks(self, instance: dg.DagsterInstance) -> list[Any]:
        """The ticks that looked and ended, the oldest first."""
        (state,) = [s for s in instance.all_instigator_state() if s.name == HOURLY]
        found = instance.get_ticks(state.instigator_origin_id, state.selector_id)
        ended = [t for t in reversed(found) if t.status.value != "STARTED"]
        return [t for t in ended if t.skip_reason != schedules.HAS_BEGUN]

    def close(self) -> None:
        """End it."""
        for process in reversed(self.processes):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


@contextmanager
def daemon(work: Workspace) -> Iterator[Daemon]:
    """The daemon, ended at last."""
    running = Daemon(work)
    try:
        yield running
    finally:
        running.close()


def waited(look, seconds: float = LONGEST):  # noqa: ANN001, ANN201 - whatever `look` finds
    """The first true answer of `look`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(1)
    raise SystemExit("nothing happened in time")


def at_rest(instance: dg.DagsterInstance, since: float) -> bool:
    """True if no run waits or is going, and the last ended a while ago."""
    records = instance.get_run_records(limit=20)
    if any(not record.dagster_run.is_finished for record in records):
        return False
    return time.time() - max([since, *(record.end_time or 0 for record in records)]) > QUIET_SECONDS


def measure(
    work: Workspace, partitions: int, mails: int, idle: int
) -> Iterator[tuple[str, float, float]]:
    """By phase the seconds of CPU and the kilobytes of history that it adds."""
    kb = stored(work)
    yield "first build", build(work), stored(work) - kb
    with open_instance(work.settings) as instance, daemon(work) as run:
        waited(lambda: instance.get_daemon_heartbeats().get("SENSOR"))
        time.sleep(QUIET_SECONDS)
        cpu, kb, start = run.cpu(), stored(work), time.monotonic()
        time.sleep(idle)
        seconds = time.monotonic() - start
        rest, rest_kb = (run.cpu() - cpu) / seconds, (stored(work) - kb) / seconds
        yield "an hour of rest", rest * 3600, rest_kb * 3600

        cpu, kb, start = run.cpu(), stored(work), time.monotonic()
        run.hourly("start")
        waited(lambda: len(run.ticks(instance)) >= 2)
        run.hourly("stop")
        found, seconds = run.ticks(instance), time.monotonic() - start
        assert {t.status.value for t in found} == {"SKIPPED"}, [t.status.value for t in found]
        yield (
            "a tick, nothing changed",
            (run.cpu() - cpu - rest * seconds) / len(found),
            (stored(work) - kb - rest_kb * seconds) / len(found),
        )

        grow(work, partitions, mails, 1)
        cpu, kb, start, before = run.cpu(), stored(work), time.monotonic(), len(found)
        run.hourly("start")
        waited(lambda: len(run.ticks(instance)) > before)
        run.hourly("stop")
        begun = time.time()
        waited(lambda: at_rest(instance, begun))
        seconds = time.monotonic() - start
        found = run.ticks(instance)[before:]
        assert found[0].status.value == "SUCCESS", found[0].status
        for record in instance.get_run_records(limit=12):
            print(
                record.dagster_run.status.value,
                record.dagster_run.tags.get("weft/refresh"),
                file=sys.stderr,
            )
        yield (
            "a tick, one partition changed, and what follows",
            run.cpu() - cpu - rest * seconds,
            stored(work) - kb - rest_kb * seconds,
        )
    grow(work, partitions, mails, 2)
    kb = stored(work)
    yield "weft build, one partition changed", build(work), stored(work) - kb
    kb = stored(work)
    yield "weft build, nothing changed", build(work), stored(work) - kb


def main() -> None:
    """Run and print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--mails", type=int, default=30)
    parser.add_argument("--stock", action="store_true", help="Dagster's own SQLite storages")
    parser.add_argument("--idle", type=int, default=300, help="seconds of rest to measure")
    parser.add_argument("--folder", type=Path, help="where archive and index stay")
    given = parser.parse_args()
    table = Table(
        title=f"{given.partitions} partitions of {given.mails} mails", title_justify="left"
    )
    for name in ("what", "CPU, s", "history, kB"):
        table.add_column(name, justify="left" if name == "what" else "right")
    with tempfile.TemporaryDirectory() as temporary:
        work = Workspace(given.folder or Path(temporary)).configure()
        archive(work, given.partitions, given.mails)
        home = work.settings.root / "dagster"
        home.mkdir(parents=True, exist_ok=True)
        shipped = yaml.safe_load(
            resources.files("dagster_project").joinpath("dagster.yaml").read_text()
        )
        kept = {k: v for k, v in shipped.items() if not (given.stock and k.endswith("_storage"))}
        (home / "dagster.yaml").write_text(yaml.safe_dump(kept))
        for name, cpu, kilobytes in measure(work, given.partitions, given.mails, given.idle):
            table.add_row(name, f"{cpu:,.1f}", f"{kilobytes:,.0f}")
            print(name, f"{cpu:,.1f} s", f"{kilobytes:,.0f} kB", file=sys.stderr, flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
