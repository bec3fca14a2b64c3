"""What lists of several sizes cost, built by Weft and beside it indexed by notmuch: the curve, to
be drawn and extrapolated.

    python benchmarks/scale.py [--sizes 25000,60000,125000,250000] [--json FILE] [--seed 1] [--folder FOLDER] [--grain auto]
        [--longest BYTES] [--without-notmuch]

Of each size it makes the archive of `scale_corpus.py`, builds it with `weft build`, appends 300
mails to the last month twice, as hours bring them, and builds after each. Then it builds twice more
with nothing new, and searches. Printed, and written to FILE with all stages, are seconds with
process start, seconds of processor, peak memory of all processes, bytes written and stored, p50 and
p95 of 150 searches, ranked alone and with what describes the hits, and the time of a hundred at
once. If notmuch is installed, `notmuch new` takes the same mails as Maildir, and those of the
hours. All of it is deleted before the next size; 250,000 mails take 30 GB meanwhile, and so do a
million whose bodies and attachments are cut to `--longest 1500` bytes.

`python docs/generate.py` makes docs/performance.md of docs/measurements/scale.json.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import mail_collections as collections
import numpy as np
from printing import new_parser, new_table
from rich.console import Console
from rich.table import Table
from scale_corpus import MESSAGES, Plan, Pools, Writer, described, in_time, plan, pools
from stages import built

from dagster_project.config.settings import load_settings
from dagster_project.index.search.opened_index import open_index

HOURS, HOUR = 2, 300
SEARCHES, HUNDRED = 150, 100
SIZES = "25000,60000,125000,250000"


def main() -> None:
    """Measure each size in turn, print it, and write down all sizes so far."""
    parser = new_parser(__doc__)
    parser.add_argument("--sizes", default=SIZES, help="mails of each list")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where archives and indexes are made")
    parser.add_argument(
        "--grain", choices=["auto", "month", "year"], default="auto", help="partition grain"
    )
    parser.add_argument("--longest", type=int, help="bytes that bodies and attachments are cut to")
    parser.add_argument("--without-notmuch", action="store_true")
    parser.add_argument("--searches", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.searches:
        print(json.dumps(searched(arguments.searches)))
        return
    console, text = Console(width=110), pools(collections.corpora_folder())
    report: dict[str, Any] = {"machine": machine(), "hour_mails": HOUR, "sizes": []}
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if min(sizes) < 2 * HOURS * HOUR:
        parser.error(f"a list has {2 * HOURS * HOUR:,} mails at least")
    for size in sizes:
        made = plan(size / MESSAGES, arguments.seed, arguments.longest)
        console.print(described(made))
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            figures = {"asked": size} | of_weft(Path(folder), made, text, arguments.grain)
        if shutil.which("notmuch") and not arguments.without_notmuch:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                figures["notmuch"] = of_notmuch(Path(folder), made, text)
        console.print(stage_table(figures), size_table(figures))
        report["sizes"].append(figures)
        if arguments.json:
            arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    models = (
        line
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    name = next(models, "").partition(":")[2].strip() or platform.machine()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {"processor": name, "processors": os.cpu_count(), "memory_gib": round(memory, 1)}


def of_weft(folder: Path, made: Plan, text: Pools, grain: str) -> dict[str, Any]:
    """The figures of one size: first build, the hours, one with nothing new, searches."""
    mail, order = folder / "mail", in_time(made)
    archived, coming = order[: -HOURS * HOUR], order[-HOURS * HOUR :]
    Writer(made, text).write(mail, archived)
    figures: dict[str, Any] = {"mails": len(order), "archive_bytes": bytes_of(mail)}
    figures["first"] = measured(folder, mail, grain)
    hours = []
    for hour in range(HOURS):
        Writer(made, text).write(mail, coming[hour * HOUR : (hour + 1) * HOUR])
        hours.append(measured(folder, mail, grain))
    after_hour, nothing = measured(folder, mail, grain), measured(folder, mail, grain)
    state = load_settings(folder / "weft.toml").root
    command = [sys.executable, __file__, "--searches", str(folder / "weft.toml")]
    asked = json.loads(
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    )
    current = (state / "index" / "CURRENT").resolve()
    return figures | {
        "hour": hours[-1],
        "hours_before": hours[:-1],
        "nothing": nothing,
        "nothing_after_hour": after_hour,
        "lake_bytes": bytes_of(state / "lake"),
        "index_bytes": current.stat().st_size + bytes_of(current.with_suffix(".arrays")),
        **asked,
    }


def measured(folder: Path, mail: Path, grain: str) -> dict[str, Any]:
    """One `weft build`: seconds, processor time, peak memory, bytes written, and its stages."""
    before = written()
    build = built(folder, f"{mail}/scale.*", grain)
    return {
        "seconds": build["wall"],
        "processor": build["processor"],
        "peak_mib": build["peak"],
        "peak_mapped_mib": build["peak_mapped"],
        "written_bytes": written() - before,
        "stages": build["stages"],
    }


def written() -> int:
    """Bytes that all processes wrote to disk that were begun here and have ended."""
    return 512 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock


def bytes_of(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def searched(config: Path) -> dict[str, Any]:
    """Milliseconds of searches, one after the other, after ten that are not counted; of this
    process.
    """
    index, corpora = open_index(load_settings(config)), collections.corpora_folder()
    lines = (corpora / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines()
    subjects = [json.loads(line)["subject"] for line in lines[: SEARCHES // 2]]
    asked = [
        *list(collections.pgsql(corpora).tasks["topics"][0])[: SEARCHES - len(subjects)],
        *subjects,
    ]
    return {
        "chunks": index.chunk_count,
        "ranked": times(lambda query: index.ranked([query]), asked),
        "described": times(lambda query: index.search([query], plain=True), asked),
        "hundred_at_once": at_once(lambda: index.search(asked[:HUNDRED], plain=True)),
    }


def at_once(search: Callable[[], Any]) -> float:
    """Seconds of the third of three searches of many queries."""
    for _ in range(3):
        start = time.perf_counter()
        search()
    return time.perf_counter() - start


def times(search: Callable[[str], Any], asked: Sequence[str]) -> dict[str, float]:
    """p50 and p95 in milliseconds, and the median of processor time."""
    taken, used = [], []
    for query in [*asked[:10], *asked]:
        start, busy = time.perf_counter(), time.process_time()
        search(query)
        taken.append(1000 * (time.perf_counter() - start))
        used.append(1000 * (time.process_time() - busy))
    p50, p95 = np.quantile(taken[10:], [0.5, 0.95])
    return {"p50_ms": float(p50), "p95_ms": float(p95), "processor_ms": float(np.median(used[10:]))}


def of_notmuch(folder: Path, made: Plan, text: Pools) -> dict[str, Any]:
    """`notmuch new` over the same mails as Maildir, as seconds and bytes: the first, and the third
    hour's.
    """
    order, box = in_time(made), folder / "mail"
    config = folder / "notmuch"
    config.write_text(
        f"[database]\npath={box}\n[user]\nname=a\nprimary_email=a@example.org\n[new]\ntags=new\n"
    )
    for name in ("new", "tmp"):
        (box / name).mkdir(parents=True)
    figures: dict[str, Any] = {}
    ends = [-HOUR * left for left in range(HOURS, 0, -1)]
    for number, part in enumerate(np.split(order, ends)):
        maildir(box / "cur", Writer(made, text), part)
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            ["notmuch", "--config", str(config), "new", "--no-hooks", "--quiet"], check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        figures["hour" if number else "first"] = {
            "seconds": time.perf_counter() - start,
            "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        }
    return figures | {"index_bytes": bytes_of(box / ".notmuch")}


def maildir(folder: Path, writer: Writer, order: Iterable[int]) -> None:
    """Write mails as files of a Maildir, without the From_ line of mbox and its marks."""
    folder.mkdir(exist_ok=True)
    for number in order:
        (folder / f"{number}.weft:2,S").write_bytes(writer.mail(int(number)).partition(b"\n")[2])


def stage_table(figures: dict[str, Any]) -> Table:
    """Seconds, processor time and rates per stage of the first build, and what the third hour took
    of each.
    """
    first, hour = figures["first"], figures["hour"]
    columns = ("stage", "rows", "seconds", "processor", "rows/s", "hour: seconds", "processor")
    table = new_table(
        f"{figures['mails']:,} mails, {figures['archive_bytes'] / 1e6:,.0f} MB", columns
    )
    for stage, values in first["stages"].items():
        rate = (
            f"{values['rows'] / values['seconds']:,.0f}"
            if values["rows"] and values["seconds"]
            else ""
        )
        later = hour["stages"].get(stage, {"seconds": 0.0, "processor": 0.0})
        took = (values["seconds"], values["processor"], later["seconds"], later["processor"])
        seconds, processor, *of_hour = (f"{value:.1f}" for value in took)
        table.add_row(stage, f"{values['rows']:,}", seconds, processor, rate, *of_hour)
    return table


def size_table(figures: dict[str, Any]) -> Table:
    """What one size costs."""
    table = new_table(
        f"{figures['chunks']:,} chunks", ("", "seconds", "processor", "peak MiB", "MB written")
    )
    for name in ("first", "hour", "nothing"):
        build = figures[name]
        row = (
            build["seconds"],
            build["processor"],
            build["peak_mib"],
            build["written_bytes"] / 1e6,
        )
        table.add_row(name, *(f"{value:,.1f}" for value in row))
    for name in ("first", "hour") if "notmuch" in figures else ():
        peer = figures["notmuch"][name]
        table.add_row(
            f"notmuch, {name}", f"{peer['seconds']:,.1f}", f"{peer['processor']:,.1f}", "", ""
        )
    found = (
        f"{way} p50 {figures[way]['p50_ms']:.1f}, p95 {figures[way]['p95_ms']:.1f} ms"
        for way in ("ranked", "described")
    )
    together = f"a hundred at once {figures['hundred_at_once']:.1f} s"
    lake, index = (figures[name] / 1e6 for name in ("lake_bytes", "index_bytes"))
    table.caption = f"lake {lake:,.0f} MB, index {index:,.0f} MB; {'; '.join(found)}; {together}"
    return table


if __name__ == "__main__":
    main()
