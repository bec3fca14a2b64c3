"""Which models Google serves now, asked once before a build begins."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dagster_project.extras.gemini.client import GeminiService
from transforms.errors import ServiceError, WeftError
from transforms.settings.model_names import EMBEDDING_NAME, LANGUAGE_NAME, successor_of
from transforms.settings.models import GeminiSettings

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

_EMBEDS, _ANSWERS = "embedContent", "generateContent"
_PAGE = 1000
_SECONDS = 10


def require_served(gemini: GeminiSettings, embedding: Iterable[str], language: Iterable[str]) -> None:
    """ServiceError with the successor of the first of these models that Google's list of models does not have.

    Where there is no list, without a key or a connection, nothing is said: a build with nothing to ask needs neither.
    """
    try:
        served = served_models(gemini)
    except WeftError as fault:
        logging.getLogger("weft").info("the list of Google's models is not there: %s", fault)
        return
    for names, action, default in ((embedding, _EMBEDS, EMBEDDING_NAME), (language, _ANSWERS, LANGUAGE_NAME)):
        fitting = sorted(name for name, actions in served.items() if action in actions)
        for name in sorted(name.removeprefix("models/") for name in names):
            # Models that somebody tuned are on no list.
            if fitting and "/" not in name and name not in fitting:
                raise ServiceError(
                    f"Google does not serve the model {name!r} any more, or never did: write "
                    f"{successor_of(name, fitting, default)!r} into the settings. Served are {', '.join(fitting)}"
                )


def served_models(gemini: GeminiSettings) -> dict[str, list[str]]:
    """What each model on Google's list can do, by its name; one request. WeftError if it cannot be had."""
    quick = {"attempts": 1, "timeout_seconds": _SECONDS, "time_limit_seconds": 2 * _SECONDS}
    service = GeminiService(gemini.model_copy(update=quick))

    async def listed(client: AsyncClient) -> dict[str, list[str]]:
        models = await client.models.list(config={"page_size": _PAGE})
        return {
            (model.name or "").removeprefix("models/"): model.supported_actions or []
            async for model in models
        }

    async def run(client: AsyncClient) -> dict[str, list[str]]:
        found, _ = await service.answer(client, 1, 0, listed, lambda models: models)
        return found

    return service.result(run)
