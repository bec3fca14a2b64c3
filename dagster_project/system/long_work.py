"""Threads and memory of long work: mapping in order by threads, for functions that release the GIL; giving memory back."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa


def give_memory_back() -> None:
    """Return unused memory of this process to the system: gigabytes after millions of texts."""
    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # of the GNU library alone
        ctypes.CDLL(None).malloc_trim(0)


Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], limit: int) -> Iterator[Result]:
    """`function` of each item, in order; at most `limit` calls run at once, and no more than there are processors."""
    at_once = min(os.cpu_count() or 1, limit)
    with ThreadPoolExecutor(at_once) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > at_once:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
