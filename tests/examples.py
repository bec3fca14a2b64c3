"""How many examples property tests try: a part of what a test names, so that a push is quick and a night is thorough."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

FACTOR = float(os.environ.get("WEFT_EXAMPLES", "0.4"))
"""Part of the examples that is tried; WEFT_EXAMPLES=10 tries ten times what the tests name."""


def examples(count: int, **more: Any) -> settings:
    """The decorator of a property test that tries `FACTOR` times `count` examples, each as long as it takes."""
    return settings(**{"max_examples": max(1, round(count * FACTOR)), "deadline": None, **more})
