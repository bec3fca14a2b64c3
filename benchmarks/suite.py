"""Processor seconds of the tests, by folder, file and case.

    python benchmarks/suite.py [--all] [--order] [--branches] [--most 40] [PYTEST ARGUMENTS ...]

Runs the tests that `make test` runs, or with --all those that `make test-all` adds, and prints:
seconds and processor seconds of the run, and the dearest folders, files and cases with their share.
A case includes the fixtures that it was the first to request and the processes that it waited for.
With --order it writes tests/longest_first.txt, the order in which files begin; run it once without
--all and then with it. With --branches (`pip install coverage`) it prints the share of branches of
each folder that ran too, in processes that tests start as well, and takes twice as long.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from printing import new_parser, new_table
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("assets", "dagster_project", "transforms")
BESIDE = "3"
"""Processes of a run, as in the Makefile."""


def main() -> None:
    """Run and print everything."""
    parser = new_parser(__doc__)
    parser.add_argument("--all", action="store_true", help="the tests that `make test-all` adds")
    parser.add_argument("--order", action="store_true", help="write tests/longest_first.txt")
    parser.add_argument("--branches", action="store_true", help="print which share of branches ran")
    parser.add_argument("--most", type=int, default=40, help="rows of a table")
    parser.add_argument("--beside", default=BESIDE, help="processes that run tests")
    arguments, more = parser.parse_known_args()
    marks = ["-m", "exhaustive or property" if arguments.all else "not exhaustive"]
    with tempfile.TemporaryDirectory() as folder:
        covering = _covering(Path(folder)) if arguments.branches else []
        command = [sys.executable, *covering, "-m", "pytest", "-p", "tests.processor_time"]
        begun = time.perf_counter()
        ended = subprocess.run(
            [*command, "-n", arguments.beside, "--dist", "worksteal", *marks, *more],
            cwd=ROOT,
            env={**os.environ, "WEFT_PROCESSOR_TIMES": folder, "PYTHONPATH": str(ROOT)},
        )
        seconds = time.perf_counter() - begun
        of_cases = _read(Path(folder))
        branches = _branches(Path(folder)) if arguments.branches else {}
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    console = Console(width=140)
    console.print(
        f"{seconds:,.0f} s, {used.ru_utime + used.ru_stime:,.0f} s of processor, {len(of_cases):,} tests with "
        f"{sum(of_cases.values()):,.0f} s of processor"
    )
    for title, name in (("folder", _folder), ("file", _file), ("case", str)):
        _print(console, title, of_cases, name, arguments.most)
    if branches:
        table = new_table("Branches", ("folder", "ran", "there", "share"))
        for title, of in sorted(branches.items()):
            share = of["covered"] / (of["num"] or 1)
            table.add_row(title, f"{of['covered']:,}", f"{of['num']:,}", f"{share:.1%}")
        console.print(table)
    if arguments.order:
        _write_order(of_cases)
    sys.exit(ended.returncode)


def _covering(folder: Path) -> list[str]:
    """What Python gets before `-m pytest` in order to note the branches that run, those of other
    processes too.
    """
    sources = ", ".join(str(ROOT / name) for name in PACKAGES)
    settings = "branch = true\nparallel = true\nsigterm = true\npatch = subprocess, _exit, fork"
    place = folder / "coveragerc"
    place.write_text(f"[run]\n{settings}\ndata_file = {folder}/coverage\nsource = {sources}\n")
    return ["-m", "coverage", "run", f"--rcfile={place}"]


def _branches(folder: Path) -> dict[str, Counter[str]]:
    """By folder of the product how many of its branches ran (`covered`), and how many there are
    (`num`).
    """
    found: dict[str, Counter[str]] = {}
    for command in (["combine"], ["json", "-o", f"{folder}/coverage.json"]):
        options = ["--quiet", f"--rcfile={folder}/coveragerc"]
        subprocess.run([sys.executable, "-m", "coverage", *command, *options], cwd=ROOT, check=True)
    for name, file in json.loads((folder / "coverage.json").read_text())["files"].items():
        for title in {"all", Path(name).parts[0], str(Path(name).parent)}:
            counts = {kind: file["summary"][f"{kind}_branches"] for kind in ("covered", "num")}
            found.setdefault(title, Counter()).update(counts)
    return found


def _write_order(of_cases: dict[str, float]) -> None:
    """Write the names of the files that take a second or more, the longest first; those that did
    not run come behind.
    """
    seconds: Counter[str] = Counter()
    for case, used in of_cases.items():
        seconds[_file(case)] += used
    place = ROOT / "tests" / "longest_first.txt"
    before = place.read_text().split() if place.exists() else []
    names = [name for name, used in seconds.most_common() if used >= 1]
    names += [name for name in before if name not in seconds and (ROOT / name).exists()]
    place.write_text("".join(f"{name}\n" for name in names))


def _read(folder: Path) -> dict[str, float]:
    """Processor seconds by test."""
    lines = (line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines())
    return dict(map(json.loads, lines))


def _file(case: str) -> str:
    return case.partition("::")[0]


def _folder(case: str) -> str:
    return str(Path(_file(case)).parent)


def _print(
    console: Console, title: str, of_cases: dict[str, float], name: Callable[[str], str], most: int
) -> None:
    seconds: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for case, used in of_cases.items():
        seconds[name(case)] += used
        count[name(case)] += 1
    whole = sum(seconds.values()) or 1.0
    table = new_table(f"By {title}", (title, "tests", "processor s", "share"))
    for found, used in seconds.most_common(most):
        table.add_row(found[-110:], str(count[found]), f"{used:,.1f}", f"{used / whole:.1%}")
    console.print(table)


if __name__ == "__main__":
    main()
