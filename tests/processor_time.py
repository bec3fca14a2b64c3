"""A plugin that writes the processor seconds of each test, those of the processes that it started
and waited for included.

`benchmarks/suite.py` loads it and names the folder of its files, one for each worker.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = "WEFT_PROCESSOR_TIMES"


def _processor_seconds() -> float:
    of = os.times()
    return of.user + of.system + of.children_user + of.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Append one line to the file of this worker: the test and its processor seconds, set-up
    included.
    """
    begun = _processor_seconds()
    try:
        return (yield)
    finally:
        place = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
        with place.open("a") as lines:
            lines.write(json.dumps([item.nodeid, round(_processor_seconds() - begun, 3)]) + "\n")
