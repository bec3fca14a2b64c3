"""Speed of search over real lists, replicated with perturbation, beside tantivy (lexical) and faiss
(vectors).

    python benchmarks/search_speed.py [--state FOLDER] [--chunks 100000 300000 1000000] [--no-peers]

Builds the PostgreSQL lists and linux-erofs with Weft, copies them with `replicas.py` to each number
of chunks, and prints, measured in this run: opening in a new process until the first hits are there
(files that were read before may be in the page cache), single searches with snippets and
descriptions and without, a hundred searches at once, the share of the ten nearest vectors that the
default way finds, and the peak memory of the process. Queries are the lines of PostgreSQL's TODO
list and subjects of commits to erofs.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import faiss
import mail_collections as collections
import numpy as np
import tantivy
from printing import new_parser, new_table
from replicas import published_replica
from rich.console import Console
from rich.table import Table

from dagster_project.composition.objects import make_lake
from dagster_project.config.settings import load_settings
from dagster_project.index.search.query_batch import CODE_CANDIDATES, CODE_RESCORED
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.lake.lake import ParquetLake
from dagster_project.models.embedders import make_embedder
from dagster_project.models.language_models import Reranker
from transforms.embedding.sign_codes import CodeScores
from transforms.settings.models import EmbeddingSettings
from transforms.settings.search import RerankSettings, SearchSettings, TermSettings

BATCH = 100
_NEAREST = 10
_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")
_SOURCES = """
[[sources]]
name = "erofs"
kind = "mbox"
list_id = "linux-erofs"
path = "{corpora}/linux-erofs/linux-erofs.*.gz"
grain = "year"
[[sources]]
name = "pgsql"
kind = "mbox"
path = "{corpora}/pgsql/pgsql-*"
grain = "year"
"""


def main() -> None:
    """Build what is missing, measure each size in a process of its own, print a table."""
    parser = new_parser(__doc__)
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept; default: a temporary folder"
    )
    parser.add_argument("--chunks", type=int, nargs="+", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--no-peers", action="store_true", help="leave tantivy and faiss out")
    parser.add_argument(
        "--measure", choices=["weft", "open", "tantivy", "faiss"], help=argparse.SUPPRESS
    )
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(_MEASURES[arguments.measure](arguments.index)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        base = base_lake(state)
        for chunks in arguments.chunks:
            place = published_replica(base, state, chunks)
            names = ["weft", "open"] if arguments.no_peers else ["weft", "open", "tantivy", "faiss"]
            Console(width=110).print(shown(chunks, {name: measured(name, place) for name in names}))


def base_lake(state: Path) -> ParquetLake:
    """The lake of both lists, built if it is not there."""
    if not (state / "base" / "index" / "CURRENT").exists():
        state.mkdir(parents=True, exist_ok=True)
        config = state / "base.toml"
        sources = _SOURCES.format(corpora=collections.corpora_folder())
        config.write_text(f'[storage]\nroot = "base"\n{sources}')
        command = [sys.executable, "-m", "dagster_project.cli", "build", "--config", str(config)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return make_lake(load_settings(state / "base.toml"))


def queries() -> list[str]:
    """The lines of PostgreSQL's TODO list, and as many subjects of commits."""
    corpora = collections.corpora_folder()
    topics = list(collections.pgsql(corpora).tasks["topics"][0])
    lines = (corpora / "linux-erofs" / "erofs_commits.jsonl").read_text().splitlines()
    return topics + [json.loads(line)["subject"] for line in lines[: len(topics)]]


def measured(name: str, index: Path) -> dict[str, Any]:
    """What one measurement in a new process prints."""
    command = [sys.executable, __file__, "--measure", name, "--index", str(index)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def opened(path: Path) -> SearchIndex:
    """The index with the default settings, as commands and servers open it."""
    embedder, reranker = make_embedder(EmbeddingSettings()), Reranker(RerankSettings())
    return SearchIndex(path, embedder, TermSettings(), SearchSettings(), reranker)


def times(search: Callable[[str], Any], asked: Sequence[str]) -> dict[str, float]:
    """Milliseconds of single searches, after one that is not counted; `cpu` is processor time, of
    all threads.
    """
    search(asked[0])
    taken, used = [], []
    for query in asked[1:]:
        start, busy = time.perf_counter(), time.process_time()
        search(query)
        taken.append(1000 * (time.perf_counter() - start))
        used.append(1000 * (time.process_time() - busy))
    median, slow = np.quantile(taken, [0.5, 0.95])
    return {"p50": float(median), "p95": float(slow), "cpu": float(np.median(used))}


def seconds(work: Callable[[], Any]) -> float:
    """Seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak() -> float:
    """Peak memory of this process in MB, mapped pages included.

    What `getrusage` tells is no less than what the process had that began this one.
    """
    return int(_PEAK.search(Path("/proc/self/status").read_text())[1]) / 1024  # type: ignore[index]


def measured_open(path: Path) -> dict[str, Any]:
    """Opening until the first hits are there; the model is loaded before."""
    make_embedder(EmbeddingSettings()).embed_queries(["x"])
    start = time.perf_counter()
    index = opened(path)
    _ = index.arrays
    ready = time.perf_counter() - start
    index.search(["vacuum full locks the table"])
    return {"ready": ready, "first": time.perf_counter() - start, "peak": peak()}


def measured_weft(path: Path) -> dict[str, Any]:
    """Weft: searches described, only ranked, and ranked once, a batch of each, recall of the vector
    way.
    """
    index, asked = opened(path), queries()
    once = SearchSettings(rerank="off")
    result = {
        "search": times(lambda query: index.search([query], plain=True), asked),
        "rank": times(lambda query: index.ranked([query]), asked),
        "once": times(lambda query: index.ranked([query], settings=once), asked),
        "search_batch": seconds(lambda: index.search(asked[:BATCH], plain=True)),
        "rank_batch": seconds(lambda: index.ranked(asked[:BATCH])),
        "once_batch": seconds(lambda: index.ranked(asked[:BATCH], settings=once)),
        "way": index.ranked(asked[:1]).vector_path,
        "peak": peak(),
    }
    held = index.arrays.vectors
    found = [
        CodeScores(query, held, None, CODE_CANDIDATES, CODE_RESCORED).best(_NEAREST)
        for query in index.embedder.embed_queries(asked[::2])
    ]
    vectors = held.of(np.arange(index.chunk_count))
    return result | {"recall": recall(found, vectors, index.embedder.embed_queries(asked[::2]))}


def measured_tantivy(path: Path) -> dict[str, Any]:
    """Tantivy over subjects and texts of the same chunks, stemmed."""
    schema = tantivy.SchemaBuilder().add_text_field("text", tokenizer_name="en_stem").build()
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(str(path), read_only=True) as connection,
    ):
        index = tantivy.Index(schema, path=folder)
        writer = index.writer(heap_size=256 << 20)
        cursor = connection.execute(
            "SELECT concat_ws(chr(10), title, text_lex, quote_lex) FROM chunks"
        )
        start = time.perf_counter()
        while rows := cursor.fetchmany(20_000):
            for (text,) in rows:
                writer.add_document(tantivy.Document(text=text))
        writer.commit()
        built = time.perf_counter() - start
        index.reload()
        searcher, asked = index.searcher(), queries()

        def search(query: str) -> Any:
            words = "".join(c if c.isalnum() else " " for c in query)
            return searcher.search(index.parse_query(words, ["text"]), 50)

        return {
            "rank": times(search, asked),
            "rank_batch": seconds(lambda: [search(q) for q in asked[:BATCH]]),
            "built": built,
            "peak": peak(),
        }


def measured_faiss(path: Path) -> dict[str, Any]:
    """A flat faiss index of 8-bit vectors on the same vectors and queries."""
    version = opened(path)
    held = version.vectors.of(np.arange(version.chunk_count))
    embedder, asked = make_embedder(EmbeddingSettings()), queries()
    index = faiss.IndexScalarQuantizer(
        held.shape[1], faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )

    def build() -> None:
        index.train(held[:: max(1, len(held) // 50_000)])
        index.add(held)

    built = seconds(build)
    vectors = embedder.embed_queries(asked)
    found = [row[row >= 0] for row in index.search(vectors[::2], _NEAREST)[1]]
    return {
        "rank": times(lambda query: index.search(embedder.embed_queries([query]), 30), asked),
        "rank_batch": seconds(lambda: index.search(vectors[:BATCH], 30)),
        "recall": recall(found, held, vectors[::2]),
        "built": built,
        "peak": peak(),
    }


def recall(found: Sequence[np.ndarray], vectors: np.ndarray, asked: np.ndarray) -> float:
    """Share of the nearest vectors that were found."""
    shares = []
    for query, rows in zip(asked, found, strict=True):
        scores = vectors @ query
        nearest = np.argpartition(scores, len(scores) - _NEAREST)[-_NEAREST:]
        shares.append(len(np.intersect1d(nearest, rows)) / _NEAREST)
    return float(np.mean(shares))


def shown(chunks: int, results: dict[str, dict[str, Any]]) -> Table:
    """One table for one number of chunks."""
    at_once = f"{BATCH} at once, s"
    columns = (
        "",
        "p50 ms",
        "p95 ms",
        "processor ms",
        at_once,
        "recall@10",
        "index made, s",
        "peak MB",
    )
    table = new_table(f"{chunks:,} chunks", columns)
    weft = results["weft"]
    rows = [
        (f"Weft, hits with snippets ({weft['way']})", weft["search"], weft["search_batch"], weft),
        ("Weft, ranked only", weft["rank"], weft["rank_batch"], weft),
        ("Weft, ranked without a second look", weft["once"], weft["once_batch"], weft),
        *(
            (name, results[name]["rank"], results[name]["rank_batch"], results[name])
            for name in ("tantivy", "faiss")
            if name in results
        ),
    ]
    for name, single, batch, result in rows:
        shown_recall = f"{result['recall']:.3f}" if "recall" in result else ""
        built = f"{result['built']:.1f}" if "built" in result else ""
        figures = (f"{single[key]:.1f}" for key in ("p50", "p95", "cpu"))
        table.add_row(name, *figures, f"{batch:.2f}", shown_recall, built, f"{result['peak']:,.0f}")
    first = results["open"]
    table.caption = f"open {first['ready']:.2f} s, until the first hits {first['first']:.2f} s, then {first['peak']:,.0f} MB"
    return table


_MEASURES = {
    "weft": measured_weft,
    "open": measured_open,
    "tantivy": measured_tantivy,
    "faiss": measured_faiss,
}

if __name__ == "__main__":
    main()
