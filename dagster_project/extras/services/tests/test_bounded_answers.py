"""What a service sends is read up to a limit: neither a long answer nor one that swells fills
memory.
"""

import gzip
import resource
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dagster_project.extras.services.service import MAX_ANSWER_BYTES
from dagster_project.extras.services.tests.embedding_run import embed, texts_between
from tests.gemini_loopback import Loopback
from transforms.errors import WeftError

TEXTS = texts_between(0, 8)


def sends(
    headers: dict[str, str], body: Callable[[], Iterator[bytes]], code: int
) -> Callable[[Any], None]:
    def send(answer: Any) -> None:
        answer.send_response(code)
        for name, value in {
            "content-type": "application/json",
            "connection": "close",
            **headers,
        }.items():
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


def bomb() -> Iterator[bytes]:
    pack = zlib.compressobj(1, zlib.DEFLATED, 31)
    yield b"".join(pack.compress(b" " * (1 << 20)) for _ in range(300)) + pack.flush()


@pytest.mark.parametrize(
    ("headers", "body", "said", "code"),
    [
        ({}, endless, f"an answer of over {MAX_ANSWER_BYTES:,} bytes", 200),
        ({"content-encoding": "gzip"}, bomb, "a compressed answer", 500),
        (
            {"content-encoding": "gzip, gzip"},
            lambda: map(gzip.compress, bomb()),
            "a compressed answer",
            200,
        ),
    ],
    ids=["endless", "a fault in gzip", "gzip in gzip"],
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
