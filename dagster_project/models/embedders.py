"""The embedding model that the settings name; the packages that it needs are imported if it is chosen."""

from __future__ import annotations

from pathlib import Path

from assets.protocols.models import Embedder
from dagster_project.extras.registry import load, model_service
from dagster_project.models.static import StaticEmbedder
from dagster_project.system.rate_limit import RunBudget
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings


def make_embedder(
    settings: EmbeddingSettings,
    gemini: GeminiSettings | None = None,
    safety: SafetySettings = SafetySettings(),
    budget: RunBudget | None = None,
    jobs: Path | None = None,
) -> Embedder:
    """The embedder that the settings name; what it asks a service for is taken from `budget`, its jobs noted in `jobs`."""
    if settings.model in ("static", "weft"):
        return StaticEmbedder(settings)
    make = load(model_service(settings.model).embedder)
    served: Embedder = make(settings, gemini or GeminiSettings(), safety, budget, jobs)
    return served
