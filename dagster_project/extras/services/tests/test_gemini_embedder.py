"""The Gemini model through the real client: whatever the network does, every text gets its one
right vector.
"""

import asyncio
import logging
import random
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from assets.embedding import query_vectors
from dagster_project.extras.services.gemini_embedder import GeminiEmbedder
from dagster_project.extras.services.tests.embedding_run import (
    are_right,
    embed,
    started,
    texts_between,
    totals,
)
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.system.rate_limit import Quota
from tests import gemini_loopback as server
from tests.cases import some
from tests.gemini_loopback import KEY, Loopback, vector
from tests.timing import HUNG, until
from transforms.errors import RefusedTextError, ServiceError, SettingsError, WeftError
from transforms.hashing import text_hash
from transforms.settings.models import EmbeddingSettings, GeminiSettings, SafetySettings
from transforms.text.visible import Picture, picture_text

# Loading the library takes seconds, which no test is to be charged with.

TEXTS = texts_between(0, 60)


@pytest.fixture(autouse=True)
def _key_is_seen_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """After each test: the key is in no log of any level and in no file of the temporary folder."""
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text
    holding = [p for p in tmp_path.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert holding == []


HANGING = {"hangs": server.hangs, "trickles": server.trickles}
PASSING = {
    "429": server.status(429, "RESOURCE_EXHAUSTED"),
    "429 with RetryInfo": server.asks_to_wait(0.1),
    "429 with Retry-After": server.status(429, "RESOURCE_EXHAUSTED", headers={"retry-after": "0"}),
    "500": server.status(500, "INTERNAL"),
    "503 with RetryInfo": server.status(503, "UNAVAILABLE", "busy", {"retryDelay": "0.05s"}),
    "502 in HTML": server.text("<html>Bad Gateway</html>", 502),
    "reset in the body": server.resets,
    "429 with a Retry-After that is no number": server.status(
        429, "X", headers={"retry-after": "\xb2"}
    ),
    "429 with violations that are no list": server.text(
        '{"error": {"code": 429, "message": "m", "details": [{"violations": 5}]}}', 429
    ),
    "no JSON": server.text("{embeddings: soon"),
    "nested too deeply": server.text("[" * 100_000),
    "truncated JSON": server.truncated,
    "empty body": server.text(""),
    "a list": server.text("[1, 2]"),
    "other members": server.text('{"embeddings": 5}'),
    "other values": server.text('{"embeddings": [{"values": "much"}]}'),
    "too few": server.altered(lambda vectors: vectors[:-1]),
    "too many": server.altered(lambda vectors: [*vectors, vectors[0]]),
    "NaN": server.altered(lambda vectors: [[float("nan")] * len(v) for v in vectors]),
    "one zero vector": server.altered(lambda vectors: [[0.0] * len(vectors[0]), *vectors[1:]]),
    "narrow": server.altered(lambda vectors: [v[:256] for v in vectors]),
    "none": server.altered(lambda vectors: [[] for _ in vectors]),
}


@pytest.mark.parametrize("name", some(PASSING))
def test_a_passing_fault_is_waited_out(gemini: Loopback, tmp_path: Path, name: str):
    gemini.plan = deque([PASSING[name], None, PASSING[name]])
    found, report = embed(TEXTS, tmp_path, gemini.url)
    assert are_right(found, TEXTS)
    assert set(gemini.paid.values()) == {1}
    assert report.calls == len(gemini.requests) == 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", HANGING)
def test_a_request_without_an_end_is_given_up_and_asked_again(
    gemini: Loopback, tmp_path: Path, name: str
):
    gemini.plan = deque([HANGING[name], None])
    found, report = embed(TEXTS[:20], tmp_path, gemini.url, timeout_seconds=0.5, attempts=20)
    assert are_right(found, TEXTS[:20])
    assert report.calls >= 3


LASTING = {
    "500": (server.status(500, "INTERNAL"), ServiceError, "500 INTERNAL"),
    "too few": (PASSING["too few"], ServiceError, "vectors came back"),
    "zero vectors": (PASSING["one zero vector"], ServiceError, "zero or non-finite"),
    "an expired key": (
        server.expired_key,
        ServiceError,
        "does not accept the key in GEMINI_API_KEY",
    ),
    "no permission": (
        server.status(403, "PERMISSION_DENIED"),
        ServiceError,
        "does not accept the key",
    ),
    "an unknown model": (server.status(404, "NOT_FOUND"), ServiceError, "does not know the model"),
    "a retired model": (
        server.status(404, "NOT_FOUND"),
        ServiceError,
        "retired are gemini-embedding-2",
    ),
    "a pause beyond the limit": (server.asks_to_wait(3600), ServiceError, "asks to wait 3600 s"),
    "the day's quota": (server.used_up, ServiceError, "the quota of the day is used up"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_fault_ends_the_run_and_keeps_what_was_paid(
    gemini: Loopback, tmp_path: Path, name: str
):
    fault, kind, said = LASTING[name]
    answered = 2
    gemini.rule = lambda texts: fault if len(gemini.requests) > answered else None
    with pytest.raises(kind, match=re.escape(said)) as raised:
        embed(TEXTS, tmp_path, gemini.url)
    assert len(gemini.requests) <= answered + 4 * 4, (
        "as many attempts as are allowed of as many requests"
    )
    assert KEY not in "".join(map(str, _chain(raised.value)))
    gemini.rule = lambda texts: None
    found, report = embed(TEXTS, tmp_path, gemini.url)
    assert are_right(found, TEXTS)
    assert set(gemini.paid.values()) == {1}
    assert len(report.embedded) == len(TEXTS) - 10 * answered


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def test_nothing_hangs_past_the_time_limit(gemini: Loopback, tmp_path: Path):
    gemini.rule = lambda texts: server.asks_to_wait(0.2)
    with pytest.raises(ServiceError, match="time limit of 1 s"):
        embed(TEXTS, tmp_path, gemini.url, time_limit_seconds=1)


FORBIDDEN = f"A text with {server.FORBIDDEN} in it."


def test_a_refused_text_has_a_reason_is_not_asked_again_and_all_others_are_kept(
    gemini: Loopback, tmp_path: Path
):
    gemini.rule = server.blocks_forbidden
    found, report = embed([*TEXTS[:30], FORBIDDEN, *TEXTS[30:]], tmp_path, gemini.url)
    assert are_right(found, TEXTS)
    assert set(gemini.paid.values()) == {1}
    assert totals(report).metadata()["refused_texts"] == 1
    ((name, reason),) = report.refused.items()
    assert (name, "The content is blocked" in reason) == (text_hash(FORBIDDEN), True)
    asked = len(gemini.requests)
    again, report = embed([*TEXTS, FORBIDDEN], tmp_path, gemini.url)
    assert (again, list(report.refused), len(gemini.requests)) == (found, [name], asked)
    _, report = embed([FORBIDDEN, FORBIDDEN + " Altered."], tmp_path, gemini.url)
    assert len(report.refused) == 2
    _, report = embed([FORBIDDEN], tmp_path, gemini.url, dimensions=1536)
    assert (len(report.refused), report.calls) == (1, 2)


@pytest.mark.parametrize("count", [1, 3, pytest.param(120, marks=pytest.mark.exhaustive)])
def test_texts_that_are_all_refused_are_found_out_one_by_one(
    gemini: Loopback, tmp_path: Path, count: int
):
    gemini.rule = server.blocks_forbidden
    found, report = embed([f"{FORBIDDEN} {n}" for n in range(count)], tmp_path, gemini.url)
    assert (found, len(report.refused)) == ({}, count)


WRONG_AS_SUCH = {
    "a field": server.status(400, "INVALID_ARGUMENT", "no such field"),
    "the place": server.status(400, "FAILED_PRECONDITION", "User location is not supported"),
    "the account": server.status(402, "PAYMENT_REQUIRED", "pay first"),
    "the method": server.status(405, "METHOD_NOT_ALLOWED", "not so"),
}


@pytest.mark.parametrize(
    ("name", "count"), [*((name, 1) for name in WRONG_AS_SUCH), ("a field", 40)]
)
def test_what_is_wrong_with_every_request_is_no_fault_of_the_texts(
    gemini: Loopback, tmp_path: Path, name: str, count: int
):
    gemini.rule = lambda texts: WRONG_AS_SUCH[name]
    with pytest.raises(ServiceError, match="the Gemini service"):
        embed(texts_between(0, count), tmp_path, gemini.url, request_texts=10)
    assert len(gemini.requests) <= 2 * 4
    gemini.rule = lambda texts: None
    found, report = embed(texts_between(0, count), tmp_path, gemini.url)
    assert (are_right(found, texts_between(0, count)), report.refused) == (True, {})


def test_a_refused_query_is_named(gemini: Loopback):
    gemini.rule = server.blocks_forbidden
    embedder = GeminiEmbedder(
        EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url)
    )
    with pytest.raises(RefusedTextError, match="content is blocked") as raised:
        embedder.embed_queries(["what", FORBIDDEN])
    assert list(raised.value.reasons) == [1]


def test_questions_are_embedded_once_and_refused_ones_left_out(gemini: Loopback, tmp_path: Path):
    gemini.rule = server.blocks_forbidden
    embedder = GeminiEmbedder(
        EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url)
    )
    found = query_vectors(["what", FORBIDDEN, "why"], embedder, SQLiteEmbeddingCache(tmp_path))
    assert sorted(found) == ["what", "why"]
    assert (gemini.paid["what"], gemini.paid["why"]) == (1, 1)
    asked = len(gemini.requests)
    again = query_vectors(["why", FORBIDDEN], embedder, SQLiteEmbeddingCache(tmp_path))
    assert np.array_equal(again["why"], found["why"])
    assert len(gemini.requests) == asked


@pytest.mark.exhaustive
def test_questions_that_were_answered_before_a_fault_are_kept(gemini: Loopback, tmp_path: Path):
    gemini.rule = lambda texts: server.expired_key if len(gemini.requests) > 2 else None
    embedder = GeminiEmbedder(
        EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url, request_texts=10)
    )
    with pytest.raises(ServiceError, match="does not accept the key"):
        query_vectors(TEXTS, embedder, SQLiteEmbeddingCache(tmp_path))
    gemini.rule = lambda texts: None
    assert sorted(query_vectors(TEXTS, embedder, SQLiteEmbeddingCache(tmp_path))) == sorted(TEXTS)
    assert set(gemini.paid.values()) == {1}


def test_a_question_masked_in_another_way_has_another_vector(gemini: Loopback, tmp_path: Path):
    made = []
    for safety in (SafetySettings(), SafetySettings(emails="send"), SafetySettings()):
        embedder = GeminiEmbedder(
            EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url), safety
        )
        made.append(query_vectors(["of ann@example.org"], embedder, SQLiteEmbeddingCache(tmp_path)))
    masked, plain, again = (m["of ann@example.org"] for m in made)
    assert not np.array_equal(masked, plain) and np.array_equal(masked, again)
    assert dict(gemini.paid) == {"of [email]": 1, "of ann@example.org": 1}


@pytest.mark.exhaustive
def test_a_pause_that_the_service_asks_for_is_kept_by_all_requests(
    gemini: Loopback, tmp_path: Path
):
    pause = 0.6
    gemini.plan = deque([None, server.asks_to_wait(pause)])
    embed(TEXTS, tmp_path, gemini.url, concurrency=2)
    moments = [at for at, _ in gemini.times]
    assert max(b - a for a, b in zip(moments, moments[1:], strict=False)) >= 0.9 * pause


def test_the_quota_is_kept_in_every_window_and_used():
    now, spent = 0.0, []
    chance = random.Random(3)

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def spend() -> None:
        quota = Quota(3000, 1_000_000, clock=lambda: now, sleep=sleep)
        for _ in range(3000):
            tokens = chance.randint(10_000, 20_000)
            await quota.take(100, tokens)
            spent.append((now, tokens))
            await sleep(chance.random() * 0.2)

    asyncio.run(spend())
    for at, _ in spent:
        window = [tokens for when, tokens in spent if at <= when < at + 60]
        assert (len(window) * 100 <= 3000, sum(window) <= 1_000_000) == (True, True)
    used = max(len(spent) * 100 / 3000, sum(tokens for _, tokens in spent) / 1e6) / (now / 60)
    print(f"{used:.1%} of the quota used in {now / 60:.0f} minutes")
    assert used >= 0.95


def test_the_longest_pause_and_the_least_quota_that_were_named_are_kept():
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    quota = Quota(10, 10, clock=lambda: now, sleep=sleep)
    for seconds in (5, 1):
        quota.hold(seconds)
    asyncio.run(quota.take(1, 1))
    for most in (4, 9):
        quota.learn(most, most)
    assert (now, quota.requests, quota.tokens) == (5, 4, 4)


@pytest.mark.exhaustive
def test_no_more_requests_than_allowed_are_under_way_at_once(gemini: Loopback, tmp_path: Path):
    three = threading.Barrier(3)
    gemini.rule = lambda texts: three.wait(HUNG) and None
    gemini.delay = 0.05
    embed(texts_between(0, 120), tmp_path, gemini.url, concurrency=3)
    assert gemini.most_at_once == 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("dimensions", [768, 1536, 3072])
def test_vectors_of_every_width_have_unit_length(gemini: Loopback, tmp_path: Path, dimensions: int):
    found, _ = embed(TEXTS[:20], tmp_path, gemini.url, dimensions=dimensions)
    assert are_right(found, TEXTS[:20], dimensions)
    assert {r["outputDimensionality"] for r in gemini.requests} == {dimensions}


@pytest.mark.exhaustive
def test_long_texts_are_cut_counted_and_sent_within_the_limits(gemini: Loopback, tmp_path: Path):
    long = " ".join(f"word{n}" for n in range(4000))
    texts = [f"{long} {n}" for n in range(4)] + TEXTS
    found, report = embed(texts, tmp_path, gemini.url, request_tokens=16_000, request_texts=100)
    assert (len(found), report.truncated) == (64, 4)
    sent = [t for t in gemini.paid if t.startswith("word0")]
    assert len(sent) == 1 and long.startswith(sent[0]) and len(sent[0]) > 8000
    assert len(gemini.requests) == 4


def test_without_a_key_the_variables_are_named(
    gemini: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(SettingsError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        embed(TEXTS, tmp_path, gemini.url)


def test_an_unreachable_service_is_explained(gemini: Loopback, tmp_path: Path):
    with pytest.raises(WeftError, match="failed 4 times in a row.*ConnectError"):
        embed(TEXTS, tmp_path, "http://127.0.0.1:9")


def test_queries_are_asked_for_as_queries_also_inside_an_event_loop(gemini: Loopback):
    embedder = GeminiEmbedder(
        EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url)
    )

    async def notebook() -> np.ndarray:
        return embedder.embed_queries(["what", "why"])

    wanted = [vector(t, 768, "RETRIEVAL_QUERY") for t in ("what", "why")]
    for found in (embedder.embed_queries(["what", "why"]), asyncio.run(notebook())):
        assert np.allclose(found, [v / np.linalg.norm(v) for v in wanted], atol=1e-4)


def kill_at(gemini: Loopback, count: int, run: BaseProcess) -> None:
    """Kill a run when the service has so many requests."""
    until(lambda: len(gemini.requests) >= count or not run.is_alive(), f"{count} requests")
    run.kill()
    run.join()
    assert run.exitcode == -signal.SIGKILL


@pytest.mark.exhaustive
def test_a_killed_run_pays_again_for_what_was_under_way_and_no_more(
    gemini: Loopback, tmp_path: Path
):
    gemini.delay = 0.05
    chance = random.Random(7)
    kills = 2
    for _ in range(kills):
        kill_at(
            gemini,
            len(gemini.requests) + chance.randint(2, 8),
            started(tmp_path, gemini.url, 0, 400),
        )
    found, _ = embed(texts_between(0, 400), tmp_path, gemini.url)
    assert are_right(found, texts_between(0, 400))
    # Four requests of ten texts are under way at once; one more may be answered and not yet stored.
    again = sum(gemini.paid.values()) - len(gemini.paid)
    assert again <= kills * 5 * 10


def test_texts_of_another_run_that_is_alive_are_not_paid_twice(gemini: Loopback, tmp_path: Path):
    gemini.delay = 0.2
    run = started(tmp_path, gemini.url, 0, 100)
    until(lambda: gemini.requests or not run.is_alive(), "a request of the run")
    _, report = embed(texts_between(0, 100), tmp_path, gemini.url)
    run.join(HUNG)
    assert (run.exitcode, set(gemini.paid.values()), report.unfinished) == (0, {1}, set())


FAULTS = {
    "an expired key": (server.expired_key, 0),
    "503": (server.status(503, "UNAVAILABLE"), 0),
    "too few vectors": (PASSING["too few"], 10),
    "reset in the body": (server.resets, 10),
    "a time limit": (server.hangs, 10),
}


@pytest.mark.parametrize("name", FAULTS)
def test_only_a_request_that_the_service_may_count_is_perhaps_paid_twice(
    gemini: Loopback, tmp_path: Path, name: str
):
    fault, texts = FAULTS[name]
    gemini.rule = lambda texts: fault
    with pytest.raises(ServiceError):
        embed(
            TEXTS[:10],
            tmp_path,
            gemini.url,
            **({"time_limit_seconds": 1} if fault is server.hangs else {}),
        )
    gemini.rule = lambda texts: None
    _, report = embed(TEXTS[:10], tmp_path, gemini.url)
    assert len(report.unfinished) == texts


SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def test_secrets_are_not_sent_and_the_vector_is_that_of_what_was_sent(
    gemini: Loopback, tmp_path: Path
):
    texts = [
        *TEXTS[:3],
        f"The key {SECRET} is ann@example.org's.",
        f"The key {SECRET[:-1]}X is ann@example.org's.",
    ]
    found, report = embed(texts, tmp_path, gemini.url)
    sent = "The key [cloud_key] is [email]'s."
    assert set(gemini.paid) == {*TEXTS[:3], sent}
    wanted = vector(sent, 768, "RETRIEVAL_DOCUMENT")
    for text in texts[3:]:
        assert np.allclose(found[text], wanted / np.linalg.norm(wanted), atol=1e-4)
    figures = totals(report).metadata()
    assert (figures["screened_cloud_key"], figures["screened_email"], figures["embedded"]) == (
        2,
        2,
        4,
    )
    before = {text_hash(t) for t in texts}
    assert (totals(report, before).reuse, totals(report, before, 15).reuse) == (0, 0.75)
    again, report = embed(texts, tmp_path, gemini.url)
    assert (again, report.calls, totals(report, before).reuse) == (found, 0, 1)


def test_a_query_is_screened_like_a_text(gemini: Loopback):
    embedder = GeminiEmbedder(
        EmbeddingSettings(model="gemini"), GeminiSettings(base_url=gemini.url)
    )
    embedder.embed_queries([f"who uses {SECRET}"])
    assert set(gemini.asked) == {"who uses [cloud_key]"}


def test_limits_that_the_service_names_are_kept_from_then_on(gemini: Loopback):
    failure = {
        "violations": [
            {"quotaId": "EmbedContentRequestsPerMinutePerProjectPerModel", "quotaValue": "100"},
            {"quotaId": "EmbedContentInputTokensPerMinutePerProject", "quotaValue": "30000"},
        ]
    }
    gemini.plan = deque([server.status(429, "RESOURCE_EXHAUSTED", "Quota exceeded", failure)])
    quick = GeminiSettings(base_url=gemini.url, backoff_seconds=0.01)
    embedder = GeminiEmbedder(EmbeddingSettings(model="gemini"), quick)
    embedder.embed_queries(["what"])
    assert (embedder.service.quota.requests, embedder.service.quota.tokens) == (100, 30_000)


def pictures(count: int) -> list[str]:
    return [
        picture_text(Picture("image/png", b"\x89PNG\r\n\x1a\n\0" + bytes([n]) * 900))
        for n in range(count)
    ]


@pytest.mark.parametrize("batch_texts", [None, 5])
def test_a_picture_gets_one_vector_and_is_paid_for_once(
    gemini: Loopback, tmp_path: Path, batch_texts: int | None
):
    texts = [*pictures(8), *TEXTS[:5]]
    found, report = embed(texts, tmp_path, gemini.url, batch_texts=batch_texts, request_texts=20)
    assert are_right(found, texts) and report.tokens >= 8 * 600
    assert set(gemini.paid.values()) == {1}
    parts = [request["content"]["parts"] for request in gemini.requests]
    assert len(parts) == 2 and all(server.picture_in(part) for (part,) in parts)
    assert [job.display_name[:5] for job in gemini.jobs.values()] == ["weft-"] * bool(batch_texts)
    again, report = embed(texts, tmp_path, gemini.url)
    assert again == found and not report.embedded and len(gemini.requests) == 2
    found, report = embed([*texts, *pictures(9)[8:]], tmp_path, gemini.url)
    assert len(report.embedded) == 1 and len(gemini.requests) == 3


@pytest.mark.exhaustive
def test_a_picture_that_the_service_refuses_is_named_and_the_others_are_embedded(
    gemini: Loopback, tmp_path: Path
):
    texts = [*pictures(4), *TEXTS[:3]]
    gemini.rule = lambda asked: server.blocks_forbidden([FORBIDDEN] if texts[2] in asked else [])
    found, report = embed(texts, tmp_path, gemini.url)
    assert are_right(found, [t for t in texts if t != texts[2]])
    assert list(report.refused) == [text_hash(texts[2])]
