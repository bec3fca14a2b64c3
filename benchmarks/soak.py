"""Hundreds of simulated hourly runs in one process: does anything grow that the data does not explain?

    python benchmarks/soak.py [--hours 200] [--months GLOB] [--csv FILE]

The PostgreSQL lists, and an archive that is written as a list is: every hour two mails come and the two oldest of it
go; every third hour a mail is edited, every seventh a file is removed, and the next hour it is back. So the data stays
of one size. Each hour the schedule is asked and the job `refresh` run as Dagster runs them, while the clock
goes on by an hour; history is kept for two days, and versions are changed in place as large ones are. Prints seconds
of CPU, memory, open files, threads, and kilobytes of every folder and of Dagster's event log, in the second fifth and
in the last; fails if one of them is still growing: if the median of the last fifth is above that of the second by
more than its allowance. Of memory there are two figures: what the process holds, some of it free and in pieces, and
what the C library has given out of it. The cache of vectors keeps those of texts that are gone, so it may grow by
what new texts bring.
`--months` names which archives of the lists stand beside the living one; fewer make an hour cheaper.
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import dagster as dg
import mail_collections as collections
import polars as pl
import time_machine
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from dagster_project.config.settings import load_settings
from dagster_project.definitions import build_definitions
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.names import REFRESH

BEGIN = datetime(2037, 1, 1, tzinfo=UTC)
LIVE, PER_HOUR, KEPT = "pgsql-hackers.203701", 2, 40
KEEP_DAYS = 2
BYTES_PER_VECTOR = 1600
"""What a vector of 256 numbers takes with its hash in a file of the cache, at most."""


@dataclass(frozen=True)
class Allowance:
    """How much a figure may grow between the two fifths: a share of it, and an absolute part."""

    share: float
    absolute: float = 0.0


# Files of the cache of vectors are merged when there are 64 of them, so their number goes up and down.
ALLOWED = {
    "cpu_seconds": Allowance(0.25),
    "memory_mib": Allowance(0.1),
    "in_use_mib": Allowance(0.03),
    "open_files": Allowance(0, 2),
    "threads": Allowance(0, 2),
    "lake_kb": Allowance(0.02, 64),
    "index_kb": Allowance(0.02, 512),
    "dagster_kb": Allowance(0.05, 256),
    "events_kb": Allowance(0.05, 256),
    "runs": Allowance(0.02, 3),
    "other_files": Allowance(0, 64),
}


class Archive:
    """The archives that change by the hour, below a folder."""

    def __init__(self, folder: Path, corpora: Path, months: str):
        self.folder = folder
        collections.copied_pgsql(corpora, folder, months)
        self.others = sorted(folder.iterdir())
        self.aside: tuple[Path, bytes] | None = None

    def pass_hour(self, hour: int) -> None:
        """What an hour brings."""
        last = (hour + 1) * PER_HOUR
        mails = (
            self._mail(number, is_edited=number % 6 == 0 and number < last - 16)
            for number in range(max(0, last - KEPT), last)
        )
        (self.folder / LIVE).write_text("".join(mails))
        if self.aside:
            self.aside[0].write_bytes(self.aside[1])
            self.aside = None
        elif hour % 7 == 6:
            file = self.others[hour % len(self.others)]
            self.aside = file, file.read_bytes()
            file.unlink()

    def _mail(self, number: int, *, is_edited: bool) -> str:
        at = format_datetime(BEGIN + timedelta(minutes=30 * number))
        edited = " Later it was not." if is_edited else ""
        return (
            f"From a@example.org Thu Jan  1 00:00:00 2037\nMessage-ID: <live{number}@example.org>\n"
            f"From: a@example.org\nDate: {at}\nSubject: vacuum {number % 10}\n\n"
            f"Vacuum number {number} is slow on a table of {number * 7919 % 1000} rows.{edited}\n\n"
        )


def figures(root: Path, instance: dg.DagsterInstance, cpu_seconds: float) -> dict[str, float]:
    """What is measured after an hour."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    folders = {f"{name}_kb": kilobytes(root / name) for name in ("lake", "index", "cache", "dagster")}
    return {
        "cpu_seconds": cpu_seconds,
        "memory_mib": pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20),
        "in_use_mib": malloc_in_use() / (1 << 20),
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "runs": instance.get_runs_count(),
        "other_files": sum(1 for p in root.iterdir() if p.is_file())
        + sum(1 for p in (root / "cache").rglob("*") if p.is_file()),
        **folders,
        "events_kb": kilobytes(root / "dagster" / "history"),
    }


class _MallInfo(ctypes.Structure):
    """`struct mallinfo2` of the GNU C library (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks")
    ] + [("fordblks", ctypes.c_size_t), ("keepcost", ctypes.c_size_t)]


def malloc_in_use() -> int:
    """Bytes that the C library has given out."""
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = _MallInfo
    told = ask()
    return int(told.uordblks + told.hblkhd)


def cpu_clock() -> float:
    """Seconds of CPU that this process and the children that it waited for have used."""
    return sum(os.times()[:4])


def kilobytes(folder: Path) -> float:
    """What the files below a folder hold; the size of a SQLite file is that of its pages in use."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) / 1024


def hours(folder: Path, count: int, months: str, csv: Path | None) -> pl.DataFrame:
    """One row per simulated hour; what is measured so far is always in `csv`."""
    corpora = collections.corpora_folder()
    config = collections.settings_file(folder, "pgsql", 'path = "mail/pgsql-*"\ngrain = "year"')
    config.write_text(
        f"{config.read_text()}\n[operations]\nkeep_runs_days = {KEEP_DAYS}\n\n[index]\nspare_min_bytes = 0\n"
    )
    settings = load_settings(config)
    archive = Archive(folder / "mail", corpora, months)
    rows = []
    definitions = build_definitions(settings)
    job, schedule = (
        definitions.resolve_job_def(REFRESH),
        definitions.resolve_schedule_def("refresh_every_hour"),
    )
    with open_instance(settings) as instance:
        for hour in range(count):
            archive.pass_hour(hour)
            start = cpu_clock()
            with time_machine.travel(BEGIN + timedelta(hours=hour), tick=True):
                with dg.build_schedule_context(instance=instance) as context:
                    answer = schedule.evaluate_tick(context)
                assert answer.run_requests, f"hour {hour}: {answer.skip_message}"
                done = job.execute_in_process(instance=instance, run_config=QUIET)
            assert done.success, f"hour {hour} failed"
            rows.append({"hour": hour, **figures(settings.root, instance, cpu_clock() - start)})
            if csv:
                pl.DataFrame(rows).write_csv(csv)
            if sys.stderr.isatty() or hour % 20 == 0:
                print({k: round(v, 2) for k, v in rows[-1].items()}, file=sys.stderr, flush=True)
    return pl.DataFrame(rows)


QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def verdicts(measured: pl.DataFrame) -> tuple[Table, list[str]]:
    """The figures in the second and in the last fifth, and those that grew by more than is allowed."""
    fifth = measured.height // 5
    early, late = measured.slice(fifth, fifth), measured.slice(measured.height - fifth, fifth)
    columns = ("figure", "second fifth", "last fifth", "slope per 100 runs", "may grow by")
    table = new_table(f"{measured.height} hourly runs", columns)
    new_texts = (late["hour"].mean() - early["hour"].mean()) * PER_HOUR  # type: ignore[operator]
    allowed = ALLOWED | {"cache_kb": Allowance(0, 2 * new_texts * BYTES_PER_VECTOR / 1024)}
    growing = []
    for name, allowance in allowed.items():
        before, after = (statistics.median(part[name].to_list()) for part in (early, late))
        most = allowance.share * before + allowance.absolute
        table.add_row(
            name, f"{before:,.1f}", f"{after:,.1f}", f"{slope(measured[name]) * 100:+,.2f}", f"{most:,.1f}"
        )
        if after - before > most:
            growing.append(name)
    return table, growing


def slope(values: pl.Series) -> float:
    """Growth per run over the last four fifths, as the median of the slopes of all pairs (Theil-Sen)."""
    kept = values.slice(values.len() // 5).to_list()
    return statistics.median(
        (kept[j] - kept[i]) / (j - i) for i in range(len(kept)) for j in range(i + 1, len(kept))
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print everything; exit code 1 if something grows."""
    parser = new_parser(__doc__)
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--months", default="*", help="which archives of the lists, such as 2001*")
    parser.add_argument("--csv", type=Path, help="write the figures of every hour to this file")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        measured = hours(Path(folder), given.hours, given.months, given.csv)
    table, growing = verdicts(measured)
    Console(width=110).print(table)
    if growing:
        raise SystemExit(f"growing: {', '.join(growing)}")


if __name__ == "__main__":
    main()
