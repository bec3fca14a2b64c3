"""Work on a few things at once by threads, for code that lets others run meanwhile, as Polars, NumPy and Arrow do."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def made_ahead(make: Callable[[Given], Made], given: Iterable[Given], most: int) -> Iterator[Made]:
    """`make` of each of `given`, in order; as many at once as there are processors, `most` at most."""
    at_once = min(os.cpu_count() or 1, most)
    with ThreadPoolExecutor(at_once) as pool:
        under_way: deque[Future[Made]] = deque()
        for each in given:
            under_way.append(pool.submit(make, each))
            if len(under_way) > at_once:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
