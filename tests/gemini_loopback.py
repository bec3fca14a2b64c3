"""A loopback server that speaks the parts of Gemini's REST API that Weft calls, and fails as it is
told to.
"""

import base64
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from tests.http_loopback import WholeAnswers
from tests.timing import has_left
from transforms.settings.models import GEMINI_EMBEDDINGS
from transforms.text.visible import Picture, picture_text

KEY = "AIzaSyLoopbackKeyThatMustNeverBeSeen012"
FORBIDDEN = "forbidden words"
_PATH = re.compile(
    r"/v1(?:beta)?/(models/[\w.-]+):(batchEmbedContents|generateContent|asyncBatchEmbedContent|batchGenerateContent)"
)
_JOBS = re.compile(r"/v1(?:beta)?/batches(?:/(\w+)|\?.*)")
_MODELS = re.compile(r"/v1(?:beta)?/models(?:\?.*)?")
_HELD = re.compile(r"/v1(?:beta)?/(cachedContents(?:/\w+)?)")
_PREFIXES = {
    "title: none | text: ": "RETRIEVAL_DOCUMENT",
    "task: search result | query: ": "RETRIEVAL_QUERY",
}

SERVED = {
    **dict.fromkeys(GEMINI_EMBEDDINGS, "embedContent"),
    **dict.fromkeys(("gemini-3.5-flash-lite", "gemini-3.5-flash"), "generateContent"),
}
"""The models of the server, and what each does."""

Fault = Callable[["_Answer"], None]


def vector(text: str, dimensions: int, task: str) -> np.ndarray:
    """The server's vector of a text: its own direction, and no unit length."""
    seed = int.from_bytes(hashlib.blake2b(f"{task}/{text}".encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).normal(size=dimensions).round(6) * 3


def asked_text(request: dict[str, Any]) -> tuple[str, str]:
    """The text of a request and its task, which models that know no task types have before the
    text; or its picture.
    """
    (part,) = request["content"]["parts"]
    if seen := picture_in(part):
        return picture_text(seen), "RETRIEVAL_DOCUMENT"
    text = part["text"]
    if "taskType" in request:
        return text, request["taskType"]
    for prefix, task in _PREFIXES.items():
        if text.startswith(prefix):
            return text.removeprefix(prefix), task
    raise ValueError(text)


def picture_in(part: dict[str, Any]) -> Picture | None:
    """The picture of a part of a text; protocol buffers know both spellings of a name."""
    if not (data := part.get("inlineData") or part.get("inline_data")):
        return None
    return Picture(
        data.get("mimeType") or data["mime_type"], base64.urlsafe_b64decode(data["data"])
    )


def job_text(request: dict[str, Any]) -> str:
    """The text of a request of a job: a prompt, or a text to embed."""
    if "contents" in request:
        prompt: str = request["contents"][0]["parts"][0]["text"]
        return prompt
    return asked_text(request)[0]


def right_vector(request: dict[str, Any]) -> list[float]:
    text, task = asked_text(request)
    values: list[float] = vector(text, request["outputDimensionality"], task).tolist()
    return values


ANSWERED = {"SUCCEEDED": 1, "SUCCEEDED in part": 2}
"""By how a job with answers ends, every which request it answers; the others have an error. The
state says no more.
"""


@dataclass
class Job:
    """A job of the Batch API: the name it carries, its requests, how it ends, and the looks until
    then.
    """

    display_name: str
    requests: list[dict[str, Any]]
    end: str
    looks: int


@dataclass
class Loopback:
    """What the server saw: texts by how often they were answered, and the requests under way.

    `plan` are the faults of the coming requests, in the order of arrival; None answers well. `jobs`
    are those of the Batch API by name, `job_ends` the states in which the coming ones end,
    SUCCEEDED without any, after `looks` at them; `seen` counts these and the jobs. `served` are the
    models on its list, which was asked for `listed` times, `held` the texts that it holds, `holds`
    how many it was given to hold. `rule`, if given, decides for every request of which `plan` says
    nothing. `reply` makes the text that answers a prompt.
    """

    url: str
    plan: deque[Fault | None] = field(default_factory=deque)
    rule: Callable[[list[str]], Fault | None] = lambda texts: None
    reply: Callable[[str], str] = lambda prompt: "{}"
    paid: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    requests: list[dict[str, Any]] = field(default_factory=list)
    served: dict[str, str] = field(default_factory=lambda: dict(SERVED))
    listed: int = 0
    held: dict[str, str] = field(default_factory=dict)
    holds: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    job_ends: deque[str] = field(default_factory=deque)
    looks: int = 2
    seen: int = 0
    times: list[tuple[float, int]] = field(default_factory=list)
    most_at_once: int = 0
    delay: float = 0.0
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, texts: list[str], request: dict[str, Any]) -> Fault | None:
        """Note a request; the fault it meets."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.asked.update(texts)
            self.requests.append(request)
            self.times.append((time.monotonic(), len(texts)))
            if self.plan:
                return self.plan.popleft()
        return self.rule(texts)

    def end(self, texts: list[str]) -> None:
        """Note that a request was dealt with; `texts` were answered well."""
        with self._lock:
            self._at_once -= 1
            self.paid.update(texts)


@contextmanager
def loopback() -> Iterator[Loopback]:
    """The server, listening until the block ends; without the extra that speaks to it the test is
    left out.
    """
    pytest.importorskip("dagster_project.extras.services")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        server.daemon_threads = True
        server.block_on_close = False
        state = Loopback(f"http://127.0.0.1:{server.server_address[1]}")
        server.state = state  # type: ignore[attr-defined]
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()


class _Answer(WholeAnswers):
    """One request and its answer."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # noqa: N802
        """Answer `models/<model>:batchEmbedContents` or `:generateContent`."""
        self.state: Loopback = self.server.state  # type: ignore[attr-defined]
        body = json.loads(self.form())
        called = _PATH.fullmatch(self.path)
        if _HELD.fullmatch(self.path):
            self.hold(body)
            return
        if called and "batch" in body:
            self.submit(body["batch"])
            return
        self.asked = body.get("requests", [])
        if called and called[2] == "generateContent":
            self.generate(body)
            return
        pictures = sum(
            picture_in(part) is not None for r in self.asked for part in r["content"]["parts"]
        )
        if (
            not called
            or len(self.asked) > 100
            or pictures > 6
            or {r["model"] for r in self.asked} != {called[1]}
        ):
            status(404, "NOT_FOUND", "no such method, or a request that it does not take")(self)
            return
        texts = [asked_text(r)[0] for r in self.asked]
        good = lambda: {"embeddings": [{"values": v} for v in self.values()]}  # noqa: E731
        self.answer(texts, self.asked[0], good)

    def do_GET(self) -> None:  # noqa: N802
        """Answer `batches/<name>`, `batches` and `models`."""
        self.state = self.server.state  # type: ignore[attr-defined]
        if _MODELS.fullmatch(self.path):
            self.state.listed += 1
            models = [
                {"name": f"models/{n}", "supportedGenerationMethods": [a]}
                for n, a in self.state.served.items()
            ]
            self.send(200, {"models": models})
            return
        called = _JOBS.fullmatch(self.path)
        self.state.seen += 1
        if not called or (called[1] and called[1] not in self.state.jobs):
            status(404, "NOT_FOUND", "no such method or job")(self)
        elif called[1]:
            self.send(200, self.shown(called[1]))
        else:
            self.send(200, {"operations": [self.shown(name) for name in list(self.state.jobs)]})

    def do_DELETE(self) -> None:  # noqa: N802
        """Let go of a held text."""
        self.state = self.server.state  # type: ignore[attr-defined]
        found = _HELD.fullmatch(self.path)
        self.state.held.pop(found[1] if found else "", None)
        self.send(200, {})

    def hold(self, body: dict[str, Any]) -> None:
        """Hold a text for later prompts."""
        (part,) = body["contents"][0]["parts"]
        if FORBIDDEN in part["text"]:
            status(400, "INVALID_ARGUMENT", "Cached content is too small")(self)
            return
        name = f"cachedContents/c{self.state.holds}"
        self.state.holds += 1
        self.state.held[name] = part["text"]
        self.send(200, {"name": name, "usageMetadata": {"totalTokenCount": len(part["text"]) // 4}})

    def submit(self, batch: dict[str, Any]) -> None:
        """Make a job; its requests are paid for unless it fails. A fault of the plan comes when it
        is made.
        """
        asked = batch["inputConfig"]["requests"]["requests"]
        texts = [job_text(r["request"]) for r in asked]
        with self.state._lock:
            end = self.state.job_ends.popleft() if self.state.job_ends else "SUCCEEDED"
            name = f"job{len(self.state.jobs)}"
            self.state.seen += 1
            self.state.jobs[name] = Job(
                batch["displayName"], [r["request"] for r in asked], end, self.state.looks
            )
            if end in ANSWERED:
                answered = texts[:: ANSWERED[end]]
                self.state.paid.update(t for t in answered if FORBIDDEN not in t)
            fault = self.state.plan.popleft() if self.state.plan else None
        try:
            if fault:
                fault(self)
            else:
                self.send(200, self.shown(name))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client is gone

    def shown(self, name: str) -> dict[str, Any]:
        job = self.state.jobs[name]
        job.looks -= 1
        metadata: dict[str, Any] = {"displayName": job.display_name, "state": "BATCH_STATE_RUNNING"}
        if job.looks < 0:
            metadata["state"] = f"BATCH_STATE_{job.end.partition(' ')[0]}"
            if job.end in ANSWERED:
                lost = {"error": {"code": 13, "message": "Internal error"}}
                answers = [
                    lost if number % ANSWERED[job.end] else self.of_job(request)
                    for number, request in enumerate(job.requests)
                ]
                metadata["output"] = {"inlinedResponses": {"inlinedResponses": answers}}
        return {"name": f"batches/{name}", "metadata": metadata}

    def of_job(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request of a job."""
        text = job_text(request)
        if FORBIDDEN in text:
            return {"error": {"code": 400, "message": "The content is blocked"}}
        if "contents" in request:
            return {"response": candidate(self.state.reply(text))}
        return {"response": {"embedding": {"values": right_vector(request)}}}

    def generate(self, body: dict[str, Any]) -> None:
        prompt = body["contents"][0]["parts"][0]["text"]
        held = self.state.held.get(body.get("cachedContent", ""))
        if "cachedContent" in body and (held is None or "systemInstruction" in body):
            status(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)")(self)
            return
        self.answer([prompt], body, lambda: candidate(self.state.reply(prompt), held=held))

    def answer(self, texts: list[str], request: dict[str, Any], good: Callable[[], object]) -> None:
        """Send the fault that this request meets, else what `good` returns."""
        fault = self.state.begin(texts, request)
        time.sleep(self.state.delay)
        answered: list[str] = []
        try:
            if self.headers["x-goog-api-key"] != KEY:
                expired_key(self)
            elif fault:
                fault(self)
            else:
                self.send(200, good())
                answered = texts
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up
        finally:
            self.state.end(answered)

    def values(self) -> list[list[float]]:
        return [right_vector(r) for r in self.asked]


def candidate(text: str, reason: str = "STOP", held: str | None = None) -> dict[str, Any]:
    """The answer of a language model, which was sent 9 tokens beside those of the text `held`."""
    content = {"role": "model", "parts": [{"text": text}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}
    if held is not None:
        count = len(held) // 4
        usage |= {
            "promptTokenCount": 9 + count,
            "totalTokenCount": 12 + count,
            "cachedContentTokenCount": count,
        }
    return {"candidates": [{"content": content, "finishReason": reason}], "usageMetadata": usage}


def status(
    code: int,
    name: str,
    message: str = "said so",
    *details: dict[str, Any],
    headers: dict[str, str] | None = None,
) -> Fault:
    error = {"code": code, "status": name, "message": message, "details": list(details)}
    return lambda answer: answer.send(code, {"error": error}, headers)


def asks_to_wait(seconds: float) -> Fault:
    """429 with RetryInfo."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:g}s"}
    return status(429, "RESOURCE_EXHAUSTED", "Quota exceeded", info)


def expired_key(answer: _Answer) -> None:
    """400 for a bad key, which the service repeats in its answer."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    key = answer.headers["x-goog-api-key"]
    status(400, "INVALID_ARGUMENT", f"API key expired: {key}. Consumer 'api_key:{key}'.", info)(
        answer
    )


def used_up(answer: _Answer) -> None:
    """429 for the quota of the day."""
    failure = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": "EmbedContentRequestsPerDayPerProjectPerModel-FreeTier"}],
    }
    status(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota", failure)(answer)


def hangs(answer: _Answer) -> None:
    """No answer until the client leaves."""
    answer.close_connection = has_left(answer.connection)


def trickles(answer: _Answer) -> None:
    """An answer that never ends, a byte at a time, until the client leaves."""
    answer.send_response(200)
    answer.send_header("content-length", "100000")
    answer.end_headers()
    while not has_left(answer.connection, within=0.05):
        answer.wfile.write(b" ")
    answer.close_connection = True


def resets(answer: _Answer) -> None:
    """The connection breaks in the middle of the body."""
    body = json.dumps({"embeddings": [{"values": v} for v in answer.values()]}).encode()
    answer.send_response(200)
    answer.send_header("content-length", str(len(body)))
    answer.end_headers()
    answer.wfile.write(body[: len(body) // 2])
    answer.wfile.flush()
    resets_at_once(answer)


def resets_at_once(answer: _Answer) -> None:
    """The connection breaks before a byte of the answer."""
    answer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    answer.connection.close()
    answer.close_connection = True


def text(body: str, code: int = 200) -> Fault:
    """A body that is not what it should be."""
    return lambda answer: answer.send(code, body)


def truncated(answer: _Answer) -> None:
    """JSON that ends too early."""
    body = json.dumps({"embeddings": [{"values": v} for v in answer.values()]})
    answer.send(200, body[: len(body) * 2 // 3])


def altered(change: Callable[[list[list[float]]], list[Any]]) -> Fault:
    """Vectors that are not those asked for."""
    return lambda answer: answer.send(
        200, {"embeddings": [{"values": v} for v in change(answer.values())]}
    )


def blocks_forbidden(texts: list[str]) -> Fault | None:
    """400 for a request in which a text may not be embedded."""
    if any(FORBIDDEN in t for t in texts):
        return status(400, "INVALID_ARGUMENT", "The content is blocked")
    return None
