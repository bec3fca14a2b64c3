"""Models behind an endpoint that speaks OpenAI's protocol: vectors, and answers of a given shape."""

from dagster_project.extras.registry import Extra, ModelService

_HERE = "dagster_project.extras.openai"
EXTRA = Extra(
    models={
        "openai": ModelService(
            embedder=f"{_HERE}.embedder:OpenAIEmbedder",
            language_model=f"{_HERE}.language:OpenAILanguageModel",
            key=f"{_HERE}.service:key_variable",
        )
    }
)
