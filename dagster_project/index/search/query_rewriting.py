"""Queries of a conversation made to stand by themselves, as the settings say."""

from collections.abc import Sequence

from assets.protocols.models import LanguageModel
from dagster_project.models.language_models import make_language_model
from transforms.errors import WeftError
from transforms.retrieval import query_rewriting
from transforms.retrieval.query_rewriting import Rewritten, Standalone
from transforms.settings.models import GeminiSettings, SafetySettings
from transforms.settings.search import QuerySettings

_REASON_CHARS = 200
_SECONDS = 5.0
"""Seconds that the language model may take; then the rules decide."""
_ATTEMPTS = 2


class QueryRewriter:
    """Rewrites by a language model where there is one and it answers, else by rules."""

    def __init__(self, settings: QuerySettings, model: LanguageModel | None = None):
        self.settings, self.model = settings, model

    def standalone(self, query: str, turns: Sequence[str]) -> Standalone:
        """The query as it is used; without turns as it came."""
        settings = self.settings
        if settings.rewrite == "off" or not turns:
            return Standalone(query, query)
        ruled = query_rewriting.by_rules(query, turns)
        if self.model is None:
            return ruled
        prompt = query_rewriting.rewriting_prompt(query, turns)
        try:
            (answer,) = self.model.answers([prompt], Rewritten, query_rewriting.REWRITING)
            if answer.value is not None:
                return query_rewriting.by_model(query, answer.value, self.model.model)
            reason = answer.refusal or "no answer"
        except WeftError as fault:
            reason = str(fault)
        return Standalone(
            ruled.original, ruled.used, f"rules ({self.model.model}: {reason[:_REASON_CHARS]})"
        )


def make_rewriter(
    settings: QuerySettings, model: str, gemini: GeminiSettings, safety: SafetySettings
) -> QueryRewriter:
    """The rewriter that the settings name, by the language `model` if it needs one."""
    if settings.rewrite != "gemini":
        return QueryRewriter(settings)
    quick = {
        "time_limit_seconds": _SECONDS,
        "timeout_seconds": min(_SECONDS, gemini.timeout_seconds),
        "attempts": min(_ATTEMPTS, gemini.attempts),
    }
    return QueryRewriter(
        settings, make_language_model(model, 1, gemini.model_copy(update=quick), safety)
    )
