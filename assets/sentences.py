"""Sentences for chunks: those of what is known, and those a language model writes where a source wants them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from assets.protocols import AnswerCache, LanguageModel
from transforms import sentences
from transforms.settings import SafetySettings, SentenceSettings


@dataclass
class SentenceReport:
    """What a run did: sentences by kind, chunks asked about now, requests refused, tokens, finds by kind."""

    kinds: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    refused: int = 0
    unusable: int = 0
    tokens: int = 0
    found: Counter[str] = field(default_factory=Counter)

    def metadata(self) -> dict[str, int]:
        """The figures that are shown with the asset."""
        return {
            **{f"sentences_{kind}": count for kind, count in sorted(self.kinds.items())},
            "chunks_asked_about": self.asked,
            "chunks_refused": self.refused,
            "sentences_not_usable": self.unusable,
            "tokens": self.tokens,
            **{f"screened_{kind}": count for kind, count in sorted(self.found.items())},
        }


def chunk_sentences(
    placed: pa.Table,
    kinds: Mapping[str, str],
    settings: SentenceSettings,
    safety: SafetySettings,
    model: LanguageModel,
    cache: AnswerCache,
) -> tuple[pa.Table, SentenceReport]:
    """Columns chunk_id, sentence and sentence_kind for every chunk of `placed`, and what it took.

    `kinds` says by source what its sentences are. A chunk about which the model says nothing usable,
    or will not be asked, has the sentence of what is known. What was answered before is not asked
    again. BudgetError and ServiceError as the model raises them; what was answered until then is kept.
    """
    report = SentenceReport()
    known = sentences.structural_sentences(placed)
    wanted = [kinds.get(source) == "gemini" for source in placed.column("source").to_pylist()]
    written: dict[str, str] = {}
    if any(wanted):
        mask = pa.array(wanted)
        written = _written(placed.filter(mask), known.filter(mask), settings, safety, model, cache, report)
    frame = pl.DataFrame(known).with_columns(
        by_model=pl.col("chunk_id").replace_strict(written, default=None, return_dtype=pl.String)
    )
    made = frame.select(
        "chunk_id",
        sentence=pl.coalesce("by_model", "sentence"),
        sentence_kind=pl.when(pl.col("by_model").is_null())
        .then(pl.lit("structural"))
        .otherwise(pl.lit("gemini")),
    )
    report.kinds.update(made.get_column("sentence_kind").to_list())
    return made.to_arrow(), report


def _written(
    placed: pa.Table,
    known: pa.Table,
    settings: SentenceSettings,
    safety: SafetySettings,
    model: LanguageModel,
    cache: AnswerCache,
    report: SentenceReport,
) -> dict[str, str]:
    """The model's usable sentence of each chunk that has one, by its id."""
    asked, report.found = sentences.requests(placed, known, model.model, settings, safety)
    answers = cache.known(sorted({r.key for r in asked}))
    missing = list({r.key: r for r in asked if r.key not in answers}.values())
    refused: list[sentences.Request] = []
    size = settings.batch_chunks
    whole = len(missing) - len(missing) % size
    for part, count in ((missing[:whole], size), (missing[whole:], len(missing) - whole)):
        refused += _ask(part, count, model, settings, cache, answers, report)
    # What is refused in a batch may be one chunk of it: the others are asked about by themselves.
    report.refused = len(_ask(refused, 1, model, settings, cache, answers, report))
    report.asked = len(missing)
    report.unusable = sum(not answers.get(r.key, "x") for r in missing)
    return {r.chunk_id: answers[r.key] for r in asked if answers.get(r.key)}


def _ask(
    asked: Sequence[sentences.Request],
    size: int,
    model: LanguageModel,
    settings: SentenceSettings,
    cache: AnswerCache,
    answers: dict[str, str],
    report: SentenceReport,
) -> list[sentences.Request]:
    """Ask about chunks, `size` a prompt; keeps each answer as it comes and returns the refused chunks.

    A sentence that is not usable is kept as an empty one, so that it is not asked for again.
    """
    if not asked:
        return []
    batches = [asked[start : start + size] for start in range(0, len(asked), size)]
    refused: list[sentences.Request] = []
    prompts = [sentences.prompt(batch) for batch in batches]
    for answer in model.answers(prompts, sentences.sentences_shape(size), sentences.INSTRUCTION):
        batch = batches[answer.prompt]
        report.tokens += answer.tokens
        if answer.value is None:
            refused += batch
            continue
        made = dict(_usable(batch, answer.value.sentences, settings))
        cache.store(made)
        answers |= made
    return refused


def _usable(
    batch: Sequence[sentences.Request], said: Sequence[str], settings: SentenceSettings
) -> Iterable[tuple[str, str]]:
    for request, sentence in zip(batch, said, strict=True):
        yield request.key, sentences.usable(sentence, request.data["text"], settings) or ""
