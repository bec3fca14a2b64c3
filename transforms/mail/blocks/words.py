"""Words: how many signs, word gaps and columns the lines have that are still text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from transforms.mail.blocks.lines import LETTER, SPACE, SYMBOL, UPPER, WORD_END, Counts, Lines


class Words(NamedTuple):
    """Counts per row; 0 for rows that were settled before."""

    symbols: Counts  # signs and digits
    gaps: Counts  # blanks between two words
    small: Counts  # those before a word that begins with a small letter
    columns: Counts  # tabs and runs of three blanks inside the line


def read_words(lines: Lines) -> Words:
    """The counts of all lines that are still text."""
    author = lines.author()
    counts = Words(*(np.zeros(lines.n, dtype=np.int32) for _ in Words._fields))
    sizes = (lines.ends - lines.starts)[author]
    text = lines.bytes_of(author)
    if not len(text):
        return counts
    starts = np.cumsum(sizes) - sizes
    counts.symbols[author] = np.add.reduceat(SYMBOL[text], starts, dtype=np.int32)
    space = text == 32
    gap = np.zeros(len(text), dtype=bool)
    gap[1:-1] = space[1:-1] & WORD_END[text[:-2]] & LETTER[text[2:]]
    gap[starts] = False
    gap[starts - 1] = False
    counts.gaps[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    gap[:-1] &= ~UPPER[text[1:]]
    counts.small[author] = np.add.reduceat(gap, starts, dtype=np.int32)
    column = text == 9
    column[2:] |= space[2:] & space[1:-1] & space[:-2]
    column[1:] = column[:-1] & ~SPACE[text[1:]]
    column[starts + lines.indent[author]] = False
    counts.columns[author] = np.add.reduceat(column, starts, dtype=np.int32)
    return counts
