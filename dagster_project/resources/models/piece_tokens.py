"""Token ids of texts by the ids of their pieces, which repeat where texts do not."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

_BLANK, _LETTER, _SIGN, _ALONE, _OTHER = range(5)
_KIND_OF = {
    " ": _BLANK,
    **dict.fromkeys(string.ascii_letters, _LETTER),
    **dict.fromkeys(string.digits + "\n\t", _ALONE),
}
_KINDS = bytes(_OTHER if byte > 127 else _KIND_OF.get(chr(byte), _SIGN) for byte in range(256))
"""The kind of each byte: digits, tabs and ends of lines stand alone, and what is not ASCII may belong to anything."""
_BITS = 3
"""Bits of a kind beside another one."""


def _ends_between(before: int, after: int) -> bool:
    """True if a piece ends between bytes of two kinds: blanks go with the letters or the signs behind them."""
    begins_blanks = after == _BLANK != before
    return _ALONE in (before, after) or begins_blanks or {before, after} == {_LETTER, _SIGN}


_ENDS = bytes(_ends_between(pair >> _BITS, pair & (1 << _BITS) - 1) for pair in range(256))
_SPECIAL = ("\u2581", "<s>", "</s>", "<unk>")
_MOST_KNOWN = 1 << 19
"""Pieces whose ids are remembered: some 80 MB."""
_FEW = 64
"""New pieces below which they are encoded one after the other."""
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

    def __init__(self, load: Callable[[], Any]):
        """`load` reads the tokenizer, each time anew."""
        from tokenizers import normalizers

        self._load, self._pieces = load, load()
        self._pieces.normalizer = normalizers.Replace(" ", "\u2581")
        self._known: dict[str, bytes] = {}

    @cached_property
    def _whole(self) -> Any:
        """The tokenizer as it is, which few texts need."""
        return self._load()

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text."""
        special = [place for place, text in enumerate(texts) if any(token in text for token in _SPECIAL)]
        if special:
            return self._with_special(texts, special)
        # A blank before the text is the tokenizer's own rule.
        found, edges_of_texts = pieces([f" {text}" if text else text for text in texts])
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

    def _encoded(self, new: Sequence[str]) -> Sequence[Any]:
        """The encodings of pieces; those of a query take less time than its threads to start."""
        if len(new) < _FEW:
            return [self._pieces.encode(piece, add_special_tokens=False) for piece in new]
        return self._pieces.encode_batch_fast(new, add_special_tokens=False)

    def _ids(self, distinct: Sequence[str]) -> TokenIds:
        """The ids of each piece."""
        if len(self._known) > _MOST_KNOWN:
            self._known = {}
        known = self._known
        found = [known.get(piece, b"") for piece in distinct]
        if not all(found):
            new = [piece for piece, ids in zip(distinct, found, strict=True) if not ids]
            encoded = self._encoded(new)
            known |= {p: np.array(e.ids, dtype=_STORED).tobytes() for p, e in zip(new, encoded, strict=True)}
            found = [known[piece] for piece in distinct]
        ids = np.frombuffer(b"".join(found), dtype=_STORED).astype(np.int64)
        ends = np.cumsum([0, *map(len, found)]) // _STORED.itemsize
        return TokenIds(ids, ends)


def pieces(texts: Sequence[str]) -> tuple[pa.Array, np.ndarray]:
    """The pieces of all texts, one after the other, large_string, and the number of the first piece of each text.

    The numbers, int64, have the number of all pieces at their end. No token of the Llama 2 tokenizer reaches over
    the end of a piece.
    """
    data = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, data)])
    joined = b"".join(data)
    kinds = np.frombuffer(joined.translate(_KINDS), dtype=np.uint8)
    pairs = (kinds[:-1] << _BITS | kinds[1:]).tobytes()
    is_end = np.zeros(len(joined) + 1, dtype=bool)
    is_end[1:-1] = np.frombuffer(pairs.translate(_ENDS), dtype=bool)
    is_end[ends] = True
    edges = np.flatnonzero(is_end)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers), np.searchsorted(edges, ends)
