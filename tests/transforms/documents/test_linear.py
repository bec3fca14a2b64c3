"""Ten times the text takes about ten times the work, in many documents and in one; large files are read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tests.documents import read
from tests.timing import seconds
from transforms.documents.chunks.headings import tree_chunks
from transforms.documents.links import document_links, document_references
from transforms.documents.nodes import document_nodes
from transforms.graph.chunk_classes import chunk_classes
from transforms.graph.hal_export import Folder, GraphTables, graph_folders
from transforms.graph.keywords import chunk_keywords, keywords
from transforms.graph.stripes import chunk_similarities, stripe_orders
from transforms.schemas.graph import PROMPT_HASHES
from transforms.schemas.relations import LINKS
from transforms.settings.documents import GraphSettings
from transforms.settings.search import TermSettings

FEW, TIMES, ALLOWED = 250, 10, 25
GRAPH = GraphSettings()
SECTION = "## Same title {n}\n\nText *é* of `x{n}` %%c%% with [[d{m}#Same title {m}|a]] and [b](d{m}.md).\n\n"


class Corpus:
    """All tables of `count` sections: one per document, or all in one."""

    def __init__(self, count: int, together: bool):
        sections = [SECTION.format(n=n, m=n // 2) for n in range(count)]
        texts = ["".join(sections)] if together else sections
        self.files: dict[str, str | bytes] = {f"f/d{n}.md": text for n, text in enumerate(texts)}
        self.documents: pa.Table = read(self.files).documents
        self.nodes = document_nodes(self.documents)
        self.references = document_references(self.documents)
        self.chunks = tree_chunks(self.documents, self.nodes).chunks.sort_by(
            [("doc_id", "ascending"), ("chunk_index", "ascending")]
        )
        self.embedded = with_vectors(self.chunks)
        self.classes = chunk_classes(self.documents, self.chunks, GRAPH)
        self.similarities = chunk_similarities(self.embedded, self.classes, GRAPH)
        self.keywords = keywords(self.documents, TermSettings())

    def folders(self) -> list[Folder]:
        """The exported graph."""
        tables = GraphTables(
            self.documents,
            self.embedded,
            self.classes,
            self.similarities,
            stripe_orders(self.similarities),
            chunk_keywords(self.chunks, self.documents, self.keywords, TermSettings()),
            PROMPT_HASHES.empty(),
            LINKS.empty().select(["from_id", "to_id"]),
        )
        return list(graph_folders(tables, GRAPH))


def with_vectors(chunks: pa.Table) -> pa.Table:
    """`chunks` with the column `vector`."""
    vectors = np.random.default_rng(0).normal(size=(chunks.num_rows, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return chunks.append_column("vector", pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16))


STAGES: dict[str, Callable[[Corpus], object]] = {
    "read_documents": lambda c: read(c.files),
    "document_nodes": lambda c: document_nodes(c.documents),
    "document_references": lambda c: document_references(c.documents),
    "document_links": lambda c: document_links(c.references, c.documents, c.nodes),
    "chunk_classes": lambda c: chunk_classes(c.documents, c.chunks, GRAPH),
    "stripes": lambda c: stripe_orders(chunk_similarities(c.embedded, c.classes, GRAPH)),
    "keywords": lambda c: keywords(c.documents, TermSettings()),
    "keywords and files of the graph": Corpus.folders,
    "tree_chunks": lambda c: tree_chunks(c.documents, c.nodes),
}


@pytest.fixture(scope="module", params=[False, True], ids=["many documents", "one document"])
def corpora(request: pytest.FixtureRequest) -> tuple[Corpus, Corpus]:
    return Corpus(FEW, request.param), Corpus(FEW * TIMES, request.param)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STAGES)
def test_ten_times_the_text_is_about_ten_times_the_work(corpora: tuple[Corpus, Corpus], name: str):
    few, many = corpora
    stage = STAGES[name]
    few_seconds = max(seconds(lambda: stage(few), runs=2), 1e-3)
    ratio = seconds(lambda: stage(many), runs=2) / few_seconds
    assert ratio < ALLOWED, f"{name}: {TIMES} times the text took {ratio:.1f} times the time"


@pytest.mark.exhaustive
def test_a_hundred_thousand_headings():
    made = read({"d.md": "# a\nx\n" * 100_000}).documents
    nodes = document_nodes(made)
    assert nodes.num_rows == 100_001
    assert nodes["slug"][-1].as_py() == "a-99999"
    assert nodes["sibling_count"][1].as_py() == 100_000


def test_ten_megabytes():
    text = "# A\n" + ("word " * 200 + "\n") * 10_000 + "\n## B\nx\n"
    nodes = document_nodes(read({"d.md": text}).documents)
    assert nodes["byte_end"].to_pylist() == [len(text)] * 3


def test_a_name_that_everybody_has_is_still_looked_up_fast():
    def seconds_of(count: int) -> float:
        files: dict[str, str | bytes] = {f"{n}/README.md": f"[[README]] [[{n}/README]]" for n in range(count)}
        made = read(files).documents
        nodes, references = document_nodes(made), document_references(made)
        links = document_links(references, made, nodes)
        assert links["to_id"].to_pylist() == [
            id_ for doc in links["from_id"].to_pylist()[::2] for id_ in (doc, doc)
        ]
        return seconds(lambda: document_links(references, made, nodes), runs=1)

    assert seconds_of(300 * TIMES) / max(seconds_of(300), 5e-3) < ALLOWED
