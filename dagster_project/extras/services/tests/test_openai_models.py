"""Models behind OpenAI's protocol, over a loopback endpoint: right vectors and answers, faults told
apart, prefixes sent.
"""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from dagster_project.composition.objects import make_resources
from dagster_project.models.embedders import make_embedder
from dagster_project.models.language_models import language_model
from tests.archives import Workspace
from tests.http_loopback import WholeAnswers, served
from tests.timing import HUNG
from transforms.errors import BudgetError, RefusedTextError, ServiceError
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings

KEY = "sk-loopback-key-that-must-never-be-seen"
LIMITS = GeminiSettings(
    backoff_seconds=0.01,
    max_backoff_seconds=0.02,
    attempts=3,
    request_texts=4,
    timeout_seconds=HUNG,
)
SETTINGS = EmbeddingSettings(model="openai", name="nomic-embed-text", dimensions=8)


@dataclass
class Endpoint:
    """What the endpoint saw, and the status codes of the coming answers; None answers well."""

    plan: deque[int | None] = field(default_factory=deque)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    width: int = 8
    reply: str = '{"score": 7}'
    retry_after: str = ""


def direction(text: str, width: int) -> list[float]:
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    return [float(v) * 3 for v in np.random.default_rng(seed).normal(size=width)]


class _Answer(WholeAnswers):
    state: Endpoint

    def do_POST(self) -> None:  # noqa: N802
        state, body = self.state, json.loads(self.form())
        state.asked.append({"path": self.path, **body})
        state.keys.add(self.headers.get("authorization", ""))
        code = state.plan.popleft() if state.plan else None
        if code is None and any("forbidden" in text for text in body.get("input", [])):
            code = 400
        if code is not None:
            error = {"message": f"said to {self.headers.get('authorization')}"}
            self.send(code, {"error": error}, {"Retry-After": state.retry_after})
        elif self.path == "/v1/embeddings":
            rows = [
                {"index": n, "embedding": direction(t, state.width)}
                for n, t in enumerate(body["input"])
            ]
            self.send(200, {"data": rows[::-1]})
        else:
            choice = {"finish_reason": "stop", "message": {"content": state.reply}}
            self.send(200, {"choices": [choice], "usage": {"total_tokens": 12}})


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    state = Endpoint()
    with served(_Answer, state=state) as origin:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{origin}/v1/")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield state


def unit(text: str) -> np.ndarray:
    values = np.array(direction(text, 8))
    return values / np.linalg.norm(values)


def test_texts_and_queries_have_their_prefixes_and_vectors(endpoint: Endpoint):
    embedder = make_embedder(SETTINGS, LIMITS)
    texts = [f"text {n}" for n in range(6)]
    first, second = sorted(
        embedder.embed_batches([texts[:4], texts[4:]]), key=lambda done: done.batch
    )
    made = np.concatenate([first.vectors, second.vectors])
    assert np.allclose(made, [unit(f"search_document: {t}") for t in texts], atol=1e-4)
    assert np.allclose(embedder.embed_queries(["q"])[0], unit("search_query: q"), atol=1e-4)
    assert endpoint.keys == {f"Bearer {KEY}"} and "dimensions" not in endpoint.asked[0]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_passing_fault_is_waited_out(endpoint: Endpoint, code: int):
    endpoint.plan = deque([code, code])
    (done,) = make_embedder(SETTINGS, LIMITS).embed_batches([["a"]])
    assert np.allclose(done.vectors[0], unit("search_document: a"), atol=1e-4)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (401, "does not accept the key in OPENAI_API_KEY"),
        (404, "does not know the model"),
        (500, "3 times in a row"),
        (429, "asks to wait .* longer than a run waits"),
    ],
)
def test_a_lasting_fault_is_explained_without_the_key(endpoint: Endpoint, code: int, said: str):
    endpoint.plan = deque([code] * 9)
    endpoint.retry_after = "Tue, 31 Dec 2199 23:59:59 GMT" if code == 429 else ""
    with pytest.raises(ServiceError, match=said) as fault:
        list(make_embedder(SETTINGS, LIMITS).embed_batches([["a"]]))
    assert KEY not in str(fault.value)


def test_a_refused_text_is_found_among_others(endpoint: Endpoint):
    embedder = make_embedder(SETTINGS, LIMITS)
    (done,) = embedder.embed_batches([["a", "forbidden", "c"]])
    assert set(done.refused) == {1} and np.allclose(
        done.vectors[2], unit("search_document: c"), atol=1e-4
    )
    with pytest.raises(RefusedTextError):
        embedder.embed_queries(["forbidden"])


def test_a_width_that_is_not_the_settings_is_explained(endpoint: Endpoint):
    endpoint.width = 5
    with pytest.raises(ServiceError, match="write embedding.dimensions = 5"):
        list(make_embedder(SETTINGS, LIMITS).embed_batches([["a"]]))


def test_secrets_do_not_leave_and_long_texts_are_cut(endpoint: Endpoint):
    settings = SETTINGS.model_copy(update={"max_tokens": 4})
    (done,) = make_embedder(settings, LIMITS).embed_batches(
        [["mail ann@example.org " + "word " * 50]]
    )
    (sent,) = endpoint.asked[0]["input"]
    assert "ann@" not in sent and len(sent) < 60 and done.truncated == 1


class Score(BaseModel):
    score: int


def test_a_language_model_answers_in_the_asked_shape(endpoint: Endpoint):
    model = language_model("openai/llama", 100, LIMITS, SafetySettings())
    prompts = [{"question": "a"}, {"question": "b"}]
    assert [a.value for a in model.answers(prompts, Score, "Score.")] == [Score(score=7)] * 2

    async def in_a_notebook() -> list[Any]:
        return [answer.value for answer in model.answers(prompts, Score, "Score.")]

    assert asyncio.run(in_a_notebook()) == [Score(score=7)] * 2
    assert (
        endpoint.asked[0]["model"] == "llama"
        and endpoint.asked[0]["path"] == "/v1/chat/completions"
    )
    endpoint.plan = deque([400])
    (refused,) = model.answers([{"question": "a"}], Score, "Score.")
    assert refused.value is None and "refuses" in (refused.refusal or "")
    endpoint.reply = "no JSON"
    with pytest.raises(ServiceError, match="cannot be read"):
        list(model.answers([{"question": "a"}], Score, "Score."))
    with pytest.raises(BudgetError):
        list(
            language_model(
                "openai/llama",
                100,
                LIMITS.model_copy(update={"budget_tokens": 9}),
                SafetySettings(),
            ).answers([{"question": "a"}], Score, "Score.")
        )


def test_a_model_needs_its_name_and_width():
    with pytest.raises(ValidationError, match="openai needs a name"):
        EmbeddingSettings(model="openai", name="x")
    with pytest.raises(ValidationError, match="onnx_file is for transformer only"):
        EmbeddingSettings(model="openai", name="x", dimensions=8, onnx_file="a.onnx")


def test_the_ui_names_the_variable_of_the_service_that_answers(workspace: Workspace):
    workspace.configure(sentences={"kind": "gemini", "name": "openai/llama3.1"})
    assert make_resources(workspace.settings)["language_model"].api_key == {"env": "OPENAI_API_KEY"}
