"""Vectors by Google's Gemini service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.protocols.models import Embedded
from dagster_project.extras.services.batches import BatchJobs
from dagster_project.extras.services.embedder import RemoteEmbedder, Sending
from dagster_project.extras.services.gemini_client import GeminiService, client_package
from dagster_project.extras.services.service import Call
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.vectors import unit_length
from transforms.errors import EmbeddingError
from transforms.hashing import text_hash
from transforms.settings import models
from transforms.text.visible import is_picture, picture_of

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

_JOB_NUMBERS = 300_000
"""Numbers of all vectors of a job, which come in one answer of some 8 MB."""
_REQUESTS_OF_JOB = 5
"""A job holds at most as many texts as so many requests."""


class GeminiEmbedder(RemoteEmbedder):
    """Vectors of `gemini-embedding-2` or another model of Google."""

    service: GeminiService

    def __init__(
        self,
        settings: models.EmbeddingSettings,
        gemini: models.GeminiSettings,
        safety: models.SafetySettings = models.SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is the folder of the notes on jobs of the Batch API; without it there are none."""
        super().__init__(settings, gemini, safety, budget)
        self.gemini, self.jobs_folder = gemini, jobs
        self.batch_tokens = min(gemini.request_tokens, gemini.tokens_per_minute)
        model = models.gemini_embedding(settings.name)
        self.price, self.knows_tasks = model.price, model.knows_tasks
        self.service = GeminiService(gemini)

    def for_texts(self, count: int) -> GeminiEmbedder:
        """The embedder of so many texts: of many the one that submits jobs."""
        least = self.gemini.batch_texts
        if least is None or count < least or self.jobs_folder is None:
            return self
        return BatchEmbedder(
            self.settings,
            self.gemini,
            self.safety or models.SafetySettings(),
            self._budget,
            self.jobs_folder,
        )

    async def request(self, client: AsyncClient, texts: list[str], task: str) -> Any:
        contents, config = self._contents(texts, task)
        return await client.models.embed_content(model=self.name, contents=contents, config=config)

    def _contents(self, texts: Sequence[str], task: str) -> tuple[Any, Any]:
        """Texts as they are sent, and the configuration of the request."""
        types = client_package().types

        def part(text: str) -> Any:
            picture = picture_of(text)
            if picture is None:
                return types.Part(text=self.prefixes[task] + text)
            return types.Part.from_bytes(data=picture.data, mime_type=picture.media_type)

        # One content per text: a list of plain strings is one text to some models.
        contents = [types.Content(parts=[part(text)]) for text in texts]
        task_type = task if self.knows_tasks else None
        return contents, types.EmbedContentConfig(
            task_type=task_type, output_dimensionality=self.dimensions
        )

    def vectors(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer, of unit length; EmbeddingError if they do not fit the request."""
        rows = [e.values or [] for e in answer.embeddings or ()]
        if len(rows) != count:
            raise EmbeddingError(f"{count} texts went out, {len(rows)} vectors came back")
        widths = {len(values) for values in rows}
        if widths != {self.dimensions}:
            raise EmbeddingError(
                f"vectors of {self.dimensions} numbers were asked for, those that came have {sorted(widths)}"
            )
        return unit_length(np.array(rows, dtype=np.float64))


class BatchEmbedder(GeminiEmbedder):
    """The same by jobs of the Batch API, for half the price; a job of a killed run is found again.

    A text without a vector from its job is requested by itself, at the full price: so is known
    which texts are refused.
    """

    remembers = True

    def __init__(
        self,
        settings: models.EmbeddingSettings,
        gemini: models.GeminiSettings,
        safety: models.SafetySettings,
        budget: RunBudget,
        jobs: Path,
    ):
        super().__init__(settings, gemini, safety, budget)
        self.jobs = BatchJobs(gemini, jobs)
        self.service = self.jobs.service
        self.price *= models.BATCH_SHARE
        self.batch_texts = min(
            gemini.request_texts * _REQUESTS_OF_JOB, _JOB_NUMBERS // self.dimensions
        )
        self.batch_tokens = None
        self._keys: dict[int, list[str]] = {}

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as their jobs are done; the notes on a job stay until whoever asks has stored
        the vectors.
        """
        self.jobs.begin()
        for done in super().embed_batches(batches):
            yield done
            self.jobs.forget(self._keys.pop(done.batch))

    def _job(self, batch: int, texts: Sequence[str], task: str) -> Call[Embedded]:
        async def run(client: AsyncClient) -> Embedded:
            sent, counts, truncated = self._cut(self._screened(texts), task)
            # A job of pictures would be too large to submit.
            words = [text for text in sent if not is_picture(text)]
            self._keys[batch] = [
                f"{self.model}/{self.dimensions}/{task}/{text_hash(text)}" for text in words
            ]
            answers = await self.jobs.answers(
                client,
                self._keys[batch],
                lambda client, places, name: self._submitted(
                    client, [words[i] for i in places], task, name
                ),
            )
            vectors = np.zeros((len(sent), self.dimensions), dtype=np.float32)
            answer_of = iter(answers)
            without = [
                place
                for place, text in enumerate(sent)
                if is_picture(text) or not self._take(next(answer_of), vectors, place)
            ]
            alone = Sending(
                self, client, [sent[i] for i in without], [counts[i] for i in without], task
            )
            if without:
                await alone.fill()
                vectors[without] = alone.vectors
            refused = {without[place]: why for place, why in alone.refused.items()}
            tokens = sum(count for place, count in enumerate(counts) if place not in refused)
            self._budget.spend(tokens)
            return Embedded(batch, vectors, tokens, truncated, bool(words) + alone.calls, refused)

        return run

    async def _submitted(
        self, client: AsyncClient, texts: Sequence[str], task: str, name: str
    ) -> Any:
        types = client_package().types
        contents, config = self._contents(texts, task)
        source = types.EmbeddingsBatchJobSource(
            inlined_requests=types.EmbedContentBatch(contents=contents, config=config)
        )
        return await client.batches.create_embeddings(
            model=self.name,
            src=source,
            config=types.CreateEmbeddingsBatchJobConfig(display_name=name),
        )

    def _take(self, answer: Any, vectors: np.ndarray, place: int) -> bool:
        """Set the vector of an answer; False if it has no vector that is as it should be."""
        response = answer.response
        values = (response.embedding.values if response and response.embedding else None) or []
        if len(values) != self.dimensions or not np.isfinite(values).all() or not np.any(values):
            return False
        vectors[place] = unit_length(np.array([values], dtype=np.float64))[0]
        return True
