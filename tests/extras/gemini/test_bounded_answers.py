"""What a service sends is read up to a limit: neither a long answer nor one that swells fills memory."""

from __future__ import annotations

import gzip
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_project.models.bounded_answers import MAX_ANSWER_BYTES
from tests.extras.gemini.embedding_run import embed, texts_between
from tests.gemini_loopback import Loopback
from transforms.errors import WeftError

TEXTS = texts_between(0, 8)


def sends(headers: dict[str, str], body: Callable[[], Iterator[bytes]], code: int) -> Callable[[Any], None]:
    def send(answer: Any) -> None:
        answer.send_response(code)
        for name, value in {"content-type": "application/json", "connection": "close", **headers}.items():
            answer.send_header(name, value)
        answer.end_headers()
        answer.close_connection = True
        for part in body():
            answer.wfile.write(part)

    return send


def endless() -> Iterator[bytes]:
    yield b'{"embeddings": ['
    for _ in range(300):
        yield b" " * (1 << 20)


BOMB = gzip.compress(b" " * (300 << 20), 1)


@pytest.mark.parametrize("code", [200, 500])
@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({}, endless, f"an answer of over {MAX_ANSWER_BYTES:,} bytes"),
        ({"content-encoding": "gzip"}, lambda: iter([BOMB]), "a compressed answer"),
        ({"content-encoding": "gzip, gzip"}, lambda: iter([gzip.compress(BOMB)]), "a compressed answer"),
    ],
    ids=["endless", "gzip", "gzip in gzip"],
)
def test_an_answer_without_an_end_is_a_fault_and_fills_no_memory(
    gemini: Loopback, tmp_path: Path, headers: dict[str, str], body: Any, said: str, code: int
):
    gemini.rule = lambda texts: sends(headers, body, code)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WeftError, match=said):
        embed(TEXTS, tmp_path, gemini.url, attempts=2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000
    gemini.rule = lambda texts: None
    found, _ = embed(TEXTS, tmp_path / "again", gemini.url)
    assert found.keys() == set(TEXTS)
