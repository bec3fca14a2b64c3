"""Embedding models on real mail: quality, speed, memory, and how much of a quota is used.

    python benchmarks/models.py speed [--transformer FOLDER] [--onnx-file FILE ...]
    python benchmarks/models.py quality [--corpus NAME ...] [--transformer FOLDER] [--onnx-file FILE ...] [--state FOLDER]
    python benchmarks/models.py quota               Gemini's path against a loopback server with a quota
    python benchmarks/models.py again [--state FOLDER]  second builds of all corpora ask for nothing

`quality` searches the PostgreSQL mails, four months of linux-erofs, documents and long chats with
each model: the default search with several weights of the lexical half, and vectors alone.
"""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import ibis
import mail_collections as collections
import numpy as np
import pyarrow as pa
import tasks
from conversations import locomo
from printing import new_parser, new_table
from rich.console import Console

from assets.embedding import vectors_of
from dagster_project.config.settings import load_settings
from dagster_project.index.publish.versions import current_version
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from dagster_project.models.embedding_cache import SQLiteEmbeddingCache
from dagster_project.system.long_work import LoggedProgress
from transforms.hashing import text_hash
from transforms.settings.models import EmbeddingSettings, GeminiSettings
from transforms.settings.search import BUILT_IN_PROFILES

sys.path.insert(0, str(Path(__file__).parents[1]))
CORPORA = ("pgsql", tasks.MONTHS, "documents", "conversations")
CHARS, TEXTS, ROUNDS = 1300, 8192, 3
_SHORT = {"message_chars": "1000"}
"""Chunks that a transformer reads whole."""
WEIGHTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
console = Console(width=120)


def main() -> None:
    """Run the part that is asked for."""
    parser = new_parser(__doc__)
    parser.add_argument("part", choices=["speed", "quality", "quota", "again"])
    parser.add_argument("--transformer", help="folder or hub name of a sentence-transformers model")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument(
        "--onnx-file", action="append", default=[], help="graph in that folder; several"
    )
    parser.add_argument(
        "--corpus", choices=CORPORA, action="append", help="one only; several times for several"
    )
    parser.add_argument("--state", type=Path, help="where indexes are kept between runs")
    arguments = parser.parse_args()
    transformers = {
        file or "transformer": EmbeddingSettings(
            model="transformer",
            name=arguments.transformer,
            dimensions=arguments.dimensions,
            onnx_file=file,
        )
        for file in (None, *arguments.onnx_file)
        if arguments.transformer
    }
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        if arguments.part == "speed":
            speed(transformers)
        elif arguments.part == "quota":
            quota(state)
        elif arguments.part == "again":
            again(state)
        else:
            quality(state, arguments.corpus or CORPORA, transformers)


def speed(transformers: Mapping[str, EmbeddingSettings]) -> None:
    """Texts per second and peak memory of each model, in processes of their own and in turns."""
    models = {"static": EmbeddingSettings()} | dict(transformers)
    rates: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name in (*models, "wordllama's API"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                rate, peak = alone.submit(measured_speed, models.get(name)).result()
            rates.setdefault(name, []).append(rate)
            peaks[name] = max(peaks.get(name, 0.0), peak)
    columns = ("model", "texts/s", "peak MiB of the process")
    table = new_table(f"texts of {CHARS:,} characters, median of {ROUNDS}", columns)
    for name, values in rates.items():
        table.add_row(name, f"{statistics.median(values):,.0f}", f"{peaks[name]:,.0f}")
    console.print(table)


def measured_speed(model: EmbeddingSettings | None) -> tuple[float, float]:
    """Texts per second of a model, of wordllama's own API for none, and the process's peak memory
    in MiB.
    """
    if model is None:
        import wordllama

        folder = Path(wordllama.__file__).parent
        own = wordllama.WordLlama.load(dim=256, cache_dir=folder, disable_download=True)
        embed, texts = (lambda t: own.embed(t, norm=True)), passages()
    else:
        embed = make_embedder(model).embed_documents
        texts = passages() if model.model == "static" else passages()[:256]
    embed(texts[:64])
    start = time.perf_counter()
    for first in range(0, len(texts), 2048):
        embed(texts[first : first + 2048])
    rate = len(texts) / (time.perf_counter() - start)
    return rate, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def passages() -> list[str]:
    """Passages of `CHARS` characters of real mail."""
    folder = collections.corpora_folder() / "pgsql"
    whole = "".join(p.read_text(encoding="latin-1") for p in sorted(folder.glob("pgsql-*")))
    cut = [whole[i : i + CHARS] for i in range(0, len(whole) - CHARS, CHARS)]
    return [cut[i % len(cut)] for i in range(TEXTS)]


def quality(
    state: Path, names: Sequence[str], transformers: Mapping[str, EmbeddingSettings]
) -> None:
    """One table per task: models and weights; above it what the vectors took."""
    models = {"static": ("", {})} | {
        name: (_section(model), _SHORT) for name, model in transformers.items()
    }
    if transformers:
        models["static, chunks of the transformer"] = ("", _SHORT)
    found: dict[str, dict[str, list[tuple[str, dict[str, float]]]]] = {}
    for model, (section, chunks) in models.items():
        for name in names:
            folder = state / re.sub(r"\W+", "-", f"{name}-{model}")
            corpus = tasks.corpus(name, folder, {}, chunks, partial(built, section=section))
            for task in corpus.tasks:
                if not task.name.endswith("thread"):
                    rows = found.setdefault(f"{task.name} ({len(task.queries)} queries)", {})
                    rows[model] = judged(corpus, task)
            corpus.index.close()
    for title, by_model in found.items():
        metrics = collections.MEASURES
        table = new_table(title, ("model", "search", *metrics), left=2)
        for model, rows in by_model.items():
            for search, values in rows:
                table.add_row(model, search, *(f"{values[m]:.3f}" for m in metrics))
        console.print(table)


def _section(model: EmbeddingSettings) -> str:
    """The settings file's lines for a transformer."""
    named = model.model_dump(
        include={"model", "name", "dimensions", "onnx_file"}, exclude_none=True
    )
    return "\n".join(
        ["[embedding]", *(f"{name} = {json.dumps(value)}" for name, value in named.items())]
    )


def built(config: Path, section: str) -> SearchIndex:
    """The index of a settings file with a model; prints what a build in a process of its own took."""
    config.write_text(f"{config.read_text()}\n{section}\n")
    done = subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "build", "--json", "--config", str(config)],
        check=True,
        stdout=subprocess.PIPE,
    )
    result = json.loads(done.stdout)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    if stage := result["stages"].get("embeddings"):
        figures = result["embedding"]
        console.print(
            f"{config.parent.parent.name}: {stage['rows']:,} texts in {stage['seconds']:.1f} s, "
            f"{stage['rows'] / stage['seconds']:,.0f} texts/s with model start, {figures['tokens']:,.0f} tokens, "
            f"{figures['truncated_texts']:,.0f} texts cut, peak of all builds so far {peak:,.0f} MiB"
        )
    settings = load_settings(config)
    embedder = make_embedder(settings.embedding)
    return SearchIndex(
        current_version(settings.root / "index"), embedder, settings.terms, settings.search
    )


def judged(corpus: tasks.Corpus, task: tasks.Task) -> list[tuple[str, dict[str, float]]]:
    """The metrics of the search with several lexical weights, and of vectors alone."""
    variants = {f"blend, lexical weight {w}": {"lexical_weight": w} for w in WEIGHTS}
    name = f"blend, lexical weight {WEIGHTS[0]}, no whole mails"
    variants[name] = {"lexical_weight": WEIGHTS[0], "mail_weight": 0.0}
    variants["vectors alone"] = BUILT_IN_PROFILES["vector"] | {"candidates_vector": 30}
    rows = []
    for name, changed in variants.items():
        settings = corpus.index.settings.model_copy(update=changed)
        measured = task.measured(tasks.weft_ranking(corpus, task, settings).ranked)
        rows.append((name, {measure: float(values.mean()) for measure, values in measured.items()}))
    return rows


def quota(state: Path) -> None:
    """How much of a quota of requests is used, and how often the server had to refuse."""
    from dagster_project.extras.services.gemini_embedder import GeminiEmbedder
    from dagster_project.system.rate_limit import Quota
    from tests import gemini_loopback as server

    window, requests, count = 12.0, 400, 2000
    os.environ["GEMINI_API_KEY"] = server.KEY
    with server.loopback() as gemini:
        refused = 0

        def strict(texts: list[str]) -> server.Fault | None:
            nonlocal refused
            now = time.monotonic()
            if sum(n for at, n in gemini.times if at > now - window) > requests:
                refused += 1
                return server.asks_to_wait(0.2)
            return None

        gemini.rule = strict
        gemini.delay = 0.05
        settings = GeminiSettings(base_url=gemini.url, request_texts=20)
        embedder = GeminiEmbedder(EmbeddingSettings(model="gemini"), settings)
        # A minute is twelve seconds here, and the client's margin of one second a fifth of one.
        embedder.service.quota = Quota(requests, settings.tokens_per_minute, window * 61 / 60)
        texts = [f"text {n}" for n in range(count)]
        hashes = [text_hash(t) for t in texts]
        table = ibis.memtable(pa.table({"text_hash": hashes, "text": texts}))
        vectors_of(table, hashes, embedder, SQLiteEmbeddingCache(state / "cache"), LoggedProgress())
        first, last = gemini.times[0][0], gemini.times[-1][0]
    # What one window lets through at once is not limited by time: it is left out.
    used = (count - requests) / (requests * (last - first) / window)
    console.print(
        f"{count:,} texts at {requests} per {window:g} s: {last - first:.1f} s, {used:.1%} of the quota used, "
        f"{refused} requests refused"
    )


def again(state: Path) -> None:
    """What second builds of all corpora embed, also when the lake is gone."""
    corpora = collections.corpora_folder()
    configs = {
        "pgsql": collections.settings_file(
            state / "again-pgsql", "pgsql", collections.pgsql(corpora).source
        ),
        "erofs": collections.settings_file(
            state / "again-erofs", "erofs", collections.erofs_source(corpora)
        ),
        "passages": tasks.passages_settings(corpora, state / "again-passages"),
        "conversations": locomo(corpora, state / "again-conversations")[0],
    }
    for name, config in configs.items():
        command = [
            sys.executable,
            "-m",
            "dagster_project.cli",
            "build",
            "--json",
            "--config",
            str(config),
        ]
        for step in ("first", "second", "without lake and index"):
            result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            figures = result["embedding"] or {"texts": "-", "embedded": 0, "calls": 0}
            console.print(f"{name}, {step} build: {result['outcome']}, {json.dumps(figures)}")
            if step == "second":
                for folder in ("lake", "index"):
                    subprocess.run(["rm", "-r", str(config.parent / "state" / folder)], check=True)


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
