"""The static model that ships inside the wordllama package, and tokens counted by its tokenizer."""

from __future__ import annotations

import importlib.util
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from assets.protocols.models import Embedded
from dagster_project.resources.models.piece_tokens import PieceTokenizer
from dagster_project.resources.system.prefetch import ordered_map
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError
from transforms.retrieval.query_language import storable
from transforms.settings.models import EmbeddingSettings, SafetySettings

_CAPITALS = string.ascii_uppercase.encode()
_LETTERS = string.ascii_letters.encode()
_BATCH_TEXTS = 2048
"""Texts per batch; each batch is stored when it is done."""
_MOST_AT_ONCE = 8
"""Batches in memory at once, some 30 MB each."""
_WEIGHTS = "weights/l2_supercat_{}.safetensors"
TOKENIZER = "l2_supercat_tokenizer_config.json"
"""The tokenizer's file; manifests of contexts carry the name."""


class StaticEmbedder:
    """Mean of the token vectors of a text, scaled to unit length (wordllama, 256 dimensions).

    The weights and the tokenizer are read from the installed package, never downloaded. The
    model is case-sensitive, so text that is mostly upper-case is lower-cased first.
    """

    is_paid = remembers = False
    price = 0.0
    budget: int | None = None
    safety: SafetySettings | None = None
    batch_tokens: int | None = None

    def __init__(self, settings: EmbeddingSettings):
        self.model = settings.model_id
        self.dimensions = settings.dimensions
        self.max_tokens = settings.token_limit
        self.batch_texts = _BATCH_TEXTS

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text, int64."""
        tokenizer, _ = _model(self.dimensions)
        return np.diff(tokenizer.encode([_cased(t) for t in texts]).edges)

    def for_texts(self, count: int) -> StaticEmbedder:
        """This one, whatever the number of texts."""
        return self

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches in their order, a few at once on a processor each."""
        tokenizer, _ = _model(self.dimensions)  # by one thread
        try:
            yield from ordered_map(
                lambda numbered: self._embedded(*numbered), enumerate(batches), _MOST_AT_ONCE
            )
        finally:
            tokenizer.forget()

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors, float32 of shape (texts, dimensions); EmbeddingError for a text without tokens."""
        return self._embedded(0, texts).vectors

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """The same as for documents: this model knows no difference."""
        return self.embed_documents(texts)

    def _embedded(self, number: int, texts: Sequence[str]) -> Embedded:
        tokenizer, table = _model(self.dimensions)
        encoded, edges = tokenizer.encode([_cased(t) for t in texts])
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        tokens = truncated = 0
        for row in range(len(texts)):
            ids = encoded[edges[row] : edges[row + 1]]
            if not len(ids):
                raise EmbeddingError(f"a text without any token cannot be embedded: {texts[row][:80]!r}")
            if self.max_tokens is not None and len(ids) > self.max_tokens:
                ids, truncated = ids[: self.max_tokens], truncated + 1
            np.add.reduce(table.take(ids, axis=0), axis=0, out=vectors[row])
            tokens += len(ids)
        return Embedded(number, unit_length(vectors), tokens, truncated)


@cache
def _model(dimensions: int) -> tuple[PieceTokenizer, np.ndarray]:
    """The tokenizer and the vectors of its tokens, float32, read once per process."""
    # Not by wordllama itself, whose import loads what downloads models.
    weights = load_file(_in_package(_WEIGHTS.format(dimensions)))
    return PieceTokenizer(read_tokenizer), weights["embedding.weight"].astype(np.float32)


def read_tokenizer() -> Any:
    """The tokenizer alone, without weights; it adds and cuts nothing."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_in_package(f"tokenizers/{TOKENIZER}")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


load_tokenizer = cache(read_tokenizer)
"""`read_tokenizer`, once per process."""


def _in_package(file: str) -> Path:
    """A file of the wordllama package."""
    package = importlib.util.find_spec("wordllama")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / file


def _cased(text: str) -> str:
    """`text` as `storable`, in lower case where most of its first letters are capitals (of those of ASCII)."""
    text = storable(text)
    head = text[:400].encode("ascii", "ignore")
    letters = len(head) - len(head.translate(None, _LETTERS))
    capitals = len(head) - len(head.translate(None, _CAPITALS))
    return text.lower() if capitals * 2 > letters else text


class PackagedTokenCounter:
    """Counts tokens with the Llama 2 tokenizer inside the wordllama package."""

    name = TOKENIZER.removesuffix("_tokenizer_config.json")

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without those that a model adds at its ends."""
        encoded = load_tokenizer().encode_batch_fast(list(texts), add_special_tokens=False)
        return [len(e.ids) for e in encoded]
