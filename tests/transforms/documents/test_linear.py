"""Ten times the text takes about ten times the work, in many documents and in one; large files are
read.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.documents import read
from tests.timing import growth, seconds
from transforms.documents.chunks.headings import tree_chunks
from transforms.documents.links import document_links, document_references
from transforms.documents.nodes import document_nodes

FEW, TIMES, ALLOWED = 250, 10, 25
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


STAGES: dict[str, Callable[[Corpus], object]] = {
    "read_documents": lambda c: read(c.files),
    "document_nodes": lambda c: document_nodes(c.documents),
    "document_references": lambda c: document_references(c.documents),
    "document_links": lambda c: document_links(c.references, c.documents, c.nodes),
    "tree_chunks": lambda c: tree_chunks(c.documents, c.nodes),
}


@pytest.fixture(scope="module", params=[False, True], ids=["many documents", "one document"])
def corpora(request: pytest.FixtureRequest) -> tuple[Corpus, Corpus]:
    return Corpus(FEW, request.param), Corpus(FEW * TIMES, request.param)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STAGES)
def test_ten_times_the_text_is_about_ten_times_the_work(corpora: tuple[Corpus, Corpus], name: str):
    assert times_the_work(STAGES[name], *corpora) < ALLOWED


def times_the_work(stage: Callable[[Any], object], few: Corpus, many: Corpus) -> float:
    """How many times the time of `few` the stage takes for `many`, which has TIMES times the text."""
    return growth(lambda: stage(few), lambda: stage(many), ALLOWED, 1e-3)


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
        files: dict[str, str | bytes] = {
            f"{n}/README.md": f"[[README]] [[{n}/README]]" for n in range(count)
        }
        made = read(files).documents
        nodes, references = document_nodes(made), document_references(made)
        links = document_links(references, made, nodes)
        assert links["to_id"].to_pylist() == [
            id_ for doc in links["from_id"].to_pylist()[::2] for id_ in (doc, doc)
        ]
        return seconds(lambda: document_links(references, made, nodes), runs=1)

    assert seconds_of(300 * TIMES) / max(seconds_of(300), 5e-3) < ALLOWED
