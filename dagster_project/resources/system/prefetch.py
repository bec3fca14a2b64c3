"""Mapping over an iterable by a few threads, for functions that release the GIL, as Polars, NumPy and Arrow do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
