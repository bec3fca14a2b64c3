"""Answers in a given shape by Google's Gemini service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from assets.protocols.models import Answer, Shape
from dagster_project.extras.services.batches import BatchJobs, HeldDocuments
from dagster_project.extras.services.gemini_client import GeminiService, client_package
from dagster_project.extras.services.language import RemoteLanguageModel, sent_tokens
from dagster_project.extras.services.service import Call, RefusedError
from dagster_project.system.rate_limit import RunBudget
from transforms.embedding.sent_texts import DATA_NOTE, DOCUMENT, prompt_json
from transforms.errors import ServiceError, UnansweredError
from transforms.hashing import text_hash
from transforms.settings.models import BATCH_SHARE, GeminiSettings, SafetySettings, language_dollars

if TYPE_CHECKING:
    from google.genai.client import AsyncClient


_PROMPTS_OF_JOB = 200
"""Prompts of a job, whose answers come in one."""


class _Read(NamedTuple):
    """The document that a prompt reads, and the prompt without it; both empty without one."""

    document: str
    rest: str


class _Prompt(NamedTuple):
    """A prompt as it is sent, the tokens that it takes at most, and the document that it reads."""

    text: str
    tokens: int
    read: _Read


class GeminiLanguageModel(RemoteLanguageModel):
    """A Gemini model; many prompts are answered by jobs of the Batch API, and documents that
    several read are held.
    """

    def __init__(
        self,
        name: str,
        gemini: GeminiSettings,
        max_output_tokens: int,
        safety: SafetySettings = SafetySettings(),
        budget: RunBudget | None = None,
        jobs: Path | None = None,
    ):
        """`jobs` is the folder of the notes on jobs of the Batch API; without it there are none."""
        super().__init__(name, gemini, max_output_tokens, safety, budget)
        self.gemini, self.jobs_folder = gemini, jobs
        self.service = GeminiService(gemini)

    def answers(
        self, prompts: Sequence[Mapping[str, Any]], shape: type[Shape], instruction: str
    ) -> Iterator[Answer[Shape]]:
        """One answer per prompt as it comes; a prompt that the service refuses has the reason
        instead.
        """
        instruction = f"{instruction}\n\n{DATA_NOTE}"
        texts = [prompt_json(prompt, self.safety) for prompt in prompts]
        counts = self.counts_within_budget(texts, instruction)
        least = self.gemini.batch_texts
        if least is not None and len(texts) >= least and self.jobs_folder is not None:
            return self._by_jobs(
                BatchJobs(self.gemini, self.jobs_folder), texts, counts, shape, instruction
            )
        documents, cache = self._documents(prompts, instruction)
        requests = [_Prompt(*prompt) for prompt in zip(texts, counts, documents, strict=True)]
        jobs = (
            self._job(n, prompt, shape, instruction, cache) for n, prompt in enumerate(requests)
        )
        return self.service.results(jobs)

    def _documents(
        self, prompts: Sequence[Mapping[str, Any]], instruction: str
    ) -> tuple[list[_Read], HeldDocuments]:
        """For each prompt the document that it reads and the rest of it, and the holder of the
        documents.
        """
        parts = [_Read("", "")] * len(prompts)
        for number, prompt in enumerate(prompts):
            if DOCUMENT in prompt:
                rest = {key: value for key, value in prompt.items() if key != DOCUMENT}
                document = prompt_json({DOCUMENT: prompt[DOCUMENT]}, self.safety)
                parts[number] = _Read(document, prompt_json(rest, self.safety))
        texts = [part.document for part in parts]
        distinct = [text for text in dict.fromkeys(texts) if text]
        tokens = dict(zip(distinct, sent_tokens(distinct, ""), strict=True))
        return parts, HeldDocuments(self.service, self.model, instruction, texts, tokens)

    def _by_jobs(
        self,
        jobs: BatchJobs,
        texts: Sequence[str],
        counts: Sequence[int],
        shape: type[Shape],
        instruction: str,
    ) -> Iterator[Answer[Shape]]:
        """The answers by jobs of the Batch API; a prompt without an answer of the right shape is
        sent by itself.
        """
        keys = [
            f"{self.model}/{text_hash(f'{instruction}/{shape.__name__}/{text}')}" for text in texts
        ]

        def job(places: range) -> Call[list[Answer[Shape]]]:
            async def run(client: AsyncClient) -> list[Answer[Shape]]:
                async def create(client: AsyncClient, chosen: Sequence[int], name: str) -> Any:
                    prompts = [texts[places[i]] for i in chosen]
                    return await self._submitted(client, prompts, shape, instruction, name)

                replies = await jobs.answers(client, [keys[n] for n in places], create)
                results = [
                    self._of_job(n, answer, shape)
                    for n, answer in zip(places, replies, strict=True)
                ]
                return [
                    answer
                    or await self._job(
                        n, _Prompt(texts[n], counts[n], _Read("", "")), shape, instruction
                    )(client)
                    for n, answer in zip(places, results, strict=True)
                ]

            return run

        jobs.begin()
        starts = range(0, len(texts), _PROMPTS_OF_JOB)
        for answers in jobs.service.results(
            job(range(len(texts))[n : n + _PROMPTS_OF_JOB]) for n in starts
        ):
            yield from answers
            jobs.forget(keys[answer.prompt] for answer in answers)

    async def _submitted(
        self,
        client: AsyncClient,
        texts: Sequence[str],
        shape: type[Shape],
        instruction: str,
        name: str,
    ) -> Any:
        types = client_package().types
        config = self._config(shape, instruction)
        requests: Any = [types.InlinedRequest(contents=text, config=config) for text in texts]
        return await client.batches.create(
            model=self.model, src=requests, config=types.CreateBatchJobConfig(display_name=name)
        )

    def _of_job(self, number: int, answer: Any, shape: type[Shape]) -> Answer[Shape] | None:
        """The answer of a job to a prompt; None if it has no answer of the shape."""
        if answer.response is None:
            return None
        try:
            value, sent, output, _ = self._value(answer.response, shape)
        except (RefusedError, ValidationError):
            return None
        self.budget.spend(sent + output)
        return Answer(
            number,
            value,
            None,
            sent + output,
            0,
            language_dollars(self.model, sent, output) * BATCH_SHARE,
        )

    def _dollars_at_most(
        self, prompts: Sequence[Mapping[str, Any]], instruction: str, sent: int, answered: int
    ) -> float:
        """The US dollars for so many tokens, if held documents are read for a tenth."""
        documents, cache = self._documents(prompts, instruction)
        reread = cache.reread_tokens([read.document for read in documents])
        return language_dollars(self.model, sent, answered, reread)

    def _job(
        self,
        number: int,
        prompt: _Prompt,
        shape: type[Shape],
        instruction: str,
        cache: HeldDocuments | None = None,
    ) -> Call[Answer[Shape]]:
        document = prompt.read.document

        async def run(client: AsyncClient) -> Answer[Shape]:
            name = await cache.name(client, document) if cache else None
            try:
                try:
                    answer = await self._ask(client, prompt, shape, instruction, name)
                except UnansweredError:
                    raise
                except ServiceError:
                    # The service may have let go of the document.
                    if name is None:
                        raise
                    answer = await self._ask(client, prompt, shape, instruction, None)
            except RefusedError as fault:
                return Answer(number, None, str(fault), 0)
            finally:
                if cache:
                    await cache.release(client, document)
            (value, sent, output, reread), calls = answer
            new = cache.taken() if cache else 0
            self.budget.spend(sent + output + new)
            dollars = language_dollars(self.model, sent + new, output, reread)
            return Answer(number, value, None, sent + output + new, calls, dollars)

        return run

    async def _ask(
        self,
        client: AsyncClient,
        prompt: _Prompt,
        shape: type[Shape],
        instruction: str,
        cached: str | None,
    ) -> tuple[tuple[Shape, int, int, int], int]:
        """`_value` of the answer to a prompt, which carries its document unless that is `cached`,
        and the calls.
        """
        text = prompt.read.rest if cached else prompt.text
        config = self._config(shape, None if cached else instruction, cached)
        return await self.service.answer(
            client,
            1,
            prompt.tokens,
            lambda c: c.models.generate_content(model=self.model, contents=text, config=config),
            lambda answer: self._value(answer, shape),
        )

    def _config(
        self, shape: type[Shape], instruction: str | None, cached: str | None = None
    ) -> Any:
        """The configuration of a request for a prompt; a held document has the instruction with it."""
        return client_package().types.GenerateContentConfig(
            system_instruction=instruction,
            cached_content=cached,
            temperature=0.0,
            max_output_tokens=self.max_output_tokens,
            response_mime_type="application/json",
            response_json_schema=shape.model_json_schema(),
        )

    def _value(self, answer: Any, shape: type[Shape]) -> tuple[Shape, int, int, int]:
        """The value, the tokens that were sent and that came back, and those sent ones that the
        service held.

        RefusedError for no answer or half of one, ValidationError for one of another shape.
        """
        feedback = answer.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            blocked = self.service.shown(feedback.block_reason.value)
            raise RefusedError(f"the Gemini service blocks the prompt ({blocked})")
        candidate = next(iter(answer.candidates or ()), None)
        reason = (
            candidate.finish_reason.value
            if candidate and candidate.finish_reason
            else "no candidate"
        )
        if reason != "STOP":
            raise RefusedError(
                f"the Gemini service gives no whole answer ({self.service.shown(reason)})"
            )
        parts = candidate.content.parts if candidate and candidate.content else None
        text = "".join(part.text or "" for part in parts or () if not part.thought)
        return shape.model_validate_json(text), *_tokens(answer.usage_metadata)


def _tokens(usage: Any) -> tuple[int, int, int]:
    """Tokens that were sent and that came back, and those sent ones that the service held."""
    if not usage:
        return 0, 0, 0
    sent = max(0, int(usage.prompt_token_count or 0))
    output = max(0, int(usage.total_token_count or 0) - sent)
    return sent, output, min(sent, max(0, int(usage.cached_content_token_count or 0)))
