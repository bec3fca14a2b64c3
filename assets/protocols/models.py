"""Protocols of embedders, language models and rerankers, and of the caches of their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from pydantic import BaseModel

# A search knows the protocols and nothing of what makes an index, which takes seconds to import.
if TYPE_CHECKING:
    from transforms.settings.models import SafetySettings

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class Embedded:
    """The vectors of one batch of texts.

    `batch` is its number in the order in which batches were asked for, `vectors` are float32 of
    shape (texts, dimensions), `refused` names the texts that the model will not embed, by place in
    the batch: their vectors are worthless. `calls` are requests to a service.
    """

    batch: int
    vectors: np.ndarray
    tokens: int
    truncated: int = 0
    calls: int = 0
    refused: Mapping[int, str] = field(default_factory=dict)


class Embedder(Protocol):
    """Makes unit-length vectors of texts.

    A text of more than `max_tokens` tokens is cut there; None means that no text is too long. A
    batch holds at most `batch_texts` texts and, where it is not None, `batch_tokens` tokens. If it
    `is_paid`, a million tokens cost `price` US dollars. If it `remembers` requests of a killed run,
    these are not paid for again. `safety` says how texts are screened before they leave this
    machine; None where they stay on it.
    """

    model: str
    dimensions: int
    batch_texts: int
    batch_tokens: int | None
    is_paid: bool
    remembers: bool
    price: float
    safety: SafetySettings | None

    @property
    def budget(self) -> int | None:
        """Tokens that a run may still take; None where nothing is paid."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that are embedded."""

    def for_texts(self, count: int) -> Embedder:
        """The embedder to use for so many texts."""

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text before it is cut, int64; an upper estimate where the model is
        elsewhere.
        """

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as they are done, in any order; each is asked for when there is room for it."""

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched, float32 of shape (texts, dimensions)."""

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched with, float32 of shape (texts, dimensions).

        RefusedTextError names the texts that the model will not embed.
        """


class TokenCounter(Protocol):
    """Counts tokens as a model does."""

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""


Key = tuple[str, int, str]
"""Model, dimensions and task of vectors."""


class EmbeddingCache(Protocol):
    """Vectors by hash of text, model, dimensions and task."""

    def missing(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` without a vector."""

    def count(self, key: Key) -> int:
        """How many vectors there are."""

    def claim(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that no other process has claimed; they are this one's until released."""

    def release(self, key: Key, hashes: Iterable[str]) -> None:
        """Give claims back; those of a process that ends are given back by themselves."""

    def await_others(self, key: Key, hashes: Iterable[str]) -> None:
        """Return when no other process claims any of `hashes`."""

    def store(self, key: Key, hashes: Sequence[str], vectors: np.ndarray) -> None:
        """Keep vectors; durable when the call returns. EmbeddingError for one that is not of unit
        length.
        """

    def vectors(self, key: Key, hashes: Sequence[str]) -> tuple[list[str], np.ndarray]:
        """Those of `hashes` that have a vector, and their vectors, float32 of shape (texts,
        dimensions).
        """

    def refuse(self, key: Key, reasons: Mapping[str, str]) -> None:
        """Keep why the model will not embed texts, by their hash; durable when the call returns."""

    def refusals(self, key: Key, hashes: Sequence[str]) -> dict[str, str]:
        """Why those of `hashes` that the model refused have no vector."""

    def begin(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Note claimed texts before they are sent, durably; returns those whose earlier request has
        no answer.
        """

    def finish(self, key: Key, hashes: Iterable[str]) -> None:
        """Take texts off the notes of `begin`: their vectors are kept, or nothing was answered."""

    def unfinished(self, key: Key, hashes: Sequence[str]) -> set[str]:
        """Those of `hashes` that were sent, or about to be, without a known answer."""


@dataclass(frozen=True)
class Answer(Generic[Shape]):
    """The answer to one prompt: its number, the value, or the reason why it is missing, and its
    cost.

    `calls` are requests to the service, `dollars` US dollars by its list price.
    """

    prompt: int
    value: Shape | None
    refusal: str | None
    tokens: int
    calls: int = 1
    dollars: float = 0.0


class LanguageModel(Protocol):
    """Answers prompts in a given shape. A prompt is data, fenced as
    `transforms.embedding.sent_texts` says.
    """

    model: str

    def most(self, prompts: Sequence[Mapping[str, Any]], instruction: str) -> tuple[int, float]:
        """The tokens and the US dollars that answering prompts takes at most."""

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """One answer per prompt as it comes, in any order, valid for the pydantic model `shape`.

        BudgetError before the first call if the prompts need more tokens than the budget of a run.
        """


class AnswerCache(Protocol):
    """Answers of language models by their requests."""

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        """The answers to those of `keys` that have one."""

    def store(self, answers: Mapping[str, str]) -> None:
        """Keep answers; durable when the call returns."""


@dataclass(frozen=True)
class RerankScores:
    """Scores of the first passages, higher is better; all of them, unless time ran out or there is
    a `refusal`.
    """

    scores: np.ndarray
    refusal: str | None = None


class PassageScorer(Protocol):
    """A model that gives passages scores for a query."""

    name: str

    def scores(self, query: str, titles: Sequence[str], texts: Sequence[str]) -> RerankScores:
        """The scores; WeftError if the model cannot be asked at all."""
