"""One run of the Gemini model over numbered texts; tests also start it by itself, kill it, or run
two at once.
"""

import os
from collections.abc import Set
from multiprocessing.process import BaseProcess
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa

from assets.embedding import EmbeddingReport, vectors_of
from assets.vector_parts import EmbeddingTotals
from dagster_project.extras.services.gemini_embedder import GeminiEmbedder
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.system.long_work import LoggedProgress
from tests.gemini_loopback import KEY, vector
from tests.processes import forked
from tests.timing import HUNG
from transforms.hashing import text_hash
from transforms.settings.models import EmbeddingSettings, GeminiSettings


def texts_between(first: int, last: int) -> list[str]:
    return [
        f"Text number {n} speaks of the compactor and of nothing else." for n in range(first, last)
    ]


def embed(
    texts: list[str], cache: Path, url: str, **settings: object
) -> tuple[dict[str, list[float]], EmbeddingReport]:
    """Vectors by text, and what they took; `settings` are of the section gemini, or `dimensions`."""
    dimensions = settings.pop("dimensions", 768)
    quick = {
        "base_url": url,
        "backoff_seconds": 0.01,
        "max_backoff_seconds": 0.05,
        "timeout_seconds": HUNG,
        "time_limit_seconds": HUNG,
        "request_texts": 10,
        "concurrency": 4,
        "attempts": 4,
        "poll_seconds": 0.02,
    }
    embedder = GeminiEmbedder(
        EmbeddingSettings.model_validate({"model": "gemini", "dimensions": dimensions}),
        GeminiSettings.model_validate({**quick, **settings}),
        jobs=cache,
    )
    table = ibis.memtable(pa.table({"text_hash": [text_hash(t) for t in texts], "text": texts}))
    by_hash = {text_hash(t): t for t in texts}
    names = list(by_hash)
    found, report = vectors_of(
        table, names, embedder, SQLiteEmbeddingCache(cache), LoggedProgress()
    )
    rows = [row for part in found.between(0, len(names)) for row in part.to_pylist()]
    assert len(rows) == found.count
    return {by_hash[row["text_hash"]]: row["vector"] for row in rows}, report


def are_right(found: dict[str, list[float]], texts: list[str], dimensions: int = 768) -> bool:
    """True if every text has its vector, of unit length, and nothing else has one."""
    wanted = {t: vector(t, dimensions, "RETRIEVAL_DOCUMENT") for t in texts}
    return found.keys() == wanted.keys() and all(
        np.allclose(found[t], v / np.linalg.norm(v), atol=1e-4) for t, v in wanted.items()
    )


def totals(
    report: EmbeddingReport, before: Set[str] = frozenset(), retained: int = 0
) -> EmbeddingTotals:
    """What one run did, as the asset counts it."""
    counted = EmbeddingTotals(retained)
    counted.add(report, len(report.embedded), before)
    return counted


def started(cache: Path, url: str, first: int, last: int, **settings: object) -> BaseProcess:
    """A process of its own that embeds the texts number `first` to `last` - 1."""
    process = forked(_run, cache, url, first, last, settings)
    process.start()
    return process


def _run(cache: Path, url: str, first: int, last: int, settings: dict[str, object]) -> None:
    os.environ["GEMINI_API_KEY"] = KEY
    embed(texts_between(first, last), cache, url, **settings)
