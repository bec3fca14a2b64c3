"""Answers in a given shape by a model service: tokens are counted, and the budget of a run is held."""

from collections.abc import Mapping, Sequence
from typing import Any

from dagster_project.models.static import load_tokenizer
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.sent_texts import DATA_NOTE, prompt_json
from transforms.errors import BudgetError
from transforms.settings.models import GeminiSettings, SafetySettings


class RemoteLanguageModel:
    """A model that answers in JSON of a schema, at temperature 0; each answer is validated here
    again.

    Tokens of prompts are counted as `RemoteEmbedder` does, and `max_output_tokens` are added for
    each answer, so that the budget holds for every answer. Quotes in prompts are screened as
    `safety` says; the instruction is sent apart from it, as the system's.
    """

    def __init__(
        self,
        name: str,
        limits: GeminiSettings,
        max_output_tokens: int,
        safety: SafetySettings,
        budget: RunBudget | None,
    ):
        self.model, self.safety, self.max_output_tokens = name, safety, max_output_tokens
        self.budget = budget or RunBudget(limits.budget_tokens)

    def counts_within_budget(self, texts: Sequence[str], instruction: str) -> list[int]:
        """The tokens that each prompt takes at most; BudgetError if all of them are more than the
        run has left.
        """
        counts = [count + self.max_output_tokens for count in sent_tokens(texts, instruction)]
        if sum(counts) > self.budget.left:
            raise BudgetError(
                f"{len(texts):,} prompts to {self.model} take up to {sum(counts):,} tokens, the budget of a run has "
                f"{self.budget.left:,} left: nothing was asked for; raise gemini.budget_tokens"
            )
        return counts

    def most(self, prompts: Sequence[Mapping[str, Any]], instruction: str) -> tuple[int, float]:
        """The tokens that answering prompts takes at most, and the US dollars: none, if no price is
        known.
        """
        texts = [prompt_json(prompt, self.safety) for prompt in prompts]
        sent = sum(sent_tokens(texts, f"{instruction}\n\n{DATA_NOTE}"))
        answered = len(prompts) * self.max_output_tokens
        return sent + answered, self._dollars_at_most(prompts, instruction, sent, answered)

    def _dollars_at_most(
        self, prompts: Sequence[Mapping[str, Any]], instruction: str, sent: int, answered: int
    ) -> float:
        """The US dollars for so many tokens that are sent and answered."""
        return 0.0


def sent_tokens(texts: Sequence[str], instruction: str) -> list[int]:
    """The tokens of each text with the instruction, more than the service will count."""
    encoded = load_tokenizer().encode_batch([instruction, *texts], add_special_tokens=False)
    common, *own = (len(e.ids) for e in encoded)
    return [common + count for count in own]
