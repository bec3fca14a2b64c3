"""Readers of the published index while new versions appear: faults, and how late the slowest
answers are.

    python benchmarks/readers.py [--readers 32] [--publishes 20] [--pause 2] [--months GLOB]

Publishes the PostgreSQL lists and lets readers, half of them with SQL over a connection per
question, half with an open search that follows `CURRENT` as `weft mcp` does, ask one question after
another with a pause between them. Then mails come in and are published by a process of its own, in
turns in the workspace that is read and in a copy that nobody reads. So the questions asked while
others publish meet the same load, and differ by the switch of versions alone. Prints percentiles of
both; fails if a question failed, if a reader saw a version after a later one, or if the slowest
answer under publishing took more than three times the slowest beside it.
"""

import multiprocessing
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import mail_collections as collections
import numpy as np
from printing import new_parser, new_table
from rich.console import Console

from dagster_project.config.settings import load_settings
from dagster_project.index.search.opened_index import FollowedIndex, open_index
from dagster_project.index.search.statements.sql import query_current
from dagster_project.orchestration.build import build
from dagster_project.orchestration.instance import open_instance
from transforms.errors import WeftError

PROCESSES = 4
MOST = 3.0
"""How much longer the slowest answer may take than the slowest of the same readers when nothing is
switched.
"""
SETTLED = 2.0
"""Seconds after a publish that still count as its own: readers notice it with their next question.
"""


@dataclass(frozen=True)
class Answer:
    """One question: who asked, when (monotonic seconds), how long it took, by which way, what
    failed, the version.
    """

    reader: int
    at: float
    seconds: float
    way: str
    fault: str | None
    version: str | None


def reader(
    config: Path, way: str, number: int, queries: list[str], pause: float, over: Any
) -> list[Answer]:
    """Ask one question after the other until `over` is set."""
    ask = by_sql(config) if way == "sql" else by_search(config)
    draw = random.Random(number)
    answers = []
    while not over.is_set():
        time.sleep(draw.uniform(0, 2 * pause))
        start = time.monotonic()
        version, fault = None, None
        try:
            version = ask(draw.choice(queries))
        except (duckdb.Error, WeftError, OSError) as error:
            fault = f"{type(error).__name__}: {error}"
        answers.append(Answer(number, start, time.monotonic() - start, way, fault, version))
    return answers


def by_sql(config: Path) -> Callable[[str], str]:
    """A question as an analyst asks it: a connection of its own, the macro, the version."""
    folder = load_settings(config).root / "index"
    statement = (
        "SELECT (SELECT value FROM manifest WHERE key = 'version') AS version, count(*) AS hits "
        "FROM search_text($query)"
    )
    return lambda query: str(
        query_current(folder, statement, {"query": query}).to_pylist()[0]["version"]
    )


def by_search(config: Path) -> Callable[[str], str]:
    """A question as a program asks it that keeps the index open and follows what is current."""
    settings = load_settings(config)
    followed = FollowedIndex(settings.root / "index", lambda: open_index(settings))

    def ask(query: str) -> str:
        with followed.index() as index:
            if not index.search([query]).hits.num_rows:
                raise LookupError(f"no hits for {query!r}")
            return index.manifest["version"]

    return ask


def process(
    config: Path, numbers: list[int], queries: list[str], pause: float, over: Any, told: Any
) -> None:
    """Some readers as threads of this process; every one has a connection of its own."""
    answers: list[Answer] = []

    def run(number: int) -> None:
        answers.extend(reader(config, ("sql", "search")[number % 2], number, queries, pause, over))

    threads = [threading.Thread(target=run, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put(answers)


def built(config: Path) -> str:
    """Build and publish; the version."""
    settings = load_settings(config)
    with open_instance(settings) as instance:
        published = build(settings, instance).published
    assert published
    return str(published["version"])


def coming(folder: Path, number: int) -> None:
    """Put one more mail into the last archive."""
    with (folder / "mail" / "pgsql-hackers.203801").open("a") as file:
        file.write(
            f"From a@example.org Fri Jan  1 00:{number % 60:02}:00 2038\nMessage-ID: <new{number}@example.org>\n"
            f"From: a@example.org\nDate: Fri, 1 Jan 2038 00:{number % 60:02}:00 +0000\n"
            f"Subject: vacuum {number}\n\nVacuum number {number} is slow on a large table.\n\n"
        )


def measured(
    folder: Path, readers: int, publishes: int, pause: float, months: str
) -> tuple[list[Answer], list[tuple[float, float, str]], list[str]]:
    """All answers; begin, end and place (`read` or `beside`) of every publish; the versions that
    were read, in order.
    """
    corpora = collections.corpora_folder()
    read = folder / "read"
    collections.copied_pgsql(corpora, read / "mail", months)
    config = collections.settings_file(read, "pgsql", 'path = "mail/pgsql-*"\ngrain = "year"')
    forks = multiprocessing.get_context("spawn")
    publisher = ProcessPoolExecutor(1, forks)
    versions = [publisher.submit(built, config).result()]
    shutil.copytree(read, folder / "beside", symlinks=True)
    queries = list(collections.pgsql(corpora).tasks["topics"][0])
    over, told = forks.Event(), forks.Queue()
    numbers = [list(range(n, readers, PROCESSES)) for n in range(min(PROCESSES, readers))]
    going = [
        forks.Process(target=process, args=(config, own, queries, pause, over, told))
        for own in numbers
    ]
    for one in going:
        one.start()
    time.sleep(10)
    spans = []
    for number in range(2 * publishes):
        place = ("read", "beside")[number % 2]
        coming(folder / place, number)
        begin = time.monotonic()
        version = publisher.submit(built, folder / place / "weft.toml").result()
        versions += [version] if place == "read" else []
        time.sleep(SETTLED)
        spans.append((begin, time.monotonic(), place))
    over.set()
    answers = [answer for _ in going for answer in told.get()]
    for one in going:
        one.join()
    publisher.shutdown()
    return answers, spans, versions


def went_back(answers: list[Answer], versions: list[str]) -> int:
    """How often a reader was shown a version after a later one."""
    last: dict[int, int] = {}
    count = 0
    for answer in sorted(answers, key=lambda a: a.at):
        if answer.version:
            shown = versions.index(answer.version)
            count += shown < last.get(answer.reader, 0)
            last[answer.reader] = shown
    return count


def main() -> None:
    """Run and print everything; exit code 1 if a reader failed or waited too long."""
    parser = new_parser(__doc__)
    parser.add_argument("--readers", type=int, default=32)
    parser.add_argument("--publishes", type=int, default=20)
    parser.add_argument(
        "--pause", type=float, default=2, help="mean seconds between two questions of a reader"
    )
    parser.add_argument("--months", default="*", help="which archives of the lists, such as 2001*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answers, spans, versions = measured(
            Path(folder), arguments.readers, arguments.publishes, arguments.pause, arguments.months
        )
    faults = [a.fault for a in answers if a.fault]
    seconds: dict[tuple[str, str], list[float]] = {}
    for answer in answers:
        for begin, end, place in spans:
            if begin <= answer.at < end:
                seconds.setdefault((answer.way, place), []).append(answer.seconds)
    columns = ("way", "publishes", "questions", "p50 ms", "p99 ms", "slowest ms")
    table = new_table(
        f"{arguments.readers} readers, {arguments.publishes} publishes", columns, left=2
    )
    for (way, place), values in sorted(seconds.items()):
        shown = (np.quantile(values, q) * 1000 for q in (0.5, 0.99, 1.0))
        where = "in what is read" if place == "read" else "beside it"
        table.add_row(way, where, f"{len(values):,}", *(f"{v:,.0f}" for v in shown))
    seen, back = {a.version for a in answers if a.version}, went_back(answers, versions)
    table.caption = (
        f"{len(answers):,} questions in all, {len(seen)} versions seen, {back} times an older one after a later, "
        f"{len(faults)} faults"
    )
    Console(width=100).print(table)
    late = []
    for way in ("sql", "search"):
        ratio = max(seconds[way, "read"]) / max(seconds[way, "beside"])
        print(f"{way}: slowest answer {ratio:.2f} times the slowest without a switch")
        late += [way] if ratio > MOST else []
    for fault in sorted(set(faults))[:5]:
        print(f"fault: {fault}")
    if faults or late or back:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
