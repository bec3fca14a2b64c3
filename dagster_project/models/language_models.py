"""The language model of a build, and the reranker of a search, which may ask one; imported when
something asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from assets.protocols.models import Answer, LanguageModel, PassageScorer, RerankScores, Shape
from dagster_project.extensions import load, model_service
from dagster_project.system.rate_limit import RunBudget
from transforms.errors import SettingsError, WeftError
from transforms.retrieval import reranking
from transforms.retrieval.reranking import Candidate
from transforms.settings.models import GeminiSettings, SafetySettings
from transforms.settings.search import RerankSettings

_SENTENCE_TOKENS = 120
_THOUGHT_TOKENS = 2048


def service_of(name: str) -> str:
    """The service of the language model of that name: Google's, or one by OpenAI's protocol after
    `openai/`.

    >>> service_of("openai/llama3.1"), service_of("gemini-3.5-flash")
    ('openai', 'gemini')
    """
    return "openai" if name.startswith("openai/") else "gemini"


class NoLanguageModel:
    """Is where the settings name no language model."""

    model = "none"

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """SettingsError: nobody is there to answer."""
        raise SettingsError(
            'no source says sentence = "gemini", so that no language model is set up'
        )

    def most(self, prompts: Sequence[Mapping[str, Any]], instruction: str) -> tuple[int, float]:
        """Nothing: nobody is asked."""
        return 0, 0.0


def make_language_model(
    name: str | None,
    prompts_chunks: int,
    gemini: GeminiSettings,
    safety: SafetySettings,
    budget: RunBudget | None = None,
    jobs: Path | None = None,
) -> LanguageModel:
    """The model of that name, with room for a sentence on each of so many chunks; NoLanguageModel
    for None.
    """
    if name is None:
        return NoLanguageModel()
    most = _THOUGHT_TOKENS + prompts_chunks * _SENTENCE_TOKENS
    return language_model(name, most, gemini, safety, budget, jobs)


def language_model(
    name: str,
    max_output_tokens: int,
    gemini: GeminiSettings,
    safety: SafetySettings,
    budget: RunBudget | None = None,
    jobs: Path | None = None,
) -> LanguageModel:
    """The model of that name."""
    make = load(model_service(service_of(name)).language_model)
    return make(name, gemini, max_output_tokens, safety, budget, jobs)


_FEATURES = "features"
_REASON_CHARS = 200
_PASSAGE_CHARS = 500
"""Characters of each hit that a language model reads (SecondBrain)."""
_SCORE_TOKENS = 2048
"""Room for the answer; models that think first need most of it for that."""
_ATTEMPTS = 2


class Reranker:
    """Gives the first `settings.top` hits of each query a new order.

    Where the scorer fails, the features decide, and `reranker` of each hit says why. One that
    cannot be asked is not asked for the other queries of the batch.
    """

    def __init__(self, settings: RerankSettings, scorer: PassageScorer | None = None):
        self.settings, self.scorer = settings, scorer
        self.name = scorer.name if scorer else _FEATURES

    def reranked(
        self,
        ranked: pl.DataFrame,
        candidates: Sequence[Candidate],
        queries: Mapping[int, str],
        limit: int,
    ) -> pl.DataFrame:
        """`ranked` hits, the first `limit` of each query, with the columns of
        `transforms.retrieval.reranking.RERANKED`.

        `queries` are by number.
        """
        parts = reranking.features(candidates, queries)
        if self.scorer is None:
            return reranking.reordered(
                ranked, reranking.feature_scores(candidates, parts, _FEATURES), limit
            )
        scores: list[pl.DataFrame] = []
        fault, first = None, 0
        for query, of_query in groupby(candidates, key=attrgetter("query")):
            hits = list(of_query)
            own, first = parts[first : first + len(hits)], first + len(hits)
            table = fault or self._from_scorer(self.scorer, queries[query], hits)
            if isinstance(table, _Fault):
                fault = None if table.is_of_query else table
                label = f"{_FEATURES} ({self.name}: {table.reason[:_REASON_CHARS]})"
                table = reranking.feature_scores(hits, own, label)
            scores.append(table)
        return (
            reranking.reordered(ranked, pl.concat(scores), limit)
            if scores
            else reranking.unranked(ranked)
        )

    def _from_scorer(
        self, scorer: PassageScorer, query: str, hits: Sequence[Candidate]
    ) -> pl.DataFrame | _Fault:
        """The scorer's scores of one query, or why there are none."""
        try:
            answer = scorer.scores(query, [c.title for c in hits], [c.text for c in hits])
        except WeftError as error:
            return _Fault(str(error), False)
        if answer.refusal is not None:
            return _Fault(answer.refusal, True)
        part = f", {len(answer.scores)} of {len(hits)} in {self.settings.seconds:g} s"
        label = scorer.name + (part if len(answer.scores) < len(hits) else "")
        return reranking.model_scores(hits, answer.scores, label)


@dataclass(frozen=True)
class _Fault:
    """Why a scorer gave no scores, and whether that has to do with the one query."""

    reason: str
    is_of_query: bool


class LanguageModelScorer:
    """Scores of 0 to 10 by a language model, one call for all passages of a query (the SecondBrain
    design).
    """

    def __init__(self, model: LanguageModel, passage_chars: int):
        self.model, self.passage_chars, self.name = model, passage_chars, model.model

    def scores(self, query: str, titles: Sequence[str], texts: Sequence[str]) -> RerankScores:
        """The scores; WeftError if the service fails or does not answer in time."""
        prompt = reranking.passages_prompt(query, titles, texts, self.passage_chars)
        shape = reranking.scores_shape(len(texts))
        (answer,) = self.model.answers([prompt], shape, reranking.INSTRUCTION)
        if answer.value is None:
            return RerankScores(np.empty(0), answer.refusal or "no answer")
        return RerankScores(reranking.clamped(answer.value.scores))


def make_reranker(
    settings: RerankSettings, gemini: GeminiSettings, safety: SafetySettings
) -> Reranker | None:
    """The reranker that the settings name; None where reranking is off."""
    if settings.method == "off":
        return None
    if settings.method == "features":
        return Reranker(settings)
    if settings.method == "cross_encoder":
        return Reranker(settings, load(model_service(settings.method).scorer)(settings))
    quick = {
        "time_limit_seconds": settings.seconds,
        "timeout_seconds": min(settings.seconds, gemini.timeout_seconds),
        "attempts": min(_ATTEMPTS, gemini.attempts),
    }
    hurried = gemini.model_copy(update=quick)
    model = language_model(settings.language_model, _SCORE_TOKENS, hurried, safety)
    return Reranker(settings, LanguageModelScorer(model, _PASSAGE_CHARS))
