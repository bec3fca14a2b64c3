"""Jobs of Google's Batch API, found again after a kill, and documents that the service holds for
several prompts.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_project.extras.services.gemini_client import GeminiService, client_package
from dagster_project.extras.services.service import NotFoundError, RefusedError
from dagster_project.models.answer_cache import SQLiteAnswerCache
from transforms.errors import EmbeddingError, ServiceError, UnansweredError
from transforms.settings.models import GeminiSettings

if TYPE_CHECKING:
    from google.genai.client import AsyncClient


JOBS_FILE = "jobs.sqlite"
_JOBS_AT_ONCE = 50
"""Jobs under way; Google allows a hundred."""
_SUBMITTED = 3
"""Times that the requests of a failed job are submitted in one run."""
_LISTED = 5
"""Jobs on a page of the list, which may hold their answers."""
_DONE = ("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED")
_OVER = ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")
Create = Callable[["AsyncClient", Sequence[int], str], Awaitable[Any]]
"""Submits the requests at some places as a job of a name."""


class BatchJobs:
    """Jobs by the requests in them; the notes in one file say which job has which request, and at
    which place.

    A request is noted before its job is submitted, under a name that the job carries, and until
    `forget` is called. So a run that was killed at any moment leaves nothing that the next one
    would pay for again: it looks for a noted job by its name, and submits only requests that no job
    holds.
    """

    def __init__(self, gemini: GeminiSettings, folder: Path):
        self.service = GeminiService(gemini.model_copy(update={"concurrency": _JOBS_AT_ONCE}))
        self.service.left_over = "; jobs of the Batch API that are submitted go on"
        self.notes = SQLiteAnswerCache(folder / JOBS_FILE)
        self.seconds = gemini.poll_seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._answers: dict[str, Sequence[Any] | None] = {}

    def begin(self) -> None:
        """Make ready for another loop of events."""
        self._locks, self._answers = {}, {}

    async def answers(self, client: AsyncClient, keys: Sequence[str], create: Create) -> list[Any]:
        """The answer of a job to each of some requests, which `create` submits where no job has
        them.

        Each has a `response` or an `error`. ServiceError if jobs fail again and again.
        """
        answers: dict[int, Any] = {}
        noted = self.notes.known(keys)
        for job in sorted({note.rpartition("/")[0] for note in noted.values()}):
            answers |= await self._collected(client, job, keys)
        for _ in range(_SUBMITTED):
            rest = [place for place in range(len(keys)) if place not in answers]
            if not rest:
                return [answers[place] for place in range(len(keys))]
            job = f"weft-{uuid.uuid4().hex}"
            self.notes.store({keys[place]: f"{job}/{number}" for number, place in enumerate(rest)})
            await self._submit(client, job, lambda c, rest=rest, job=job: create(c, rest, job))  # type: ignore[misc]
            answers |= await self._collected(client, job, keys)
        raise ServiceError(
            f"jobs of the Gemini Batch API ended {_SUBMITTED} times without answers; earlier answers are kept. Build again "
            "later, or without gemini.batch_texts"
        )

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the notes on requests whose answers are kept."""
        self.notes.drop(keys)

    async def _collected(
        self, client: AsyncClient, job: str, keys: Sequence[str]
    ) -> dict[int, Any]:
        """The answers of a job by the places of their requests among `keys`; without any, the notes
        on it are dropped.
        """
        async with self._locks.setdefault(job, asyncio.Lock()):
            if job not in self._answers:
                self._answers[job] = await self._looked_at(client, job)
        responses, noted = self._answers[job], self.notes.known(keys)
        numbers = {
            place: int(noted[key].rpartition("/")[2])
            for place, key in enumerate(keys)
            if noted.get(key, "").rpartition("/")[0] == job
        }
        if responses is None or max(numbers.values(), default=-1) >= len(responses):
            self.notes.drop(keys[place] for place in numbers)
            return {}
        if len(numbers) == len(responses):
            self._answers.pop(job, None)
        return {place: responses[number] for place, number in numbers.items()}

    async def _submit(
        self, client: AsyncClient, job: str, create: Callable[[AsyncClient], Awaitable[Any]]
    ) -> None:
        """Submit a job, once: where an answer was lost, the job is looked for before it is
        submitted again.
        """
        tries = 0

        async def call(client: AsyncClient) -> Any:
            nonlocal tries
            tries += 1
            own_name = await self._job_name(client, job) if tries > 1 else None
            return own_name or (await create(client)).name

        name, _ = await self.service.answer(client, 1, 0, call, _required)
        self.notes.store({f"job/{job}": name})

    async def _job_name(self, client: AsyncClient, job: str) -> str | None:
        """The service's name of a job that carries our name; None without such a job."""
        async for listed in await client.batches.list(config={"page_size": _LISTED}):
            if listed.display_name == job and listed.name:
                return str(listed.name)
        return None

    async def _looked_at(self, client: AsyncClient, job: str) -> Sequence[Any] | None:
        """The answers of a job when it is done; None if there will be none, or if it was never
        submitted.
        """
        name = self.notes.known([f"job/{job}"]).get(f"job/{job}")
        if name is None:
            name, _ = await self.service.answer(
                client, 1, 0, lambda c: self._job_name(c, job), lambda n: n
            )
        if name is None:
            return None
        while True:
            try:
                current, _ = await self.service.answer(
                    client, 1, 0, lambda c: c.batches.get(name=name), _required
                )
            except NotFoundError:
                return None
            state = current.state.value if current.state else ""
            if state in _DONE:
                dest = current.dest
                return (
                    dest and (dest.inlined_embed_content_responses or dest.inlined_responses)
                ) or None
            if state in _OVER:
                logging.getLogger("weft").warning("Gemini: the job %s ended as %s", name, state)
                return None
            await asyncio.sleep(self.seconds)


def _required(answer: Any) -> Any:
    """The answer; EmbeddingError if there is none."""
    if not answer:
        raise EmbeddingError("a job or a held document without a name")
    return answer


LEAST_TOKENS = 4096
"""Tokens of a document that Google's models hold."""
_SECONDS = 3600
"""After which the service forgets a document that a killed run left."""


class HeldDocuments:
    """The documents of one call: held from the first prompt that reads one until the last is
    answered.
    """

    def __init__(
        self,
        service: GeminiService,
        model: str,
        instruction: str,
        documents: Sequence[str],
        tokens: Mapping[str, int],
    ):
        """`documents` has that of each prompt, empty for none, `tokens` those of each document."""
        self.service, self.model, self.instruction, self.tokens = (
            service,
            model,
            instruction,
            tokens,
        )
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
        """The tokens that the service was given to hold since the last call; they cost as much as
        sent ones.
        """
        tokens, self._new_tokens = self._new_tokens, 0
        return tokens

    async def name(self, client: AsyncClient, document: str) -> str | None:
        """The service's name of a document that it holds; None if the prompt is to carry it."""
        if document not in self._shared:
            return None
        async with self._locks[document]:
            if document not in self._names:
                self._names[document] = await self._cached_name(client, document)
        return self._names[document]

    async def release(self, client: AsyncClient, document: str) -> None:
        """A prompt that reads the document is answered; after the last the service need not hold
        it.
        """
        self._waiting[document] -= 1
        if self._waiting[document] == 0 and (name := self._names.pop(document, None)):
            with suppress(ServiceError):
                await self.service.answer(
                    client, 1, 0, lambda c: c.caches.delete(name=name), lambda _: None
                )

    async def _cached_name(self, client: AsyncClient, document: str) -> str | None:
        config = client_package().types.CreateCachedContentConfig(
            contents=document, system_instruction=self.instruction, ttl=f"{_SECONDS}s"
        )
        try:
            name, _ = await self.service.answer(
                client,
                1,
                self.tokens[document],
                lambda c: c.caches.create(model=self.model, config=config),
                lambda document: str(_required(document.name)),
            )
        except UnansweredError:
            raise
        except RefusedError:
            return None
        self._new_tokens += self.tokens[document]
        return name
