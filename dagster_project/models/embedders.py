"""The embedding model that the settings name; the packages of an extra are imported when its model is chosen."""

from __future__ import annotations

from pathlib import Path

from assets.protocols.models import Embedder
from dagster_project.models.openai.embedder import OpenAIEmbedder
from dagster_project.models.static import StaticEmbedder
from dagster_project.models.transformer import TransformerEmbedder
from dagster_project.system.rate_limit import RunBudget
from transforms.errors import not_installed
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings


def make_embedder(
    settings: EmbeddingSettings,
    gemini: GeminiSettings | None = None,
    safety: SafetySettings = SafetySettings(),
    budget: RunBudget | None = None,
    jobs: Path | None = None,
) -> Embedder:
    """The embedder that the settings name; what it asks a service for is taken from `budget`, its jobs noted in `jobs`."""
    if settings.model == "gemini":
        try:
            from dagster_project.models.gemini.embedder import GeminiEmbedder
        except ImportError as error:
            raise not_installed(error, "gemini") from error
        return GeminiEmbedder(settings, gemini or GeminiSettings(), safety, budget, jobs)
    if settings.model == "openai":
        return OpenAIEmbedder(settings, gemini or GeminiSettings(), safety, budget)
    if settings.model == "transformer":
        return TransformerEmbedder(settings)
    return StaticEmbedder(settings)
