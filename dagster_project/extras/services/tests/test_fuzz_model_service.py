"""The clients of Google's service against one that lies: a result or a clear fault, soon, and never
the key.
"""

import gzip
import json
import logging
import math
import random
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from dagster_project.extras.services.gemini_embedder import GeminiEmbedder
from dagster_project.extras.services.gemini_language import GeminiLanguageModel
from tests import gemini_loopback as server
from tests.fuzz.fuzzing import SECRET, seeds, within_limits
from tests.gemini_loopback import Fault, Loopback, loopback
from transforms.errors import WeftError
from transforms.settings.models import EmbeddingSettings, GeminiSettings

TEXTS = [
    "plain",
    "",
    " ",
    "\0",
    "lone \ud800",
    "\u202e\ufeff",
    "ann@example.org",
    "💥" * 50,
    "word " * 20_000,
    "w" * 100_000,
]
NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    0,
    -0.0,
    5e-324,
    1e-160,
    1e200,
    1e308,
    True,
    None,
    "1",
    "",
    [],
    {},
    10**400,
]
WAITS = [
    "",
    "-1",
    "\xb2",
    "0",
    "0.01",
    "9" * 400,
    "soon",
    "nan",
    "Wed, 21 Oct 2015 07:28:00 GMT",
    "Wed, 99 Foo",
    "1e3",
]
CODES = [
    204,
    206,
    300,
    301,
    302,
    304,
    307,
    400,
    401,
    403,
    404,
    408,
    413,
    418,
    422,
    429,
    500,
    502,
    503,
    599,
    999,
]
HEADERS = [
    {"content-type": "text/html; charset=nonsense"},
    {"content-type": "application/json; charset=utf-16"},
    {"content-encoding": "gzip"},
    {"content-encoding": "deflate"},
    {"location": f"http://127.0.0.1:9/?key={SECRET}"},
    {"location": "http://[bad"},
    {"location": "/v1beta/elsewhere"},
    {"set-cookie": f"key={SECRET}"},
]


class Line(BaseModel):
    """The shape of the answers of the language model."""

    lines: list[str]


def values(chance: random.Random) -> list[Any]:
    """A vector, perhaps not as it was asked for."""
    width = chance.choice([768, 768, 768, 0, 1, 767, 769, 5000])
    made: list[Any] = [chance.uniform(-1, 1) for _ in range(width)]
    for _ in range(chance.choice([0, 1, width])):
        if made:
            made[chance.randrange(len(made))] = chance.choice(NUMBERS)
    return made


def nonsense(chance: random.Random, depth: int = 3) -> Any:
    """JSON with the names that answers have, in any place."""
    names = [
        "embeddings",
        "values",
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "finishReason",
        "usageMetadata",
        "promptTokenCount",
        "totalTokenCount",
        "promptFeedback",
        "blockReason",
        "error",
        "code",
        "message",
        "status",
        "details",
        "violations",
        "quotaId",
        "retryDelay",
        "predictions",
    ]
    kind = chance.randrange(3 if depth else 1)
    if kind == 0:
        plain = [
            SECRET,
            "STOP",
            "MAX_TOKENS",
            "1s",
            "9" * 400 + "s",
            '{"lines": ["fine"]}',
            -1,
            2**70,
        ]
        return chance.choice([*plain, *NUMBERS])
    if kind == 1:
        return [nonsense(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {
        name: nonsense(chance, depth - 1) for name in chance.sample(names, chance.randrange(1, 7))
    }


def candidates(chance: random.Random) -> dict[str, Any]:
    """An answer of a language model, perhaps of another shape or with other figures."""
    made = server.candidate(
        chance.choice(['{"lines": ["fine"]}', '{"lines": 5}', "{", "", SECRET]),
        chance.choice(["STOP", "STOP", "SAFETY", "MAX_TOKENS", "NEW_REASON", SECRET]),
    )
    made["usageMetadata"] = {
        "promptTokenCount": chance.choice([0, 9, -5, 2**40]),
        "totalTokenCount": chance.choice([3, -7]),
    }
    return made


def error(chance: random.Random) -> dict[str, Any]:
    """A fault as Google reports it, perhaps with parts of other kinds, always with the key."""
    details = chance.choice(
        [
            [nonsense(chance)],
            [{"violations": nonsense(chance)}],
            [{"retryDelay": nonsense(chance)}],
            5,
        ]
    )
    message = chance.choice(
        [f"key {SECRET}", [SECRET], None, f"{'x' * 295}{SECRET}", {"key": SECRET}]
    )
    fault = {
        "code": chance.choice([400, "429", None, []]),
        "status": SECRET,
        "message": message,
        "details": details,
    }
    return {"error": chance.choice([fault, fault, SECRET, [fault], None])}


def body(chance: random.Random, answer: Any) -> bytes:
    """What the server sends as its body."""
    count = len(answer.asked) + chance.choice([0, 0, 0, -1, 1, 40])
    made: Any = chance.choice(
        [
            lambda: {"embeddings": [{"values": values(chance)} for _ in range(max(0, count))]},
            lambda: candidates(chance),
            lambda: nonsense(chance),
            lambda: error(chance),
        ]
    )()
    data = json.dumps(made).encode()
    return chance.choice(
        [
            lambda: data,
            lambda: data,
            lambda: data[: len(data) // 2],
            lambda: b"",
            lambda: chance.randbytes(200),
            lambda: b"[" * 50_000,
            lambda: gzip.compress(data),
            lambda: b'{"embeddings": [], "more": "' + b"x" * (20 << 20) + b'"}',
            lambda: f"<html>{SECRET}</html>".encode(),
        ]
    )()


def lie(chance: random.Random) -> Fault:
    """One way in which the service answers."""

    def answered(answer: Any) -> None:
        code = chance.choice([200, 200, 200, *CODES])
        headers = {"content-type": "application/json", **chance.choice([{}, {}, *HEADERS])}
        if chance.random() < 0.3:
            headers["retry-after"] = chance.choice(WAITS)
        data = body(chance, answer)
        answer.send_response(code, chance.choice(["OK", SECRET, ""]))
        for name, value in headers.items():
            answer.send_header(name, value)
        answer.send_header("content-length", str(len(data) + chance.choice([0, 0, 0, 7])))
        answer.send_header("connection", "close")
        answer.end_headers()
        answer.wfile.write(data)
        answer.close_connection = True

    def drips(answer: Any) -> None:
        answer.send_response(200)
        answer.send_header("content-length", "1000")
        answer.end_headers()
        for _ in range(12):
            answer.wfile.write(b" ")
            time.sleep(0.1)
        answer.close_connection = True

    def drops(answer: Any) -> None:
        answer.close_connection = True

    return chance.choice([answered] * 12 + [drips, drops, server.expired_key, server.used_up])


def conversation(gemini: Loopback, chance: random.Random) -> str:
    """Ask for something; what came of it, or the whole traceback of the fault."""
    lies = [lie(chance) for _ in range(6)]
    gemini.rule = lambda texts: None if chance.random() < 0.2 else chance.choice(lies)
    settings = GeminiSettings(
        base_url=gemini.url,
        attempts=2,
        backoff_seconds=0.01,
        max_backoff_seconds=0.02,
        timeout_seconds=0.6,
        time_limit_seconds=3,
        request_texts=4,
        concurrency=3,
    )
    texts = chance.choices(TEXTS, k=chance.randrange(1, 9))
    try:
        if chance.random() < 0.35:
            model = GeminiLanguageModel("gemini-flash", settings, 100)
            answers = list(model.answers([{"text": text} for text in texts], Line, "Say a line."))
            assert sorted(answer.prompt for answer in answers) == list(range(len(texts)))
            assert model.budget.left <= settings.budget_tokens
            return repr(answers)
        embedder = GeminiEmbedder(EmbeddingSettings(model="gemini"), settings)
        made = chance.choice([embedder.embed_documents, embedder.embed_queries])(texts)
        assert made.shape == (len(texts), 768)
        assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-3)
        return ""
    except WeftError as fault:
        assert str(fault).strip(), "a fault without a message"
        return "".join(traceback.format_exception(fault))


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    monkeypatch.setenv("GEMINI_API_KEY", SECRET)
    monkeypatch.setattr(server, "KEY", SECRET)
    with loopback() as state:
        yield state


@pytest.mark.exhaustive
def test_a_lying_service_meets_a_clear_fault(gemini: Loopback, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "weft")
    for seed, chance in seeds(50):
        with within_limits(f"seed {seed}"):
            try:
                said = conversation(gemini, chance)
            except Exception as fault:
                raise AssertionError(f"seed {seed}: {type(fault).__name__}: {fault}") from fault
        assert SECRET not in said, f"seed {seed}: the key is in {said[:2000]}"
        assert SECRET not in caplog.text, f"seed {seed}: the key is in the log"
        caplog.clear()
