"""How many examples property tests try: a fifth of what a test names before a commit, all of them in `make test-all`."""

import os
from typing import Any

from hypothesis import settings

FACTOR = float(os.environ.get("WEFT_EXAMPLES", "0.2"))
"""Part of the examples that is tried; WEFT_EXAMPLES=10 tries ten times what the tests name."""


def examples(count: int = 100, **more: Any) -> settings:
    """The decorator of a property test that tries `FACTOR` times `count` examples, each as long as it takes."""
    return settings(max_examples=max(1, round(count * FACTOR)), deadline=None, **more)
