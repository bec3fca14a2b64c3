"""Answers in a given shape by an endpoint that speaks OpenAI's protocol (`POST chat/completions`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.protocols.models import Answer, Shape
from dagster_project.extras.openai.service import OpenAIService, RefusedRequestError
from dagster_project.models.static import load_tokenizer
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.prompts import DATA_NOTE, prompt_json
from transforms.errors import BudgetError
from transforms.settings.models import GeminiSettings, SafetySettings


class OpenAILanguageModel:
    """A model that answers in JSON of a schema, at temperature 0; each answer is validated here again.

    What it costs is not known. What prompts quote is screened as `safety` says.
    """

    def __init__(
        self,
        name: str,
        limits: GeminiSettings,
        max_output_tokens: int,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is not used: the protocol has none."""
        self.model, self.safety, self.max_output_tokens = name, safety, max_output_tokens
        self.budget = budget or RunBudget(limits.budget_tokens)
        self.service = OpenAIService(limits)

    def most(self, prompts: Sequence[Mapping[str, Any]], instruction: str) -> tuple[int, float]:
        """The tokens that answering prompts takes at most, and no dollars."""
        return sum(self._counts([prompt_json(p, self.safety) for p in prompts], instruction)), 0.0

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """One answer per prompt in their order; a prompt that is refused has the reason instead."""
        texts = [prompt_json(prompt, self.safety) for prompt in prompts]
        needed = sum(self._counts(texts, instruction))
        if needed > self.budget.left:
            raise BudgetError(
                f"{len(prompts):,} prompts to {self.model} take up to {needed:,} tokens, the budget of a run has "
                f"{self.budget.left:,} left: nothing was asked for; raise gemini.budget_tokens"
            )
        return self.service.results(self._job(n, text, shape, instruction) for n, text in enumerate(texts))

    def _job(
        self, number: int, prompt: str, shape: type[Shape], instruction: str
    ) -> Callable[[], Answer[Shape]]:
        schema = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
        body = {
            "model": self.model.removeprefix("openai/"),
            "messages": [
                {"role": "system", "content": f"{instruction}\n\n{DATA_NOTE}"},
                {"role": "user", "content": prompt},
            ],
            "temperature": 0,
            "max_tokens": self.max_output_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }

        def check(answer: Any) -> tuple[Shape, int]:
            choice = answer["choices"][0]
            if choice.get("finish_reason") not in ("stop", None):
                raise RefusedRequestError(f"{self.model} gives no whole answer ({choice['finish_reason']})")
            tokens = int((answer.get("usage") or {}).get("total_tokens") or 0)
            return shape.model_validate_json(choice["message"]["content"]), tokens

        def run() -> Answer[Shape]:
            try:
                value, tokens = self.service.answer("chat/completions", body, check)
            except RefusedRequestError as fault:
                return Answer(number, None, str(fault), 0)
            self.budget.spend(tokens)
            return Answer(number, value, None, tokens)

        return run

    def _counts(self, texts: Sequence[str], instruction: str) -> list[int]:
        """The tokens of each text with the instruction and the longest answer, an estimate."""
        encoded = load_tokenizer().encode_batch([instruction, *texts], add_special_tokens=False)
        common, *own = (len(e.ids) for e in encoded)
        return [common + count + self.max_output_tokens for count in own]
