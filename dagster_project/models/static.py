"""Static models: tables of token vectors, one that ships with Weft and one inside the wordllama package."""

from __future__ import annotations

import importlib.util
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from assets.protocols.models import Embedded
from dagster_project.models.piece_tokens import BERT, PieceTokenizer
from dagster_project.system.long_work import ordered_map
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError
from transforms.retrieval.query_language import storable
from transforms.settings.models import EmbeddingSettings, SafetySettings

_CAPITALS = string.ascii_uppercase.encode()
_SMALL = string.ascii_lowercase.encode()
_BATCH_TEXTS = 2048
"""Texts per batch; each batch is stored when it is done."""
_MOST_AT_ONCE = 8
"""Batches in memory at once, some 30 MB each."""
_OWN = Path(__file__).with_name("weft_table")
_NO_TOKEN = np.array([1])
"""The unknown token, for a text of nothing but blanks and control characters."""


class StaticEmbedder:
    """Mean of the token vectors of a text, scaled to unit length (256 dimensions).

    The weights and the tokenizer are read from an installed package, never downloaded. `static`, wordllama's, is
    case-sensitive, so text that is mostly upper-case is lower-cased first; `weft` knows no case.
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
        tokenizer, _ = _model(self._kind)
        return np.diff(tokenizer.encode([self._read(t) for t in texts]).edges)

    def for_texts(self, count: int) -> StaticEmbedder:
        """This one, whatever the number of texts."""
        return self

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches in their order, a few at once on a processor each."""
        tokenizer, _ = _model(self._kind)  # by one thread
        try:
            yield from ordered_map(lambda n: self._embedded(*n), enumerate(batches), _MOST_AT_ONCE)
        finally:
            tokenizer.forget()

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors, float32 of shape (texts, dimensions); EmbeddingError for a text without tokens."""
        return self._embedded(0, texts).vectors

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """The same as for documents: this model knows no difference."""
        return self.embed_documents(texts)

    def _embedded(self, number: int, texts: Sequence[str]) -> Embedded:
        tokenizer, table = _model(self._kind)
        encoded, edges = tokenizer.encode([self._read(t) for t in texts])
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens = truncated = 0
        for row in range(len(texts)):
            ids = encoded[edges[row] : edges[row + 1]]
            if not texts[row]:
                raise EmbeddingError(f"an empty text cannot be embedded: text {row} of {len(texts)}")
            if not len(ids):
                ids = _NO_TOKEN
            if self.max_tokens is not None and len(ids) > self.max_tokens:
                ids, truncated = ids[: self.max_tokens], truncated + 1
            np.add.reduce(table.take(ids, axis=0), axis=0, out=vectors[row])
            tokens += len(ids)
        return Embedded(number, unit_length(vectors), tokens, truncated)


@cache
def _model(kind: str) -> tuple[PieceTokenizer, np.ndarray]:
    """The tokenizer and the vectors of its tokens, float32, read once per process."""
    if kind == "weft":
        own = load_file(_OWN / "table.safetensors")
        return PieceTokenizer(partial(read_tokenizer, kind), BERT), own["rows"] * own["scale"][:, None]
    # Not by wordllama itself, whose import loads what downloads models.
    weights = load_file(_in_package("weights/l2_supercat_256.safetensors"))
    return PieceTokenizer(read_tokenizer), weights["embedding.weight"].astype(np.float32)


def read_tokenizer(kind: str = "static") -> Any:
    """The tokenizer of a table alone, without weights; it adds and cuts nothing."""
    from tokenizers import Tokenizer

    of_wordllama = _in_package("tokenizers/l2_supercat_tokenizer_config.json")
    tokenizer = Tokenizer.from_file(str(_OWN / "tokenizer.json" if kind == "weft" else of_wordllama))
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
    """A file of the wordllama package."""
    package = importlib.util.find_spec("wordllama")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / file


def _cased(text: str) -> str:
    """`text` as `storable`, in lower case where most of its first letters are capitals (of those of ASCII)."""
    text = storable(text)
    head = text[:400].encode("ascii", "ignore")
    return text.lower() if len(head.translate(None, _SMALL)) > len(head.translate(None, _CAPITALS)) else text
