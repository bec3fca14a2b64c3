"""Token ids of texts by the ids of their pieces, which repeat where texts do not."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

_BLANK, _LETTER, _SIGN, _ALONE, _OTHER = range(5)
_BITS = 3
"""Bits of a kind beside another one."""


class Cuts:
    """Where texts are cut into pieces: the kind of each byte, and whether a piece ends between two kinds.

    `kinds` has the bytes that are blanks, letters, signs and stand alone, `other` is the kind of the rest of ASCII; what
    is not ASCII may belong to anything. A text that has one of `special` is not cut.
    """

    def __init__(self, kinds: Sequence[str], other: int, ends: Callable[[int, int], bool], *special: str):
        kind_of = {sign: kind for kind, signs in enumerate(kinds) for sign in signs}
        self.kinds = bytes(_OTHER if byte > 127 else kind_of.get(chr(byte), other) for byte in range(256))
        self.ends = bytes(ends(pair >> _BITS, pair & (1 << _BITS) - 1) for pair in range(256))
        self.special = special


def _llama_ends(before: int, after: int) -> bool:
    """Blanks go with the letters or the signs behind them; digits, tabs and ends of lines stand alone."""
    begins_blanks = after == _BLANK != before
    return _ALONE in (before, after) or begins_blanks or {before, after} == {_LETTER, _SIGN}


_LLAMA_KINDS = (" ", string.ascii_letters, "", string.digits + "\n\t")
LLAMA = Cuts(_LLAMA_KINDS, _SIGN, _llama_ends, "\u2581", "<s>", "</s>", "<unk>")
BERT = Cuts(
    (" \t\r\n", string.ascii_letters + string.digits, "", string.punctuation),
    _OTHER,  # control characters, which the tokenizer leaves out
    lambda before, after: _ALONE in (before, after) or (before == _BLANK) != (after == _BLANK),
)
_MOST_KNOWN = 1 << 19
"""Pieces whose ids are remembered: some 80 MB."""
_FEW = 64
"""New pieces, as a query has, below which they are encoded one after the other: threads take longer to start."""
_STORED = np.dtype(np.int32)
"""Of ids that are remembered; joined as bytes they take a third of the time of lists."""


class TokenIds(NamedTuple):
    """The ids of all texts, one text after the other, int64; text n has those from `edges[n]` to `edges[n + 1]`."""

    ids: np.ndarray
    edges: np.ndarray


class PieceTokenizer:
    """The ids that a tokenizer gives, special tokens not added, at some six times its speed.

    The tokenizer merges bytes over the whole of a text, at 2 MB/s. Merging stops at the ends of `pieces`, so
    each distinct piece is encoded once and remembered. Texts that spell a special token are left to the
    tokenizer whole.
    """

    def __init__(self, load: Callable[[], Any], cuts: Cuts = LLAMA):
        """`load` reads the tokenizer, each time anew; no token of it reaches over the cuts."""
        from tokenizers import normalizers

        self._load, self._cuts, self._pieces = load, cuts, load()
        if cuts is LLAMA:
            self._pieces.normalizer = normalizers.Replace(" ", "\u2581")
        self._known: dict[str, bytes] = {}

    @cached_property
    def _whole(self) -> Any:
        """The tokenizer as it is, which few texts need."""
        return self._load()

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text."""
        special = [n for n, text in enumerate(texts) if any(token in text for token in self._cuts.special)]
        if special:
            return self._with_special(texts, special)
        first = " " if self._cuts is LLAMA else ""  # the tokenizer's own rule
        found, edges_of_texts = pieces([first + text if text else text for text in texts], self._cuts)
        found = found.dictionary_encode()
        distinct, edges = self._ids(found.dictionary.to_pylist())
        codes = found.indices.to_numpy()
        count = np.diff(edges)[codes]
        until = np.concatenate([[0], np.cumsum(count)])
        place = np.arange(until[-1]) + np.repeat(edges[codes] - until[:-1], count)
        return TokenIds(distinct[place], until[edges_of_texts])

    def forget(self) -> None:
        """Let go of the ids of pieces, which are found anew when they are asked for."""
        self._known = {}

    def _with_special(self, texts: Sequence[str], special: Sequence[int]) -> TokenIds:
        """The ids of texts some of which, at the places `special`, spell special tokens."""
        plain = sorted(set(range(len(texts))) - set(special))
        ids, edges = self.encode([texts[place] for place in plain])
        found = dict(zip(plain, np.split(ids, edges[1:-1]), strict=False))
        encoded = self._whole.encode_batch_fast([texts[p] for p in special], add_special_tokens=False)
        found |= {place: np.array(e.ids, np.int64) for place, e in zip(special, encoded, strict=True)}
        edges = np.concatenate([[0], np.cumsum([len(found[place]) for place in range(len(texts))])])
        return TokenIds(np.concatenate([found[place] for place in range(len(texts))]), edges)

    def _ids(self, distinct: Sequence[str]) -> TokenIds:
        """The ids of each piece."""
        if len(self._known) > _MOST_KNOWN:
            self._known = {}
        known = self._known
        if new := [piece for piece in distinct if piece not in known]:
            if len(new) < _FEW:
                encoded = [self._pieces.encode(piece, add_special_tokens=False) for piece in new]
            else:
                encoded = self._pieces.encode_batch_fast(new, add_special_tokens=False)
            known |= {p: np.array(e.ids, dtype=_STORED).tobytes() for p, e in zip(new, encoded, strict=True)}
        found = [known[piece] for piece in distinct]
        ids = np.frombuffer(b"".join(found), dtype=_STORED).astype(np.int64)
        ends = np.cumsum([0, *map(len, found)]) // _STORED.itemsize
        return TokenIds(ids, ends)


def pieces(texts: Sequence[str], cuts: Cuts = LLAMA) -> tuple[pa.Array, np.ndarray]:
    """The pieces of all texts, one after the other, large_string, and the number of the first piece of each text.

    The numbers, int64, have the number of all pieces at their end.
    """
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)])
    joined = b"".join(data)
    kinds = np.frombuffer(joined.translate(cuts.kinds), dtype=np.uint8)
    pairs = (kinds[:-1] << _BITS | kinds[1:]).tobytes()
    is_end = np.zeros(len(joined) + 1, dtype=bool)
    is_end[1:-1] = np.frombuffer(pairs.translate(cuts.ends), dtype=bool)
    is_end[ends] = True
    edges = np.flatnonzero(is_end)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers), np.searchsorted(edges, ends)
