"""Search quality on real mail, beside bm25s on the same mails in the same run.

    python benchmarks/retrieval.py [--state FOLDER] [--set NAME=VALUE ...] [--chunks NAME=VALUE ...]

Prints nDCG@10, MRR@10, Recall@10 and Recall@100 per task: of the default search and of the list after each of
its stages, of its two halves alone (vectors alone are plain vector search), of both fusions, and of bm25s over
whole mails, over mails without quotes and over the same chunks. Beside nDCG@10 stand its 95 % interval, how far
the default is ahead query by query, and the p-value of that.
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
import polars as pl
import Stemmer
from rich.console import Console
from rich.table import Table

from dagster_project.resources.embedders import make_embedder
from dagster_project.resources.search_index import SearchIndex, open_current
from dagster_project.settings import Settings, load_settings
from transforms.intervals import bootstrap, paired_difference
from transforms.settings import BUILT_IN_PROFILES, SearchSettings

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
    parser.add_argument("--corpus", choices=["pgsql", "erofs"], help="one of both only")
    arguments = parser.parse_args()
    changed, chunks = (dict(s.split("=", 1) for s in given) for given in (arguments.set, arguments.chunks))
    with tempfile.TemporaryDirectory() as temporary:
        state = arguments.state or Path(temporary)
        corpora = collections.corpora_folder()
        if arguments.corpus != "erofs":
            collection = collections.pgsql(corpora)
            index = built(state / "pgsql", "pgsql", collection.source, changed, chunks)
            report(collection, index, not arguments.no_peers)
        if arguments.corpus != "pgsql":
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
    """The profiles that every evaluation knows, the default reranked, and without the thread's share."""
    changes = BUILT_IN_PROFILES | {
        _RERANKED: {"rerank": "features"},
        "default, no thread": {"thread_weight": 0.0},
        "default, with feedback": {"feedback_weight": 0.3},
    }
    whole = settings.model_dump()
    return {name: SearchSettings.model_validate({**whole, **changed}) for name, changed in changes.items()}


def report(collection: collections.Collection, index: SearchIndex, with_peers: bool) -> None:
    """Print the table of every task of a collection."""
    peers = bm25s_peers(index) if with_peers else {}
    for task, (queries, relevant) in collection.tasks.items():
        others = task.endswith("thread")
        own = dict(zip(*collection.tasks["commit to its mail"], strict=True)) if others else {}
        without = [own[q] for q in queries] if others else None
        rows = {}
        for name, settings in variants(index.settings).items():
            searching = SearchIndex(index.path, index.embedder, index.term_settings, settings)
            start = time.perf_counter()
            ranked = weft_ranking(searching, list(queries))
            seconds = time.perf_counter() - start
            rows[f"weft, {name}"] = (collections.measured(ranked, relevant, without), seconds)
        for stage, (ranked, seconds) in stage_rankings(index, list(queries)).items():
            rows[f"  default, after {stage}"] = (collections.measured(ranked, relevant, without), seconds)
        for name, peer in peers.items():
            start = time.perf_counter()
            ranked = peer(list(queries))
            rows[f"bm25s, {name}"] = (
                collections.measured(ranked, relevant, without),
                time.perf_counter() - start,
            )
        show(f"{collection.name}: {task} ({len(queries)} queries)", rows)


def show(title: str, rows: dict[str, tuple[dict[str, np.ndarray], float]]) -> None:
    """One table, the best of each column marked."""
    table = Table(title=title, title_justify="left")
    table.add_column("system")
    head, *others = collections.MEASURES
    for name in (head, "95 %", *others, "default ahead by", "p", "ms/query"):
        table.add_column(name, justify="right")
    means = {system: {n: float(v.mean()) for n, v in values.items()} for system, (values, _) in rows.items()}
    best = {n: max(m[n] for m in means.values()) for n in collections.MEASURES}
    default = rows["weft, default"][0][head]
    for system, (values, seconds) in rows.items():
        cells = {n: f"{m:.3f}{'*' if m == best[n] else ' '}" for n, m in means[system].items()}
        interval = bootstrap(values[head])
        ahead = paired_difference(values[head], default)
        table.add_row(
            system,
            cells[head],
            f"{interval.low:.3f}–{interval.high:.3f}",
            *(cells[n] for n in others),
            "" if system == "weft, default" else f"{ahead.mean:+.3f} [{ahead.low:+.3f}, {ahead.high:+.3f}]",
            "" if system == "weft, default" else p_value(ahead.p_value),
            f"{1000 * seconds / len(default):.1f}",
        )
    Console(width=150).print(table)


def p_value(value: float) -> str:
    """A p-value in three digits."""
    return f"{value:.3f}" if value >= 0.0005 else "<.001"


def weft_ranking(index: SearchIndex, queries: list[str]) -> list[list[tuple[str, float]]]:
    """Ranked (Message-ID, score) lists of Weft."""
    hits = index.rank(queries, limit=DEPTH)
    docs = index.message_ids(hits["chunk_no"].to_list())
    ranked: list[list[tuple[str, float]]] = [[] for _ in queries]
    for query, doc, score in zip(hits["query"], docs, hits["score"], strict=True):
        ranked[query].append((doc, score))
    return ranked


def stage_rankings(
    index: SearchIndex, queries: list[str]
) -> dict[str, tuple[list[list[tuple[str, float]]], float]]:
    """What `weft_ranking` gives for the list after each stage of the default search, and its seconds so far."""
    lists: dict[str, tuple[list[pl.DataFrame], float]] = {}
    start = time.perf_counter()

    def note(stage: str, hits: pl.DataFrame, dropped: pl.DataFrame) -> None:
        parts, _ = lists.setdefault(stage, ([], 0.0))
        parts.append(hits.select("query", "chunk_no", "score"))
        lists[stage] = parts, time.perf_counter() - start

    index.rank(queries, limit=DEPTH, report=note)
    rankings = {}
    for stage, (parts, seconds) in lists.items():
        hits = pl.concat(parts)
        docs = index.message_ids(hits["chunk_no"].to_list())
        ranked: list[list[tuple[str, float]]] = [[] for _ in queries]
        for query, doc, score in zip(hits["query"], docs, hits["score"], strict=True):
            ranked[query].append((doc, score))
        rankings[stage] = ranked, seconds
    return rankings


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
