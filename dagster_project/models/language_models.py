"""The language model of a build; its modules are imported when a source asks for it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.protocols.models import Answer, LanguageModel, Shape
from dagster_project.extras.registry import load, model_service
from dagster_project.system.rate_limit import RunBudget
from transforms.errors import SettingsError
from transforms.settings.models import GeminiSettings, SafetySettings

_SENTENCE_TOKENS = 120
_THOUGHT_TOKENS = 2048


def service_of(name: str) -> str:
    """The service of the language model of that name: Google's, or one by OpenAI's protocol after `openai/`.

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
        raise SettingsError('no source says sentence = "gemini", so that no language model is set up')

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
    """The model of that name, with room for a sentence on each of so many chunks; NoLanguageModel for None."""
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
    served: LanguageModel = make(name, gemini, max_output_tokens, safety, budget, jobs)
    return served
