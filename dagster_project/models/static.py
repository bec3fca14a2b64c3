"""Static models: tables of token vectors, and token ids of texts by the ids of their pieces, which
repeat.
"""

from __future__ import annotations

import importlib.util
import json
import re
import string
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from safetensors.numpy import load_file

from assets.protocols.models import Embedded
from dagster_project.system.long_work import ordered_map
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError
from transforms.settings.models import MULTILINGUAL, EmbeddingSettings, SafetySettings
from transforms.text.storable import storable

_BLANK, _LETTER, _SIGN, _ALONE, _OTHER = range(5)
_BITS = 3
"""Bits of a kind beside another one."""


class Cuts:
    """Where texts are cut into pieces: the kind of each byte, and whether a piece ends between two
    kinds.

    `kinds` has the bytes that are blanks, letters, signs and by themselves, `other` is the kind of
    the rest of ASCII; others may belong to anything. A text that has one of `special` is not cut.
    """

    def __init__(
        self, kinds: Sequence[str], other: int, ends: Callable[[int, int], bool], *special: str
    ):
        kind_of = {sign: kind for kind, signs in enumerate(kinds) for sign in signs}
        self.kinds = bytes(
            _OTHER if byte > 127 else kind_of.get(chr(byte), other) for byte in range(256)
        )
        self.ends = bytes(ends(pair >> _BITS, pair & (1 << _BITS) - 1) for pair in range(256))
        self.special = special


def _llama_ends(before: int, after: int) -> bool:
    """Blanks go with the letters or the signs behind them; digits, tabs and ends of lines stand
    alone.
    """
    begins_blanks = after == _BLANK != before
    return _ALONE in (before, after) or begins_blanks or {before, after} == {_LETTER, _SIGN}


_BLANKS = " \t\r\n"
LLAMA = Cuts(
    (" ", string.ascii_letters, "", string.digits + "\n\t"),
    _SIGN,
    _llama_ends,
    "\u2581",
    "<s>",
    "</s>",
    "<unk>",
)
BERT = Cuts(
    (_BLANKS, string.ascii_letters + string.digits, "", string.punctuation),
    _OTHER,  # control characters, which the tokenizer leaves out
    lambda before, after: _ALONE in (before, after) or (before == _BLANK) != (after == _BLANK),
)
_IN_VOCABULARY = re.compile(
    rf"[A-Za-z0-9]+|[{re.escape(string.punctuation)}]|[{_BLANKS}]+"
).fullmatch
"""Whether a piece for BERT is a word of its vocabulary or consists of such words, or is blank,
which has no token.
"""
_MOST_KNOWN = 1 << 19
"""Pieces whose ids are remembered: some 80 MB."""
_HEAD, _LONGEST = 4, 100
"""First letters by which a word is seen to begin with no longer token, as hashes do; letters of
BERT's longest word.
"""
_FEW = 1000
"""Pieces, those of queries, up to which it takes longer to prepare for many."""
_STORED = np.dtype(np.int32)
"""Type of remembered ids; joined as bytes they take a third of the time of lists."""


class TokenIds(NamedTuple):
    """The ids of all texts, one text after the other, int64; text n has those from `edges[n]` to
    `edges[n + 1]`.
    """

    ids: np.ndarray
    edges: np.ndarray


class PieceTokenizer:
    """The ids that a tokenizer gives, special tokens not added, at some six times its speed.

    The tokenizer merges bytes over the whole of a text, at 2 MB/s. Merging stops at the ends of
    `pieces`, so each distinct piece is encoded once and remembered. Texts that spell a special
    token are left to the tokenizer whole.
    """

    def __init__(self, load: Callable[[], Any], cuts: Cuts = LLAMA, words: Path | None = None):
        """`load` reads the tokenizer at each call; no token of it reaches over the cuts. `words` is the
        file of a tokenizer whose words are looked up here.
        """
        self._load, self._cuts = load, cuts
        self._cache: dict[str, bytes] = {}
        self._vocabulary: dict[str, int] = {}
        if words is not None:
            self._vocabulary = json.loads(words.read_bytes())["model"]["vocab"]

    @cached_property
    def _pieces(self) -> Any:
        from tokenizers import normalizers

        tokenizer = self._load()
        if self._cuts is LLAMA:
            tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        return tokenizer

    @cached_property
    def _heads(self) -> set[str]:
        return {token[: _HEAD + 2 * token.startswith("##")] for token in self._vocabulary}

    @cached_property
    def _whole(self) -> Any:
        """The tokenizer as it is, which few texts need."""
        return self._load()

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """The token ids of each text."""
        special = [
            n for n, text in enumerate(texts) if any(token in text for token in self._cuts.special)
        ]
        if special:
            return self._with_special(texts, special)
        first = " " if self._cuts is LLAMA else ""  # the tokenizer's own rule
        pieces_of, edges_of_texts = text_pieces(
            [first + text if text else text for text in texts], self._cuts
        )
        if len(pieces_of) <= _FEW:  # without the functions of Arrow, which take 25 ms to load
            ids, edges = self._ids(pieces_of.to_pylist())
            return TokenIds(ids, edges[edges_of_texts])
        pieces_of = pieces_of.dictionary_encode()
        distinct, edges = self._ids(pieces_of.dictionary.to_pylist())
        codes = pieces_of.indices.to_numpy()
        count = np.diff(edges)[codes]
        until = np.concatenate([[0], np.cumsum(count)])
        place = np.arange(until[-1]) + np.repeat(edges[codes] - until[:-1], count)
        return TokenIds(distinct[place], until[edges_of_texts])

    def forget(self) -> None:
        """Let go of the ids of pieces, which are computed again when they are needed."""
        self._cache = {}

    def _with_special(self, texts: Sequence[str], special: Sequence[int]) -> TokenIds:
        """The ids of texts where those at the places `special` spell special tokens."""
        plain = sorted(set(range(len(texts))) - set(special))
        ids, edges = self.encode([texts[place] for place in plain])
        ids_of = dict(zip(plain, np.split(ids, edges[1:-1]), strict=False))
        encoded = self._whole.encode_batch_fast(
            [texts[p] for p in special], add_special_tokens=False
        )
        ids_of |= {
            place: np.array(e.ids, np.int64) for place, e in zip(special, encoded, strict=True)
        }
        edges = np.concatenate(
            [[0], np.cumsum([len(ids_of[place]) for place in range(len(texts))])]
        )
        return TokenIds(np.concatenate([ids_of[place] for place in range(len(texts))]), edges)

    def _ids(self, distinct: Sequence[str]) -> TokenIds:
        if len(self._cache) > _MOST_KNOWN:
            self._cache = {}
        ids_of = self._cache
        new = [piece for piece in distinct if piece not in ids_of]
        if self._vocabulary:
            heads = self._heads if len(new) > _FEW else None
            ids_of |= {
                w: self._of_word(w.strip(_BLANKS).lower(), heads) for w in new if _IN_VOCABULARY(w)
            }
            new = [piece for piece in new if piece not in ids_of]
        if new:
            encoded = self._pieces.encode_batch_fast(new, add_special_tokens=False)
            ids_of |= {
                p: np.array(e.ids, dtype=_STORED).tobytes()
                for p, e in zip(new, encoded, strict=True)
            }
        stored = [ids_of[piece] for piece in distinct]
        ids = np.frombuffer(b"".join(stored), dtype=_STORED).astype(np.int64)
        ends = np.cumsum([0, *map(len, stored)]) // _STORED.itemsize
        return TokenIds(ids, ends)

    def _of_word(self, word: str, heads: set[str] | None) -> bytes:
        """The ids of the longest parts of a word, one behind the other (WordPiece), in a third of
        the tokenizer's time.
        """
        if len(word) > _LONGEST:
            return _NO_TOKEN.astype(_STORED).tobytes()
        ids, start, before = array("i"), 0, ""
        while start < len(word):
            is_long = heads is None or before + word[start : start + _HEAD] in heads
            end = len(word) if is_long else min(len(word), start + _HEAD - 1)
            while end > start and (token := self._vocabulary.get(before + word[start:end], -1)) < 0:
                end -= 1
            if end == start:
                return _NO_TOKEN.astype(_STORED).tobytes()
            ids.append(token)
            start, before = end, "##"
        return ids.tobytes()


def text_pieces(texts: Sequence[str], cuts: Cuts = LLAMA) -> tuple[pa.Array, np.ndarray]:
    """The pieces of all texts, one after the other, large_string, and the number of the first piece
    of each text.

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
    return pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers), np.searchsorted(
        edges, ends
    )


_CAPITALS = string.ascii_uppercase.encode()
_SMALL = string.ascii_lowercase.encode()
_BATCH_TEXTS = 2048
"""Texts per batch; each batch is stored when it is done."""
_MOST_AT_ONCE = 8
"""Batches in memory at once, some 30 MB each."""
_OWN = {
    "weft": Path(__file__).with_name("weft_table"),
    MULTILINGUAL: Path(__file__).with_name("weft_multilingual_table"),
}
"""The folders of Weft's own tables."""
_NO_TOKEN = np.array([1])
"""The unknown token, for a text of nothing but blanks and control characters."""


class StaticEmbedder:
    """Mean of the token vectors of a text, scaled to unit length (256 dimensions).

    The weights and the tokenizer are read from an installed package, never downloaded. `static`,
    wordllama's, is case-sensitive, so text that is mostly upper-case is lower-cased first; `weft`
    and `weft-multilingual` know no case.
    """

    is_paid = remembers = False
    price = 0.0
    budget: int | None = None
    safety: SafetySettings | None = None
    batch_tokens: int | None = None

    def __init__(self, settings: EmbeddingSettings):
        self.model, self.dimensions = settings.model_id, settings.dimensions
        self._kind, self._read = settings.model, _cased if settings.model == "static" else storable
        self.max_tokens = settings.token_limit
        self.batch_texts = _BATCH_TEXTS

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text, int64."""
        return np.diff(_tokenizer(self._kind).encode([self._read(t) for t in texts]).edges)

    def for_texts(self, count: int) -> StaticEmbedder:
        """This one, whatever the number of texts."""
        return self

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches in their order, a few at once on a processor each."""
        tokenizer = _tokenizer(self._kind)  # by one thread
        try:
            yield from ordered_map(lambda n: self._embedded(*n), enumerate(batches), _MOST_AT_ONCE)
        finally:
            tokenizer.forget()

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors, float32 of shape (texts, dimensions); EmbeddingError for a text
        without tokens.
        """
        return self._embedded(0, texts).vectors

    embed_queries = embed_documents

    def _embedded(self, number: int, texts: Sequence[str]) -> Embedded:
        encoded, edges = _tokenizer(self._kind).encode([self._read(t) for t in texts])
        rows, scale = _table(self._kind, is_whole=self._kind == "static" or len(encoded) > _FEW)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens = truncated = 0
        for row in range(len(texts)):
            ids = encoded[edges[row] : edges[row + 1]]
            if not texts[row]:
                raise EmbeddingError(
                    f"an empty text cannot be embedded: text {row} of {len(texts)}"
                )
            truncated += self.max_tokens is not None and len(ids) > self.max_tokens
            ids = ids[: self.max_tokens] if len(ids) else _NO_TOKEN
            own = rows.take(ids, axis=0)
            np.add.reduce(
                own if scale is None else own * scale.take(ids, axis=0), axis=0, out=vectors[row]
            )
            tokens += len(ids)
        return Embedded(number, unit_length(vectors), tokens, truncated)


def new_tokenizer(kind: str) -> PieceTokenizer:
    """The tokenizer of a table by pieces, which remembers nothing yet."""
    load = partial(read_tokenizer, kind)
    if kind in _OWN:
        return PieceTokenizer(load, BERT, _OWN[kind] / "tokenizer.json")
    return PieceTokenizer(load)


_tokenizer = cache(new_tokenizer)


@cache
def _table(kind: str, *, is_whole: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """The vectors of tokens, float32; or numbers of 8 bits and a factor for each token, unless
    `is_whole`.
    """
    if kind in _OWN:
        own = load_file(_OWN[kind] / "table.safetensors")
        rows, scale = own["rows"], own["scale"][:, None]
        return (rows * scale, None) if is_whole else (rows, scale)
    # Not by wordllama itself, whose import loads modules that download models.
    weights = load_file(_in_package("weights/l2_supercat_256.safetensors"))
    return weights["embedding.weight"].astype(np.float32), None


def read_tokenizer(kind: str = "static") -> Any:
    """The tokenizer of a table alone, without weights; it adds and cuts nothing."""
    from tokenizers import Tokenizer

    of_wordllama = _in_package("tokenizers/l2_supercat_tokenizer_config.json")
    tokenizer = Tokenizer.from_file(
        str(_OWN[kind] / "tokenizer.json" if kind in _OWN else of_wordllama)
    )
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


load_tokenizer = cache(read_tokenizer)
"""`read_tokenizer`, once per process."""


class PackagedTokenCounter:
    """Counts tokens with the Llama 2 tokenizer inside the wordllama package."""

    name = "l2_supercat"
    """Manifests of contexts carry it."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without those that a model adds at its ends."""
        encoded = load_tokenizer().encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(e.ids) for e in encoded]


def _in_package(file: str) -> Path:
    package = importlib.util.find_spec("wordllama")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / file


def _cased(text: str) -> str:
    """`text` as `storable`, in lower case where most of its first letters are capitals (of those of
    ASCII).
    """
    text = storable(text)
    head = text[:400].encode("ascii", "ignore")
    return (
        text.lower()
        if len(head.translate(None, _SMALL)) > len(head.translate(None, _CAPITALS))
        else text
    )
