"""How much tests try: `make test` some of their cases and a fifth of the examples, `make test-all`
all of them.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

FACTOR = float(os.environ.get("WEFT_EXAMPLES", "0.2"))
"""Part of the examples that is tried; WEFT_EXAMPLES=10 tries ten times what the tests name."""


def examples(count: int = 100, **more: Any) -> settings:
    """The decorator of a property test that tries `FACTOR` times `count` examples, each as long as
    it takes.
    """
    return settings(max_examples=max(1, round(count * FACTOR)), deadline=None, **more)


def some(cases: Iterable[str], each: int = 4) -> list[Any]:
    """The cases for `parametrize`: `make test` runs the first and each `each`th from there, `make
    test-all` the others.
    """
    others = pytest.mark.exhaustive
    return [
        name if n % each == 0 else pytest.param(name, marks=others) for n, name in enumerate(cases)
    ]
