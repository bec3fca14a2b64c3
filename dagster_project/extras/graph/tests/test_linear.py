"""Ten times the text takes about ten times the work, in many documents and in one."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from dagster_project.extras.graph.transforms.chunk_classes import chunk_classes
from dagster_project.extras.graph.transforms.hal_export import Folder, GraphTables, graph_folders
from dagster_project.extras.graph.transforms.keywords import chunk_keywords, keywords
from dagster_project.extras.graph.transforms.schema import PROMPT_HASHES
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import chunk_similarities, stripe_orders
from tests.transforms.documents import test_linear
from transforms.documents.chunks.headings import tree_chunks
from transforms.schemas.relations import LINKS
from transforms.settings.search import TermSettings

GRAPH = GraphSettings()


class Corpus(test_linear.Corpus):
    """The tables of the graph too."""

    def __init__(self, count: int, together: bool):
        super().__init__(count, together)
        self.chunks = tree_chunks(self.documents, self.nodes).chunks.sort_by(
            [("doc_id", "ascending"), ("chunk_index", "ascending")]
        )
        vectors = (
            np.random.default_rng(0).normal(size=(self.chunks.num_rows, 16)).astype(np.float32)
        )
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 16)
        self.embedded = self.chunks.append_column("vector", column)
        self.classes = chunk_classes(self.documents, self.chunks, GRAPH)
        self.similarities = chunk_similarities(self.embedded, self.classes, GRAPH)
        self.keywords = keywords(self.documents, TermSettings())

    def folders(self) -> list[Folder]:
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


STAGES: dict[str, Callable[[Corpus], object]] = {
    "chunk_classes": lambda c: chunk_classes(c.documents, c.chunks, GRAPH),
    "stripes": lambda c: stripe_orders(chunk_similarities(c.embedded, c.classes, GRAPH)),
    "keywords": lambda c: keywords(c.documents, TermSettings()),
    "keywords and files of the graph": Corpus.folders,
}


@pytest.fixture(scope="module", params=[False, True], ids=["many documents", "one document"])
def corpora(request: pytest.FixtureRequest) -> tuple[Corpus, Corpus]:
    return Corpus(test_linear.FEW, request.param), Corpus(
        test_linear.FEW * test_linear.TIMES, request.param
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STAGES)
def test_ten_times_the_text_is_about_ten_times_the_work(corpora: tuple[Corpus, Corpus], name: str):
    assert test_linear.times_the_work(STAGES[name], *corpora) < test_linear.ALLOWED
