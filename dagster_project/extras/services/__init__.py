"""Models behind a service: Google's Gemini with its Batch API, and endpoints that speak OpenAI's
protocol.

The client with its retries, the embedder and the language model are written once; the module of a
service has its requests and answers. Models that run on this machine do not belong here.
"""

from dagster_project.extensions import Extra, ModelService

_HERE = "dagster_project.extras.services"
EXTRA = Extra(
    models={
        "gemini": ModelService(
            embedder=f"{_HERE}.gemini_embedder:GeminiEmbedder",
            language_model=f"{_HERE}.gemini_language:GeminiLanguageModel",
            require_served=f"{_HERE}.gemini_client:require_served",
            key=f"{_HERE}.gemini_client:key_variable",
            module="google.genai",
            extra="gemini",
        ),
        "openai": ModelService(
            embedder=f"{_HERE}.openai:OpenAIEmbedder",
            language_model=f"{_HERE}.openai:OpenAILanguageModel",
            key=f"{_HERE}.openai:key_variable",
        ),
    }
)
