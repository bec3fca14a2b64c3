"""What of a fault leaves Weft: under a lens no path and no source, which may lie outside of it."""

from transforms.errors import (
    DisclosureLimitError,
    LensError,
    QueryError,
    QueryInterruptedError,
    UnknownIdError,
    WeftError,
)

_OF_THE_QUESTION = (QueryError, UnknownIdError, LensError, DisclosureLimitError, QueryInterruptedError)
"""Faults whose texts are made of the question and of what the lens shows."""


def fault_text(fault: WeftError, lens: str | None) -> str:
    """The text of a fault as it is answered: all of it without a lens, or if it is the question's."""
    if lens is None or isinstance(fault, _OF_THE_QUESTION):
        return str(fault)
    return "there is no answer now: `weft doctor` tells whoever runs this server why"
