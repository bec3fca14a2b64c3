"""Documents that several prompts read: the service holds each while these are under way, and reads it for a tenth."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dagster_project.extras.gemini.client import GeminiService, RefusedError
from transforms.errors import EmbeddingError, ServiceError, UnansweredError

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

LEAST_TOKENS = 4096
"""Tokens of a document that Google's models hold."""
_SECONDS = 3600
"""After which the service forgets a document that a killed run left."""


class HeldDocuments:
    """The documents of one call: held from the first prompt that reads one until the last is answered."""

    def __init__(
        self,
        service: GeminiService,
        model: str,
        instruction: str,
        documents: Sequence[str],
        tokens: Mapping[str, int],
    ):
        """`documents` has that of each prompt, empty for none, `tokens` those of each document."""
        self.service, self.model, self.instruction, self.tokens = service, model, instruction, tokens
        self._waiting = Counter(documents)
        shared = {text for text, count in self._waiting.items() if count > 1}
        self._shared = {text for text in shared if tokens.get(text, 0) >= LEAST_TOKENS}
        self._names: dict[str, str | None] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._new_tokens = 0

    def reread_tokens(self, documents: Sequence[str]) -> int:
        """Tokens of `documents` that the service reads again instead of being sent them."""
        again = Counter(text for text in documents if text in self._shared)
        return sum(self.tokens[text] * (count - 1) for text, count in again.items())

    def taken(self) -> int:
        """The tokens that the service was given to hold since this was asked last; they cost what sent ones cost."""
        taken, self._new_tokens = self._new_tokens, 0
        return taken

    async def name(self, client: AsyncClient, document: str) -> str | None:
        """What the service calls a document that it holds; None if the prompt is to carry it."""
        if document not in self._shared:
            return None
        async with self._locks[document]:
            if document not in self._names:
                self._names[document] = await self._held(client, document)
        return self._names[document]

    async def release(self, client: AsyncClient, document: str) -> None:
        """A prompt that reads the document is answered; after the last the service need not hold it."""
        self._waiting[document] -= 1
        if self._waiting[document] == 0 and (name := self._names.pop(document, None)):
            with suppress(ServiceError):
                await self.service.answer(client, 1, 0, lambda c: c.caches.delete(name=name), lambda _: None)

    async def _held(self, client: AsyncClient, document: str) -> str | None:
        from google.genai.types import CreateCachedContentConfig

        config = CreateCachedContentConfig(
            contents=document, system_instruction=self.instruction, ttl=f"{_SECONDS}s"
        )
        try:
            name, _ = await self.service.answer(
                client,
                1,
                self.tokens[document],
                lambda c: c.caches.create(model=self.model, config=config),
                _named,
            )
        except UnansweredError:
            raise
        except RefusedError:
            return None
        self._new_tokens += self.tokens[document]
        return name


def _named(held: Any) -> str:
    """What the service calls it; EmbeddingError for an answer without that."""
    if not held.name:
        raise EmbeddingError("a held document without a name")
    return str(held.name)
