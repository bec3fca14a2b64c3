"""The heading tree of documents: slugs, spans, hierarchy, breadcrumbs and own texts."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cases import examples
from tests.documents import documents, read
from transforms.documents.nodes import MAX_CRUMB_CHARS, Slugs, document_nodes, slug_base
from transforms.schemas.documents import DOCUMENT_NODES

SLUGS = [
    ("OAuth 2.0 Setup", "oauth-20-setup"),
    ("C++ Integration", "c-integration"),
    ("The Result<T> Type!", "the-resultt-type"),
    ("  Hello World  ", "hello-world"),
    ("Hello  --  World", "hello-world"),
    ("my_function_name", "my_function_name"),
    ("Héllo Wörld", "héllo-wörld"),
    (".NET Framework", "net-framework"),
    ("日本語", "日本語"),
    ("हिन्दी — Ünï 2", "हिन्दी-ünï-2"),
    ("???", "heading"),
    ("", "heading"),
    ("- a -", "a"),
    ("a\tb\u00a0c", "abc"),
    ("ÅSTRÖM K\u0130", "åström-ki̇"),
]


@pytest.mark.parametrize(("title", "slug"), SLUGS)
def test_slug_of_a_title(title: str, slug: str):
    assert slug_base(title) == slug


@pytest.mark.parametrize(
    ("titles", "slugs"),
    [
        ("Intro,Setup,Intro,Setup,Intro", "intro,setup,intro-1,setup-1,intro-2"),
        ("Intro,Intro,Intro 1", "intro,intro-1,intro-1-1"),
        ("Intro 1,Intro,Intro", "intro-1,intro,intro-2"),
        ("A-1-1,A 1,A,A,A 1", "a-1-1,a-1,a,a-2,a-1-2"),
        ("?,!,heading,Heading 1", "heading,heading-1,heading-2,heading-1-1"),
    ],
)
def test_slugs_of_a_document(titles: str, slugs: str):
    given_out = Slugs()
    assert ",".join(given_out.slug(title) for title in titles.split(",")) == slugs


@examples(60)
@given(st.lists(st.sampled_from(["a", "a 1", "a-1-1", "a 2", "日", "heading", "b"]), max_size=30))
def test_no_slug_is_given_twice(titles: list[str]):
    slugs = Slugs()
    assert max(Counter(slugs.slug(title) for title in titles).values(), default=1) == 1


def tree(text: str, path: str = "d.md") -> list[dict[str, Any]]:
    return document_nodes(read({path: text}).documents).to_pylist()


def shown(text: str) -> list[tuple[str, str | None, str | None, str, int]]:
    """Title, slug, slug of the parent, own text and number of siblings of every node."""
    documents_ = documents(d=text)
    data = documents_["text"][0].as_py().encode()
    return [
        (
            n["title"],
            n["slug"],
            n["parent_id"] and n["parent_id"].partition("#")[2],
            data[n["byte_start"] : n["body_end"]].decode(),
            n["sibling_count"],
        )
        for n in document_nodes(documents_).to_pylist()
    ]


TREES = [
    ("no heading", "just text\n", [("d", None, None, "just text\n", 1)]),
    (
        "preamble and frontmatter",
        "---\na: b\n---\npre\n# A\nx\n",
        [("A", None, None, "---\na: b\n---\npre\n", 1), ("A", "a", "", "x\n", 1)],
    ),
    (
        "a parent with an empty body",
        "# H1\n## H2\n\ntext",
        [("H1", None, None, "", 1), ("H1", "h1", "", "", 1), ("H2", "h2", "h1", "\ntext", 1)],
    ),
    (
        "an empty span is discarded",
        "# A\na\n## B\n## C\nc\n",
        [("A", None, None, "", 1), ("A", "a", "", "a\n", 1), ("C", "c", "a", "c\n", 1)],
    ),
    (
        "a blank span is discarded",
        "# A\na\n## B\n \t\n\n## C\nc\n",
        [("A", None, None, "", 1), ("A", "a", "", "a\n", 1), ("C", "c", "a", "c\n", 1)],
    ),
    (
        "the discarded last line does not leak",
        "# A\na\n## B",
        [("A", None, None, "", 1), ("A", "a", "", "a\n", 1)],
    ),
    (
        "a discarded heading uses no slug",
        "# A\n## B\n## B\nb\n",
        [("A", None, None, "", 1), ("A", "a", "", "", 1), ("B", "b", "a", "b\n", 1)],
    ),
    (
        "skipped levels",
        "### A\na\n# B\nb\n#### C\nc\n## D\nd\n",
        [
            ("B", None, None, "", 1),
            ("A", "a", "", "a\n", 2),
            ("B", "b", "", "b\n", 2),
            ("C", "c", "b", "c\n", 2),
            ("D", "d", "b", "d\n", 2),
        ],
    ),
    (
        "a prefix of a slug is no parent",
        "## Setup\na\n## Setup on Linux\nb\n",
        [
            ("d", None, None, "", 1),
            ("Setup", "setup", "", "a\n", 2),
            ("Setup on Linux", "setup-on-linux", "", "b\n", 2),
        ],
    ),
    (
        "fences, quotes, lists, setext",
        "A\n=\n```\n# no\n```\n> ## Q\n> q\n\n- ## L\n  l\n",
        [
            ("A", None, None, "", 1),
            ("A", "a", "", "```\n# no\n```\n", 1),
            ("Q", "q", "a", "> q\n\n", 2),
            ("L", "l", "a", "  l\n", 2),
        ],
    ),
    (
        "an unclosed fence",
        "# A\n```\n# no\n",
        [("A", None, None, "", 1), ("A", "a", "", "```\n# no\n", 1)],
    ),
    (
        "byte order mark, crlf, not ASCII",
        "\ufeffé\r\n# Ä\r\nö\r\n## B\r\nü",
        [("Ä", None, None, "\ufeffé\r\n", 1), ("Ä", "ä", "", "ö\r\n", 1), ("B", "b", "ä", "ü", 1)],
    ),
    (
        "a heading in a comment",
        "# A\n%%\n\n# B\n\n%%\n",
        [("A", None, None, "", 1), ("A", "a", "", "%%\n\n# B\n\n%%\n", 1)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), [c[1:] for c in TREES], ids=[c[0] for c in TREES])
def test_tree(text: str, expected: list):
    assert shown(text) == expected


def test_columns_of_a_tree():
    first, second, third = tree("# Ä\nx\n## B\ny\n", "g/d.md")
    assert first == {
        "node_id": "s:g/d.md",
        "doc_id": "s:g/d.md",
        "parent_id": None,
        "depth": 0,
        "position": 0,
        "title": "Ä",
        "slug": None,
        "breadcrumb": "> Ä",
        "heading_start": 0,
        "byte_start": 0,
        "byte_end": 14,
        "body_end": 0,
        "sibling_count": 1,
    }
    assert (second["node_id"], second["parent_id"], second["depth"]) == (
        "s:g/d.md#ä",
        "s:g/d.md",
        1,
    )
    assert (
        second["heading_start"],
        second["byte_start"],
        second["body_end"],
        second["byte_end"],
    ) == (
        0,
        5,
        7,
        14,
    )
    assert (third["node_id"], third["parent_id"], third["depth"]) == ("s:g/d.md#b", "s:g/d.md#ä", 2)
    assert (third["heading_start"], third["byte_start"], third["body_end"], third["byte_end"]) == (
        7,
        12,
        14,
        14,
    )


BREADCRUMBS = [
    ("# T\nx\n## A\ny\n### B\nz", ["> T", "> T", "> T › A", "> T › A › B"]),
    ("---\ntitle: D\n---\n# T\nx\n## D\ny", ["> D", "> D › T", "> D › T › D"]),
    ("## A\nx\n# T\ny\n## B\nz", ["> T", "> T › A", "> T › T", "> T › T › B"]),
    ("# T\nx\n# T\ny", ["> T", "> T", "> T › T"]),
]


@pytest.mark.parametrize(("text", "crumbs"), BREADCRUMBS)
def test_breadcrumbs_leave_out_a_first_heading_that_repeats_the_title(text: str, crumbs: list[str]):
    assert [node["breadcrumb"] for node in tree(text)] == crumbs


def test_a_long_title_is_cut_in_the_document_and_in_breadcrumbs():
    title = "x" * 5000
    nodes = tree(f"# {title}\na\n## B\nb\n")
    assert [len(node["title"]) for node in nodes] == [1000, 5000, 1]
    assert max(len(node["breadcrumb"]) for node in nodes) < MAX_CRUMB_CHARS + 10


def test_plain_text_is_one_node():
    assert [(n["title"], n["byte_end"], n["body_end"]) for n in tree("# no\nx\n", "a/b.txt")] == [
        ("b", 7, 7)
    ]


LINES = st.sampled_from(
    [
        "# A",
        "## A",
        "## B b",
        "### C",
        "#### D 1",
        "# ",
        "```",
        "~~~",
        "> # Q",
        "- ## L",
        "  # M",
        "text",
        "é 😀",
        "",
        "",
        "===",
        "---",
        "    code",
        "<div>",
        "%%",
        "- item",
        "1. one",
    ]
)
TEXTS = st.builds(
    lambda head, lines, end: head + end.join(lines),
    st.sampled_from(["", "\ufeff", "---\ntitle: X\n---\n", "---\n: [\n---\n"]),
    st.lists(LINES, min_size=1, max_size=25),
    st.sampled_from(["\n", "\r\n"]),
)


@examples(60)
@given(TEXTS)
@example("# A\n## A\n\n### A\nx\n## A\n")
def test_every_tree_keeps_its_rules(text: str):
    made = read({"d.md": text})
    if not made.documents.num_rows:
        return
    table = document_nodes(made.documents)
    assert DOCUMENT_NODES.conform(table).num_rows
    nodes, data = table.to_pylist(), text.encode()
    by_id = {node["node_id"]: node for node in nodes}
    assert len(by_id) == len(nodes)
    assert [node["position"] for node in nodes] == list(range(len(nodes)))
    assert (nodes[0]["parent_id"], nodes[0]["byte_start"], nodes[0]["byte_end"]) == (
        None,
        0,
        len(data),
    )
    children: dict[str, list[dict]] = {node["node_id"]: [] for node in nodes}
    owner = [0] * len(data)
    for node in nodes:
        assert node["heading_start"] <= node["byte_start"] <= node["body_end"] <= node["byte_end"]
        for place in range(node["byte_start"], node["body_end"]):
            owner[place] += 1
        for place in range(node["heading_start"], node["byte_start"]):
            owner[place] += 2
        if node["position"]:
            parent = by_id[node["parent_id"]]
            children[parent["node_id"]].append(node)
            assert parent["depth"] < node["depth"] and parent["position"] < node["position"]
            assert (
                parent["byte_start"] <= node["heading_start"]
                and node["byte_end"] <= parent["byte_end"]
            )
            assert data[node["byte_start"] : node["byte_end"]].strip()
    assert max(owner) <= 2, "a byte is in two bodies, or in a body and a heading"
    for node in nodes:
        below = children[node["node_id"]]
        assert all(child["sibling_count"] == len(below) for child in below)
        rebuilt = [data[node["byte_start"] : node["body_end"]]]
        at = node["body_end"]
        for child in below:
            rebuilt.append(
                data[at : child["byte_start"]] + data[child["byte_start"] : child["byte_end"]]
            )
            at = child["byte_end"]
        assert (
            b"".join([*rebuilt, data[at : node["byte_end"]]])
            == data[node["byte_start"] : node["byte_end"]]
        )


NAMES = st.lists(st.integers(0, 10**6), min_size=1, max_size=8, unique=True)


@examples(60)
@given(NAMES, st.data())
def test_ids_of_other_sections_survive_an_insertion(names: list[int], data: st.DataObject):
    levels = data.draw(st.lists(st.integers(1, 6), min_size=len(names), max_size=len(names)))
    sections = [
        f"{'#' * level} n{name}\n\ntext {name}\n\n"
        for level, name in zip(levels, names, strict=True)
    ]
    place = data.draw(st.integers(0, len(sections)))
    more = [*sections[:place], "## Fresh words\n\nnew\n\n", *sections[place:]]
    before, after = ({n["node_id"] for n in tree("".join(s))} for s in (sections, more))
    assert after == before | {"s:d.md#fresh-words"}
