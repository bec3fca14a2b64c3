"""Embedding models: the static model that ships inside the wordllama package."""

from __future__ import annotations

import logging
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assets.protocols import Embedder
from transforms.errors import EmbeddingError
from transforms.settings import EmbeddingSettings

_CAPITALS = string.ascii_uppercase.encode()
_LETTERS = string.ascii_letters.encode()


class StaticEmbedder:
    """Mean of the token vectors of a text, scaled to unit length (wordllama, 256 dimensions).

    The weights and the tokenizer are read from the installed package, never downloaded. The
    model is case-sensitive, so text that is mostly upper-case is lower-cased first.
    """

    def __init__(self, settings: EmbeddingSettings):
        self.model = settings.model_id
        self.dimensions = settings.dimensions
        self._loaded: tuple[Any, np.ndarray] | None = None

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors, float32 of shape (texts, dimensions); EmbeddingError for a text without tokens."""
        tokenizer, table = self._load()
        encoded = tokenizer.encode_batch_fast([_cased(t) for t in texts], add_special_tokens=False)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for row, encoding in enumerate(encoded):
            if not encoding.ids:
                raise EmbeddingError(f"a text without any token cannot be embedded: {texts[row][:80]!r}")
            np.add.reduce(table.take(encoding.ids, axis=0), axis=0, out=vectors[row])
        return unit_length(vectors)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """The same as for documents: this model knows no difference."""
        return self.embed_documents(texts)

    def _load(self) -> tuple[Any, np.ndarray]:
        if self._loaded is None:
            level = logging.root.level
            handlers = list(logging.root.handlers)
            import wordllama

            logging.root.handlers[:] = handlers
            logging.root.setLevel(level)
            folder = Path(wordllama.__file__).parent
            model = wordllama.WordLlama.load(dim=self.dimensions, cache_dir=folder, disable_download=True)
            model.tokenizer.no_padding()
            model.tokenizer.no_truncation()
            self._loaded = model.tokenizer, model.embedding
        return self._loaded


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """`vectors` scaled to length 1; EmbeddingError where one is zero or not finite."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms == 0).any():
        position = int(np.flatnonzero(~(np.isfinite(norms) & (norms > 0)).ravel())[0])
        raise EmbeddingError(
            f"the model returned a zero or non-finite vector for text {position} of the batch"
        )
    return np.asarray(vectors / norms, dtype=np.float32)


def make_embedder(settings: EmbeddingSettings) -> Embedder:
    """The embedder that the settings name."""
    return StaticEmbedder(settings)


def _cased(text: str) -> str:
    """`text`, in lower case where most of its first letters are capitals (of those of ASCII)."""
    head = text[:400].encode("ascii", "ignore")
    letters = len(head) - len(head.translate(None, _LETTERS))
    capitals = len(head) - len(head.translate(None, _CAPITALS))
    return text.lower() if capitals * 2 > letters else text
