"""Cases of tests that many cases are of."""

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[str], each: int = 4) -> list[Any]:
    """The cases for `parametrize`: `make test` runs the first and each `each`th from there, `make test-all` the others."""
    others = pytest.mark.exhaustive
    return [name if n % each == 0 else pytest.param(name, marks=others) for n, name in enumerate(cases)]
