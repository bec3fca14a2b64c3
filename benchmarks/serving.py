"""How long `weft serve` takes: pages of results, the longest thread, and fifty people at once, over
a published index.

python benchmarks/serving.py [weft.toml]; prints a row for each kind of page: milliseconds at the
server (least, median and 95th percentile), processor time, kilobytes, and the load of the machine.
With `--thread 300` the first 300 mails of the sources are made one thread, each the answer to an
earlier one, and built in a folder that is removed again.
"""

import argparse
import asyncio
import os
import re
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from dagster_project.composition.objects import make_sources
from dagster_project.config.settings import Settings, load_settings
from dagster_project.extras.web.app import web_app
from dagster_project.orchestration.build import build
from dagster_project.orchestration.instance import open_instance

CONFIG = Path("data/sample/weft.toml")
QUERIES = (
    "why is the lock taken twice",
    "compressed pages readahead",
    "superblock checksum",
    "s:patch zstd",
    '"on demand"',
    "memory leak in error path",
    "d:2021..",
    "f:gao inline data",
    "has:attachment log",
    "release notes",
)
PEOPLE, ASKED = 50, 4
_NAMES = re.compile(
    rb"^(?:Message-ID|In-Reply-To|References):[^\n]*\n(?:[ \t][^\n]*\n)*", re.M | re.I
)
_FROM = re.compile(rb"^From ", re.M)
BASE = "http://127.0.0.1:8320"


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("config", nargs="?", type=Path, default=CONFIG)
    arguments.add_argument(
        "--thread", type=int, default=0, help="mails of a thread to measure instead"
    )
    given = arguments.parse_args()
    settings = load_settings(given.config)
    with TemporaryDirectory() as folder:
        if given.thread:
            settings = one_thread(settings, Path(folder), given.thread)
        asyncio.run(serve(settings, run_thread if given.thread else run))
    print(f"load {os.getloadavg()[0]:.1f}")


def one_thread(settings: Settings, folder: Path, count: int) -> Settings:
    """The settings of an index of one thread, of the first mails of the sources: each answers that
    of a third its number.
    """
    sources = make_sources(settings)
    found = (
        mail.data for part in sources.discover() for mail in sources.mails(part) if not mail.fault
    )
    mails = []
    for number, data in enumerate(islice((mail for mail in found if b"\n\n" in mail), count)):
        head, _, body = _NAMES.sub(b"", data).partition(b"\n\n")
        names = f"Message-ID: <{number}@thread>\n" + (
            f"In-Reply-To: <{number // 3}@thread>\n" if number else ""
        )
        mails.append(
            b"From a Mon Jan  5 10:00:00 2004\n"
            + names.encode()
            + head
            + b"\n\n"
            + _FROM.sub(b">From ", body)
        )
    (folder / "thread.mbox").write_bytes(b"\n\n".join(mails))
    config = folder / "weft.toml"
    config.write_text('[[sources]]\nname = "thread"\nkind = "mbox"\npath = "thread.mbox"\n')
    made = load_settings(config)
    with open_instance(made) as instance:
        build(made, instance)
    return made


async def serve(
    settings: Settings, measure: Callable[[httpx2.AsyncClient], Awaitable[None]]
) -> None:
    """Ask the pages over the index of some settings."""
    app = web_app(settings, seconds=120)
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=120) as client:
            await measure(client)


async def run_thread(client: httpx2.AsyncClient) -> None:
    """Ask for the thread three times over."""
    threads = (await client.get("/corpus")).text.split('href="/t/')[1:]
    for _ in range(3):
        await row(client, "thread", [f"/t/{threads[0].split(chr(34))[0]}"], 8)


async def run(client: httpx2.AsyncClient) -> None:
    """Ask page by page, then many at once."""
    threads = (await client.get("/corpus")).text.split('href="/t/')[1:]
    longest = f"/t/{threads[0].split(chr(34))[0]}"
    searches = [httpx2.URL("/", params={"q": query}) for query in QUERIES]
    await row(client, "results", searches, 3)
    await row(client, "longest thread", [longest], 8)
    await row(client, "corpus", ["/corpus"], 4)
    start, cpu = time.perf_counter(), time.process_time()
    answers = await asyncio.gather(*(person(client, searches, number) for number in range(PEOPLE)))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    faults = sum(status != 200 for statuses in answers for status in statuses)
    print(
        f"{PEOPLE} people, {PEOPLE * ASKED} pages: {seconds:.1f} s, {cpu:.1f} s of processor, {faults} faults"
    )


async def person(client: httpx2.AsyncClient, pages: list[httpx2.URL], number: int) -> list[int]:
    """One person who asks some pages one after the other; their statuses."""
    return [(await client.get(pages[(number + n) % len(pages)])).status_code for n in range(ASKED)]


async def row(client: httpx2.AsyncClient, name: str, pages: list, rounds: int) -> None:
    """Print the times of some pages, after each was asked once."""
    sizes = [len((await client.get(page)).content) for page in pages]
    seconds, cpu = [], time.process_time()
    for _ in range(rounds):
        for page in pages:
            start = time.perf_counter()
            answer = await client.get(page)
            seconds.append(time.perf_counter() - start)
            assert answer.status_code == 200, (page, answer.status_code)
    each = (time.process_time() - cpu) / len(seconds) * 1000
    p50, p95 = (
        1000 * q for q in (statistics.median(seconds), sorted(seconds)[int(len(seconds) * 0.95)])
    )
    print(
        f"{name:<16}{1000 * min(seconds):6.0f} ms at least, {p50:6.0f} ms, p95 {p95:6.0f} ms, "
        f"{each:6.0f} ms of processor, {max(sizes) / 1000:8.0f} kB"
    )


if __name__ == "__main__":
    main()
