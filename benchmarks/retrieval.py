"""Search quality on real mail, beside bm25s on the same mails in the same run.

    python benchmarks/retrieval.py [--state FOLDER] [--set NAME=VALUE ...] [--chunks NAME=VALUE ...]

Prints nDCG@10, RR@10 and R@100 per task: of the default search, of its two halves alone, of both
fusions, and of bm25s over whole mails, over mails without quotes and over the same chunks.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bm25s
import mail_collections as collections
import numpy as np
import Stemmer
from rich.console import Console
from rich.table import Table

from dagster_project.resources.embedders import make_embedder
from dagster_project.resources.rerankers import Reranker
from dagster_project.resources.search_index import SearchIndex, open_current
from dagster_project.settings import Settings, load_settings
from transforms.settings import RerankSettings, SearchSettings

DEPTH = 100
_RERANKED = "default, reranked by features"
_QUOTED = re.compile(r"^\s*>.*\n?", re.M)


def main() -> None:
    """Build what is missing, search, print one table per task."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--state", type=Path, help="where indexes are kept between runs; default: a temporary folder"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of [search]"
    )
    parser.add_argument(
        "--chunks", action="append", default=[], metavar="NAME=VALUE", help="a setting of [chunks]"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave bm25s out")
    arguments = parser.parse_args()
    changed, chunks = (dict(s.split("=", 1) for s in given) for given in (arguments.set, arguments.chunks))
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        corpora = collections.corpora_folder()
        collection = collections.pgsql(corpora)
        index = built(state / "pgsql", "pgsql", collection.source, changed, chunks)
        report(collection, index, not arguments.no_peers)
        index = built(state / "erofs", "erofs", collections.erofs_source(corpora), changed, chunks)
        report(collections.erofs(corpora, index.path), index, not arguments.no_peers)


def built(
    folder: Path, name: str, source: str, changed: dict[str, str], chunks: dict[str, str]
) -> SearchIndex:
    """The index of a source, brought up to date."""
    config = collections.settings_file(folder, name, source, chunks)
    subprocess.run(
        [sys.executable, "-m", "dagster_project.cli", "build", "--quiet", "--config", str(config)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    settings: Settings = load_settings(config)
    search = SearchSettings.model_validate({**settings.search.model_dump(), **changed})
    return open_current(settings.root / "index", make_embedder(settings.embedding), settings.terms, search)


def variants(settings: SearchSettings) -> dict[str, SearchSettings]:
    """The default search, plain and reranked, its halves, and both fusions without the thread's share."""
    plain = {"thread_weight": 0.0}
    return {
        "default": settings,
        _RERANKED: settings,
        "blend, no thread": settings.model_copy(update={**plain, "fusion": "blend"}),
        "rank fusion, no thread": settings.model_copy(update={**plain, "fusion": "rrf"}),
        "lexical alone": settings.model_copy(
            update={**plain, "fusion": "blend", "lexical_weight": 1.0, "candidates_vector": 1}
        ),
        "vectors alone": settings.model_copy(
            update={**plain, "fusion": "blend", "lexical_weight": 0.0, "candidates_lexical": 1}
        ),
    }


def report(collection: collections.Collection, index: SearchIndex, with_peers: bool) -> None:
    """Print the table of every task of a collection."""
    peers = bm25s_peers(index) if with_peers else {}
    for task, (queries, relevant) in collection.tasks.items():
        others = task.endswith("thread")
        own = dict(zip(*collection.tasks["commit to its mail"], strict=True)) if others else {}
        without = [own[q] for q in queries] if others else None
        rows = {}
        for name, settings in variants(index.settings).items():
            again = Reranker(RerankSettings(method="features")) if name == _RERANKED else None
            searching = SearchIndex(index.path, index.embedder, index.term_settings, settings, again)
            start = time.perf_counter()
            ranked = weft_ranking(searching, list(queries))
            seconds = time.perf_counter() - start
            rows[f"weft, {name}"] = (collections.measured(ranked, relevant, without), seconds)
        for name, peer in peers.items():
            start = time.perf_counter()
            ranked = peer(list(queries))
            rows[f"bm25s, {name}"] = (
                collections.measured(ranked, relevant, without),
                time.perf_counter() - start,
            )
        show(f"{collection.name}: {task} ({len(queries)} queries)", rows)


def show(title: str, rows: dict[str, tuple[dict[str, float], float]]) -> None:
    """One table, the best of each column marked."""
    table = Table(title=title, title_justify="left")
    table.add_column("system")
    names = list(next(iter(rows.values()))[0])
    best = {n: max(r[0][n] for r in rows.values()) for n in names}
    for name in (*names, "ms/query"):
        table.add_column(name, justify="right")
    queries = int(title.rsplit("(", 1)[1].split()[0])
    for system, (values, seconds) in rows.items():
        cells = [f"{values[n]:.3f}{'*' if values[n] == best[n] else ' '}" for n in names]
        table.add_row(system, *cells, f"{1000 * seconds / queries:.1f}")
    default, peers = rows["weft, default"][0], {n: v for n, (v, _) in rows.items() if n.startswith("bm25s")}
    if peers:
        table.caption = _caption(default, peers, names)
    Console(width=110).print(table)


def _caption(default: dict[str, float], peers: dict[str, dict[str, float]], names: list[str]) -> str:
    """How far the default is from the best peer."""
    margins = {n: default[n] - max(p[n] for p in peers.values()) for n in names}
    return "default against the best bm25s: " + ", ".join(f"{n} {m:+.3f}" for n, m in margins.items())


def weft_ranking(index: SearchIndex, queries: list[str]) -> list[list[tuple[str, float]]]:
    """Ranked (Message-ID, score) lists of Weft."""
    hits = index.rank(queries, limit=DEPTH)
    docs = index.message_ids(hits["chunk_no"].to_list())
    ranked: list[list[tuple[str, float]]] = [[] for _ in queries]
    for query, doc, score in zip(hits["query"], docs, hits["score"], strict=True):
        ranked[query].append((doc, score))
    return ranked


def bm25s_peers(index: SearchIndex) -> dict:
    """bm25s rankers by name: whole mails, mails without quoted lines, the chunks Weft indexes."""
    mails = index.connection.execute(
        "SELECT message_id, subject, body FROM messages ORDER BY message_id"
    ).fetchall()
    chunks = index.connection.execute(
        "SELECT doc_id, title, concat_ws(' ', text_lex, added_lex, removed_lex, quote_lex) FROM chunks "
        "ORDER BY chunk_id"
    ).fetchall()
    return {
        "whole mails": ranker([(m, f"{s}\n{b}") for m, s, b in mails]),
        "mails without quotes": ranker([(m, f"{s}\n{_QUOTED.sub('', b)}") for m, s, b in mails]),
        "Weft's chunks": ranker([(m, f"{s}\n{b}") for m, s, b in chunks]),
    }


def ranker(texts: list[tuple[str, str]]):
    """A function from queries to ranked (Message-ID, score) lists by bm25s (Lucene's BM25, stemmed)."""
    stemmer = Stemmer.Stemmer("english")
    model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    model.index(
        bm25s.tokenize([t for _, t in texts], stopwords="en", stemmer=stemmer, show_progress=False),
        show_progress=False,
    )

    def rank(queries: list[str]) -> list[list[tuple[str, float]]]:
        asked = bm25s.tokenize(
            queries, stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
        )
        result = []
        for tokens in asked:
            scores = model.get_scores(tokens) if tokens else np.zeros(len(texts), dtype=np.float32)
            best: dict[str, float] = {}
            for position in np.argsort(-scores, kind="stable")[: 10 * DEPTH]:
                if scores[position] > 0:
                    best.setdefault(texts[position][0], float(scores[position]))
            result.append(list(best.items())[:DEPTH])
        return result

    return rank


if __name__ == "__main__":
    main()
