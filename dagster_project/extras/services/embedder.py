"""Vectors by a model service: texts are screened and cut, and refused ones are found among others."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from assets.protocols.models import Embedded
from dagster_project.extras.services.service import Call, RefusedError, Service
from dagster_project.models.static import load_tokenizer
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.vectors import batch_ranges
from transforms.errors import RefusedTextError
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings
from transforms.text.redaction import screened
from transforms.text.visible import is_picture

DOCUMENT, QUERY = "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"
_HARMLESS = "The weather is fine today."
"""Embedded to tell a request that is wrong as such from one with a text that is refused."""
_HARMLESS_TOKENS = 16
_PICTURES = 6
"""Pictures of a request: the limit of Google's service."""
_PICTURE_TOKENS = 600
"""Tokens of a picture: its 258 tokens cost as much as so many of text."""


class RemoteEmbedder(ABC):
    """Vectors by a service, scaled to unit length; a subclass sends a request and reads its answer.

    Tokens are counted here with the tokenizer of the static model: its 32,000 pieces are fewer and
    shorter than Gemini's, so that a text has fewer tokens there than are counted here. A text
    longer than the limit is cut before it is sent. Secrets and personal data in texts and queries
    are masked or held back as `safety` says.
    """

    is_paid, remembers = True, False
    price: float
    service: Service
    batch_tokens: int | None

    def __init__(
        self,
        settings: EmbeddingSettings,
        limits: GeminiSettings,
        safety: SafetySettings,
        budget: RunBudget | None,
    ):
        self.settings = settings
        self.safety: SafetySettings | None = safety
        self.model, self.dimensions = settings.model_id, settings.dimensions
        self.name = settings.name or ""
        self.max_tokens: int | None = settings.token_limit
        self.batch_texts = limits.request_texts
        self.prefixes = {DOCUMENT: settings.prefixes.document, QUERY: settings.prefixes.query}
        self._budget = budget or RunBudget(limits.budget_tokens)

    @abstractmethod
    async def request(self, client: Any, texts: list[str], task: str) -> Any:
        """The answer of the service to a request for the vectors of texts."""

    @abstractmethod
    def vectors(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer, of unit length; EmbeddingError or ValueError if they do not fit
        the request.
        """

    def for_texts(self, count: int) -> RemoteEmbedder:
        """This one, whatever the number of texts."""
        return self

    @property
    def budget(self) -> int | None:
        """Tokens that the run may still take."""
        return self._budget.left

    def _screened(self, texts: Sequence[str]) -> list[str]:
        """The texts as they may be sent; those that are stored were screened before and stay as
        they are.
        """
        return screened(texts, self.safety).texts if self.safety else list(texts)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with its prefix, int64; more than the service will count."""
        prefix, *counts = (
            len(e.ids) for e in self._encoded([self.prefixes[DOCUMENT], *map(_words, texts)])
        )
        pictures = np.array([is_picture(text) for text in texts], dtype=bool)
        return np.where(pictures, _PICTURE_TOKENS, np.array(counts, dtype=np.int64) + prefix)

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as the service answers, several requests under way at once."""
        return self.service.results(
            self._job(n, texts, DOCUMENT) for n, texts in enumerate(batches)
        )

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched (task type RETRIEVAL_DOCUMENT)."""
        return self._in_order(texts, DOCUMENT)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched with (task type RETRIEVAL_QUERY)."""
        return self._in_order(texts, QUERY)

    def _in_order(self, texts: Sequence[str], task: str) -> np.ndarray:
        texts = self._screened(texts)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        refused: dict[int, str] = {}
        for part in batch_ranges(self._cut(texts, task)[1], self.batch_texts, self.batch_tokens):
            done = self.service.result(self._job(0, [texts[i] for i in part], task))
            refused |= {part.start + place: why for place, why in done.refused.items()}
            vectors[part.start : part.stop] = done.vectors
        if refused:
            raise RefusedTextError(
                f"{self.model} refuses a text: {next(iter(refused.values()))}", refused, vectors
            )
        return vectors

    def _job(self, batch: int, texts: Sequence[str], task: str) -> Call[Embedded]:
        async def run(client: Any) -> Embedded:
            sent, counts, truncated = self._cut(self._screened(texts), task)
            sending = Sending(self, client, sent, counts, task)
            await sending.fill()
            tokens = sum(
                count for place, count in enumerate(counts) if place not in sending.refused
            )
            self._budget.spend(tokens)
            return Embedded(
                batch, sending.vectors, tokens, truncated, sending.calls, sending.refused
            )

        return run

    def _cut(self, texts: Sequence[str], task: str) -> tuple[list[str], list[int], int]:
        """The texts within the limit, their tokens with their prefixes, and how many were cut."""
        before, *encoded = self._encoded([self.prefixes[task], *map(_words, texts)])
        prefix = len(before.ids)
        limit = sys.maxsize if self.max_tokens is None else max(1, self.max_tokens - prefix)
        cut, counts, truncated = [], [], 0
        for text, encoding in zip(texts, encoded, strict=True):
            if is_picture(text):
                cut.append(text)
                counts.append(_PICTURE_TOKENS)
                continue
            is_long = len(encoding.ids) > limit
            cut.append(text[: encoding.offsets[limit - 1][1]] if is_long else text)
            counts.append(min(len(encoding.ids), limit) + prefix)
            truncated += is_long
        return cut, counts, truncated

    def _encoded(self, texts: Sequence[str]) -> Any:
        return load_tokenizer().encode_batch(list(texts), add_special_tokens=False)


class Sending:
    """One batch under way: the vectors so far, the refused texts by place, the calls."""

    def __init__(
        self, embedder: RemoteEmbedder, client: Any, texts: list[str], counts: list[int], task: str
    ):
        self.embedder, self.client, self.task = embedder, client, task
        self.texts, self.counts = texts, counts
        self.vectors = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
        self.refused: dict[int, str] = {}
        self.calls = 0

    async def fill(self) -> None:
        """Set the vectors; halves parts that the service refuses until the refused texts are found.

        RefusedError if it refuses a harmless text as well: then the fault is not in a text.
        """
        pictures = [int(is_picture(text)) for text in self.texts]
        for part in batch_ranges(pictures, len(pictures), _PICTURES):
            await self._send(part, is_whole=True)

    async def _send(self, part: range, *, is_whole: bool) -> None:
        """Set the vectors of a part, else of its halves; a text that is refused alone has the
        reason.
        """
        span = slice(part.start, part.stop)
        try:
            self.vectors[span] = await self._answered(self.texts[span], self.counts[span])
        except RefusedError as fault:
            if is_whole:
                await self._answered([_HARMLESS], [_HARMLESS_TOKENS])
            if len(part) == 1:
                self.refused[part.start] = str(fault)
                return
            for half in (part[: len(part) // 2], part[len(part) // 2 :]):
                await self._send(half, is_whole=False)

    async def _answered(self, texts: list[str], counts: list[int]) -> np.ndarray:
        """The vectors of texts of so many tokens; RefusedError if the service will not embed them."""
        embedder = self.embedder
        try:
            vectors, calls = await embedder.service.answer(
                self.client,
                len(texts),
                sum(counts),
                lambda client: embedder.request(client, texts, self.task),
                lambda answer: embedder.vectors(answer, len(texts)),
            )
        except RefusedError:
            self.calls += 1
            raise
        self.calls += calls
        return vectors


def _words(text: str) -> str:
    """The words of a text to count; empty for a picture."""
    return "" if is_picture(text) else text
