"""One slow question holds no other, and is over when its time is; no question is answered from the
past.
"""

import asyncio
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from dagster_project.index.publish.versions import CURRENT
from dagster_project.index.search.index_pool import _MOST, AllBusyError, IndexPool
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Workspace, discussion
from tests.gemini_loopback import KEY, Loopback, loopback
from tests.timing import HUNG, until

SLOW = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"


@pytest.fixture
def pool(built_once: Workspace) -> Iterator[IndexPool]:
    with closing(
        IndexPool(built_once.settings.root / "index", lambda: open_index(built_once.settings))
    ) as made:
        yield made


class Slow:
    """A question of many statements, each of which would take hours; counts the threads that ask
    it.
    """

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)

    def __call__(self, index: SearchIndex) -> None:
        self.asked.release()
        for _ in range(100):
            index.connection.execute(SLOW).fetchall()

    async def held(self, pool: IndexPool, count: int) -> list[asyncio.Task[None]]:
        """That many threads of the pool ask it."""
        tasks = [asyncio.create_task(pool.ask(self, HUNG)) for _ in range(count)]
        for _ in tasks:
            assert await asyncio.to_thread(self.asked.acquire, timeout=HUNG)
        return tasks


def quick(index: SearchIndex) -> int:
    return index.search(["compactor"]).hits.num_rows


@pytest.mark.exhaustive
def test_slow_questions_are_interrupted_and_others_answered_meanwhile(pool: IndexPool):
    async def run() -> None:
        late = await Slow().held(pool, _MOST - 1)
        for _ in range(3):
            assert await pool.ask(quick, HUNG)
        with pytest.raises(TimeoutError):
            await pool.ask(Slow(), 0.1)
        assert not any(task.done() for task in late)
        for task in late:
            task.cancel()
        # Every thread is free again: nothing goes on in the background.
        assert all(await asyncio.gather(*(pool.ask(quick, HUNG) for _ in range(_MOST))))

    asyncio.run(run())


@pytest.mark.exhaustive
def test_a_question_that_waited_too_long_is_never_asked(pool: IndexPool):
    asked: list[int] = []

    async def run() -> None:
        busy = await Slow().held(pool, _MOST)
        with pytest.raises(AllBusyError, match="other questions"):
            await pool.ask(lambda index: asked.append(1), 0.1)
        for task in busy:
            task.cancel()
        assert all(await asyncio.gather(*(pool.ask(quick, HUNG) for _ in range(_MOST))))

    asyncio.run(run())
    assert not asked


def test_questions_that_nothing_ends_stop_no_others_for_ever(pool: IndexPool):
    let_go = threading.Event()

    async def run() -> None:
        await pool.ask(quick, HUNG)
        busy = [
            asyncio.create_task(pool.ask(lambda index: let_go.wait(HUNG), 0.1))
            for _ in range(_MOST)
        ]
        for task in busy:
            with pytest.raises(TimeoutError):
                await task
        with pytest.raises(AllBusyError, match="took too long"):
            await pool.ask(quick, HUNG)
        let_go.set()
        assert await pool.ask(quick, HUNG)

    asyncio.run(run())


class Opener:
    """Opens the current version, and says which versions it has opened."""

    def __init__(self, work: Workspace):
        self.work, self._opened, self._changed = work, list[str](), threading.Condition()

    def __call__(self) -> SearchIndex:
        index = open_index(self.work.settings)
        with self._changed:
            self._opened.append(index.path.name)
            self._changed.notify_all()
        return index

    def has_opened(self, name: str) -> bool:
        """Wait until it has opened a version, for as long as a test may last."""
        with self._changed:
            return self._changed.wait_for(lambda: name in self._opened, HUNG)


def publish(work: Workspace, number: int) -> str:
    """Publish the current version under another name, as a publish ends; return the name."""
    current = (work.index / CURRENT).resolve()
    name = f"weft-{number}.duckdb"
    shutil.copy(current, work.index / name)
    shutil.copytree(current.with_suffix(".arrays"), (work.index / name).with_suffix(".arrays"))
    (work.index / "next").symlink_to(name)
    (work.index / "next").replace(work.index / CURRENT)
    return name


def version(index: SearchIndex) -> str:
    return index.path.name


def test_after_a_quiet_night_the_newest_version_answers(built: Workspace):
    opened = Opener(built)

    async def run(pool: IndexPool) -> None:
        first = await pool.ask(version, HUNG)
        evening, night = publish(built, 1), ""
        assert opened.has_opened(evening)
        night = publish(built, 2)
        assert opened.has_opened(night), "nobody asked meanwhile"
        while (now := await pool.ask(version, HUNG)) != night:
            assert now in (first, evening)

    with closing(IndexPool(built.index, opened, looked_every=0.01)) as pool:
        asyncio.run(run(pool))


def test_a_version_that_was_erased_answers_nothing(built: Workspace):
    async def run(pool: IndexPool) -> None:
        before = Path(await pool.ask(lambda index: str(index.path), HUNG))
        now = publish(built, 1)
        before.unlink()
        assert await pool.ask(version, HUNG) == now

    with closing(IndexPool(built.index, Opener(built), looked_every=HUNG)) as pool:
        asyncio.run(run(pool))


def test_nobody_is_shown_an_older_version_after_a_newer_one(built: Workspace):
    """Two questions at a time: after one of them is answered from a new version, all later ones
    are.
    """

    async def both(pool: IndexPool) -> list[str]:
        together = threading.Barrier(2)

        def work(index: SearchIndex) -> str:
            together.wait(HUNG)
            return version(index)

        return list(await asyncio.gather(pool.ask(work, HUNG), pool.ask(work, HUNG)))

    async def run(pool: IndexPool) -> None:
        await both(pool)
        for number in range(1, 4):
            new = publish(built, number)
            while new not in await both(pool):
                pass
            for _ in range(20):
                assert await both(pool) == [new, new]

    with closing(IndexPool(built.index, Opener(built), looked_every=0.2)) as pool:
        asyncio.run(run(pool))


@pytest.fixture
def service() -> Iterator[Loopback]:

    with loopback() as state:
        yield state


@pytest.mark.exhaustive
def test_a_server_answers_while_a_search_waits_for_its_model(
    service: Loopback, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", service.url)
    work = Workspace(tmp_path / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*"},
        embedding={"model": "gemini"},
        mcp={"max_seconds": HUNG},
    )
    work.write("dev.2004-01.mbox", discussion(0, 4, "compactor"))
    work.build()
    answers = threading.Event()
    service.rule = lambda texts: answers.wait(HUNG) and None
    before = len(service.requests)
    names = ("PATH", "PYTHONPATH", "HOME", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")
    command = ["-m", "dagster_project.cli", "mcp", "--config", str(work.config)]
    parameters = StdioServerParameters(
        command=sys.executable,
        args=command,
        env={k: os.environ[k] for k in names if k in os.environ},
    )

    async def run() -> None:
        async with Client(stdio_client(parameters)) as client:
            while (await client.call_tool("get", {"id": "m0@example.org"})).is_error:
                pass  # what a process imports at first is no part of a question
            results: list[Any] = []

            async def late(query: str) -> None:
                results.append(await client.call_tool("search", {"query": query}))

            async with anyio.create_task_group() as group:
                for query in ("compactor", "planner", "shell"):
                    group.start_soon(late, query)
                await anyio.to_thread.run_sync(
                    until, lambda: len(service.requests) > before, "a request"
                )
                got = await client.call_tool("get", {"id": "m0@example.org"})
                assert not got.is_error and not results
                answers.set()
            assert [result.is_error for result in results] == [False] * 3

    anyio.run(run)
