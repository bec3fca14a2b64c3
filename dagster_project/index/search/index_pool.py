"""A few threads that ask the published index side by side, so that one slow question holds no
other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, Generic, TypeVar

from dagster_project.index.search.index_faults import faults_translated
from dagster_project.index.search.opened_index import LOOKED_EVERY, FollowedIndex
from dagster_project.index.search.search_index import SearchIndex

_MOST = 8
"""Questions at once, each with the file open for itself; arrays and pages are shared, so that each
takes little memory.
"""
_INTERRUPTED_EVERY = 0.05
"""Seconds between two interruptions of a question that was abandoned, which may query the database
many times.
"""
_PATIENCE, _LOOKED_EVERY = 1.0, 0.05
"""Seconds that a question waits for one of those that were given up to end, and how often it looks.
"""
_Answer = TypeVar("_Answer")


class AllBusyError(TimeoutError):
    """No thread is free for a question."""


class IndexPool:
    """Up to `_MOST` threads, each with the current version open for itself while it answers."""

    def __init__(
        self, folder: Path, opener: Callable[[], SearchIndex], looked_every: float = LOOKED_EVERY
    ):
        self._followed = FollowedIndex(folder, opener, looked_every)
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="weft-question")
        self._given_up: set[Future[Any]] = set()

    async def ask(self, work: Callable[[SearchIndex], _Answer], seconds: float) -> _Answer:
        """The answer of `work`; TimeoutError if it takes longer, which also ends its statement of
        the database.

        AllBusyError if no thread was free for as long, or if every thread still works on a question
        that took too long: nothing ends work of Python or NumPy.
        """
        patience = time.monotonic() + min(_PATIENCE, seconds)
        while len(self._given_up) >= _MOST:
            if time.monotonic() > patience:
                raise AllBusyError(f"all {_MOST} threads work on questions that took too long")
            await asyncio.sleep(_LOOKED_EVERY)
        question = _Question(work)
        answer = self._threads.submit(copy_context().run, self._answered, question)
        try:
            # Fifty downloads at once wait longer for a thread than one may work, and each is quick.
            await asyncio.wait([asyncio.wrap_future(question.begun)], timeout=seconds)
            if answer.cancel():
                raise AllBusyError(f"all {_MOST} threads work on other questions")
            return await asyncio.wait_for(asyncio.wrap_future(answer), seconds)
        finally:
            if not answer.done() and not answer.cancel():
                self._given_up.add(answer)
                answer.add_done_callback(self._given_up.discard)
                threading.Thread(target=question.interrupt, daemon=True).start()

    def close(self) -> None:
        """Wait for running questions, and close all indexes."""
        self._threads.shutdown(cancel_futures=True)
        self._followed.close()

    def _answered(self, question: _Question[_Answer]) -> _Answer:
        question.begun.set_result(None)
        with self._followed.index() as index:
            return question.answer(index)


class _Question(Generic[_Answer]):
    """Work on an index that can be interrupted, and leaves the index alone once it is over."""

    def __init__(self, work: Callable[[SearchIndex], _Answer]):
        self.work, self.begun = work, Future[None]()
        self._over, self._lock = threading.Event(), threading.Lock()
        self._index: SearchIndex | None = None

    def answer(self, index: SearchIndex) -> _Answer:
        """Do the work."""
        self._index = index
        try:
            with faults_translated(index.path):
                return self.work(index)
        finally:
            index.further.clear()
            with self._lock:  # an interruption that is under way would else meet the next question
                self._over.set()

    def interrupt(self) -> None:
        """Interrupt the database until the work is over."""
        while not self._over.wait(_INTERRUPTED_EVERY):
            with self._lock:
                if self._index is not None and not self._over.is_set():
                    self._index.connection.interrupt()
                    for end in list(self._index.further):
                        end()
