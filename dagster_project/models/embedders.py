"""The embedding model that the settings name; the packages that it needs are imported if it is
chosen.
"""

from collections.abc import Mapping
from pathlib import Path

from assets.protocols.models import Embedder
from dagster_project.extensions import load, model_service
from dagster_project.models.static import StaticEmbedder
from dagster_project.system.rate_limit import RunBudget
from transforms.errors import ModelMismatchError
from transforms.settings.models import BUNDLED, EmbeddingSettings, GeminiSettings, SafetySettings


def make_embedder(
    settings: EmbeddingSettings,
    gemini: GeminiSettings | None = None,
    safety: SafetySettings = SafetySettings(),
    budget: RunBudget | None = None,
    jobs: Path | None = None,
) -> Embedder:
    """The embedder that the settings name; its requests to a service take from `budget`, and `jobs`
    notes its jobs.
    """
    if settings.model in BUNDLED:
        return StaticEmbedder(settings)
    make = load(model_service(settings.model).embedder)
    return make(settings, gemini or GeminiSettings(), safety, budget, jobs)


def serving(embedder: Embedder, manifest: Mapping[str, str], place: object) -> Embedder:
    """`embedder`, or the table of tokens that the index at `place` is of: it answers until one of
    another model is complete.

    ModelMismatchError if the index is of a model that is neither.
    """
    model, dimensions = manifest["model"], int(manifest["dimensions"])
    tables = (EmbeddingSettings.model_validate({"model": name}) for name in BUNDLED)
    for candidate in (embedder, *map(StaticEmbedder, tables)):
        if (candidate.model, candidate.dimensions) == (model, dimensions):
            return candidate
    raise ModelMismatchError(
        f"{place} holds vectors of {model} with {dimensions} dimensions, the settings name {embedder.model} "
        f"with {embedder.dimensions}: run `weft build` with these settings, or search with the old ones"
    )
