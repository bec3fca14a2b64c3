"""Google's Gemini service: vectors, answers, jobs of the Batch API, and which models it serves."""

from dagster_project.extras.registry import Extra, ModelService

_HERE = "dagster_project.extras.gemini"
EXTRA = Extra(
    models={
        "gemini": ModelService(
            embedder=f"{_HERE}.embedder:GeminiEmbedder",
            language_model=f"{_HERE}.language:GeminiLanguageModel",
            require_served=f"{_HERE}.served:require_served",
            key=f"{_HERE}.client:key_variable",
        )
    }
)
