"""Calling Google's service with the google-genai client: its key, faults, quotas, and the models
that it serves.
"""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import httpx2

from dagster_project.extras.services.service import (
    OF_CONTENT,
    Call,
    NotFoundError,
    RefusedError,
    Service,
    bounded_connections,
    trusted,
)
from dagster_project.system.rate_limit import Quota, requested_pause
from transforms.errors import ServiceError, SettingsError, WeftError, not_installed
from transforms.settings.models import EMBEDDING_NAME, LANGUAGE_NAME, GeminiSettings, successor_of

if TYPE_CHECKING:
    from google.genai.client import AsyncClient
    from google.genai.errors import APIError


_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def client_package() -> Any:
    """The package `google.genai`; SettingsError that says how to install it."""
    try:
        from google import genai
    except ImportError as error:
        raise not_installed(error, "gemini") from error
    return genai


class GeminiService(Service):
    """Google's service, in the quota of [gemini]."""

    keys = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    label = "the Gemini service"
    address_key = "GOOGLE_GEMINI_BASE_URL"

    def __init__(self, settings: GeminiSettings):
        super().__init__(settings, Quota(settings.requests_per_minute, settings.tokens_per_minute))

    def opened(self) -> tuple[AsyncClient, Callable[[], Awaitable[None]]]:
        """A client with its connections, and the function that closes it; SettingsError without a
        key.
        """
        genai = client_package()
        key = os.environ.get(key_variable(), "").strip()
        if not key:
            raise SettingsError(
                f"the model gemini needs a key in the environment variable {' or '.join(self.keys)}; it is never read from "
                "a file"
            )
        # The client would print the answer of the service in place of a word that it does not know.
        warnings.filterwarnings("ignore", ".* is not a valid ", UserWarning, r"google\.genai\.")
        warnings.filterwarnings("ignore", r"batches\.create_embeddings", Warning)
        connections = bounded_connections(self.settings)
        # The client would make connections of its own for the calls that do not wait, and read
        # certificates for sockets; neither is used.
        options = genai.types.HttpOptions(
            base_url=self.settings.base_url,
            httpx_async_client=connections,
            httpx_client=httpx2.Client(verify=False),
            async_client_args={"ssl": trusted()},
        )
        client = genai.Client(api_key=key, vertexai=False, http_options=options)
        return client.aio, connections.aclose

    async def called(self, client: AsyncClient, call: Call[Any]) -> Any:
        """The answer to one call; faults of the service are explained."""
        from google.genai.errors import APIError

        try:
            return await call(client)
        except APIError as error:
            fault = self._explained(error)
        raise fault

    def _explained(self, error: APIError) -> Exception:
        """A fault that the service reports: TransientError, RefusedError or ServiceError."""
        words = self.shown(f"{error.code} {error.status}: {error.message}")
        if error.code == 429 and _is_used_up(error):
            return ServiceError(
                f"the quota of the day is used up ({words}). Finished vectors are kept; build again when it is renewed"
            )
        if error.code in (408, 429) or error.code >= 500:
            self.quota.learn(**_said_limits(error))
            return self.passing(words, _pause(error))
        if (
            error.code in (401, 403)
            or "API_KEY" in str(error.details)
            or "api key" in words.lower()
        ):
            return ServiceError(
                f"the Gemini service does not accept the key in {key_variable()} ({words}). Put a valid one into the "
                "environment; earlier vectors are kept"
            )
        if error.code == 404:
            return NotFoundError(
                f"the Gemini service does not know the model or address ({words}). Successors of models that "
                f"Google retired are {EMBEDDING_NAME} for vectors and {LANGUAGE_NAME} for language"
            )
        if error.code not in OF_CONTENT or error.status == "FAILED_PRECONDITION":
            return ServiceError(
                f"the Gemini service will not serve this account or place ({words})"
            )
        return RefusedError(f"the Gemini service refuses a request ({words})")


def key_variable() -> str:
    """The first variable of the environment that holds a key, else the first of all."""
    keys = GeminiService.keys
    return next((name for name in keys if os.environ.get(name, "").strip()), keys[0])


def _details(error: APIError) -> list[dict[str, Any]]:
    """The typed details of an error as Google's services send them (google.rpc.Status)."""
    body = error.details.get("error") if isinstance(error.details, dict) else None
    details = body.get("details") if isinstance(body, dict) else None
    return [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []


def _pause(error: APIError) -> float | None:
    """Seconds that the service asks to wait, by RetryInfo or the header Retry-After."""
    for detail in _details(error):
        match = _DELAY.fullmatch(str(detail.get("retryDelay")))
        if match:
            return float(match[1])
    return requested_pause(str(getattr(error.response, "headers", {}).get("retry-after") or ""))


def _violations(error: APIError) -> list[dict[str, Any]]:
    """The quotas that a request was above, as google.rpc.QuotaFailure lists them."""
    listed = [v for d in _details(error) if isinstance(v := d.get("violations"), list)]
    return [quota for violations in listed for quota in violations if isinstance(quota, dict)]


def _said_limits(error: APIError) -> dict[str, int]:
    """The requests and tokens per minute that the account may send, as far as the service says so."""
    limits: dict[str, int] = {}
    for quota in _violations(error):
        name, value = str(quota.get("quotaId", "")).lower(), str(quota.get("quotaValue", ""))
        if "perminute" in name and value.isascii() and value.isdigit() and int(value) > 0:
            limits["tokens" if "token" in name else "requests"] = int(value)
    return limits


def _is_used_up(error: APIError) -> bool:
    """True for a quota per day: no pause of seconds helps."""
    return any("perday" in str(v.get("quotaId", "")).lower() for v in _violations(error))


_EMBEDS, _ANSWERS = "embedContent", "generateContent"
_PAGE = 1000
_SECONDS = 10


def require_served(
    gemini: GeminiSettings, embedding: Iterable[str], language: Iterable[str]
) -> None:
    """ServiceError with the successor of the first of these models that Google's list of models
    does not have.

    Without a list, for lack of a key or a connection, it returns: a build with nothing to ask needs
    neither.
    """
    try:
        served = served_models(gemini)
    except WeftError as fault:
        logging.getLogger("weft").info("the list of Google's models is not there: %s", fault)
        return
    for names, action, default in (
        (embedding, _EMBEDS, EMBEDDING_NAME),
        (language, _ANSWERS, LANGUAGE_NAME),
    ):
        fitting = sorted(name for name, actions in served.items() if action in actions)
        for name in sorted(name.removeprefix("models/") for name in names):
            # Models that somebody tuned are on no list.
            if fitting and "/" not in name and name not in fitting:
                raise ServiceError(
                    f"Google does not serve the model {name!r} any more, or never did: write "
                    f"{successor_of(name, fitting, default)!r} into the settings. Served are {', '.join(fitting)}"
                )


def served_models(gemini: GeminiSettings) -> dict[str, list[str]]:
    """The actions of each model on Google's list, by its name; one request. WeftError if it cannot
    be had.
    """
    quick = {"attempts": 1, "timeout_seconds": _SECONDS, "time_limit_seconds": 2 * _SECONDS}
    service = GeminiService(gemini.model_copy(update=quick))

    async def listed(client: AsyncClient) -> dict[str, list[str]]:
        models = await client.models.list(config={"page_size": _PAGE})
        return {
            (model.name or "").removeprefix("models/"): model.supported_actions or []
            async for model in models
        }

    async def run(client: AsyncClient) -> dict[str, list[str]]:
        names, _ = await service.answer(client, 1, 0, listed, lambda models: models)
        return names

    return service.result(run)
