"""Real documents: nothing is lost between files, nodes and chunks, and another parser sees the same
headings.
"""

from pathlib import Path

import pyarrow as pa
import pytest
from markdown_it import MarkdownIt

from transforms.documents.chunks.headings import tree_chunks
from transforms.documents.files import RawFile, read_documents
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentSettings

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def files(corpora: Path) -> list[RawFile]:
    """The documents of the passages, and the pages of this project."""
    here = Path(__file__).parents[2]
    found = sorted(
        [*(corpora / "passages").glob("*.md"), *here.glob("docs/*.md"), *here.glob("*.md")]
    )
    return [RawFile(f"{file.parent.name}/{file.name}", file.read_bytes()) for file in found]


@pytest.fixture(scope="module")
def documents(files: list[RawFile]) -> pa.Table:
    """Their table."""
    made = read_documents(files, source="s", partition="u", settings=DocumentSettings())
    assert made.quarantine.num_rows == 0
    return made.documents


def test_the_stored_texts_are_the_files(files: list[RawFile], documents: pa.Table):
    stored = dict(zip(documents["path"].to_pylist(), documents["text"].to_pylist(), strict=True))
    assert stored == {file.path: file.data.decode() for file in files}


def test_every_heading_that_another_parser_finds_is_a_node_or_has_nothing_under_it(
    documents: pa.Table,
):
    nodes = document_nodes(documents).to_pylist()
    for doc_id, text in zip(
        documents["doc_id"].to_pylist(), documents["text"].to_pylist(), strict=True
    ):
        data, lines = text.encode(), text.encode().splitlines(keepends=True)
        starts = {
            n["heading_start"]: n["depth"] for n in nodes if n["doc_id"] == doc_id and n["position"]
        }
        expected = {}
        for token in MarkdownIt("commonmark").enable("table").parse(text):
            if token.type == "heading_open" and token.map:
                expected[sum(map(len, lines[: token.map[0]]))] = int(token.tag[1])
        assert starts.items() <= expected.items()
        missing = expected.keys() - starts.keys()
        for start in missing:
            after = data[data.index(b"\n", start) + 1 :].lstrip() if b"\n" in data[start:] else b""
            assert not after or after.startswith(b"#")


def test_chunks_and_exclusions_hold_all_that_is_no_heading(documents: pa.Table):
    nodes = document_nodes(documents)
    made = tree_chunks(documents, nodes)
    assert made.chunks.num_rows == nodes.num_rows
    assert len(set(made.chunks["chunk_id"].to_pylist())) == nodes.num_rows
    spans = [
        (c["doc_id"], s["byte_start"], s["byte_end"])
        for c in made.chunks.to_pylist()
        for s in c["spans"]
    ]
    spans += [(e["doc_id"], e["byte_start"], e["byte_end"]) for e in made.exclusions.to_pylist()]
    spans += [(n["doc_id"], n["heading_start"], n["byte_start"]) for n in nodes.to_pylist()]
    for doc_id, text in zip(
        documents["doc_id"].to_pylist(), documents["text"].to_pylist(), strict=True
    ):
        data = bytearray(text.encode())
        for _, start, end in (span for span in spans if span[0] == doc_id):
            data[start:end] = b" " * (end - start)
        assert not data.strip(), (
            f"{doc_id}: {bytes(data.strip()[:80])!r} is in no chunk and no exclusion"
        )
