"""Processor time of making partitions on this machine, on Spark and on Ray, over 20 months of
linux-erofs.

    python benchmarks/engines.py [--months N] [ENGINE ...]

Each engine makes the partitions of two months, then of N, in a process of its own with nothing of
an earlier one. The difference is what the mails cost without the start of workers; the last column
divides it by that of this machine.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mail_collections as collections
from printing import new_parser, new_table
from rich.console import Console
from stages import descendants

from dagster_project.composition.stores import make_engine
from dagster_project.config.settings import load_settings
from dagster_project.orchestration.asset_jobs import asset_definitions
from dagster_project.orchestration.instance import open_instance
from dagster_project.orchestration.partitions import partition_runs, planned
from dagster_project.orchestration.runs import run_here

ENGINES = {"local": 'kind = "local"', "spark": 'kind = "spark"', "ray": 'kind = "ray"\ntasks = 2'}
LEAST = 2
"""Months of the smaller build: one for each worker."""


def main() -> None:
    """Run and print everything."""
    os.environ.setdefault("MASTER", "local[2]")
    parser = new_parser(__doc__)
    parser.add_argument("engines", nargs="*", help="of " + ", ".join(ENGINES))
    parser.add_argument("--months", type=int, default=20)
    parser.add_argument("--make", help="the settings file of the one build to make")
    arguments = parser.parse_args()
    if arguments.make:
        make(Path(arguments.make))
        return
    table = new_table(
        f"{arguments.months} months", ["engine", "start, s", "seconds", "processor, s", "of local"]
    )
    own = 0.0
    for engine in ["local", *(e for e in arguments.engines or ENGINES if e != "local")]:
        start, _ = spent(engine, LEAST)
        all_of_it, wall = spent(engine, LEAST + arguments.months)
        mails = all_of_it - start
        own = own or mails
        table.add_row(engine, f"{start:.1f}", f"{wall:.1f}", f"{mails:.1f}", f"{mails / own:.2f}")
    Console(width=100).print(table)


def make(config: Path) -> None:
    """Make the partitions of a settings file."""
    settings = load_settings(config)
    engine = make_engine(settings)
    with open_instance(settings) as instance:
        stale = planned(settings, instance).stale
        definitions = asset_definitions(settings, {"engine": engine})
        for work in partition_runs(instance, stale, limit=engine.run_partitions):
            run_here(definitions, instance, work, {})
    engine.close()


def spent(engine: str, months: int) -> tuple[float, float]:
    """Seconds of processor, and of the clock, of making the newest months, the machine's other work
    left out.
    """
    files = sorted((collections.corpora_folder() / "linux-erofs").glob("linux-erofs.*.gz"))[
        -months:
    ]
    with tempfile.TemporaryDirectory() as temporary:
        mail = Path(temporary) / "mail"
        mail.mkdir()
        for file in files:
            (mail / file.name).symlink_to(file)
        config = collections.settings_file(
            Path(temporary) / "work", "erofs", f'path = "{mail}/*.gz"'
        )
        config.write_text(f"[engine]\n{ENGINES[engine]}\n\n{config.read_text()}")
        begun = time.perf_counter()
        used: dict[int, float] = {}
        build = subprocess.Popen([sys.executable, __file__, "--make", str(config)])
        while build.poll() is None:
            for pid in (build.pid, *descendants(build.pid)):
                used[pid] = max(used.get(pid, 0.0), processor_time(pid))
            time.sleep(0.2)
        if build.returncode:
            raise subprocess.CalledProcessError(build.returncode, build.args)
        return sum(used.values()), time.perf_counter() - begun


def processor_time(pid: int) -> float:
    """Seconds of processor that a process has taken so far, without the processes that it began; 0
    if it is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
