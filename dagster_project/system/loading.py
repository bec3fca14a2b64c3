"""Loading many modules at once."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """While this lasts, Python looks for no garbage, nor later among the objects that it loads.

    To look for it among the quarter of a million objects that stay takes a third of the time of
    loading them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
