"""How many examples property tests try: a fifth of what a test names before a commit, all of them in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

FACTOR = float(os.environ.get("WEFT_EXAMPLES", "0.2"))
"""Part of the examples that is tried; WEFT_EXAMPLES=10 tries ten times what the tests name."""


def examples(count: int, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of a property test that tries `FACTOR` times `count` examples, each as long as it takes.

    The mark `property` is what `make test-all` selects in order to try all of them.
    """
    tries = settings(**{"max_examples": max(1, round(count * FACTOR)), "deadline": None, **more})

    def decorated(test: Callable[..., Any]) -> Callable[..., Any]:
        return pytest.mark.property(tries(test))

    return decorated
