"""The definitions of files of code, by which they are cut and named."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.documents import read
from transforms.documents.chunks.table import document_chunks
from transforms.documents.code import definitions
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentChunkSettings

CASES = [
    (
        "a.py",
        "import os\n\n\n# A shelf.\n@keep\nclass A:\n    def b(self): ...\n\n\ndef c(): ...\n",
        ["A", " b", "c"],
    ),
    ("old.py", "class A:\n    print 'no Python 3'\n    def b(self): pass\n", ["A", " b"]),
    (
        "a.rs",
        "pub struct Row { n: u8 }\n\nimpl Drop for Row {\n    fn drop(&mut self) {}\n}\n",
        ["Row", "Drop for Row", " drop"],
    ),
    (
        "A.java",
        "/** Doc. */\npublic final class A<T> {\n  @Test\n"
        "  int add(int a,\n      int b) {\n    if (a) {\n    }\n  }\n}\n",
        ["A", " add"],
    ),
    ("a.c", "struct in_addr;\nint add(int a)\n{\n\twhile (a) {\n\t}\n}\nint add(int);\n", ["add"]),
    (
        "a.cpp",
        "class API_ROW Row : Base {\n};\nRow::Row(int n) : n_(n) {\n}\n",
        ["Row", "Row::Row"],
    ),
    ("a.go", "func (s *Store) Get(key string) error {\n}\n", ["Get"]),
    (
        "a.ts",
        "export interface Row {\n}\nexport default async function load(at: string) {\n}\n",
        ["Row", "load"],
    ),
    ("a.c", "just words about a class\n", []),
]


@pytest.mark.parametrize(("path", "text", "names"), CASES)
def test_definitions_have_names_and_levels(path: str, text: str, names: list[str]):
    found = definitions(text, path)
    assert [" " * (block.level - 1) + block.text for block in found] == names


@examples(60)
@given(
    st.lists(st.sampled_from(["class A:", "  def b():", "fn c(", "{", "}", "# x", "a(b) {", "é"])),
    st.sampled_from(["a.py", "a.rs"]),
)
def test_definitions_are_whole_lines_in_order(lines: list[str], path: str):
    text = "\n".join(lines)
    data = text.encode()
    found = definitions(text, path)
    for block in found:
        assert block.start < block.end <= len(data)
        assert not block.start or data[block.start - 1 : block.start] == b"\n"
    assert all(one.end <= other.start for one, other in pairwise(found))


def test_code_becomes_chunks_that_the_names_around_them_title():
    body = "    x = 1  # " + "words of a long body " * 60
    text = f"class Shelf:\n    def put(self):\n    {body}\n\n    def take(self):\n    {body}\n"
    documents = read({"store/shelf.py": text, "bare.txt": text}).documents
    assert documents.column("format").to_pylist() == ["text", "code"]
    tables = document_chunks(documents, document_nodes(documents), DocumentChunkSettings())
    rows = [row for row in tables.chunks.to_pylist() if row["doc_id"] == "s:store/shelf.py"]
    titles = [row["title"] for row in rows]
    assert {"shelf.py › Shelf › put", "shelf.py › Shelf › take"} <= set(titles)
    assert all(row["content_class"] == "code" for row in rows)
