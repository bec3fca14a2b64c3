"""The exported files of documents: their layout, their addresses, and what `index.json` says."""

import json
import posixpath
from typing import Any
from urllib.parse import unquote, urljoin

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from dagster_project.extras.graph.transforms.chunk_classes import chunk_classes
from dagster_project.extras.graph.transforms.hal_export import (
    GraphTables,
    file_table,
    graph_folders,
    urlpath,
)
from dagster_project.extras.graph.transforms.schema import CHUNK_KEYWORDS, PROMPT_HASHES
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import chunk_similarities, stripe_orders
from tests.documents import read
from transforms.documents.chunks.table import document_chunks
from transforms.documents.nodes import document_nodes
from transforms.settings.documents import DocumentChunkSettings

FILES = {
    "index.md": "# Start\n\nWelcome.",
    "guide.md": "# Guide\n\nRead this.\n\n## Code\n\n```\na = 1\nb = 2\n```\n",
    "guide/Über uns & #1.md": "# About\n\nUs.",
    "guide/deep/er/page.md": "# Page\n\nFar down.",
    "empty.md": "",
}
WORDS = 16
HASH = 2**64 - 1


def tables(files: dict[str, str], limit: int | None = None) -> GraphTables:
    """All tables of a graph over files, vectors made of their chunks' letters; `limit` cuts the
    chunks off.
    """
    documents = read(dict(files)).documents
    sections = DocumentChunkSettings(chunker="sections", min_chars=1)
    made = document_chunks(documents, document_nodes(documents), sections).chunks
    made = made.sort_by([("doc_id", "ascending"), ("chunk_index", "ascending")])
    letters = [[ord(c) % WORDS for c in text] for text in made.column("text_display").to_pylist()]
    counts = np.array([np.bincount(row, minlength=WORDS) for row in letters], dtype=np.float32)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    vectors = pa.array(list(counts), pa.list_(pa.float32(), WORDS))
    names = ["chunk_id", "doc_id", "chunk_index", "heading_path", "text_display"]
    chunks = made.select(names).append_column("vector", vectors).slice(0, limit)
    classes = chunk_classes(documents, made.slice(0, limit), GraphSettings())
    similarities = chunk_similarities(chunks, classes, GraphSettings())
    first = made.select(["chunk_id", "doc_id"]).slice(0, 1).to_pylist()[0]
    keyword = {**first, "keyword": "log", "score": 2.5}
    prompt = {
        **first,
        "question": "Why?",
        "asked_in": "s:qa-pairs.md",
        "similarity": 1.0,
        "simhash": HASH,
    }
    links = pa.table({"from_id": ["s:guide.md#code"], "to_id": ["s:guide/Über uns & #1.md#about"]})
    return GraphTables(
        documents.select(["doc_id", "source", "path", "title"]),
        chunks,
        classes,
        similarities,
        stripe_orders(similarities),
        CHUNK_KEYWORDS.from_rows([keyword]),
        PROMPT_HASHES.from_rows([prompt]),
        links,
    )


def exported(files: dict[str, str] = FILES, **settings: Any) -> dict[str, bytes]:
    folders = list(graph_folders(tables(files), GraphSettings(**settings)))
    made = {posixpath.join(f.path, name): data for f in folders for name, data in f.files.items()}
    assert sum(len(f.files) for f in folders) == len(made)
    return made


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return exported()


def index(files: dict[str, bytes], folder: str) -> dict[str, Any]:
    return json.loads(files[posixpath.join(folder, "index.json")])


def test_a_document_is_a_folder_beside_the_folder_of_its_name(files: dict[str, bytes]):
    assert [name for name in sorted(files) if not name.endswith("index.json")] == [
        "s/guide.md/_chunks/guide-0.md",
        "s/guide.md/_chunks/guide-1.md",
        "s/guide/deep/er/page.md/_chunks/page-0.md",
        "s/guide/Über uns & #1.md/_chunks/Über uns & #1-0.md",
        "s/index.md/_chunks/index-0.md",
        "schema.json",
    ]
    assert sorted(name for name in files if name.endswith("index.json")) == [
        "index.json",
        "s/guide.md/index.json",
        "s/guide/deep/er/index.json",
        "s/guide/deep/er/page.md/index.json",
        "s/guide/deep/index.json",
        "s/guide/index.json",
        "s/guide/Über uns & #1.md/index.json",
        "s/index.json",
        "s/index.md/index.json",
    ]


def test_every_index_is_valid(files: dict[str, bytes]):
    validator = jsonschema.Draft202012Validator(schema := json.loads(files["schema.json"]))
    validator.check_schema(schema)
    indexes = {
        name: json.loads(data) for name, data in files.items() if name.endswith("index.json")
    }
    faults = {
        name: [e.message for e in validator.iter_errors(index)] for name, index in indexes.items()
    }
    assert indexes and not any(faults.values()), faults


@pytest.mark.parametrize("base", [None, "https://docs.example/graph/"])
def test_every_address_leads_to_a_file(base: str | None):
    files = exported(base_url=base)
    root = base or "http://host/"
    for name, data in files.items():
        if name.endswith(".json") and name != "schema.json":
            for href in _hrefs(json.loads(data)):
                assert href.startswith(base) if base else not href.startswith(("/", "http"))
                target = urljoin(root + urlpath(name), href)
                assert target.startswith(root)
                assert unquote(target.removeprefix(root)) in files


def _hrefs(value: Any) -> list[str]:
    if isinstance(value, list):
        return [href for item in value for href in _hrefs(item)]
    if isinstance(value, dict):
        return [v for k, v in value.items() if k == "href"] + _hrefs(list(value.values()))
    return []


def test_the_walk_from_the_top_meets_every_document(files: dict[str, bytes]):
    met, todo = set(), ["index.json"]
    while todo:
        here = todo.pop()
        embedded = json.loads(files[here])["_embedded"]
        met |= {d["id"] for d in embedded.get("documents", [])}
        for topic in embedded["topics"]:
            todo.append(
                posixpath.normpath(
                    posixpath.join(
                        posixpath.dirname(here), unquote(topic["_links"]["self"]["href"])
                    )
                )
            )
    assert met == {
        "s:index.md",
        "s:guide.md",
        "s:guide/Über uns & #1.md",
        "s:guide/deep/er/page.md",
    }


def test_the_entry_of_a_document(files: dict[str, bytes]):
    made = index(files, "s/guide.md")
    assert (made["id"], made["title"]) == ("s:guide.md", "Guide")
    chunks = made["_embedded"]["chunks"]["guide"]
    items = chunks.pop("items")
    assert chunks == {
        "source": "guide.md",
        "count": 2,
        "baseline_conceptual": 0,
        "baseline_technical": 1,
        "stripe_order": [1],
        "stripe_order_technical": [0],
    }
    assert [(i["title"], i["is_code"]) for i in items] == [("Guide", False), ("Code", True)]
    assert items[0]["similarity_conceptual"] == items[1]["similarity_technical"] == 1
    assert items[0]["similarity_technical"] == items[1]["similarity_conceptual"] < 1
    assert [i["bytes"] for i in items] == [len(files[f"s/guide.md/{i['href']}"]) for i in items]
    assert b"Read this." in files["s/guide.md/_chunks/guide-0.md"]


def test_a_document_without_code_has_no_technical_fields(files: dict[str, bytes]):
    chunks = index(files, "s/index.md")["_embedded"]["chunks"]["index"]
    assert not any("technical" in key for key in [*chunks, *chunks["items"][0]])


def test_hashes_are_texts_and_keywords_have_scores(files: dict[str, bytes]):
    items = [
        item
        for name, data in files.items()
        if name.endswith("index.json")
        for chunks in json.loads(data)["_embedded"].get("chunks", {}).values()
        for item in chunks["items"]
    ]
    (marked,) = [item for item in items if "prompt_hashes" in item]
    assert marked["prompt_hashes"] == ["18446744073709551615"]
    assert marked["keywords"] == [{"name": "log", "score": 2.5}]


def test_links_lead_both_ways_though_a_path_holds_a_number_sign(files: dict[str, bytes]):
    assert index(files, "s/guide.md")["_links"]["links"] == [
        {"href": "../guide/%C3%9Cber%20uns%20%26%20%231.md/index.json", "title": "About"}
    ]
    assert index(files, "s/guide/Über uns & #1.md")["_links"]["linked_from"] == [
        {"href": "../../guide.md/index.json", "title": "Guide"}
    ]


def test_similar_documents_are_those_above_the_percentile():
    alike = {"a.md": "aaaa", "b.md": "aaab", "c.md": "cccc", "d.md": "eeee"}
    made = exported(alike)
    similar = {n: index(made, f"s/{n}.md")["_links"]["similar"] for n in ("a", "b", "c")}
    assert [link["href"] for link in similar["a"]] == ["../b.md/index.json"]
    assert [link["href"] for link in similar["b"]] == ["../a.md/index.json"]
    assert similar["c"] == []


def test_order_of_documents_changes_no_byte(files: dict[str, bytes]):
    assert exported(dict(reversed(FILES.items()))) == files


def test_long_names_stay_within_what_file_systems_take():
    made = exported({f"{'ä' * 120}.md": "text"})
    assert max(len(part.encode()) for name in made for part in name.split("/")) <= 255


def test_the_list_of_files_has_every_file(files: dict[str, bytes]):
    table = file_table(graph_folders(tables(FILES), GraphSettings()))
    assert dict(zip(table["path"].to_pylist(), table["byte_count"].to_pylist(), strict=True)) == {
        name: len(data) for name, data in files.items()
    }


def test_no_documents_are_a_graph_of_nothing():
    none = tables(FILES, limit=0)
    assert not any(table.num_rows for table in none[1:5])
    folders = list(graph_folders(none, GraphSettings()))
    assert [(f.path, sorted(f.files)) for f in folders] == [("", ["index.json", "schema.json"])]


def test_chunks_carry_the_headings_above_them_and_titles_that_differ():
    lines = "\n\n".join(
        f"Line {n} says that the pump of the cellar runs dry now and then." for n in range(40)
    )
    made = exported({"a.md": f"# Rooms\n\n## Cellar\n\n{lines}\n"})
    titles = [i["title"] for i in index(made, "s/a.md")["_embedded"]["chunks"]["a"]["items"]]
    assert titles[:3] == ["Rooms", "Cellar", "Cellar (2)"] and len(set(titles)) == len(titles) > 3
    for number in range(2, len(titles)):
        text = made[f"s/a.md/_chunks/a-{number}.md"].decode()
        assert text.startswith("# Rooms\n\n## Cellar\n\nLine ") and text.count("#") == 3
