"""Markdown as data: blocks, links, comments and frontmatter with byte offsets."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.cases import examples, some
from transforms.documents.frontmatter import frontmatter
from transforms.documents.markdown import masked, parse

HEADINGS = [
    ("atx", "# A\n", [(1, "A", "# A\n")]),
    ("closed atx", "## A ##  \nx", [(2, "A", "## A ##  \n")]),
    ("indented by three", "   ### A\nx", [(3, "A", "   ### A\n")]),
    ("indented by four", "    # A\n", []),
    ("indented by a tab", "\t# A\n", []),
    ("tab behind the mark", "#\tA\n", [(1, "A", "#\tA\n")]),
    ("no blank behind the mark", "#A\n", []),
    ("seven marks", "####### A\n", []),
    ("empty", "#\n", [(1, "", "#\n")]),
    ("without a line end", "x\n\n# A", [(1, "A", "# A")]),
    ("setext", "A\n===\nB\n---\n", [(1, "A", "A\n===\n"), (2, "B", "B\n---\n")]),
    ("setext over two lines", "A\n  b\n===\n", [(1, "A b", "A\n  b\n===\n")]),
    ("rule, not setext", "A\n\n---\n", []),
    ("in a quote", "> # A\n> x\n", [(1, "A", "> # A\n")]),
    ("in a list", "- x\n\n  # A\n", [(1, "A", "  # A\n")]),
    ("first in a list", "- # A\n  x\n", [(1, "A", "- # A\n")]),
    ("in a fence", "```\n# A\n```\n", []),
    ("in a tilde fence", "~~~sh\n# A\n```\n~~~\n# B\n", [(1, "B", "# B\n")]),
    ("in an unclosed fence", "```\n# A\n\n# B\n", []),
    ("in a fence of a list", "- ```\n  # A\n  ```\n- # B\n", [(1, "B", "- # B\n")]),
    ("in an html block", "<div>\n# A\n</div>\n", []),
    ("in a comment", "%%\n\n# A\n\n%%\n\n# B\n", [(1, "B", "# B\n")]),
    ("in a comment with crlf", "%%\r\n\r\n# A\r\n\r\n%%\r\n", []),
    (
        "windows line ends",
        "# A\r\nx\r\nB\r\n---\r\n",
        [(1, "A", "# A\r\n"), (2, "x B", "x\r\nB\r\n---\r\n")],
    ),
    (
        "code, emphasis, entities",
        "# a `b*c` *d* &amp; \\# [e](f) ![g](h)\n",
        [(1, "a b*c d & # e g", None)],
    ),
    ("html in it", "# a <b>c</b>\n", [(1, "a c", None)]),
    ("wiki links in it", "# [[Note|alias]] [[Other]]\n", [(1, "alias Other", None)]),
]


@pytest.mark.parametrize(
    ("text", "expected"), [case[1:] for case in HEADINGS], ids=[c[0] for c in HEADINGS]
)
def test_headings_are_those_of_commonmark_and_cover_their_lines(text: str, expected: list):
    data = text.encode()
    found = [(b.level, b.text, data[b.start : b.end].decode()) for b in parse(text).headings]
    assert found == [
        (level, title, text if line is None else line) for level, title, line in expected
    ]


def test_blocks_have_kinds_ranges_and_depths():
    text = "é\n\n- a\n  1. b\n\n```py x\nc\n```\n\n    d\n\n> q\n\n| t |\n|---|\n\n<p>\n\n---\n[^1]: f\n"
    data = text.encode()
    found = [
        (b.kind, b.depth, data[b.start : b.end].decode().strip("\n"), b.text)
        for b in parse(text).blocks
    ]
    assert found == [
        ("paragraph", 0, "é", ""),
        ("list", 0, "- a\n  1. b", ""),
        ("item", 1, "- a\n  1. b", ""),
        ("list", 2, "1. b", ""),
        ("item", 3, "1. b", ""),
        ("code", 0, "```py x\nc\n```", "py x"),
        ("code", 0, "    d", ""),
        ("quote", 0, "> q", ""),
        ("paragraph", 1, "q", ""),
        ("table", 0, "| t |\n|---|", ""),
        ("html", 0, "<p>", ""),
        ("rule", 0, "---", ""),
        ("footnote", 0, "[^1]: f", "1"),
        ("paragraph", 1, "f", ""),
    ]
    assert [b.fenced for b in parse(text).blocks if b.kind == "code"] == [True, False]


LINKS = [
    ("[a *b*](c.md)", [("markdown", "c.md", "a b")]),
    ("[a][r]\n\n[r]: c.md", [("markdown", "c.md", "a")]),
    ("[a](<b c.md>)", [("markdown", "b c.md", "a")]),
    ("![alt](i.png)", [("image", "i.png", "alt")]),
    ("[![i](i.png)](t.md)", [("markdown", "t.md", "i"), ("image", "i.png", "i")]),
    ("<https://x.y/z>", [("url", "https://x.y/z", "https://x.y/z")]),
    ("[[N]] [[N|a]] [[N#h]]", [("wiki", "N", "N"), ("wiki", "N", "a"), ("wiki", "N#h", "N#h")]),
    ("![[N]] ![[i.png|100]]", [("embed", "N", "N"), ("embed", "i.png", "100")]),
    ("`[[N]]` ``[a](b)``", []),
    ("```\n[[N]]\n```", []),
    ("    [[N]]", []),
    ("%%[[N]]%% a [[M]]", [("wiki", "M", "M")]),
    ("%%\n\n[[N]]\n\n%%\n", []),
    ("`%%` [[N]] `%%`", [("wiki", "N", "N")]),
    ("100%% [[N]]\n\nand 5%%", [("wiki", "N", "N")]),
    ("\\[[N]]", []),
]


@pytest.mark.parametrize(("text", "expected"), LINKS, ids=[case[0] for case in LINKS])
def test_links_have_a_kind_a_target_and_a_text(text: str, expected: list):
    assert [(link.kind, link.target, link.text) for link in parse(text).links] == expected


def test_ranges_of_links_are_bytes():
    text = "é [ü](ö) [[ä]]"
    assert [text.encode()[k.start : k.end].decode() for k in parse(text).links] == [
        "[ü](ö)",
        "[[ä]]",
    ]


FRONTMATTER = [
    ("fields", "---\ntitle: X\n---\nb", {"title": "X"}, "b", None),
    ("closed by dots", "---\na: b\n...\nc", {"a": "b"}, "c", None),
    ("windows line ends", "---\r\na: b\r\n---\r\nc", {"a": "b"}, "c", None),
    ("byte order mark", "\ufeff---\na: é\n---\nc", {"a": "é"}, "c", None),
    ("byte order mark alone", "\ufeff# A", {}, "# A", None),
    ("empty", "---\n---\nc", {}, "c", None),
    ("at the end", "---\na: b\n---", {"a": "b"}, "", None),
    (
        "as written",
        "---\na: 1.10\nb: 2024-01-02\nc: on\nd: true\ne: ~\n---\n",
        {"a": "1.10", "b": "2024-01-02", "c": "on", "d": True, "e": None},
        "",
        None,
    ),
    ("shared values", "---\na: &x [1]\nb: *x\n---\n", {"a": ["1"], "b": ["1"]}, "", None),
    ("none", "a\n---\nb\n---\n", {}, "a\n---\nb\n---\n", None),
    ("blank line first", "\n---\na: b\n---\n", {}, "\n---\na: b\n---\n", None),
    ("unclosed", "---\na: b\n", {}, "---\na: b\n", None),
    ("four hyphens", "----\na: b\n---\n", {}, "----\na: b\n---\n", None),
    ("broken", "---\na: [\n---\n", {}, "---\na: [\n---\n", "malformed"),
    ("template", "---\n{{ a }}: b\n---\n", {}, "---\n{{ a }}: b\n---\n", "malformed"),
    ("object", "---\na: !!python/name:os.system\n---\n", {}, None, "malformed"),
    ("prose between rules", "---\nhello\n---\n", {}, "---\nhello\n---\n", "not_a_mapping"),
    ("nested", "---\na: " + "[" * 900 + "]" * 900 + "\n---\n", {}, "", "too_large"),
    (
        "nested beyond the C stack",
        "---\na: " + "[" * 30000 + "]" * 30000 + "\n---\n",
        {},
        "",
        "too_large",
    ),
    ("nested blocks", "---\n" + "- " * 30000 + "a\n---\n", {}, "", "too_large"),
    ("long", "---\na: " + "x" * 70000 + "\n---\n", {}, "", "too_large"),
    ("recursive", "---\na: &a [*a]\n---\n", {}, "", "too_large"),
    (
        "exponential",
        "---\n"
        + "a0: &a0 [1]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(20))
        + "---\n",
        {},
        "",
        "too_large",
    ),
    (
        "many keys",
        f"---\n{''.join(f'k{n}: v{chr(10)}' for n in range(20000))}---\nc",
        {},
        "c",
        "too_large",
    ),
    (
        "long prose between rules",
        f"---\n{'Some words, and more. ' * 5000}\n---\n",
        {},
        None,
        "too_large",
    ),
]


@pytest.mark.parametrize(
    ("text", "fields", "body", "defect"),
    [case[1:] for case in FRONTMATTER],
    ids=[c[0] for c in FRONTMATTER],
)
def test_frontmatter(text: str, fields: dict, body: str | None, defect: str | None):
    found = frontmatter(text)
    assert found.fields == fields
    assert text.encode()[found.body_start :].decode() == (text if body is None else body)
    assert (found.defect or "").partition(":")[0] == (f"frontmatter_{defect}" if defect else "")


def test_frontmatter_is_no_heading():
    text = "---\ntitle: X\n---\n# A\n"
    found = parse(text, frontmatter(text).body_start).headings
    assert [(b.text, b.start) for b in found] == [("A", text.index("#"))]


PIECES = st.lists(
    st.sampled_from(
        [
            "# ",
            "## ",
            "> ",
            "- ",
            "1. ",
            "```",
            "~~~",
            "===\n",
            "---\n",
            "    ",
            "\t",
            "\n",
            "\n\n",
            "\r\n",
            "é",
            "a b",
            "`",
            "*",
            "_",
            "[",
            "]",
            "(",
            ")",
            "!",
            "|",
            "<b>",
            "<div>",
            "[[",
            "]]",
            "%%",
            "#tag",
            "\\",
            "&amp;",
            "[^1]:",
            "😀",
        ]
    ),
    max_size=40,
).map("".join)


@examples(60)
@example("- a\r\n\r\n```\r\nb\r\n```\r\n", "")
@example("```\r\n\r\n", "")
@example("[^1]:[^1]:", "")
@given(PIECES, st.sampled_from(["", "\ufeff", "---\na: é\n---\n"]))
def test_outermost_blocks_are_disjoint_whole_lines_in_order(body: str, head: str):
    text = head + body
    data = text.encode()
    start = frontmatter(text).body_start
    parsed = parse(text, start)
    at = start
    for block in (b for b in parsed.blocks if not b.depth):
        assert at <= block.start < block.end <= len(data)
        assert block.start == start or data[block.start - 1 : block.start] in (b"\n", b"\r")
        assert block.end == len(data) or data[block.end - 1 : block.end] in (b"\n", b"\r")
        assert data[block.end - 1 : block.end + 1] != b"\r\n"
        at = block.end
    assert [b.start for b in parsed.headings] == sorted({b.start for b in parsed.headings})
    for start, end in (
        *parsed.opaque,
        *parsed.comments,
        *((b.start, b.end) for b in parsed.blocks),
    ):
        data[start:end].decode()


@examples(60)
@given(PIECES)
def test_offsets_count_from_the_start_of_the_text(body: str):
    shifted = "---\nx: é\n---\n"
    start = len(shifted.encode())
    plain, moved = parse(body), parse(shifted + body, start)
    assert [
        b._replace(start=b.start + start, end=b.end + start) for b in plain.blocks
    ] == moved.blocks
    assert [
        k._replace(start=k.start + start, end=k.end + start) for k in plain.links
    ] == moved.links


@examples(60)
@given(PIECES)
def test_masking_keeps_length_and_line_ends(body: str):
    parsed = parse(body)
    data = body.encode()
    hidden = masked(data, parsed.opaque)
    assert len(hidden) == len(data)
    assert [b for b in hidden if b in b"\r\n"] == [b for b in data if b in b"\r\n"]
    hidden.decode()


def test_a_comment_of_html_within_one_of_a_note_is_part_of_it():
    text = "%%a <!-- b --> c%% <!-- d %% --> `<!-- e -->`\n"
    assert [text[start:end] for start, end in parse(text).comments] == [
        "%%a <!-- b --> c%%",
        "<!-- d %% -->",
    ]


def test_what_is_of_obsidian_is_text_elsewhere():
    found = parse("# A [[N]]\n%%\n\n# B\n\n%%\n![[N]] [a](b)\n", notes=False)
    assert [b.text for b in found.headings] == ["A [[N]]", "B"]
    assert [link.kind for link in found.links] == ["markdown"]
    assert found.comments == []


LINES = st.sampled_from(
    [
        "# A",
        "## B `c`",
        "# ",
        "```",
        "~~~",
        "> # Q",
        "- ## L",
        "  # M",
        "text",
        "é",
        "",
        "",
        "===",
        "---",
        "    code",
        "<div>",
        "- item",
        "1. one",
        "> q",
        "\tx",
        "***",
        "<!-- c",
        "-->",
        "   > ## z",
        "- - # n",
        "```py",
        "10) # t",
    ]
)


@examples(150)
@given(st.lists(LINES, max_size=14).map("\n".join))
def test_headings_are_those_of_another_parser(text: str):
    tokens = MarkdownIt("commonmark").parse(text)
    expected = [
        (int(token.tag[1]), *token.map)
        for token in tokens
        if token.type == "heading_open" and token.map
    ]
    data = text.encode()
    found = [
        (b.level, data[: b.start].count(b"\n"), len(data[: b.end].splitlines()))
        for b in parse(text).headings
    ]
    assert found == expected


HOSTILE = {
    "quotes": ">" * 100_000,
    "brackets": "[" * 100_000,
    "wiki brackets": "[[" * 100_000,
    "nested images": "![" * 50_000 + "a](x)" * 50_000,
    "nested list": "- " * 100_000,
    "emphasis": "*a_ " * 50_000,
    "backticks": "".join("`" * n + " " for n in range(500)),
    "comments": "%% a\n" * 50_000 + "%%\n" * 50_001,
    "open tags": "<a " * 50_000,
    "lazy lines": ">" * 900 + "a\n" + "a\n" * 50_000,
    "wide table": "|" + "a|" * 30_000 + "\n|" + "-|" * 30_000 + "\n",
    "carriage returns": "# a\r" * 50_000,
}


@pytest.mark.parametrize("name", some(HOSTILE, each=3))
def test_hostile_text_is_read(name: str):
    assert parse(HOSTILE[name]).blocks


def test_text_that_is_nested_too_deep_stays_one_paragraph():
    text = "# A\n" + ">" * 5000
    found = parse(text)
    assert found.defect == "nesting_too_deep"
    assert [(b.kind, b.start, b.end) for b in found.blocks] == [("paragraph", 0, len(text))]
