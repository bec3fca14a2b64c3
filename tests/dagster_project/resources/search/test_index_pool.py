"""One slow question holds no other, and is over when its time is."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from dagster_project.resources.search.index_pool import _MOST, IndexPool
from dagster_project.resources.search.opened_index import open_index
from dagster_project.resources.search.search_index import SearchIndex
from tests.archives import Workspace, discussion
from tests.gemini_loopback import KEY, Loopback, loopback

SLOW = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range + b.range = 7"
SECONDS = 1.0
SLACK = 2.0
"""Seconds that an answer may come after its time, on a machine that does other things."""


@pytest.fixture
def pool(built_once: Workspace) -> Iterator[IndexPool]:
    with closing(
        IndexPool(built_once.settings.root / "index", lambda: open_index(built_once.settings))
    ) as made:
        yield made


def slow(index: SearchIndex) -> object:
    """Many statements, each of which would take hours."""
    for _ in range(100):
        index.connection.execute(SLOW).fetchall()
    return None


def quick(index: SearchIndex) -> int:
    return index.search(["compactor"]).hits.num_rows


def test_slow_questions_are_interrupted_and_others_answered_meanwhile(pool: IndexPool):
    async def run() -> None:
        await pool.ask(quick, 60)
        start = time.monotonic()
        late = [asyncio.create_task(pool.ask(slow, SECONDS)) for _ in range(_MOST - 1)]
        await asyncio.sleep(0.1)
        for _ in range(3):
            assert await pool.ask(quick, 60)
        for task in late:
            with pytest.raises(TimeoutError):
                await task
        assert time.monotonic() - start < SECONDS + SLACK + 1
        # Every one of them is free again: nothing goes on in the background.
        again = await asyncio.gather(*(pool.ask(quick, 60) for _ in range(_MOST)))
        assert all(again) and time.monotonic() - start < 30

    asyncio.run(run())


def test_a_question_that_waited_too_long_is_never_asked(pool: IndexPool):
    asked: list[int] = []

    async def run() -> None:
        await pool.ask(quick, 60)
        busy = [asyncio.create_task(pool.ask(slow, SECONDS)) for _ in range(_MOST)]
        await asyncio.sleep(0.1)
        with pytest.raises(TimeoutError):
            await pool.ask(lambda index: asked.append(1), 0.2)
        await asyncio.gather(*busy, return_exceptions=True)
        assert await pool.ask(quick, 60)

    asyncio.run(run())
    assert not asked


@pytest.fixture
def service() -> Iterator[Loopback]:
    pytest.importorskip("google.genai.types", reason="the extra `gemini` is not installed")
    with loopback() as state:
        yield state


@pytest.mark.exhaustive
def test_a_server_answers_while_a_search_waits_for_its_model(
    service: Loopback, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    work = Workspace(tmp_path / "work").configure(
        {"name": "dev", "kind": "mbox", "path": "mail/*"},
        embedding={"model": "gemini"},
        gemini={"base_url": service.url},
        mcp={"max_seconds": 2},
    )
    work.write("dev.2004-01.mbox", discussion(0, 4, "compactor"))
    work.build()
    service.delay = 5.0
    names = ("PATH", "PYTHONPATH", "HOME", "GEMINI_API_KEY")
    command = ["-m", "dagster_project.cli", "mcp", "--config", str(work.config)]
    parameters = StdioServerParameters(
        command=sys.executable, args=command, env={k: os.environ[k] for k in names if k in os.environ}
    )
    taken: dict[str, float] = {}

    async def call(client: Client, label: str, name: str, **values: Any) -> Any:
        start = time.monotonic()
        result = await client.call_tool(name, values)
        taken[label] = time.monotonic() - start
        return result

    async def run() -> None:
        async with Client(stdio_client(parameters)) as client:
            while (await call(client, "first", "get", id="m0@example.org")).is_error:
                pass  # what a process imports at first is no part of a question
            results: dict[str, Any] = {}

            async def late(number: int) -> None:
                results[f"late {number}"] = await call(client, f"late {number}", "search", query="compactor")

            async with anyio.create_task_group() as group:
                for number in range(3):
                    group.start_soon(late, number)
                await anyio.sleep(0.2)
                for number in range(3):
                    got = await call(client, f"got {number}", "get", id="m0@example.org")
                    assert not got.is_error and not results
            assert all(r.is_error and "no answer in 2 s" in r.content[0].text for r in results.values())
            assert not (await call(client, "after", "get", id="m0@example.org")).is_error

    anyio.run(run)
    assert all(seconds < 2 + SLACK for label, seconds in taken.items() if label != "first"), taken
