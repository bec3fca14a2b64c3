"""Jobs of Google's Batch API, which cost half and take up to a day: submitted once, looked at, found again after a kill."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_project.extras.gemini.client import GeminiService, NotFoundError
from dagster_project.models.answer_cache import SQLiteAnswerCache
from transforms.errors import EmbeddingError, ServiceError
from transforms.settings.models import GeminiSettings

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

JOBS_FILE = "jobs.sqlite"
_JOBS_AT_ONCE = 50
"""Jobs under way; Google allows a hundred."""
_SUBMITTED = 3
"""Times that what a failed job held is submitted in one run."""
_LISTED = 5
"""Jobs on a page of the list, which may hold their answers."""
_DONE = ("JOB_STATE_SUCCEEDED", "JOB_STATE_PARTIALLY_SUCCEEDED")
_OVER = ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED")
Create = Callable[["AsyncClient", Sequence[int], str], Awaitable[Any]]
"""Submits the requests at some places as a job of a name."""


class BatchJobs:
    """Jobs by what is requested in them; the notes in one file say which job has which request, and at which place.

    A request is noted before its job is submitted, under a name that the job carries, and until `forget` is called. So a
    run that was killed at any moment leaves nothing that the next one would pay for again: a job that is noted is looked for
    by its name, and only what no job holds is submitted.
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
        """The answer of a job to each of some requests, which `create` submits where no job has them.

        Each has a `response` or an `error`. ServiceError if jobs fail again and again.
        """
        found: dict[int, Any] = {}
        noted = self.notes.known(keys)
        for job in sorted({note.rpartition("/")[0] for note in noted.values()}):
            found |= await self._collected(client, job, keys)
        for _ in range(_SUBMITTED):
            rest = [place for place in range(len(keys)) if place not in found]
            if not rest:
                return [found[place] for place in range(len(keys))]
            job = f"weft-{uuid.uuid4().hex}"
            self.notes.store({keys[place]: f"{job}/{number}" for number, place in enumerate(rest)})
            await self._submit(client, job, lambda c, rest=rest, job=job: create(c, rest, job))  # type: ignore[misc]
            found |= await self._collected(client, job, keys)
        raise ServiceError(
            f"jobs of the Gemini Batch API ended {_SUBMITTED} times without answers; what was answered is kept. Build again "
            "later, or without gemini.batch_texts"
        )

    def forget(self, keys: Iterable[str]) -> None:
        """Drop the notes on requests whose answers are kept."""
        self.notes.drop(keys)

    async def _collected(self, client: AsyncClient, job: str, keys: Sequence[str]) -> dict[int, Any]:
        """The answers of a job by the places of their requests among `keys`; without any, the notes on it are dropped."""
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
        """Submit a job, once: where an answer was lost, the job is looked for before it is submitted again."""
        tries = 0

        async def call(client: AsyncClient) -> Any:
            nonlocal tries
            tries += 1
            known = await self._named(client, job) if tries > 1 else None
            return known or (await create(client)).name

        name, _ = await self.service.answer(client, 1, 0, call, _required)
        self.notes.store({f"job/{job}": name})

    async def _named(self, client: AsyncClient, job: str) -> str | None:
        """What the service calls a job that carries a name; None if it has none such."""
        async for listed in await client.batches.list(config={"page_size": _LISTED}):
            if listed.display_name == job and listed.name:
                return str(listed.name)
        return None

    async def _looked_at(self, client: AsyncClient, job: str) -> Sequence[Any] | None:
        """The answers of a job when it is done; None if there will be none, or if it was never submitted."""
        name = self.notes.known([f"job/{job}"]).get(f"job/{job}")
        if name is None:
            name, _ = await self.service.answer(client, 1, 0, lambda c: self._named(c, job), lambda n: n)
        if name is None:
            return None
        while True:
            try:
                seen, _ = await self.service.answer(
                    client, 1, 0, lambda c: c.batches.get(name=name), _required
                )
            except NotFoundError:
                return None
            state = seen.state.value if seen.state else ""
            if state in _DONE:
                dest = seen.dest
                return (dest and (dest.inlined_embed_content_responses or dest.inlined_responses)) or None
            if state in _OVER:
                logging.getLogger("weft").warning("Gemini: the job %s ended as %s", name, state)
                return None
            await asyncio.sleep(self.seconds)


def _required(answer: Any) -> Any:
    """The answer; EmbeddingError if there is none."""
    if not answer:
        raise EmbeddingError("a job without a name")
    return answer
