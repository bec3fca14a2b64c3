"""Answers that a language model writes: from cited passages alone, and only sentences that a source says are shown."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from dagster_project.config.settings import Settings
from dagster_project.extras.answers.claims import compared
from dagster_project.extras.answers.settings import AnswerSettings
from dagster_project.extras.answers.sources import CitedPiece
from dagster_project.extras.answers.transforms.check import GREEN
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.answer_cache import SQLiteAnswerCache
from dagster_project.models.language_models import language_model
from dagster_project.servers.answers import AnswerSentence
from transforms.errors import ServiceError, SettingsError
from transforms.hashing import parts_hash

_INSTRUCTION = (
    "Answer the question in at most eight short sentences, one fact in each. Use the passages alone. Keep their words, "
    "numbers, dates and names, and put the name of who wrote a passage in place of I. For each sentence give the names "
    "of the passages that say it. Give no sentence if no passage answers."
)
_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,60}\b(?:instructions?|prompts?|rules|above|sources?)\b|"
    r"^\s*(?:system|assistant|user)\s*:|\byou are now\b|\bsystem prompt\b|"
    r"\b(?:answer|reply|respond|output|say|state|claim|cite|write|print|tell|report|conclude)\b[^.\n]{0,40}"
    r"\b(?:only|exactly|verbatim|the (?:user|reader|asker)|that|instead|as (?:the|your) (?:answer|source))\b|"
    r"\b(?:AI|LLM|assistants?|chatbots?|language models?|agents?)\b[^.\n]{0,60}"
    r"\b(?:must|should|shall|have to|please|need to|will)\b|</?(?:system|prompt|instructions?|passages?)>",
    re.I | re.M,
)
"""Text that addresses a program that reads, whose sentences are not those of people to people."""
_PASSAGE_CHARS = 2_000
_FENCE = re.compile(r"\A```(?:json)?\s*|\s*```\Z")
"""Marks that models put around JSON."""

_SOMEBODY_WAITS = {"attempts": 2, "time_limit_seconds": 120.0}
"""Limits of an answer: a build may try eight times and take hours, a person does not wait so long."""


class _Sentence(BaseModel):
    text: str = Field(max_length=1_000)
    passages: list[str] = Field(max_length=8)


class _Written(BaseModel):
    """The shape of the answer of a model."""

    sentences: list[_Sentence] = Field(max_length=24)


class Prompt(NamedTuple):
    """A question with its passages as a model gets them, and the pieces that these are, by name."""

    content: dict[str, Any]
    passages: Mapping[str, CitedPiece]


def model_of(settings: Settings) -> str:
    """The name of the model that writes answers; SettingsError without one."""
    if (name := settings.section(AnswerSettings).model) is None:
        raise SettingsError(
            "no model writes answers: name one as `model` in [answers], or ask without"
        )
    return name


def prompt_for(question: str, sources: Sequence[CitedPiece]) -> Prompt:
    """The question with the pieces of its hits, without those that address programs."""
    passages = {
        f"p{number}": source
        for number, source in enumerate(sources, 1)
        if not _ORDER.search(source.evidence.text)
    }
    listed = [_passage(name, source) for name, source in passages.items()]
    return Prompt({"question": question, "passages": listed}, passages)


def instruction_for_caller() -> str:
    """The instruction to a model that takes no schema beside it."""
    return f"{_INSTRUCTION} Reply with JSON of this schema alone: {json.dumps(_Written.model_json_schema())}"


def checked_reply(settings: Settings, reply: str, prompt: Prompt) -> dict[str, Any]:
    """`sentences` and `left_out` of an `Answer` of the reply of a caller's model; ServiceError for one of another shape."""
    try:
        answer = _Written.model_validate_json(_FENCE.sub("", reply.strip()))
    except ValidationError as error:
        raise ServiceError(
            "the reply of the caller's model is not JSON of the schema that it was given: ask again, or without a model"
        ) from error
    return _checked(settings, answer, prompt.passages)


def _checked(
    settings: Settings, answer: _Written, passages: Mapping[str, CitedPiece]
) -> dict[str, Any]:
    judged = [_sentence_of(settings, sentence, passages) for sentence in answer.sentences]
    shown = [one for one in judged if one is not None]
    return {"sentences": shown, "left_out": len(judged) - len(shown)}


def written(
    settings: Settings, index: SearchIndex, question: str, sources: Sequence[CitedPiece]
) -> dict[str, Any]:
    """The answer of the model of `[answers]` to a question from the pieces of its hits.

    `by`, `sentences`, `left_out`, `tokens` and `dollars` of an `Answer`. A passage that addresses programs is not
    sent. The same question of the same version, with the same texts shown, is asked once. SettingsError without a model,
    ServiceError if it gives nothing of the right shape.
    """
    chosen, model = settings.section(AnswerSettings), model_of(settings)
    prompt = prompt_for(question, sources)
    cache = SQLiteAnswerCache(settings.root / "cache" / "answers.sqlite")
    key = "answer/" + parts_hash((index.version, model, _INSTRUCTION, repr(prompt.content)))
    stored, tokens, dollars = cache.known([key]).get(key), 0, 0.0
    if stored is None:
        answer, tokens, dollars = _answer_of_model(settings, chosen, prompt.content)
        stored = answer.model_dump_json()
        cache.store({key: stored})
    try:
        answer = _Written.model_validate_json(stored)
    except ValidationError as error:
        raise ServiceError(f"an answer of {model} in the cache has another shape") from error
    checked = _checked(settings, answer, prompt.passages)
    return {**checked, "by": model, "tokens": tokens, "dollars": dollars}


def _answer_of_model(
    settings: Settings, chosen: AnswerSettings, prompt: dict[str, Any]
) -> tuple[_Written, int, float]:
    """The answer of the model, its tokens and US dollars."""
    limits = settings.gemini.model_copy(update=_SOMEBODY_WAITS)
    model = language_model(model_of(settings), chosen.output_tokens, limits, settings.safety)
    (answer,) = model.answers([prompt], _Written, _INSTRUCTION)
    if answer.value is None:
        raise ServiceError(f"{model_of(settings)} gives no answer: {answer.refusal}")
    return answer.value, answer.tokens, answer.dollars


def _passage(name: str, source: CitedPiece) -> dict[str, str]:
    evidence = source.evidence
    return {
        "name": name,
        "by": evidence.speaker or evidence.title,
        "day": f"{evidence.at:%Y-%m-%d}" if evidence.at else "",
        "text": evidence.text[:_PASSAGE_CHARS],
    }


def _sentence_of(
    settings: Settings, sentence: _Sentence, passages: Mapping[str, CitedPiece]
) -> AnswerSentence | None:
    """The sentence with the place of the source that says it; None if none that it names does."""
    named = [passages[name] for name in sentence.passages if name in passages]
    judged = compared(settings, sentence.text, named)
    if judged.colour != GREEN or judged.citation is None:
        return None
    source = next(s for s in named if s.facts["doc_id"] == judged.doc_id)
    return AnswerSentence(
        text=sentence.text,
        citation=judged.citation,
        doc_id=source.facts["doc_id"],
        title=source.facts["subject"],
        speaker=judged.speaker,
        at=judged.at,
    )
