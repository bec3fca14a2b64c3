"""Vectors by Google's Gemini service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.protocols.models import Embedded
from dagster_project.extras.gemini.batches import BatchJobs
from dagster_project.extras.gemini.client import GeminiService, RefusedError
from dagster_project.models.static import load_tokenizer
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.vectors import batch_ranges, unit_length
from transforms.errors import EmbeddingError, RefusedTextError
from transforms.hashing import text_hash
from transforms.settings.model_names import BATCH_SHARE, gemini_embedding
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings
from transforms.text.pictures import is_picture, picture_of
from transforms.text.redaction import screened

if TYPE_CHECKING:
    from google.genai.client import AsyncClient

_DOCUMENT, _QUERY = "RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY"
_JOB_NUMBERS = 300_000
"""Numbers of all vectors of a job, which come in one answer of some 8 MB."""
_REQUESTS_OF_JOB = 5
"""A job holds at most as many texts as so many requests."""
_HARMLESS = "The weather is fine today."
"""Embedded to tell a request that is wrong as such from one with a text that is refused."""
_HARMLESS_TOKENS = 16
_PICTURES = 6
"""Pictures of a request: what the service takes."""
_PICTURE_TOKENS = 600
"""What a picture counts: its 258 tokens cost as much as so many of text."""


class GeminiEmbedder:
    """Vectors of `gemini-embedding-2` or another model of Google, scaled to unit length.

    Tokens are counted here with the tokenizer of the static model: its 32,000 pieces are fewer and
    shorter than Gemini's, so that a text has fewer tokens there than are counted here. What is
    longer than the limit is cut before it is sent. Secrets and personal data in texts and queries are
    masked or held back as `safety` says.
    """

    is_paid, remembers = True, False

    def __init__(
        self,
        settings: EmbeddingSettings,
        gemini: GeminiSettings,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is the folder of the notes on jobs of the Batch API; without it there are none."""
        self.settings, self.gemini, self.jobs_folder = settings, gemini, jobs
        self.safety: SafetySettings | None = safety
        self.model, self.dimensions = settings.model_id, settings.dimensions
        self.name = settings.name or ""
        self.max_tokens: int | None = settings.token_limit
        self.batch_texts = gemini.request_texts
        self.batch_tokens: int | None = min(gemini.request_tokens, gemini.tokens_per_minute)
        known = gemini_embedding(settings.name)
        self.price, self.knows_tasks = known.price, known.knows_tasks
        self.prefixes = {_DOCUMENT: settings.prefixes.document, _QUERY: settings.prefixes.query}
        self._budget = budget or RunBudget(gemini.budget_tokens)
        self.service = GeminiService(gemini)
        self._tokenizer: Any = None

    def for_texts(self, count: int) -> GeminiEmbedder:
        """The embedder of so many texts: of many the one that submits jobs."""
        least = self.gemini.batch_texts
        if least is None or count < least or self.jobs_folder is None:
            return self
        return BatchEmbedder(
            self.settings, self.gemini, self.safety or SafetySettings(), self._budget, self.jobs_folder
        )

    @property
    def budget(self) -> int | None:
        """Tokens that the run may still take."""
        return self._budget.left

    def _screened(self, texts: Sequence[str]) -> list[str]:
        """The texts as they may be sent; those that are stored were screened before and stay as they are."""
        return screened(texts, self.safety).texts if self.safety else list(texts)

    def token_counts(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text with what is put before it, int64; more than the service will count."""
        return self._counts(texts, _DOCUMENT)

    def _counts(self, texts: Sequence[str], task: str) -> np.ndarray:
        prefix, *found = (len(e.ids) for e in self._encoded([self.prefixes[task], *map(_words, texts)]))
        pictures = np.array([is_picture(text) for text in texts], dtype=bool)
        return np.where(pictures, _PICTURE_TOKENS, np.array(found, dtype=np.int64) + prefix)

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as the service answers, several requests under way at once."""
        return self.service.results(self._job(n, texts, _DOCUMENT) for n, texts in enumerate(batches))

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched (task type RETRIEVAL_DOCUMENT)."""
        return self._in_order(texts, _DOCUMENT)

    def embed_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of texts that are searched with (task type RETRIEVAL_QUERY)."""
        return self._in_order(texts, _QUERY)

    def _in_order(self, texts: Sequence[str], task: str) -> np.ndarray:
        texts = self._screened(texts)
        made = np.empty((len(texts), self.dimensions), dtype=np.float32)
        refused: dict[int, str] = {}
        counts = np.minimum(self._counts(texts, task), self.max_tokens or 0).tolist()
        for part in batch_ranges(counts, self.batch_texts, self.batch_tokens):
            done = self.service.result(self._job(0, [texts[i] for i in part], task))
            refused |= {part.start + place: why for place, why in done.refused.items()}
            made[part.start : part.stop] = done.vectors
        if refused:
            raise RefusedTextError(
                f"{self.model} refuses a text: {next(iter(refused.values()))}", refused, made
            )
        return made

    def _job(
        self, batch: int, texts: Sequence[str], task: str
    ) -> Callable[[AsyncClient], Awaitable[Embedded]]:
        """One batch as a job of the service."""

        async def run(client: AsyncClient) -> Embedded:
            sent, counts, truncated = self._cut(self._screened(texts), task)
            sending = _Sending(self, client, sent, counts, task)
            await sending.fill()
            tokens = sum(count for place, count in enumerate(counts) if place not in sending.refused)
            self._budget.spend(tokens)
            return Embedded(batch, sending.vectors, tokens, truncated, sending.calls, sending.refused)

        return run

    async def request(self, client: AsyncClient, texts: list[str], task: str) -> Any:
        contents, config = self._contents(texts, task)
        return await client.models.embed_content(model=self.name, contents=contents, config=config)

    def _contents(self, texts: Sequence[str], task: str) -> tuple[Any, Any]:
        """Texts as they are sent, and what is asked of them."""
        from google.genai.types import Content, EmbedContentConfig, Part

        def part(text: str) -> Part:
            seen = picture_of(text)
            if seen is None:
                return Part(text=self.prefixes[task] + text)
            return Part.from_bytes(data=seen.data, mime_type=seen.media_type)

        # One content per text: a list of plain strings is one text to some models.
        contents = [Content(parts=[part(text)]) for text in texts]
        named = task if self.knows_tasks else None
        return contents, EmbedContentConfig(task_type=named, output_dimensionality=self.dimensions)

    def vectors(self, answer: Any, count: int) -> np.ndarray:
        """The vectors of an answer, of unit length; EmbeddingError if they are not what was asked for."""
        found = [e.values or [] for e in answer.embeddings or ()]
        if len(found) != count:
            raise EmbeddingError(f"{count} texts went out, {len(found)} vectors came back")
        widths = {len(values) for values in found}
        if widths != {self.dimensions}:
            raise EmbeddingError(
                f"vectors of {self.dimensions} numbers were asked for, those that came have {sorted(widths)}"
            )
        return unit_length(np.array(found, dtype=np.float64))

    def _cut(self, texts: Sequence[str], task: str) -> tuple[list[str], list[int], int]:
        """The texts within the limit, their tokens with what is put before them, and how many were cut."""
        before, *encoded = self._encoded([self.prefixes[task], *map(_words, texts)])
        prefix = len(before.ids)
        limit = (self.max_tokens or 0) - prefix
        cut, counts, truncated = [], [], 0
        for text, encoding in zip(texts, encoded, strict=True):
            if is_picture(text):
                cut.append(text)
                counts.append(_PICTURE_TOKENS)
                continue
            is_long = len(encoding.ids) > limit
            cut.append(text[: encoding.offsets[limit - 1][1]] if is_long else text)
            counts.append(min(len(encoding.ids), limit) + prefix)
            truncated += is_long
        return cut, counts, truncated

    def _encoded(self, texts: Sequence[str]) -> Any:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer()
        return self._tokenizer.encode_batch(list(texts), add_special_tokens=False)


class BatchEmbedder(GeminiEmbedder):
    """The same by jobs of the Batch API, for half the price; a job of a killed run is found again.

    What a job has no vector of is requested by itself, at the full price: so is known which texts are refused.
    """

    remembers = True

    def __init__(
        self,
        settings: EmbeddingSettings,
        gemini: GeminiSettings,
        safety: SafetySettings,
        budget: RunBudget,
        jobs: Path,
    ):
        super().__init__(settings, gemini, safety, budget, jobs)
        self.jobs = BatchJobs(gemini, jobs)
        self.service = self.jobs.service
        self.price *= BATCH_SHARE
        self.batch_texts = min(gemini.request_texts * _REQUESTS_OF_JOB, _JOB_NUMBERS // self.dimensions)
        self.batch_tokens = None
        self._keys: dict[int, list[str]] = {}

    def for_texts(self, count: int) -> GeminiEmbedder:
        """This one."""
        return self

    def embed_batches(self, batches: Iterable[Sequence[str]]) -> Iterator[Embedded]:
        """The batches as their jobs are done; the notes on a job stay until whoever asks has stored the vectors."""
        self.jobs.begin()
        for done in super().embed_batches(batches):
            yield done
            self.jobs.forget(self._keys.pop(done.batch))

    def _job(
        self, batch: int, texts: Sequence[str], task: str
    ) -> Callable[[AsyncClient], Awaitable[Embedded]]:
        """One batch as a job of the Batch API."""

        async def run(client: AsyncClient) -> Embedded:
            sent, counts, truncated = self._cut(self._screened(texts), task)
            # A job of pictures would be too large to submit.
            words = [text for text in sent if not is_picture(text)]
            self._keys[batch] = [f"{self.model}/{self.dimensions}/{task}/{text_hash(text)}" for text in words]
            answers = await self.jobs.answers(
                client,
                self._keys[batch],
                lambda client, places, name: self._submitted(client, [words[i] for i in places], task, name),
            )
            vectors = np.zeros((len(sent), self.dimensions), dtype=np.float32)
            answer_of = iter(answers)
            without = [
                place
                for place, text in enumerate(sent)
                if is_picture(text) or not self._taken(next(answer_of), vectors, place)
            ]
            alone = _Sending(self, client, [sent[i] for i in without], [counts[i] for i in without], task)
            if without:
                await alone.fill()
                vectors[without] = alone.vectors
            refused = {without[place]: why for place, why in alone.refused.items()}
            tokens = sum(count for place, count in enumerate(counts) if place not in refused)
            self._budget.spend(tokens)
            return Embedded(batch, vectors, tokens, truncated, bool(words) + alone.calls, refused)

        return run

    async def _submitted(self, client: AsyncClient, texts: Sequence[str], task: str, name: str) -> Any:
        """The job of some texts."""
        from google.genai.types import (
            CreateEmbeddingsBatchJobConfig,
            EmbedContentBatch,
            EmbeddingsBatchJobSource,
        )

        contents, config = self._contents(texts, task)
        source = EmbeddingsBatchJobSource(
            inlined_requests=EmbedContentBatch(contents=contents, config=config)
        )
        return await client.batches.create_embeddings(
            model=self.name, src=source, config=CreateEmbeddingsBatchJobConfig(display_name=name)
        )

    def _taken(self, answer: Any, vectors: np.ndarray, place: int) -> bool:
        """Set the vector of an answer; False if it has none that is as it should be."""
        response = answer.response
        values = (response.embedding.values if response and response.embedding else None) or []
        if len(values) != self.dimensions or not np.isfinite(values).all() or not np.any(values):
            return False
        vectors[place] = unit_length(np.array([values], dtype=np.float64))[0]
        return True


class _Sending:
    """One batch under way: the vectors so far, the refused texts by place, the calls."""

    def __init__(
        self, embedder: GeminiEmbedder, client: AsyncClient, texts: list[str], counts: list[int], task: str
    ):
        self.embedder, self.client, self.task = embedder, client, task
        self.texts, self.counts = texts, counts
        self.vectors = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
        self.refused: dict[int, str] = {}
        self.calls = 0

    async def fill(self) -> None:
        """Set the vectors; what the service refuses is halved until the refused texts are found.

        RefusedError if it refuses a harmless text as well: then it is no text that is wrong.
        """
        for part in _requests(self.texts):
            try:
                await self._send(part)
            except RefusedError as fault:
                await self._answered([_HARMLESS], [_HARMLESS_TOKENS])
                await self._divide(part, fault)

    async def _divide(self, part: range, fault: RefusedError) -> None:
        """Send the halves of a refused part by themselves; a text that is refused alone has the reason."""
        if len(part) == 1:
            self.refused[part.start] = str(fault)
            return
        middle = (part.start + part.stop) // 2
        for half in (range(part.start, middle), range(middle, part.stop)):
            try:
                await self._send(half)
            except RefusedError as again:
                await self._divide(half, again)

    async def _send(self, part: range) -> None:
        """Ask for the vectors of `part`."""
        span = slice(part.start, part.stop)
        self.vectors[span] = await self._answered(self.texts[span], self.counts[span])

    async def _answered(self, texts: list[str], counts: list[int]) -> np.ndarray:
        """The vectors of texts of so many tokens; RefusedError if the service will not embed them."""
        embedder = self.embedder
        try:
            vectors, calls = await embedder.service.answer(
                self.client,
                len(texts),
                sum(counts),
                lambda client: embedder.request(client, texts, self.task),
                lambda answer: embedder.vectors(answer, len(texts)),
            )
        except RefusedError:
            self.calls += 1
            raise
        self.calls += calls
        return vectors


def _words(text: str) -> str:
    """What of a text is counted by its words: nothing of a picture."""
    return "" if is_picture(text) else text


def _requests(texts: Sequence[str]) -> Iterator[range]:
    """Neighbouring texts of which at most `_PICTURES` are pictures; all at once where there are few."""
    start = count = 0
    for place, text in enumerate(texts):
        if not is_picture(text):
            continue
        if count == _PICTURES:
            yield range(start, place)
            start, count = place, 0
        count += 1
    yield range(start, len(texts))
