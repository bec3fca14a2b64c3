"""Which chunks are code: by their lines with text, and by all their lines."""

import pytest

from dagster_project.extras.graph.transforms.chunk_classes import chunk_classes
from dagster_project.extras.graph.transforms.settings import GraphSettings
from tests.documents import tables
from transforms.documents.chunks.table import document_chunks
from transforms.settings.documents import DocumentChunkSettings


def classes_of(text: str, **settings: str) -> list[tuple[int, int, bool, bool, bool]]:
    """Lines, lines of code and the three classes of each chunk of a text, one chunk per heading."""
    documents, nodes = tables(note=text)
    chunks = document_chunks(documents, nodes, DocumentChunkSettings(chunker="tree")).chunks
    rows = chunk_classes(documents, chunks, GraphSettings.model_validate(settings)).to_pylist()
    names = ("line_count", "code_line_count", "is_code_text", "is_code_lines", "is_code")
    return [tuple(row[n] for n in names) for row in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Only text.\n\nMore of it.", (3, 0, False, False)),
        ("```py\na\nb\nc\n```", (5, 3, True, True)),
        ("Say:\n\n```py\na\n```", (5, 1, True, False)),
        ("Say this:\n\n```\na\n\nb\n\nc\nd\n```\n", (10, 6, True, True)),
        ("~~~\na\nb\n~~~\n\nand\n\n```\nc\nd\n```", (11, 4, True, False)),
        ("- item\n\n  ```\n  a\n  b\n  c\n  ```", (7, 3, True, False)),
        ("```\nnever closed\nb\nc", (4, 3, True, True)),
        ("    indented\n    code\n    here", (3, 0, True, False)),
        ("Umlaut ä first.\n\n```\nä\nb\n```", (6, 2, True, False)),
    ],
)
def test_both_rules(text: str, expected: tuple[int, int, bool, bool]):
    assert [row[:4] for row in classes_of(text)] == [expected]


def test_lines_of_one_chunk_are_not_those_of_the_next():
    text = "# A\n\ntext\n\n## B\n\n```\na\nb\nc\nd\ne\nf\n```\n\n## C\n\ntext"
    assert [row[1] for row in classes_of(text) if row[1]] == [6]


def test_the_rule_is_a_setting():
    text = "Say:\n\n```py\na\n```"
    assert [row[4] for row in classes_of(text)] == [True]
    assert [row[4] for row in classes_of(text, profile="text")] == [False]
