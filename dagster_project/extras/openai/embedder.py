"""Vectors by an endpoint that speaks OpenAI's protocol (`POST embeddings`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assets.protocols.models import Embedded
from dagster_project.extras.openai.service import OpenAIService, RefusedRequestError
from dagster_project.models.static import load_tokenizer
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.vectors import batch_ranges, unit_length
from transforms.errors import RefusedTextError, ServiceError
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings
from transforms.text.redaction import screened

_HARMLESS = "The weather is fine today."
"""Embedded to tell a request that is wrong as such from one with a text that is refused."""
_PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
"""US dollars per million tokens at OpenAI; others are taken to cost nothing."""


class OpenAIEmbedder:
    """Vectors of a model behind the endpoint, scaled to unit length.

    Texts have the prefixes of the settings, else those known of the model by its name. They are screened as `safety` says,
    and cut at `embedding.max_tokens`, counted with the tokenizer of the static model.
    """

    is_paid, remembers = True, False

    def __init__(
        self,
        settings: EmbeddingSettings,
        limits: GeminiSettings,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is not used: the protocol has none."""
        self.settings = settings
        self.safety: SafetySettings | None = safety
        self.model, self.dimensions = settings.model_id, settings.dimensions
        self.max_tokens: int | None = settings.max_tokens
        self.batch_texts = limits.request_texts
        self.batch_tokens: int | None = limits.request_tokens
        self.price = _PRICES.get(settings.name or "", 0.0)
        self._budget = budget or RunBudget(limits.budget_tokens)
        self.service = OpenAIService(limits)

    @property
    def budget(self) -> int | None:
        """Tokens that the run may still take."""
        return self._budget.left

    def for_texts(self, count: int) -> OpenAIEmbedder:
        """This one, whatever the number of texts."""
        return self

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with what is put before it, int64; an estimate."""
        return np.array([len(e.ids) for e in self._encoded(texts)], dtype=np.int64)

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches in their order, several requests under way at once."""
        return self.service.results(self._job(n, texts) for n, texts in enumerate(batches))

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors of texts that are searched, float32 of shape (texts, dimensions)."""
        return self._in_order(texts, self.settings.prefixes.document)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Unit-length vectors of texts that are searched with; RefusedTextError names those that are refused."""
        return self._in_order(texts, self.settings.prefixes.query)

    def _in_order(self, texts: Sequence[str], prefix: str) -> np.ndarray:
        texts = [prefix + text for text in self._cut(texts)[0]]
        made = np.empty((len(texts), self.dimensions), dtype=np.float32)
        refused: dict[int, str] = {}
        counts = self.token_counts(texts).tolist()
        for part in batch_ranges(counts, self.batch_texts, self.batch_tokens):
            made[part.start : part.stop], why = self._vectors([texts[i] for i in part])
            refused |= {part.start + place: reason for place, reason in why.items()}
        if refused:
            raise RefusedTextError(
                f"{self.model} refuses a text: {next(iter(refused.values()))}", refused, made
            )
        return made

    def _job(self, number: int, texts: Sequence[str]) -> Callable[[], Embedded]:
        """One batch."""

        def run() -> Embedded:
            cut, tokens, truncated = self._cut(texts)
            vectors, refused = self._vectors([self.settings.prefixes.document + text for text in cut])
            self._budget.spend(tokens)
            return Embedded(number, vectors, tokens, truncated, 1, refused)

        return run

    def _vectors(self, texts: Sequence[str], *, is_part: bool = False) -> tuple[np.ndarray, dict[int, str]]:
        """The vectors of texts, zeros for those that are refused, with the reasons; a refused request is halved."""
        try:
            return self._answered(texts), {}
        except RefusedRequestError as fault:
            if not is_part:
                self._answered([_HARMLESS])  # raises, if it is no text that is wrong
            if len(texts) == 1:
                return np.zeros((1, self.dimensions), dtype=np.float32), {0: str(fault)}
        middle = len(texts) // 2
        first, why = self._vectors(texts[:middle], is_part=True)
        last, why_last = self._vectors(texts[middle:], is_part=True)
        return np.concatenate([first, last]), why | {
            middle + place: reason for place, reason in why_last.items()
        }

    def _answered(self, texts: Sequence[str]) -> np.ndarray:
        body: dict[str, Any] = {"model": self.settings.name, "input": list(texts), "encoding_format": "float"}
        if self.settings.name in _PRICES:
            body["dimensions"] = self.dimensions
        return self.service.answer("embeddings", body, lambda answer: self._checked(answer, len(texts)))

    def _checked(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer in the order of the texts; ValueError if they are not what was asked for."""
        rows = sorted(answer["data"], key=lambda row: row["index"])
        found = np.array([row["embedding"] for row in rows], dtype=np.float64)
        if len(found) != count:
            raise ValueError("as many vectors as texts")
        if found.ndim != 2 or found.shape[1] != self.dimensions:
            raise ServiceError(
                f"{self.settings.name} makes vectors of {found.shape[-1]} numbers: write embedding.dimensions = "
                f"{found.shape[-1]}"
            )
        if not np.isfinite(found).all() or not found.any(axis=1).all():
            raise ValueError("vectors with a direction")
        return unit_length(found)

    def _cut(self, texts: Sequence[str]) -> tuple[list[str], int, int]:
        """The texts as they may be sent, their tokens, and how many were cut."""
        texts = screened(texts, self.safety).texts if self.safety else texts
        encoded, limit = self._encoded(texts), self.max_tokens
        counts = [len(e.ids) for e in encoded]
        if limit is None:
            return list(texts), sum(counts), 0
        cut = [
            text[: e.offsets[limit - 1][1]] if n > limit else text
            for text, e, n in zip(texts, encoded, counts, strict=True)
        ]
        return cut, sum(min(n, limit) for n in counts), sum(n > limit for n in counts)

    def _encoded(self, texts: Sequence[str]) -> Any:
        return load_tokenizer().encode_batch(list(texts), add_special_tokens=False)
