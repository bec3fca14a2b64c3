"""Vectors and answers by an endpoint that speaks OpenAI's protocol."""

import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from assets.protocols.models import Answer, Shape
from dagster_project.extras.services.embedder import RemoteEmbedder
from dagster_project.extras.services.language import RemoteLanguageModel
from dagster_project.extras.services.service import (
    OF_CONTENT,
    Call,
    RefusedError,
    Service,
    bounded_connections,
)
from dagster_project.system.rate_limit import Quota, RunBudget, requested_pause
from transforms.embedding.sent_texts import DATA_NOTE, prompt_json
from transforms.embedding.vectors import unit_length
from transforms.errors import ServiceError
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings

ADDRESS_VARIABLE, KEY_VARIABLE = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_ADDRESS = "https://api.openai.com/v1"
_PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
"""US dollars per million tokens at OpenAI; others are taken to cost nothing."""


def key_variable() -> str:
    """The variable of the environment with the key."""
    return KEY_VARIABLE


class OpenAIService(Service):
    """Sends requests to the address in OPENAI_BASE_URL with the key in OPENAI_API_KEY, if there is
    one.

    Limits of time and attempts are those of [gemini]; it has no quota.
    """

    keys, address_key = (KEY_VARIABLE,), ADDRESS_VARIABLE

    def __init__(self, settings: GeminiSettings):
        super().__init__(settings, Quota(sys.maxsize, sys.maxsize))

    @property
    def label(self) -> str:
        """The address."""
        return (os.environ.get(ADDRESS_VARIABLE, "").strip() or _ADDRESS).rstrip("/")

    def opened(self) -> tuple[httpx2.AsyncClient, Callable[[], Awaitable[None]]]:
        """The connections, and the function that closes them."""
        client = bounded_connections(self.settings)
        return client, client.aclose

    async def post(self, client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> Any:
        """The answer to one request as JSON; a fault that the endpoint reports is explained."""
        key = os.environ.get(KEY_VARIABLE, "").strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        answer = await client.post(f"{self.label}/{path}", json=body, headers=headers)
        code = answer.status_code
        if code == 200:
            return json.loads(answer.content)
        report = self.shown(f"{code}: {answer.content.decode('utf-8', 'replace')}")
        if code in (408, 429) or code >= 500:
            raise self.passing(report, requested_pause(answer.headers.get("retry-after", "")))
        if code in (401, 403):
            raise ServiceError(f"{self.label} does not accept the key in {KEY_VARIABLE} ({report})")
        if code in OF_CONTENT:
            raise RefusedError(f"{self.label} refuses a request ({report})")
        raise ServiceError(f"{self.label} does not know the model or address ({report})")


class OpenAIEmbedder(RemoteEmbedder):
    """Vectors of a model behind the endpoint (`POST embeddings`), scaled to unit length.

    Texts have the prefixes of the settings, else those known of the model by its name.
    """

    def __init__(
        self,
        settings: EmbeddingSettings,
        limits: GeminiSettings,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is not used: the protocol has no jobs."""
        super().__init__(settings, limits, safety, budget)
        self.batch_tokens = limits.request_tokens
        self.price = _PRICES.get(self.name, 0.0)
        self.service: OpenAIService = OpenAIService(limits)

    async def request(self, client: httpx2.AsyncClient, texts: list[str], task: str) -> Any:
        """The answer to a request for the vectors of texts."""
        prefixed = [self.prefixes[task] + text for text in texts]
        body: dict[str, Any] = {"model": self.name, "input": prefixed, "encoding_format": "float"}
        if self.name in _PRICES:
            body["dimensions"] = self.dimensions
        return await self.service.post(client, "embeddings", body)

    def vectors(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer in the order of the texts; ValueError if they do not fit the
        request.
        """
        rows = sorted(answer["data"], key=lambda row: row["index"])
        matrix = np.array([row["embedding"] for row in rows], dtype=np.float64)
        if len(matrix) != count:
            raise ValueError("as many vectors as texts")
        if matrix.ndim != 2 or matrix.shape[1] != self.dimensions:
            raise ServiceError(
                f"{self.name} makes vectors of {matrix.shape[-1]} numbers: write embedding.dimensions = "
                f"{matrix.shape[-1]}"
            )
        if not np.isfinite(matrix).all() or not matrix.any(axis=1).all():
            raise ValueError("vectors with a direction")
        return unit_length(matrix)


class OpenAILanguageModel(RemoteLanguageModel):
    """A model behind the endpoint (`POST chat/completions`); its cost is not known."""

    def __init__(
        self,
        name: str,
        limits: GeminiSettings,
        max_output_tokens: int,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is not used: the protocol has no jobs."""
        super().__init__(name, limits, max_output_tokens, safety, budget)
        self.service = OpenAIService(limits)

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """One answer per prompt as it comes; a prompt that is refused has the reason instead."""
        texts = [prompt_json(prompt, self.safety) for prompt in prompts]
        system = f"{instruction}\n\n{DATA_NOTE}"
        self.counts_within_budget(texts, system)
        return self.service.results(
            self._job(n, text, shape, system) for n, text in enumerate(texts)
        )

    def _job(
        self, number: int, prompt: str, shape: type[Shape], system: str
    ) -> Call[Answer[Shape]]:
        schema = {"name": shape.__name__, "schema": shape.model_json_schema(), "strict": True}
        body = {
            "model": self.model.removeprefix("openai/"),
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": prompt},
            ],
            "temperature": 0,
            "max_tokens": self.max_output_tokens,
            "response_format": {"type": "json_schema", "json_schema": schema},
        }

        def check(answer: Any) -> tuple[Shape, int]:
            choice = answer["choices"][0]
            if choice.get("finish_reason") not in ("stop", None):
                raise RefusedError(
                    f"{self.model} gives no whole answer ({choice['finish_reason']})"
                )
            tokens = int((answer.get("usage") or {}).get("total_tokens") or 0)
            return shape.model_validate_json(choice["message"]["content"]), tokens

        async def run(client: httpx2.AsyncClient) -> Answer[Shape]:
            try:
                (value, tokens), calls = await self.service.answer(
                    client,
                    1,
                    0,
                    lambda client: self.service.post(client, "chat/completions", body),
                    check,
                )
            except RefusedError as fault:
                return Answer(number, None, str(fault), 0)
            self.budget.spend(tokens)
            return Answer(number, value, None, tokens, calls)

        return run
