"""References of documents: where they stand and where they lead."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.documents import documents, read
from transforms.documents.links import document_links, document_references
from transforms.documents.nodes import document_nodes
from transforms.schemas.documents import DOCUMENT_REFERENCES
from transforms.schemas.relations import LINKS

VAULT = {
    "Home.md": "---\ntitle: Start Page\naliases: [Hub, 'Größe']\n---\n# Top\nx\n",
    "Note.md": "# Note\nlead\n## Sub Heading\ntext ^blk\n\n- item ^Item-2\n## C++ & `more`\nx\n## Sub Heading\ny\n",
    "sub/Note Two.md": "# Two\na\n## Part\nb\n",
    "sub/index.md": "# Index\nx\n",
    "sub/page.md": "# Page\nx\n",
    "sub/deep/Twin.md": "x\n",
    "other/Twin.md": "x\n",
    "other/README.md": "x\n",
    "other/v1.2 notes.md": "x\n",
    "other/plain.txt": "x\n",
    "a b/Ünï.md": "# Ünï cödé\nx\n",
    "a b/c/Twin.md": "x\n",
}


def leads(
    text: str, path: str = "here.md", message_ids: frozenset[str] = frozenset()
) -> list[tuple]:
    """Kind, target and end of every link of a document in the vault."""
    made = read({**VAULT, path: text}).documents
    references = document_references(made)
    assert DOCUMENT_REFERENCES.conform(references).num_rows == references.num_rows
    links = document_links(references, made, document_nodes(made), message_ids)
    assert LINKS.conform(links).num_rows == links.num_rows
    mine = [row for row in links.to_pylist() if row["from_id"].partition("#")[0] == f"s:{path}"]
    return [(row["kind"], row["to_id"] and row["to_id"].removeprefix("s:")) for row in mine]


WIKI = [
    ("[[Note]]", "Note.md"),
    ("[[note]]", "Note.md"),
    ("[[Note.md]]", "Note.md"),
    ("[[Note|alias]]", "Note.md"),
    ("[[ Note ]]", "Note.md"),
    ("[[Note#Sub Heading]]", "Note.md#sub-heading"),
    ("[[Note#sub heading|alias]]", "Note.md#sub-heading"),
    ("[[Note#sub-heading]]", "Note.md#sub-heading"),
    ("[[Note#sub-heading-1]]", "Note.md#sub-heading-1"),
    ("[[Note#Note#Sub Heading]]", "Note.md#sub-heading"),
    ("[[Note#C++ & more]]", "Note.md#c-more"),
    ("[[Note#gone]]", "Note.md"),
    ("[[Note^blk]]", "Note.md#sub-heading"),
    ("[[Note#^blk]]", "Note.md#sub-heading"),
    ("[[Note#^item-2]]", "Note.md#sub-heading"),
    ("[[Note#^gone]]", "Note.md"),
    ("[[Start page]]", "Home.md"),
    ("[[hub]]", "Home.md"),
    ("[[GRÖSSE]]", "Home.md"),
    ("[[Gro\u0308ße]]", "Home.md"),
    ("[[sub/Note Two]]", "sub/Note Two.md"),
    ("[[deep/Twin]]", "sub/deep/Twin.md"),
    ("[[/other/Twin]]", "other/Twin.md"),
    ("[[./sub/page]]", "sub/page.md"),
    ("[[../Note]]", None),
    ("[[v1.2 notes]]", "other/v1.2 notes.md"),
    ("[[plain]]", "other/plain.txt"),
    ("[[plain.txt]]", "other/plain.txt"),
    ("[[Nobody]]", None),
    ("[[wrong/Note]]", None),
    ("| [[Note\\|alias]] |\n|---|", "Note.md"),
]


@pytest.mark.parametrize(("text", "to_id"), WIKI, ids=[case[0] for case in WIKI])
def test_wiki_links_lead_to_documents_and_nodes(text: str, to_id: str | None):
    assert leads(text) == [("wiki", to_id)]


@pytest.mark.parametrize(
    ("path", "to_id"),
    [
        ("sub/x.md", "sub/deep/Twin.md"),
        ("sub/deep/x.md", "sub/deep/Twin.md"),
        ("other/x.md", "other/Twin.md"),
        ("other/far/x.md", "other/Twin.md"),
        ("x.md", "other/Twin.md"),
        ("a b/x.md", "a b/c/Twin.md"),
    ],
)
def test_of_several_documents_the_nearest_is_meant(path: str, to_id: str):
    assert leads("[[Twin]]", path) == [("wiki", to_id)]


MARKDOWN = [
    ("[a](Note.md)", "Note.md"),
    ("[a](./Note.md#sub-heading)", "Note.md#sub-heading"),
    ("[a](Note.md#Sub%20Heading)", "Note.md#sub-heading"),
    ("[a](sub/Note%20Two.md#part)", "sub/Note Two.md#part"),
    ("[a](<sub/Note Two.md>)", "sub/Note Two.md"),
    ("[a](/sub/page.md)", "sub/page.md"),
    ("[a](sub/page)", "sub/page.md"),
    ("[a](sub/page.md?x=1#page)", "sub/page.md#page"),
    ("[a](sub/)", "sub/index.md"),
    ("[a](other)", "other/README.md"),
    ("[a](sub/../Note.md)", "Note.md"),
    ("[a](note.md)", "Note.md"),
    ("[a](a%20b/%C3%9Cn%C3%AF.md#Ünï-cödé)", "a b/Ünï.md#ünï-cödé"),
    ("[a][r]\n\n[r]: Note.md", "Note.md"),
    ("[a](../Note.md)", None),
    ("[a](../../../../etc/passwd)", None),
    ("[a](/../etc/passwd)", None),
    ("[a](%2e%2e/Note.md)", None),
    ("[a](page.md)", None),
    ("[a](%00%ff.md)", None),
    ("[a]()", "here.md"),
]


@pytest.mark.parametrize(("text", "to_id"), MARKDOWN, ids=[case[0] for case in MARKDOWN])
def test_markdown_links_are_paths_from_the_folder(text: str, to_id: str | None):
    assert leads(text) == [("markdown", to_id)]


def test_a_path_goes_up_as_far_as_the_root():
    found = leads("[a](../Note.md) [b](../../Note.md) [c](page.md)", "sub/x.md")
    assert found == [("markdown", end) for end in ("Note.md", None, "sub/page.md")]


OTHERS = [
    ("![[Note]]", [("embed", "Note.md")]),
    ("![[pic.png|100]]", [("embed", None)]),
    ("![a](pic.png)", [("image", None)]),
    ("[![a](i.png)](Note.md)", [("markdown", "Note.md"), ("image", None)]),
    ("<https://x.y/z>", [("url", None)]),
    ("[a](https://x.y/Note.md)", [("url", None)]),
    ("[a](//x.y/Note.md) [b](file:///etc/passwd) [c](mailto:a@b.c)", [("url", None)] * 3),
    ("`[[Note]]` %%[[Note]]%% \\[[Note]]", []),
    ("```\n[[Note]] https://x.y\n```\n", []),
    ("[[Note]] `x` [[Note]]", [("wiki", "Note.md")] * 2),
    ("# A\n[[#B]]\n## B\nx [[#^z]]\n\ny ^z\n", [("wiki", "here.md#b")] * 2),
    ("> [!note] [[Note]]\n> - [[Home]]", [("wiki", "Note.md"), ("wiki", "Home.md")]),
]


@pytest.mark.parametrize(("text", "expected"), OTHERS, ids=[case[0] for case in OTHERS])
def test_other_references(text: str, expected: list):
    assert leads(text) == expected


URLS = [
    ("see https://x.y/z, and", ["https://x.y/z"]),
    ("(https://x.y/a_(b)).", ["https://x.y/a_(b)"]),
    ("**http://x.y/**", ["http://x.y/"]),
    ("<a href='https://no.no'>", []),
    ("[https://x.y](https://z.y)", ["https://z.y"]),
    ("ahttps://x.y", []),
    ("HTTP://X.Y", ["HTTP://X.Y"]),
]


@pytest.mark.parametrize(("text", "urls"), URLS, ids=[case[0] for case in URLS])
def test_bare_urls(text: str, urls: list[str]):
    assert document_references(documents(d=text))["target"].to_pylist() == urls


@pytest.mark.parametrize(
    "target",
    [
        "https://lists.example/list/a%2Bb%40c.org/",
        "https://lists.example/message-id/a+b@c.org",
        "https://lists.example/?i=%3Ca%2bb@c.org%3E",
        "https://lists.example/m/a+b@c.org#top",
        "mid:a+b@c.org",
        "mid:a%2Bb@c.org/part",
    ],
)
def test_a_url_with_a_known_message_id_leads_to_the_mail(target: str):
    assert leads(f"<{target}>", message_ids=frozenset({"a+b@c.org"})) == [("url", "a+b@c.org")]
    assert leads(f"<{target}>", message_ids=frozenset({"b@c.org"})) == [("url", None)]


def test_a_canvas_has_cards_embeds_groups_and_arrows():
    def card(
        name: str, kind: str, x: int, y: int, size: int = 10, **given: str
    ) -> dict[str, object]:
        return {"id": name, "type": kind, "x": x, "y": y, "width": size, "height": size, **given}

    nodes = [
        card("g", "group", 100, 0, 50, label="Later"),
        card("a", "text", 0, 20, text="# First\ncard"),
        card("b", "file", 110, 10, file="Note.md", subpath="#Sub Heading"),
        card("c", "link", 0, 0, url="https://example.org/"),
    ]
    edges = [{"id": "e", "fromNode": "a", "toNode": "b", "label": "leads to"}]
    canvas = json.dumps({"nodes": nodes, "edges": edges})
    assert read({"x.canvas": canvas}).documents["text"].to_pylist() == [
        "<https://example.org/>\n\n# First\ncard\n\n## Later\n\n![[Note.md#Sub Heading]]\n\nFirst → leads to → Note.md\n"
    ]
    assert leads(canvas, "x.canvas") == [("url", None), ("embed", "Note.md#sub-heading")]
    assert read({"x.canvas": "[]"}).quarantine["reason"].to_pylist() == [
        "unreadable: it cannot be converted from canvas to Markdown"
    ]


def test_wiki_links_of_the_frontmatter_count():
    text = "---\nup: '[[Note#Sub Heading|é]]'\nmore: [ '[[Hub]]', \"[[\" ]\n---\nx"
    assert leads(text) == [("wiki", "Note.md#sub-heading"), ("wiki", "Home.md")]


def test_pages_have_links_and_no_wiki_links():
    page = "<h1>A</h1><p>[[Note]] ![[Note]] %%x%% ^id<p><a href='Note.md#sub-heading'>b</a> https://x.y"
    assert leads(page, "p.html") == [("markdown", "Note.md#sub-heading"), ("url", None)]


def test_columns_of_a_link():
    made = read({"é.md": "# Ä\nö [[N|ü]] x ^id\n", "n.md": "x"}).documents
    references = document_references(made)
    assert references["kind"].to_pylist() == ["wiki", "block_id"]
    links = document_links(references, made, document_nodes(made)).to_pylist()
    assert links == [
        {
            "from_id": "s:é.md#ä",
            "source_kind": "document",
            "byte_start": 8,
            "byte_end": 16,
            "to_id": "s:n.md",
            "target": "N",
            "kind": "wiki",
            "text": "ü",
        }
    ]
    assert "# Ä\nö [[N|ü]] x ^id\n".encode()[8:16].decode() == "[[N|ü]]"


def test_links_stay_in_their_source():
    one = read({"a.md": "[[b]]"}).documents
    other = read({"b.md": "x"}).documents
    other = other.set_column(other.column_names.index("source"), "source", [["t"]])
    tables = [t.cast(one.schema) for t in (one, other)]
    both = pa.concat_tables(tables)
    links = document_links(document_references(both), both, document_nodes(both))
    assert links["to_id"].to_pylist() == [None]


PIECES = st.sampled_from(
    [
        "[[",
        "]]",
        "Note",
        "#",
        "^",
        "|",
        "../",
        "/",
        "%",
        "%2e",
        "(",
        ")",
        "[a](",
        "!",
        "`",
        "%%",
        " ",
        "\n",
        "é",
        "http://",
    ]
)


@examples(60)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_has_links_that_name_what_exists_and_do_not_depend_on_the_order(text: str):
    made = read({**VAULT, "h.md": f"x{text}"}).documents
    references, nodes = document_references(made), document_nodes(made)
    links = document_links(references, made, nodes)
    known = {*made["doc_id"].to_pylist(), *nodes["node_id"].to_pylist()}
    rows = links.to_pylist()
    assert all(row["to_id"] is None or row["to_id"] in known for row in rows)
    assert len({(row["from_id"], row["byte_start"]) for row in rows}) == len(rows)
    back = [table.take(list(range(table.num_rows))[::-1]) for table in (references, made, nodes)]
    assert document_links(*back).equals(links)
