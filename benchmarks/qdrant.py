"""A published index ranked by Qdrant's own segments, in this process, beside the same index ranked
by its file.

    python benchmarks/qdrant.py CONFIG QUERIES.yaml       queries as benchmarks/corpus_queries.py writes them
    python benchmarks/qdrant.py --vectors INDEX.duckdb [--count 300000]

The first prints how many lists of ten are the same with exact vectors, nDCG@10 of both and with a
graph of vectors, and how long it takes to replace 300 mails. The second prints recall@10 of a graph
over some vectors of a published file. Needs the extra `qdrant` and qdrant-edge-py.
"""

import os
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import polars as pl
from printing import new_parser, new_table
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))

from dagster_project.config.settings import Settings, load_settings
from dagster_project.evaluation.evaluator import contents, read_ground_truth, run_profiles
from dagster_project.extras.qdrant.batch import PointRanking
from dagster_project.extras.qdrant.collection import DENSE, Allowed, Collection, Point, Search
from dagster_project.extras.qdrant.mirror import QdrantMirror
from dagster_project.extras.qdrant.points import Points, mirrored
from dagster_project.index.files.arrays import folder_of
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from tests.qdrant_edge_client import EdgeClient
from transforms.embedding.vectors import matrix
from transforms.evaluation import quality
from transforms.evaluation.judgements import judgements

M = 16
MAILS = 300
QUERIES = 300
MOST = 110
"""Queries of a file, evenly taken of more."""


class Way(NamedTuple):
    """What one way of ranking gave: a list of ten for each query, nDCG@10, round trips at most,
    milliseconds (median).
    """

    lists: list[list[int]]
    ndcg: float
    trips: int
    milliseconds: float


def main() -> None:
    """Print the tables."""
    parser = new_parser(__doc__)
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("queries", type=Path, nargs="?")
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--count", type=int, default=300_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.vectors:
            graph(arguments.vectors, arguments.count, Path(folder))
        else:
            compare(load_settings(arguments.config), arguments.queries, Path(folder))


def graph(published: Path, count: int, folder: Path) -> None:
    """Recall@10 of a graph over the first vectors of a published file, of queries that are vectors
    behind them.
    """
    with duckdb.connect(str(published), read_only=True) as connection:
        dimensions = int(dict(connection.execute("FROM manifest").fetchall())["dimensions"])
        rows = connection.execute(
            f"SELECT vector FROM embeddings LIMIT {count + QUERIES}"
        ).to_arrow_table()
    vectors = matrix(rows.column("vector"))
    stored, queries = vectors[:-QUERIES], vectors[-QUERIES:]
    client = EdgeClient(folder, m=M)
    collection = Collection(client, "vectors")
    collection.create(dimensions)
    start, cpu = time.perf_counter(), time.process_time()
    for first in range(0, len(stored), 20_000):
        part = enumerate(stored[first : first + 20_000].tolist(), first)
        collection.upsert([Point(key, {DENSE: vector}, {}) for key, vector in part], 1)
    client.optimize()
    print(
        f"{len(stored):,} vectors: {time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} s of processors"
    )
    right = [set(np.argsort(-(stored @ query))[:10].tolist()) for query in queries]
    for is_exact in (True, False):
        start = time.perf_counter()
        found = [
            collection.search([Search(DENSE, q, 10, Allowed(1), is_exact)])[0].keys.tolist()
            for q in queries
        ]
        recall = np.mean(
            [len(set(keys) & near) / 10 for keys, near in zip(found, right, strict=True)]
        )
        took = 1000 * (time.perf_counter() - start) / len(queries)
        print(f"{'exact' if is_exact else 'graph'}: recall@10 {recall:.4f}, {took:.1f} ms")


def compare(settings: Settings, queries: Path, folder: Path) -> None:
    """The lists of an index by its file, by points with exact vectors, and by points with a graph."""
    with closing(open_index(settings)) as index:
        published = copied(index.path, folder / "index")
    ways: dict[str, Way] = {}
    for name, m in (("file", None), ("points, exact", 0), ("points, graph", M)):
        search = settings.search.model_copy(update={"vector_search": "exact" if m == 0 else "ann"})
        if m is None:
            search = settings.search.model_copy(update={"vector_search": "exact"})
        with closing(opened(settings, published)) as index:
            client = None
            if m is not None:
                (place := folder / name).mkdir()
                client = EdgeClient(place, m)
                QdrantMirror(client, "weft", settings.search).publish(published, None)
                client.optimize()
                index.ranked_by(PointRanking(points(client, published)))
            ways[name] = ranked(index, queries, search, client)
            if m == 0 and client is not None:
                replaced(client, settings, published, folder)
    table = new_table(
        f"{len(ways['file'].lists)} queries", ["way", "same lists", "nDCG@10", "round trips", "ms"]
    )
    for name, way in ways.items():
        same = sum(a == b for a, b in zip(way.lists, ways["file"].lists, strict=True))
        table.add_row(name, str(same), f"{way.ndcg:.4f}", str(way.trips), f"{way.milliseconds:.0f}")
    Console().print(table)


def copied(published: Path, folder: Path, name: str = "weft-1.duckdb") -> Path:
    """A copy of a published file and its arrays."""
    folder.mkdir(exist_ok=True)
    shutil.copyfile(published, folder / name)
    shutil.copytree(folder_of(published), folder_of(folder / name), copy_function=os.link)
    return folder / name


def opened(settings: Settings, published: Path) -> SearchIndex:
    """A published file as the settings open the current one."""
    with closing(open_index(settings)) as current:
        return SearchIndex(published, current.embedder, current.term_settings, settings.search)


def points(client: EdgeClient, published: Path) -> Points:
    """The points of a published file."""
    stored = mirrored(published)
    assert stored
    return Points(Collection(client, stored[0].collection), *stored)


def ranked(index: SearchIndex, queries: Path, search: object, client: EdgeClient | None) -> Way:
    """The lists and the quality of all queries."""
    truth = read_ground_truth([queries])
    table = pl.DataFrame(truth.queries)
    table = table.gather_every(-(-table.height // MOST))
    answers = pl.DataFrame(truth.relevance).join(
        table.select("query_id"), on="query_id", how="semi"
    )
    lists, took, trips = [], [], 0
    for text in table["query"]:
        if client:
            client.trips = 0
        start = time.perf_counter()
        hits = index.ranked([text], limit=10, settings=search).hits
        took.append(time.perf_counter() - start)
        lists.append(hits["chunk_no"].to_list())
        trips = max(trips, client.trips if client else 0)
    relevance = judgements(answers, contents(index, answers))
    runs, _ = run_profiles(index, table, {"default": search}, stages=("final",))
    values = quality.document_quality(pl.DataFrame(runs), relevance, ["default"]).filter(
        measure="nDCG@10"
    )
    return Way(lists, float(values["value"].mean() or 0), trips, 1000 * float(np.median(took)))


def replaced(client: EdgeClient, settings: Settings, published: Path, folder: Path) -> None:
    """Print how long it takes to send a version in which some mails are others."""
    new = copied(published, folder / "index", "weft-2.duckdb")
    with duckdb.connect(str(new)) as connection:
        connection.execute(
            "UPDATE chunks SET checksum = 'other' WHERE doc_id IN "
            f"(SELECT DISTINCT doc_id FROM chunks WHERE source_kind = 'message' ORDER BY doc_id LIMIT {MAILS})"
        )
    start = time.perf_counter()
    done = QdrantMirror(client, "weft", settings.search).publish(new, published)
    print(
        f"{MAILS} mails replaced in {time.perf_counter() - start:.1f} s: {done['points_sent']:,} points"
    )


if __name__ == "__main__":
    main()
