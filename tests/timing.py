"""What tests need of clocks: how work grows with its input, and waits that end with a condition,
not with a time.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import TypeVar

HUNG = 600.0
"""Seconds after which a test gives up a wait: so many that only a thing that hangs takes them,
however slow the machine.
"""
PAUSE = 0.01
"""Seconds between two looks at a condition."""
_Found = TypeVar("_Found")


def seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Processor time of the best of some runs."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def growth(
    few: Callable[[], object], many: Callable[[], object], allowed: float, least: float = 5e-3
) -> float:
    """How many times the processor time of `few`, or of `least` seconds, `many` takes: one run if
    that is `allowed`.
    """
    taken = max(seconds(few, 2), least)
    ratios = (seconds(many, 1) / taken for _ in range(3))
    best = next(ratios)
    return best if best < allowed else min(ratios)


def until(condition: Callable[[], _Found], name: str, pause: float = PAUSE) -> _Found:
    """The first true value of `condition`; AssertionError with its name if it hangs."""
    end = time.monotonic() + HUNG
    while not (found := condition()):
        assert time.monotonic() < end, f"hangs: {name}"
        time.sleep(pause)
    return found


def has_left(client: socket.socket, within: float = HUNG) -> bool:
    """True if a client ends its connection, False if it sends something or is silent for `within`
    seconds.
    """
    if not select.select([client], [], [], within)[0]:
        return False
    try:
        return not client.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
