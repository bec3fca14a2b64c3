"""What client libraries raise, beside errors of their own, for answers of a server that are none."""

from __future__ import annotations

MALFORMED = (
    AssertionError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""To be caught around the call of a library alone, where no fault of our own can hide among them."""
