"""Models of sentence-transformers that run on this machine: vectors of texts, and scores of
passages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from assets.protocols.models import Embedded, RerankScores
from dagster_project.extras.transformer.onnx_graph import run_by_onnx
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError, SettingsError, not_installed
from transforms.settings.models import FOLDERS, EmbeddingSettings, SafetySettings
from transforms.settings.search import RerankSettings

_BATCH_TEXTS = 256
"""A stored batch takes some seconds; the library sorts it by length and runs it in batches of 32.
"""
_ENCODING = {"convert_to_numpy": True, "show_progress_bar": False}


class TransformerEmbedder:
    """Vectors as the model's own files say: pooling, prefixes and maximum length, scaled to unit
    length.

    `settings.name` is a folder or a name on the Hugging Face hub; a model of the hub is fetched
    when it is first needed, unless HF_HUB_OFFLINE is set.
    """

    is_paid = remembers = False
    price = 0.0
    budget: int | None = None
    safety: SafetySettings | None = None
    batch_tokens: int | None = None
    device = "cpu"
    """Where the model runs, as PyTorch calls it."""

    def __init__(self, settings: EmbeddingSettings, *_: object):
        """A model of this machine ignores the other arguments of the embedder of a service."""
        self.settings = settings
        self.model, self.dimensions = settings.model_id, settings.dimensions
        self.batch_texts = _BATCH_TEXTS
        self._loaded: Any = None

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that the model reads."""
        return int(self._load().max_seq_length)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with the prefix and the model's own marks, int64."""
        tokenizer = self._load().tokenizer
        prefix = self._prefix()
        token_ids = tokenizer([prefix + t for t in texts], truncation=False, verbose=False)[
            "input_ids"
        ]
        return np.array([len(ids) for ids in token_ids], dtype=np.int64)

    def for_texts(self, count: int) -> TransformerEmbedder:
        """This one, whatever the number of texts."""
        return self

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches in their order."""
        for number, texts in enumerate(batches):
            counts = self.token_counts(texts)
            limit = self.max_tokens or int(counts.max())
            vectors = self.embed_documents(texts)
            yield Embedded(
                number, vectors, int(counts.clip(max=limit).sum()), int((counts > limit).sum())
            )

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors of texts that are searched, float32 of shape (texts, dimensions)."""
        vectors = self._load().encode_document(list(texts), prompt=self._prefix(), **_ENCODING)
        return self._checked(vectors, len(texts))

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors of texts that are searched with, float32 of shape (texts,
        dimensions).
        """
        prefix = (
            self._prompt(self.settings.query_prefix, ("query",)) or self.settings.prefixes.query
        )
        vectors = self._load().encode_query(list(texts), prompt=prefix, **_ENCODING)
        return self._checked(vectors, len(texts))

    def _checked(self, vectors: np.ndarray, count: int) -> np.ndarray:
        return unit_length(np.asarray(vectors, dtype=np.float32).reshape(count, self.dimensions))

    def _prefix(self) -> str:
        """The prefix of a text: that of the settings, else that of the model's files, else that
        known by its name.
        """
        return self._prompt(self.settings.document_prefix, ("document", "passage", "corpus")) or (
            self.settings.prefixes.document
        )

    def _prompt(self, prefix: str | None, names: Sequence[str]) -> str:
        """The prefix that the settings give, or the model's files under one of some names; empty if
        neither does.
        """
        prompts: dict[str, str] = self._load().prompts
        return (
            prefix
            if prefix is not None
            else next((prompts[n] for n in names if prompts.get(n)), "")
        )

    def _load(self) -> Any:
        if self._loaded is None:
            self._loaded = self._open()
            if self.settings.max_tokens is not None:
                self._loaded.max_seq_length = min(
                    self.settings.max_tokens, self._loaded.max_seq_length
                )
        return self._loaded

    def _open(self) -> Any:
        """The model in memory; SettingsError if the library or the model is not there, or is of
        another width.
        """
        settings = self.settings
        try:
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging
        except ImportError as error:
            raise not_installed(error, "transformer") from error
        logging.disable_progress_bar()
        try:
            model = SentenceTransformer(
                settings.name,
                device=self.device,
                revision=None if settings.names_folder else settings.revision,
                local_files_only=settings.names_folder,
            )
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"embedding.name = {settings.name!r} cannot be opened as a sentence-transformers model "
                f"({str(error).splitlines()[0]})"
            ) from error
        width = model.get_embedding_dimension()
        if width != settings.dimensions:
            raise SettingsError(
                f"{settings.name} makes vectors of {width} numbers: write embedding.dimensions = {width}"
            )
        if model.max_seq_length is None:
            raise EmbeddingError(
                f"{settings.name} says no maximum length: set embedding.max_tokens"
            )
        if settings.onnx_file:
            run_by_onnx(model, settings)
        return model


_BATCH = 4
"""Passages between two looks at the clock."""
_PASSAGE_CHARS = 4000
"""Far more than the models read; they cut by tokens."""


def _probability() -> Any:
    """A function that makes a probability of a model's logit."""
    from torch.nn import Sigmoid

    return Sigmoid()


class CrossEncoderScorer:
    """Reads query and passage together; any model with one score, by folder or name on the Hugging
    Face hub.

    Passages are scored in their order until `seconds` are over, the first few always; a score is
    ten times the model's probability. The model is opened when it is first asked; that time does
    not count.
    """

    def __init__(self, settings: RerankSettings, clock: Callable[[], float] = time.monotonic):
        self.settings, self.name, self._clock = settings, str(settings.name), clock
        self._loaded: Any = None

    def scores(self, query: str, titles: Sequence[str], texts: Sequence[str]) -> RerankScores:
        """The scores of the passages that there was time for; SettingsError if the model cannot be
        opened.
        """
        model = self._load()
        pairs = [
            (query, f"{title}\n{text[:_PASSAGE_CHARS]}")
            for title, text in zip(titles, texts, strict=True)
        ]
        end = self._clock() + self.settings.seconds
        scores: list[float] = []
        while len(scores) < len(pairs) and (not scores or self._clock() < end):
            batch = pairs[len(scores) : len(scores) + _BATCH]
            part = model.predict(
                batch, batch_size=_BATCH, show_progress_bar=False, activation_fn=_probability()
            )
            scores += (10 * part.astype(float)).tolist()
        return RerankScores(np.nan_to_num(np.array(scores, dtype=np.float64), nan=-np.inf))

    def _load(self) -> Any:
        if self._loaded is None:
            self._loaded = self._open()
        return self._loaded

    def _open(self) -> Any:
        is_folder = self.name.startswith(FOLDERS)
        name, _, commit = (self.name, "", "") if is_folder else self.name.partition("@")
        try:
            from sentence_transformers import CrossEncoder
            from transformers.utils import logging
        except ImportError as error:
            raise not_installed(error, "transformer") from error
        logging.disable_progress_bar()
        try:
            model = CrossEncoder(
                name, device="cpu", revision=commit or None, local_files_only=is_folder
            )
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"rerank.name = {self.name!r} cannot be opened as a cross-encoder ({str(error).splitlines()[0]})"
            ) from error
        if model.num_labels != 1:
            raise SettingsError(
                f"rerank.name = {self.name!r} gives {model.num_labels} numbers for a passage; a cross-encoder "
                "with one score is needed"
            )
        return model
