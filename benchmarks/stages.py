"""Speed of every stage on linux-erofs, from mbox files to the published index, and of searches.

    python benchmarks/stages.py [--grain year|month] [--state FOLDER]

Prints, measured in this run: seconds and rates per stage, peak memory of the build process, the
same build over half of the files (twice the mail should take about twice the time), a second
build that finds nothing to do, and single searches (p50 and p95 over the commit subjects).
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mail_collections as collections
import numpy as np
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table

from dagster_project.config.settings import load_settings
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder


def main() -> None:
    """Run and print everything."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--grain", choices=["month", "year"], default="year", help="partition grain"
    )
    arguments = parser.parse_args()
    corpora = collections.corpora_folder()
    console = Console(width=100)
    with tempfile.TemporaryDirectory() as temporary:
        half, whole = Path(temporary) / "half", Path(temporary) / "whole"
        files = sorted((corpora / "linux-erofs").glob("linux-erofs.*.gz"))
        first = built(half, half_of(files, half / "mail"), arguments.grain)
        second = built(whole, f"{corpora}/linux-erofs/linux-erofs.*.gz", arguments.grain)
        console.print(stage_table(first, second))
        again = built(whole, f"{corpora}/linux-erofs/linux-erofs.*.gz", arguments.grain)
        console.print(
            f"second build: {again['outcome']} in {again['wall']:.2f} s, process start included"
        )
        console.print(search_times(whole / "weft.toml", corpora))


def half_of(files: list[Path], folder: Path) -> str:
    """A folder with links to files that hold about half of the bytes, spread over the years."""
    folder.mkdir(parents=True)
    total, taken = sum(f.stat().st_size for f in files), 0
    for number, file in enumerate(sorted(files, key=lambda f: f.stat().st_size)):
        if number % 2 == 0 and taken < total / 2:
            (folder / file.name).symlink_to(file)
            taken += file.stat().st_size
    return f"{folder}/*.gz"


def built(folder: Path, path: str, grain: str) -> dict[str, Any]:
    """One `weft build` in a process of its own: what it prints, with wall time and peak memory.

    `peak` is without files that are mapped into memory, which the system takes back when it wants;
    `peak_mapped` with them.
    """
    source = f'list_id = "linux-erofs"\npath = "{path}"\ngrain = "{grain}"'
    config = collections.settings_file(folder, "erofs", source)
    start, used_before = time.perf_counter(), _processor_time()
    command = [
        sys.executable,
        "-m",
        "dagster_project.cli",
        "build",
        "--json",
        "--config",
        str(config),
    ]
    peak = peak_mapped = 0.0
    with tempfile.TemporaryFile("w+") as printed:
        build = subprocess.Popen(command, stdout=printed)
        while build.poll() is None:
            held = [resident(pid) for pid in (build.pid, *descendants(build.pid))]
            peak = max(peak, sum(own for own, _ in held))
            peak_mapped = max(peak_mapped, sum(own + mapped for own, mapped in held))
            time.sleep(0.05)
        if build.returncode:
            raise subprocess.CalledProcessError(build.returncode, command)
        printed.seek(0)
        result: dict[str, Any] = json.load(printed)
    result["wall"] = time.perf_counter() - start
    result["peak"], result["peak_mapped"] = peak, peak_mapped
    result["processor"] = _processor_time() - used_before
    return result


def _processor_time() -> float:
    """Seconds of processor that all processes took that were begun here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def descendants(pid: int) -> list[int]:
    """The processes that a process has begun, and those that these have; of Linux alone."""
    try:
        own = [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return [*own, *(p for child in own for p in descendants(child))]


def resident(pid: int) -> tuple[float, float]:
    """MiB of memory that a process holds itself, and of files that it has mapped."""
    try:
        _, held, mapped, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
    except OSError:
        return 0.0, 0.0
    page = resource.getpagesize() / 2**20
    return (held - mapped) * page, mapped * page


def stage_table(half: dict[str, Any], whole: dict[str, Any]) -> Table:
    """Seconds and rates per stage for both builds."""
    mails = [
        r["published"]["rows_messages"] + r["published"]["rows_quarantine"] for r in (half, whole)
    ]
    columns = ("stage", "rows", "seconds", "rows/s", "half: seconds", "ratio")
    table = new_table(f"linux-erofs: {mails[0]:,} and {mails[1]:,} mails", columns)
    for stage, values in whole["stages"].items():
        before = half["stages"][stage]["seconds"]
        rate = f"{values['rows'] / values['seconds']:,.0f}" if values["rows"] else ""
        table.add_row(
            stage,
            f"{values['rows']:,}",
            f"{values['seconds']:.2f}",
            rate,
            f"{before:.2f}",
            f"{values['seconds'] / before:.2f}",
        )
    for name, key in (("mbox to published", "seconds"), ("with process start", "wall")):
        table.add_row(
            name,
            f"{mails[1]:,}",
            f"{whole[key]:.2f}",
            f"{mails[1] / whole[key]:,.0f}",
            f"{half[key]:.2f}",
            f"{whole[key] / half[key]:.2f} for {mails[1] / mails[0]:.2f}x mail",
        )
    table.caption = f"peak memory {whole['peak']:,.0f} MiB (half: {half['peak']:,.0f} MiB)"
    return table


def search_times(config: Path, corpora: Path) -> str:
    """Percentiles of single searches, one after the other, with snippets and citations."""
    settings = load_settings(config)
    lines = (corpora / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines()[:400]
    queries = [json.loads(line)["subject"] for line in lines]
    start = time.perf_counter()
    index = SearchIndex(
        current_version(settings.root / "index"),
        make_embedder(settings.embedding),
        settings.terms,
        settings.search,
    )
    index.search(queries[:1])
    opened = time.perf_counter() - start
    seconds = [index.search([query]).seconds for query in queries]
    p50, p95 = np.percentile(seconds, [50, 95]) * 1000
    start = time.perf_counter()
    index.search(queries[:100])
    batch = time.perf_counter() - start
    return (
        f"{len(queries)} searches over {index.chunk_count:,} chunks: p50 {p50:.1f} ms, p95 {p95:.1f} ms; "
        f"opening with the first search {opened * 1000:.0f} ms; 100 queries at once {batch * 1000:.0f} ms"
    )


if __name__ == "__main__":
    main()
