"""Texts of strangers as HTML: everything escaped, cited bytes marked, only links to the web and to
mailboxes followed.
"""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from dagster_project.extras.web.mail_parts import Part, mail_parts, plain_parts
from dagster_project.extras.web.mails import _ancestors
from dagster_project.extras.web.marks import (
    Address,
    Marked,
    followed,
    highlighted,
    linked,
    markdown_html,
)
from dagster_project.extras.web.question import page_of
from tests.cases import examples

HOSTILE = (
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "<svg onload=alert(1)><iframe src=javascript:alert(1)>",
    "<style>body{display:none}</style><base href=//evil.example>",
    "\"><a href='javascript:alert(1)'>x</a>",
    "[a](javascript:alert(1)) ![b](data:text/html,x) [c](vbscript:x) <javascript:alert(1)>",
    "[d]( JaVaScRiPt&#58;alert(1)) [e](file:///etc/passwd) [f](//evil.example/x)",
    "`<b>` **<i>x</i>** | <td> | \n|---|\n| <script>1</script> |",
    "```html\n<script>alert(1)</script>\n```",
    "# <h1 onclick=alert(1)>\n\n[^1]\n\n[^1]: <script>x</script>",
)
ELEMENT = re.compile(r"<(?!/)([a-z0-9]+)([^>]*)>")
LEAVING = (
    *(
        f"{before}{slashes}evil.example/p"
        for before in ("", "\t", "\n", "\x01", " ", "\u200b")
        for slashes in (
            "//",
            "///",
            "/\\",
            "\\/",
            "\\\\",
            "/\t/",
            "/\n/",
            "/\r\\",
            "/%5c",
            "/%5C",
            "/%2f",
            "%5c%5c",
            "/.//",
            "/./\\",
        )
    ),
    "https:\\\\evil.example",
    "hTTps:evil.example",
    "http:/\\evil.example",
    "JavaScript:alert(1)",
    "java\tscript:alert(1)",
    "\x0bjavascript:alert(1)",
    "\x7fjavascript:x",
    "data:text/html,x",
    "blob:x",
    "view-source:x",
    "/open/..\\evil.example",
    "vbscript:x",
    "file:///etc",
)
"""Addresses that lead, or may lead, away from the server without saying so, or that run something.
"""
OWN = ("http", "")
"""Scheme and host of this server."""
PLAIN = {"mark", "a", "span"}
PROSE = PLAIN | {
    "p",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "pre",
    "code",
    "em",
    "strong",
    "del",
    "blockquote",
    "hr",
    "br",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "sup",
}


def require_inert(html: str, elements: set[str]) -> None:
    """AssertionError if the HTML has an element, an attribute or an address that no text may bring."""
    for name, attributes in ELEMENT.findall(html):
        assert name in elements, html
        assert set(re.findall(r"\s([a-z-]+)=", attributes)) <= {
            "class",
            "id",
            "href",
            "rel",
            "start",
        }, html
        for address in re.findall(r'href="([^"]*)"', attributes):
            scheme, host = as_a_browser_reads(unescape(address))
            is_away = 'class="away"' in attributes
            assert (scheme in ("http", "https", "mailto")) if is_away else (scheme, host) == OWN, (
                html
            )


def as_a_browser_reads(address: str) -> tuple[str, str]:
    """Scheme and host that a link on a page of this server leads to (WHATWG, URL Standard, basic
    URL parser).
    """
    plain = re.sub(r"[\t\n\r]", "", address.strip("".join(map(chr, range(33)))))
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", plain)
    if scheme and scheme[1].lower() not in ("http", "https"):
        return scheme[1].lower(), ""
    rest = plain[scheme.end() :] if scheme else plain
    # A proxy or a redirect may decode an escaped path once more.
    slashes = re.sub("%5c|%2f", "/", rest, flags=re.IGNORECASE).replace("\\", "/")
    if not scheme and not slashes.startswith("//"):
        return OWN
    return (scheme[1].lower() if scheme else OWN[0]), re.split("[/?#]", slashes.lstrip("/"))[0]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str):
    cited = Marked(text, (0, 9_999), [Address(0, 5, "javascript:x")])
    for marked in (Marked(text), Marked(text, (3, 12)), cited):
        html = marked.html(0, len(marked.data))
        require_inert(html, PLAIN)
        require_inert(str(markdown_html(Marked(text, marked.cited))), PROSE)
        for part in plain_parts(Marked(text), is_diff=True):
            require_inert(str(part.html) + "".join(f.html for f in part.files), PLAIN)
    require_inert(str(highlighted(text, [[0, 4], [6, 9]])), PLAIN)


@pytest.mark.parametrize("address", LEAVING, ids=ascii)
def test_a_link_that_looks_like_the_servers_own_stays_on_it(address: str):
    """In Markdown by all its ways to write a link, and in the links of mails, chats and
    attachments.
    """
    quoted = escape(address)
    for text in (
        f"[x]({address})",
        f"[x](<{address}>)",
        f"[x]: <{address}>\n\n[x]",
        f"<{address}>",
        f"![x](<{address}>)",
        f"[[{address}|x]]",
        "".join(f"&#{ord(letter)};" for letter in f"[x](<{address}>)"),
        f"[x](<{quoted}>)",
    ):
        html = str(markdown_html(Marked(text)))
        require_inert(html, PROSE)
        assert "href" not in html, html
    assert Marked("here", None, [Address(0, 4, address)]).html(0, 4) == "here" and not followed(
        address
    )


STRANGE = st.text("<>\"'&[]()!`*_|#/\\: \nabsjvrcitp=én-^~%0", max_size=80)


@given(STRANGE | st.text(max_size=60), st.integers(0, 90), st.integers(0, 70))
@examples(400)
def test_no_text_makes_an_element_of_its_own_and_marking_changes_no_letter(
    text: str, at: int, length: int
):
    marked, end = Marked(text, (at, at + length)), len(text.encode())
    require_inert(str(markdown_html(Marked(text, marked.cited))), PROSE)
    require_inert(html := marked.html(0, end), PLAIN)
    assert re.sub(r"<[^>]*>", "", html) == re.sub(r"<[^>]*>", "", Marked(text).html(0, end))


@given(
    st.sampled_from(["message", "node", "document", "thread", "chunk"]),
    st.text(min_size=1, max_size=20),
)
@examples(100)
def test_every_page_of_the_index_is_led_to(kind: str, id_: str):
    for address in (page_of(kind, f"x{id_}"), page_of(kind, f"x{id_}", 3, 9)):
        assert escape(address) in linked(Markup("x"), address)


def test_the_cited_bytes_are_marked_and_the_first_has_the_anchor():
    text = Marked("año <b> nuevo", (5, 8))
    assert text.html(0, 7) == 'año <mark id="cited">&lt;b</mark>'
    assert text.html(7, 14) == "<mark>&gt;</mark> nuevo"
    # A range that cuts a letter is widened to it.
    assert Marked("año", (2, 2 + 1)).html(0, 4) == 'a<mark id="cited">ñ</mark>o'


def test_links_lead_to_pages_and_to_the_web_alone():
    text = Marked("see https://x.org/a?b=1&c=2. and ID", None, [Address(33, 35, "/m/1")])
    assert text.html(0, 35) == (
        'see <a class="away" rel="noopener noreferrer nofollow" href="https://x.org/a?b=1&amp;c=2">'
        'https://x.org/a?b=1&amp;c=2</a>. and <a href="/m/1">ID</a>'
    )


BODY = """\
Thanks!

> one
> two
> three
Yes, that is right.

Reviewed-by: Ada <ada@example.org>
Link: https://example.org/1

diff --git a/fs/a.c b/fs/a.c
--- a/fs/a.c
+++ b/fs/a.c
@@ -1,2 +1,2 @@
-old
+new
 same
--
Ada
"""


def blocks() -> list[dict[str, object]]:
    cuts = [
        ("author", "Thanks!\n"),
        ("blank", "\n"),
        ("quote", "> one\n> two\n> three\n"),
        (
            "author",
            "Yes, that is right.\n\nReviewed-by: Ada <ada@example.org>\nLink: https://example.org/1\n",
        ),
        ("blank", "\n"),
        ("patch_or_code", BODY[BODY.index("diff") : BODY.index("--\nAda")]),
        ("signature", "--\nAda\n"),
    ]
    rows, at = [], 0
    for kind, text in cuts:
        end = at + len(text)
        rows.append(
            {"kind": kind, "quote_depth": int(kind == "quote"), "byte_start": at, "byte_end": end}
        )
        at = end
    assert at == len(BODY)
    return rows


def parts_of(kind: str, body: str) -> list[Part]:
    """The parts of a body that is one block."""
    block = {"kind": kind, "quote_depth": 0, "byte_start": 0, "byte_end": len(body)}
    return mail_parts(Marked(body), [block])


def test_a_mail_has_its_parts_and_a_cited_quote_is_open():
    parts = mail_parts(Marked(BODY), blocks())
    assert [part.kind for part in parts] == [
        "text",
        "quote",
        "text",
        "trailers",
        "diff",
        "signature",
    ]
    quote, trailers, diff = parts[1], parts[3], parts[4]
    assert (quote.summary, quote.lines, quote.depth, quote.is_open) == ("one", 3, 1, False)
    assert [name for name, _ in trailers.trailers] == ["Reviewed-by", "Link"]
    (file,) = diff.files
    assert (file.name, file.added, file.removed) == ("fs/a.c", 1, 1)
    assert (
        '<span class="r">-old\n</span><span class="a">+new\n</span><span class="c"> same'
        in file.html
    )
    at = BODY.index("> two")
    quote = mail_parts(Marked(BODY, (at, at + 5)), blocks())[1]
    assert quote.is_open and '<mark id="cited">&gt; two</mark>' in quote.html


def test_columns_stay_aligned_and_prose_does_not():
    body = "Hi all,\nwe measured it.\n\n    a    1\n    b    2\n\nThat is all.\n"
    text, *rest = [(part.kind, str(part.html)) for part in parts_of("author", body)]
    assert text == ("text", "Hi all,\nwe measured it.")
    assert rest == [("aligned", "    a    1\n    b    2"), ("text", "That is all.")]


def test_short_quotes_first_lines_lists_and_files_of_a_diff_are_told_apart():
    assert [parts_of("quote", "> one\n" * lines)[0].is_open for lines in (2, 3)] == [True, False]
    assert parts_of("author", "\n\nIt is so.\n")[0].html == "It is so."
    line = "as long as a line that a mail program may have wrapped"
    (listed,) = parts_of("author", f"{line}\n- one\n{line}\ntwo\n")
    assert listed.html == f'{line}\n- one\n{line}<span class="wrap">\n</span>two'
    hunk = "@@ -1 +1 @@\n-old\n+new\n"
    (diff,) = parts_of("patch_or_code", f"--- a/x.c\n+++ b/x.c\n{hunk}--- a/y.c\n+++ b/y.c\n{hunk}")
    assert [file.name for file in diff.files] == ["x.c", "y.c"]


def test_every_letter_of_a_mail_is_shown():
    shown = ""
    for part in mail_parts(Marked(BODY), blocks()):
        files = "".join(file.html for file in part.files)
        shown += str(part.html) + files + "".join(a + b for a, b in part.trailers)
    letters = re.sub(r"\s", "", unescape(re.sub(r"<[^>]*>", "", shown)))
    assert letters == re.sub(r"\s", "", BODY.replace("by: ", "by").replace("Link: ", "Link"))


def test_markdown_has_anchors_links_and_marks_and_is_plain_if_it_nests_too_deep():
    text = "# Top\n\nSee [the faq](faq.md), **Ölstand**.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] done\n"
    at = len(text[: text.index("Ölstand")].encode())
    targets = {text.index("[the"): "/d/docs%3Afaq.md"}
    html = str(markdown_html(Marked(text, (at, at + 8)), {0: "top"}, targets))
    assert '<h2 id="top">Top</h2>' in html
    assert '<a href="/d/docs%3Afaq.md">the faq</a>' in html
    assert '<strong><mark id="cited">Ölstand</mark></strong>' in html
    assert "<td>2</td></tr>" in html and "☑ done" in html
    too_deep = str(markdown_html(Marked("> " * 2_000 + "<b>")))
    assert too_deep.startswith("<pre>") and "&lt;b&gt;" in too_deep


def test_a_quote_of_a_mail_that_no_source_holds_leads_nowhere():
    parents = {"a": None, "b": "a", "c": "b"}
    nodes = {name: {"parent_id": above, "is_ghost": name == "b"} for name, above in parents.items()}
    assert _ancestors(nodes, "c") == [None, "a"]


def test_a_callouts_title_has_its_own_line_and_a_picture_with_a_width_its_name():
    text = "> [!tip] Drift\n> of cells\n> > [!info]\n> > more\n\n> plain\n> quote\n\n"
    text += "![[plot.png|400x300]] ![[plot.png|Plot]]"
    html = str(markdown_html(Marked(text), {}, {text.index("![["): "/d/plot"}))
    assert 'titled callout-tip"><span class="kind">tip</span><p>Drift<br>of cells</p>' in html
    assert (
        'callout-info"><span class="kind">info</span><p>more</p>' in html and "plain\nquote" in html
    )
    assert "callout" not in str(markdown_html(Marked('> [!"x onclick=1] a')))
    assert '<a href="/d/plot">plot.png</a>' in html and "Plot" in html and "400" not in html


@given(st.text("*_~ ab.", max_size=40))
@examples(200)
def test_a_printed_text_keeps_its_stars_and_lines(text: str):
    html = str(markdown_html(Marked(f"a{text}", is_printed=True)))
    assert html == f"<p>a{text.rstrip()}</p>\n"
