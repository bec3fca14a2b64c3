"""The Batch API through the real client: half the price, and no text is paid for twice, whatever
ends a run.
"""

import json
import random
import signal
from collections import deque
from pathlib import Path

import pytest
from pydantic import BaseModel

from dagster_project.extras.services.gemini_language import GeminiLanguageModel
from dagster_project.extras.services.tests.embedding_run import (
    are_right,
    embed,
    started,
    texts_between,
)
from tests import gemini_loopback as server
from tests.gemini_loopback import FORBIDDEN, Loopback
from tests.timing import until
from transforms.errors import ServiceError
from transforms.settings.models import GeminiSettings

TEXTS = texts_between(0, 120)
"""Three jobs of the 50 texts that five requests of ten hold."""


@pytest.mark.exhaustive
def test_many_texts_go_by_jobs_for_half_the_price_and_few_do_not(gemini: Loopback, tmp_path: Path):
    found, report = embed(TEXTS, tmp_path, gemini.url, batch_texts=100)
    assert are_right(found, TEXTS) and set(gemini.paid.values()) == {1}
    assert len(gemini.jobs) == 3 and not gemini.requests
    assert report.dollars_per_million == 0.10
    found, report = embed(texts_between(0, 130), tmp_path, gemini.url, batch_texts=100)
    assert len(gemini.jobs) == 3 and len(gemini.requests) == 1
    assert (len(report.embedded), report.dollars_per_million) == (10, 0.20)


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["FAILED", "EXPIRED", "CANCELLED"])
def test_what_a_job_without_answers_held_is_submitted_again(
    gemini: Loopback, tmp_path: Path, end: str
):
    gemini.job_ends = deque([end, "SUCCEEDED", end])
    found, _ = embed(TEXTS, tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS) and set(gemini.paid.values()) == {1} and len(gemini.jobs) == 5


def test_what_a_partly_failed_job_lost_is_requested_alone(gemini: Loopback, tmp_path: Path):
    gemini.job_ends = deque(["SUCCEEDED in part"])
    found, report = embed(TEXTS[:60], tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS[:60]) and not report.refused
    assert set(gemini.paid.values()) == {1} and gemini.jobs and gemini.requests


def test_jobs_that_always_fail_end_the_run_and_the_next_one_goes_on(
    gemini: Loopback, tmp_path: Path
):
    gemini.job_ends = deque(["FAILED"] * 9)
    with pytest.raises(ServiceError, match="3 times without answers"):
        embed(TEXTS[:50], tmp_path, gemini.url, batch_texts=1)
    gemini.job_ends.clear()
    found, _ = embed(TEXTS[:50], tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS[:50]) and set(gemini.paid.values()) == {1}


def test_a_text_that_a_job_refuses_is_refused_and_the_others_are_kept(
    gemini: Loopback, tmp_path: Path
):
    gemini.rule = server.blocks_forbidden
    refused = f"A text with {FORBIDDEN} in it."
    found, report = embed([*TEXTS[:60], refused], tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS[:60]) and len(report.refused) == 1
    assert {gemini.paid[text] for text in TEXTS[:60]} == {1}


@pytest.mark.parametrize(
    "fault", [server.resets_at_once, server.status(503, "UNAVAILABLE")], ids=["reset", "503"]
)
def test_a_job_whose_answer_is_lost_is_looked_for_and_not_submitted_again(
    gemini: Loopback, tmp_path: Path, fault: server.Fault
):
    gemini.plan = deque([fault, fault])
    found, _ = embed(TEXTS, tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS) and set(gemini.paid.values()) == {1} and len(gemini.jobs) == 3


def test_when_the_time_is_over_jobs_go_on_and_the_next_run_collects_them(
    gemini: Loopback, tmp_path: Path
):
    gemini.looks = 10_000
    with pytest.raises(ServiceError, match="jobs of the Batch API that are submitted go on"):
        embed(TEXTS, tmp_path, gemini.url, batch_texts=1, time_limit_seconds=1)
    gemini.looks = 2
    for job in gemini.jobs.values():
        job.looks = 0
    # The texts are others now, so that they stand in other batches.
    wanted = texts_between(40, 125)
    found, report = embed(wanted, tmp_path, gemini.url, batch_texts=50)
    assert are_right(found, wanted) and set(gemini.paid.values()) == {1}
    assert not report.unfinished


def is_killed(gemini: Loopback, folder: Path, last: int, seen: int, after: float) -> bool:
    """Run over numbered texts and kill the run `after` seconds since the server saw so much; False
    if it was done before.
    """
    process = started(folder, gemini.url, 0, last, batch_texts=1)
    until(lambda: gemini.seen >= seen or not process.is_alive(), "requests of the run", pause=0.001)
    process.join(after)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


@pytest.mark.exhaustive
def test_a_run_that_is_killed_after_it_submitted_pays_for_nothing_again(
    gemini: Loopback, tmp_path: Path
):
    gemini.looks = 10_000
    assert is_killed(gemini, tmp_path, 120, 8, 0)
    assert len(gemini.jobs) == 3
    for job in gemini.jobs.values():
        job.looks = 0
    found, report = embed(TEXTS, tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, TEXTS) and set(gemini.paid.values()) == {1}
    assert len(gemini.jobs) == 3 and not report.unfinished


@pytest.mark.exhaustive
@pytest.mark.parametrize("looks", [0, 5, 50])
def test_no_text_is_paid_twice_though_runs_are_killed_at_each_of_their_requests(
    gemini: Loopback, tmp_path: Path, looks: int
):
    drawn, last, killed = random.Random(looks), 120, 0
    gemini.looks = looks
    for seen in range(12):
        moment = drawn.uniform(0, 0.03)
        if not is_killed(gemini, tmp_path, last, gemini.seen + seen, moment):
            break
        killed += 1
    assert killed > 1
    found, _ = embed(texts_between(0, last), tmp_path, gemini.url, batch_texts=1)
    assert are_right(found, texts_between(0, last))
    assert set(gemini.paid.values()) == {1}


class Score(BaseModel):
    score: int


def test_prompts_go_by_jobs_and_what_a_job_answers_wrongly_is_asked_for_alone(
    gemini: Loopback, tmp_path: Path
):
    prompts = [{"question": f"How near is text {n}?"} for n in range(12)]

    def reply(prompt: str) -> str:
        is_wrong = "text 3?" in prompt and not gemini.requests
        return "no JSON" if is_wrong else json.dumps({"score": 7})

    gemini.reply, gemini.looks = reply, 0
    quick = GeminiSettings(
        base_url=gemini.url, batch_texts=10, poll_seconds=0.02, backoff_seconds=0.01
    )
    model = GeminiLanguageModel("gemini-3.5-flash-lite", quick, 100, jobs=tmp_path)
    answers = {a.prompt: a for a in model.answers(prompts, Score, "Score.")}
    assert [answers[n].value for n in range(12)] == [Score(score=7)] * 12
    assert len(gemini.jobs) == 1 and len(gemini.requests) == 1
    assert answers[0].dollars == pytest.approx(answers[3].dollars / 2)
