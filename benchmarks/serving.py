"""How long `weft serve` takes: pages of results, the longest thread, and fifty people at once, over a published index.

python benchmarks/serving.py [weft.toml]; prints a row for each kind of page: milliseconds at the server (median and 95th
percentile), processor time, kilobytes.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

import httpx2

from dagster_project.config.settings import load_settings
from dagster_project.servers.web.app import web_app

CONFIG = Path("data/sample/weft.toml")
QUERIES = (
    "why is the lock taken twice", "compressed pages readahead", "superblock checksum", "s:patch zstd", '"on demand"',
    "memory leak in error path", "d:2021..", "f:gao inline data", "has:attachment log", "release notes",
)  # fmt: skip
PEOPLE, ASKED = 50, 4
BASE = "http://127.0.0.1:8320"


async def main() -> None:
    """Measure and print."""
    settings = load_settings(Path(sys.argv[1]) if len(sys.argv) > 1 else CONFIG)
    app = web_app(settings, seconds=120)
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url=BASE, timeout=120) as client:
            await run(client)


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
    p50, p95 = (1000 * q for q in (statistics.median(seconds), sorted(seconds)[int(len(seconds) * 0.95)]))
    print(
        f"{name:<16}{p50:6.0f} ms, p95 {p95:6.0f} ms, {each:6.0f} ms of processor, {max(sizes) / 1000:8.0f} kB"
    )


if __name__ == "__main__":
    asyncio.run(main())
