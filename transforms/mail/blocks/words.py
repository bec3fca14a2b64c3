"""Words: how many signs, word gaps and columns the lines have that are still text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from transforms.mail.blocks.lines import LETTER, SPACE, SYMBOL, UPPER, WORD_END, Counts, Lines, byte_table


class Words(NamedTuple):
    """Counts per row; 0 for rows that were settled before."""

    symbols: Counts  # signs and digits
    gaps: Counts  # blanks between two words
    small: Counts  # those before a word that begins with a small letter
    columns: Counts  # tabs and runs of three blanks inside the line


# What a byte is, as a set of bits: one pass over the text finds all of them.
_SYMBOL, _WORD_END, _LETTER, _UPPER, _SPACE, _BLANK, _TAB = (1 << bit for bit in range(7))
_TABLES = (
    (_SYMBOL, SYMBOL),
    (_WORD_END, WORD_END),
    (_LETTER, LETTER),
    (_UPPER, UPPER),
    (_SPACE, SPACE),
    (_BLANK, byte_table(b" ")),
    (_TAB, byte_table(b"\t")),
)
_CLASSES = bytes(sum(bit for bit, table in _TABLES if table[byte]) for byte in range(256))


def read_words(lines: Lines) -> Words:
    """The counts of all lines that are still text."""
    author = lines.author()
    counts = Words(*(np.zeros(lines.n, dtype=np.int32) for _ in Words._fields))
    sizes = (lines.ends - lines.starts)[author]
    text = np.frombuffer(lines.bytes_of(author).tobytes().translate(_CLASSES), dtype=np.uint8)
    if not len(text):
        return counts
    starts = np.cumsum(sizes) - sizes
    counts.symbols[author] = np.add.reduceat(text & _SYMBOL, starts, dtype=np.int32)
    blank = (text & _BLANK) != 0
    gap = np.zeros(len(text), dtype=bool)
    gap[1:-1] = blank[1:-1] & ((text[:-2] & _WORD_END) != 0) & ((text[2:] & _LETTER) != 0)
    gap[starts] = False
    gap[starts - 1] = False
    counts.gaps[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    gap[:-1] &= (text[1:] & _UPPER) == 0
    counts.small[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    column = (text & _TAB) != 0
    column[2:] |= blank[2:] & blank[1:-1] & blank[:-2]
    column[1:] = column[:-1] & ((text[1:] & _SPACE) == 0)
    column[starts + lines.indent[author]] = False
    counts.columns[author] = np.add.reduceat(column, starts, dtype=np.int32)
    return counts
