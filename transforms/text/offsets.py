"""Conversion between characters of a text and the UTF-8 bytes at which they begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Offsets:
    """Characters of a text to UTF-8 bytes and back; in ASCII text they are the same.

    Memory holds only the bytes that do not begin a character: their positions, and the characters
    before them.

    >>> Offsets("año").bytes([2]), Offsets("año").chars([3])
    ([3], [2])
    """

    def __init__(self, text: str):
        self._inner: np.ndarray | None = None
        if not text.isascii():
            self._inner = np.flatnonzero(np.frombuffer(text.encode(), np.int8) < -64)
            self._owners = self._inner - np.arange(1, len(self._inner) + 1)

    def bytes(self, chars: Sequence[int]) -> list[int]:
        """The bytes at which these characters begin."""
        if self._inner is None:
            return list(chars)
        return (np.asarray(chars, dtype=np.int64) + np.searchsorted(self._owners, chars)).tolist()

    def chars(self, positions: Sequence[int]) -> list[int]:
        """The characters that begin at these bytes."""
        if self._inner is None:
            return list(positions)
        return (np.asarray(positions, dtype=np.int64) - np.searchsorted(self._inner, positions)).tolist()
