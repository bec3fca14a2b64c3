"""What all fuzz tests share: seeds that are printed, limits that are kept, and what may never be in
an output.
"""

import os
import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cases import FACTOR
from tests.timing import HUNG

SEED = int(os.environ.get("WEFT_FUZZ_SEED", "20260701"))
"""The first of the seeds; another run takes others."""
MAX_BYTES = 2 << 30
SECRET = "SECRET-MARKER-b1946ac92492d234"
"""Stands in passwords, keys and credentials of the fuzzed settings; no output may hold it."""


def seeds(count: int) -> Iterator[tuple[int, random.Random]]:
    """`count` seeds times `FACTOR`, each with a generator of its own; the seed names the case in a
    failure.
    """
    for seed in range(SEED, SEED + max(1, round(count * FACTOR))):
        yield seed, random.Random(seed)


@contextmanager
def within_limits(case: object) -> Iterator[None]:
    """Fail the test if the body hangs, or if this process holds over 2 GiB and more than ever
    before, naming the case.
    """
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    yield
    took = time.monotonic() - started
    assert took <= HUNG, f"{case}: {took:.1f} s"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak <= max(MAX_BYTES, 1.1 * before), f"{case}: {peak / 2**30:.2f} GiB"
