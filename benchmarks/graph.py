"""The document graph measured: what stripes show of a document, and what a search by hash finds.

    pip install -e .[dev,bench] && python benchmarks/graph.py

Prints the share of a document's sections that the first chunks of several orders touch; how well
questions are matched to chunks by a threshold and by rank; and how often a search by SimHash
answers questions that it does not have word for word, with what is right of it.
"""

import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import yaml
from mail_collections import corpora_folder
from passages import character_spans, weft_chunks, with_markdown_headings
from printing import new_table
from rich.console import Console
from rich.table import Table

from dagster_project.extras.graph.exporter import FileGraphExporter
from dagster_project.extras.graph.transforms.chunk_classes import chunk_classes
from dagster_project.extras.graph.transforms.hal_export import GraphTables, graph_folders
from dagster_project.extras.graph.transforms.keywords import chunk_keywords, keywords
from dagster_project.extras.graph.transforms.prompt_hashes import distances, questions, simhash
from dagster_project.extras.graph.transforms.schema import PROMPT_HASHES
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import chunk_similarities, stripe_orders
from dagster_project.models.embedders import make_embedder
from transforms.documents.files import RawFile, read_documents
from transforms.schemas.relations import LINKS
from transforms.settings.documents import DocumentChunkSettings, DocumentSettings
from transforms.settings.models import EmbeddingSettings
from transforms.settings.search import TermSettings

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
ASKED_FOR = (2, 3, 5, 8)
THRESHOLDS = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6)
TOP = (1, 2, 3)
COUNTS = (250, 500, 1000)
BITS = (0, 4, 8, 12, 16, 20)
MMR_WEIGHT = 0.5
PARTS = 10
"""Parts of equal length that stand for sections where a text has no headings."""


class Embedded(NamedTuple):
    """Chunks of documents and a vector for each."""

    chunks: pa.Table
    documents: pa.Table
    vectors: np.ndarray


def main() -> None:
    """Print the three tables."""
    console = Console(width=125)
    texts = {p.stem: p.read_text() for p in sorted((corpora_folder() / "passages").glob("*.md"))}
    titled = {name: with_markdown_headings(text) for name, text in texts.items()}
    sample = {
        str(p.relative_to(SAMPLE))[:-3]: p.read_text() for p in sorted(SAMPLE.glob("docs/**/*.md"))
    }
    sample |= {
        str(p.relative_to(SAMPLE))[:-3]: p.read_text() for p in sorted(SAMPLE.glob("notes/**/*.md"))
    }
    sources = {"sample": sample, **{name: {name: text} for name, text in titled.items()}}
    for chunker in ("sections", "semantic"):
        made = {name: embedded(files, chunker) for name, files in sources.items()}
        console.print(disclosure_table(chunker, made))
    matching_tables(console, texts)
    hash_tables(console)
    console.print(export_table())


def embedded(texts: dict[str, str], chunker: str) -> Embedded:
    """The chunks of texts by one chunker, with their vectors."""
    chunks = weft_chunks(texts, DocumentChunkSettings.model_validate({"chunker": chunker}))
    chunks = chunks.sort_by([("doc_id", "ascending"), ("chunk_index", "ascending")])
    files = [RawFile(f"{name}.md", text.encode()) for name, text in texts.items()]
    documents = read_documents(
        files, source="p", partition="u", settings=DocumentSettings()
    ).documents
    vectors = make_embedder(EmbeddingSettings()).embed_documents(
        chunks.column("text_embed").to_pylist()
    )
    return Embedded(chunks, documents, vectors)


def disclosure_table(chunker: str, sources: dict[str, Embedded]) -> Table:
    """The mean share of sections touched, by source and order, for the documents with enough
    chunks.
    """
    columns = ("source", "order", *(f"n = {n}" for n in ASKED_FOR))
    table = new_table(f"sections touched by the first n chunks, chunker {chunker}", columns, left=2)
    for name, made in sources.items():
        shares: dict[str, list[list[float]]] = {}
        for orders, sections in orders_and_sections(made):
            for order, places in orders.items():
                touched = [
                    len({sections[p] for p in places[:n]}) / len(set(sections)) for n in ASKED_FOR
                ]
                shares.setdefault(order, []).append(touched)
        for order, rows in shares.items():
            table.add_row(
                f"{name} ({len(rows)})", order, *(f"{v:.3f}" for v in np.mean(rows, axis=0))
            )
    return table


def orders_and_sections(made: Embedded) -> list[tuple[dict[str, list[int]], list[object]]]:
    """For each document with more than a request's chunks: its orders, baseline first, and each
    chunk's section.
    """
    settings = GraphSettings()
    classes = chunk_classes(made.documents, made.chunks, settings)
    near = chunk_similarities(with_vectors(made), classes, settings)
    near = near.filter(pa.compute.equal(near["baseline"], "conceptual")).to_pylist()
    striped = stripe_orders(pa.Table.from_pylist(near)).to_pylist()
    rows = made.chunks.select(["doc_id", "parent_id", "chunk_index"]).to_pylist()
    numbers = {
        d: [n for n, _ in g]
        for d, g in itertools.groupby(enumerate(rows), lambda r: r[1]["doc_id"])
    }
    found = []
    for doc_id, own in numbers.items():
        nodes = [rows[n]["parent_id"] for n in own]
        sections = (
            nodes
            if len(set(nodes)) > 2
            else [place * PARTS // len(own) for place in range(len(own))]
        )
        if len(own) <= max(ASKED_FOR) or len(set(sections)) < 3:
            continue
        similar = sorted(
            (r for r in near if r["doc_id"] == doc_id),
            key=lambda r: (-r["similarity"], r["chunk_index"]),
        )
        first = similar[0]["baseline_index"]
        orders = {
            "stripe": [r["chunk_index"] for r in striped if r["doc_id"] == doc_id],
            "similarity": [
                first,
                *(r["chunk_index"] for r in similar if r["chunk_index"] != first),
            ],
            "document": list(range(len(own))),
            f"MMR, λ {MMR_WEIGHT}": maximal_marginal_relevance(
                made.vectors[own], first, max(ASKED_FOR)
            ),
        }
        found.append((orders, sections))
    return found


def maximal_marginal_relevance(vectors: np.ndarray, first: int, count: int) -> list[int]:
    """The order of Carbonell and Goldstein (1998) with the baseline as the query and as the first
    result.
    """
    relevance, chosen = vectors @ vectors[first], [first]
    while len(chosen) < count:
        scores = MMR_WEIGHT * relevance - (1 - MMR_WEIGHT) * (vectors @ vectors[chosen].T).max(
            axis=1
        )
        scores[chosen] = -np.inf
        chosen.append(int(np.argmax(scores)))
    return chosen


def matching_tables(console: Console, texts: dict[str, str]) -> None:
    """Questions matched to chunks: how many of the chunks hold a passage of the answer."""
    asked = [
        json.loads(line)
        for line in (corpora_folder() / "passages" / "questions.jsonl").read_text().splitlines()
    ]
    made = embedded(texts, "sections")
    spans = character_spans(made.chunks, texts)
    vectors = make_embedder(EmbeddingSettings()).embed_queries([q["question"] for q in asked])
    scores = vectors @ made.vectors.T
    own = np.array([[span[0] == q["corpus"] for span in spans] for q in asked])
    scores[~own] = -1
    right = np.array([[holds(span, q) for span in spans] for q in asked])
    table = new_table(
        f"{len(asked)} questions matched to chunks of their document",
        (
            "kept",
            "questions with a chunk",
            "chunks each",
            "right chunks (precision)",
            "questions answered",
        ),
    )
    kept = {f"cosine ≥ {t}": scores >= t for t in THRESHOLDS}
    ranks = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1, kind="stable")
    kept |= {f"top {k}": ranks < k for k in TOP}
    for name, chosen in kept.items():
        any_chunk, good = chosen.any(axis=1), (chosen & right).any(axis=1)
        precision = (chosen & right).sum() / max(chosen.sum(), 1)
        table.add_row(
            name,
            f"{any_chunk.mean():.3f}",
            f"{chosen.sum(axis=1).mean():.2f}",
            f"{precision:.3f}",
            f"{good.mean():.3f}",
        )
    console.print(table)
    top = np.argmax(scores, axis=1)
    halves_table(console, [q["question"] for q in asked], [q["corpus"] for q in asked], top, right)


def holds(span: tuple[str, int, int], question: dict) -> bool:
    """True if a chunk overlaps a passage that answers the question."""
    name, start, end = span
    places = [(r["start_index"], r["end_index"]) for r in question["references"]]
    return name == question["corpus"] and any(a < end and start < b for a, b in places)


def halves_table(
    console: Console, asked: list[str], corpora: list[str], top: np.ndarray, right: np.ndarray
) -> None:
    """Every second question stored with its best chunk, the others asked: how often a hash answers,
    and rightly.
    """
    hashes = np.array([simhash(q) for q in asked], dtype=np.uint64)
    stored, queries = range(0, len(asked), 2), range(1, len(asked), 2)
    columns = ("bits", "answered", "right of them")
    table = new_table("half of the questions stored, the other half asked by hash", columns, left=0)
    for bits in BITS:
        answered, good = 0, 0
        for query in queries:
            near = [s for s in stored if corpora[s] == corpora[query]]
            differ = distances(hashes[near], int(hashes[query]))
            if differ.min() <= bits:
                answered += 1
                good += bool(right[query, top[near[int(np.argmin(differ))]]])
        table.add_row(
            str(bits),
            f"{answered / len(queries):.3f}",
            f"{good / answered:.3f}" if answered else "–",
        )
    console.print(table)
    embedded_right = np.mean([right[q, top[q]] for q in queries])
    console.print(
        f"the same questions by vector, best chunk: answered 1.000, right {embedded_right:.3f}\n"
    )


def hash_tables(console: Console) -> None:
    """Distances between different questions, between a question and itself with a word less, and of
    real queries.
    """
    listed = questions((SAMPLE / "docs" / "qa-pairs.md").read_text())
    queries = [q["query"] for q in yaml.safe_load((SAMPLE / "queries.yaml").read_text())["queries"]]
    lines = (corpora_folder() / "passages" / "questions.jsonl").read_text().splitlines()
    every = sorted({*listed, *queries, *(json.loads(line)["question"] for line in lines)})
    hashes = np.array([simhash(q) for q in every], dtype=np.uint64)
    apart = np.concatenate([distances(hashes[n + 1 :], int(h)) for n, h in enumerate(hashes)])
    shorter = np.concatenate(
        [distances(hashes[[n]], simhash(less)) for n, q in enumerate(every) for less in one_less(q)]
    )
    stored = np.array([simhash(q) for q in listed], dtype=np.uint64)
    nearest = np.array([distances(stored, simhash(q)).min() for q in queries])
    title = f"share within so many bits ({len(every)} questions, {len(np.unique(hashes))} hashes)"
    table = new_table(
        title,
        (
            "bits",
            "two different questions",
            "a question and itself less one word",
            "sample's queries and its Q/A pairs",
        ),
        left=0,
    )
    for bits in BITS:
        table.add_row(
            str(bits),
            f"{(apart <= bits).mean():.5f}",
            f"{(shorter <= bits).mean():.3f}",
            f"{(nearest <= bits).mean():.3f}",
        )
    console.print(table)
    for query in queries:
        differ = distances(stored, simhash(query))
        if differ.min() <= 20:
            console.print(f"{differ.min():>3} bits: {query}  ←→  {listed[int(differ.argmin())]}")


def export_table() -> Table:
    """The CPU time to make all of a graph and to write it, twice, for more and more documents."""
    pages = [p.read_text() for p in sorted(SAMPLE.glob("docs/**/*.md"))]
    table = new_table(
        "export, CPU seconds",
        (
            "documents",
            "MB of text",
            "chunks",
            "stripes and keywords",
            "export",
            "µs per byte",
            "once more",
            "written",
        ),
        left=0,
    )
    for count in COUNTS:
        texts = {f"f{n % 20}/p{n}": f"{pages[n % len(pages)]}\n\nPage {n}.\n" for n in range(count)}
        made = embedded(texts, "sections")
        settings, size = GraphSettings(), sum(map(len, texts.values()))
        start = time.process_time()
        tables = graph_tables(made, settings)
        related = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            exporter = FileGraphExporter(Path(folder) / "graph")
            exporter.export(graph_folders(tables, settings))
            written = time.process_time()
            _, done = exporter.export(graph_folders(tables, settings))
        again = time.process_time()
        times = (
            related - start,
            written - related,
            (written - start) * 1e6 / size,
            again - written,
        )
        facts = (
            f"{count:,}",
            f"{size / 1e6:.1f}",
            f"{made.chunks.num_rows:,}",
            *(f"{t:.2f}" for t in times),
        )
        table.add_row(*facts, str(done["folders_written"]))
    return table


def graph_tables(made: Embedded, settings: GraphSettings) -> GraphTables:
    """All tables of a graph over documents."""
    chunks = with_vectors(made)
    classes = chunk_classes(made.documents, made.chunks, settings)
    near = chunk_similarities(chunks, classes, settings)
    words = keywords(made.documents, TermSettings())
    return GraphTables(
        made.documents,
        chunks,
        classes,
        near,
        stripe_orders(near),
        chunk_keywords(made.chunks, made.documents, words, TermSettings()),
        PROMPT_HASHES.empty(),
        LINKS.empty().select(["from_id", "to_id"]),
    )


def with_vectors(made: Embedded) -> pa.Table:
    """The chunks with their vectors as a column."""
    width = made.vectors.shape[1]
    flat = pa.array(made.vectors.astype(np.float32).ravel())
    return made.chunks.append_column("vector", pa.FixedSizeListArray.from_arrays(flat, width))


def one_less(question: str) -> Sequence[str]:
    """The question without each of its words in turn."""
    words = question.split()
    return (
        [" ".join(words[:n] + words[n + 1 :]) for n in range(len(words))] if len(words) > 1 else []
    )


if __name__ == "__main__":
    main()
