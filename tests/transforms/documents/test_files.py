"""Files to documents: formats, charsets, titles, tags, aliases, times, and what is set aside."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.documents import read
from transforms.documents.files import RawFile, file_name, read_documents
from transforms.formats.converted import Converted
from transforms.settings.documents import DOCUMENT_FORMATS, WAYS_OUT, DocumentSettings


def row(path: str, content: str | bytes) -> dict[str, Any]:
    tables = read({path: content})
    assert tables.quarantine.num_rows == 0, tables.quarantine.to_pylist()
    return tables.documents.to_pylist()[0]


def reason(path: str, content: str | bytes, **settings: int) -> str:
    tables = read({path: content}, **settings)
    assert tables.documents.num_rows == 0
    return tables.quarantine["reason"][0].as_py()


TITLES = [
    ("frontmatter before h1", "n.md", "---\ntitle: ' A  b'\n---\n# B\n", "A b"),
    ("number", "n.md", "---\ntitle: 1.10\n---\n# B\n", "1.10"),
    ("blank title", "n.md", "---\ntitle: ''\n---\n# B\n", "B"),
    ("title that is a list", "n.md", "---\ntitle: [a]\n---\n# B\n", "B"),
    ("first h1, not first heading", "n.md", "## A\nx\n# B `c`\nx\n# D\n", "B c"),
    ("setext h1", "n.md", "B\n===\n", "B"),
    ("h1 in a fence", "d/my note.v2.md", "```\n# B\n```\n", "my note.v2"),
    ("empty h1", "n.md", "#\n\nx", "n"),
    ("plain text has no headings", "d/n.txt", "# B\n", "n"),
    ("dot file", ".md", None, None),
    ("html site", "n.html", "<title>B &amp; c - T</title><h1>T</h1><h1>B &amp; c</h1>", "B & c"),
    ("html title", "n.htm", "<html><head><title>T\n x</title></head><p>a", "T x"),
    (
        "html with the title of its manual",
        "n.html",
        "<title>B c (The M)</title><h3>2.1 B c</h3>x",
        "B c",
    ),
    ("html with the title of its site", "n.html", "<title>The C</title><h1>2 B</h1>x", "2 B"),
    ("html with its name", "n.html", "<title>n.html</title><h1>B</h1>x", "B"),
    ("html without a title", "n.html", "<title>n.html</title><h2>B</h2>x", "n"),
    (
        "html manual page",
        "n.html",
        "<title>git-a(1)</title><h1>git-a(1) Manual Page</h1><h2>NAME</h2>x<h2>GIT</h2>y",
        "git-a(1) Manual Page",
    ),
    ("html colon", "n.html", "<title>S Syntax: a-b</title><h1>a-b</h1><h2>S Syntax</h2>x", "a-b"),
    ("html h2 first", "n.html", "<title>GIT - b</title><h2>GIT</h2>x<h2>C</h2>", "GIT - b"),
    ("rst title", "n.rst", ".. sectnum::\n\nB\n=\n\nx\n", "B"),
    ("rst field", "n.rst", "B\n=\n\n:Title: A b\n\nx\n", "A b"),
    (
        "rst PEP",
        "n.rst",
        "PEP: 1\nTitle: A b\nX:\n\n\nAbstract\n========\n\nx\n\nB\n=\n\ny\n",
        "A b",
    ),
    ("rst sections", "n.rst", "Abstract\n========\n\nx\n\nB\n=\n\ny\n", "n"),
    ("html book", "n.html", "<title>B - The C</title><h1>The C</h1>x", "B"),
]


def test_a_title_that_most_pages_share_is_the_name_of_their_site():
    pages = {f"{n}.html": f"<title>T {n}</title><h1>S</h1>x" for n in range(3)}
    pages |= {"a.html": "<title>S</title><p>x", "b.html": "<title>U</title><h1>V</h1>x"}
    rows = read(pages).documents.to_pylist()
    assert [row["title"] for row in rows] == ["T 0", "T 1", "T 2", "a", "V"]
    assert [row["has_own_title"] for row in rows] == [True, True, True, False, True]
    few = {"a.html": "<title>S</title>x", "b.html": "<title>S</title>y"}
    assert read(few).documents["title"].to_pylist() == ["S", "S"]


@pytest.mark.parametrize(
    ("path", "text", "title"), [c[1:] for c in TITLES], ids=[c[0] for c in TITLES]
)
def test_title(path: str, text: str | None, title: str | None):
    if text is None:
        assert file_name(path) == path
    else:
        assert row(path, text)["title"] == title


@pytest.mark.parametrize(
    "icon",
    [
        '<img src="a.png" alt="view this" width="20">',
        '<img src="a.png" alt="view this" style="height: 1.5em; width:20px;">',
        '<i class="fa icon">view this</i>',
    ],
)
def test_the_text_of_an_icon_is_not_read(icon: str):
    page = f'<p>a <a href="b">{icon}</a> c <img src="d.png" alt="A mill" width="320"></p>'
    text = row("n.html", page)["text"]
    assert "view" not in text and "A mill" in text


def test_fields_at_the_top_of_restructuredtext_are_properties_and_stay_text():
    proposal = row(
        "n.rst", "PEP: 1\nStatus: Final\nCreated: 05-Jul-2001\n\n\nMotives\n=======\n\nx\n"
    )
    assert json.loads(proposal["frontmatter"]) == {
        "PEP": "1",
        "Status": "Final",
        "Created": "05-Jul-2001",
    }
    assert proposal["created_at"] == datetime(2001, 7, 5, tzinfo=UTC)
    assert proposal["text"].startswith("PEP: 1\nStatus: Final\nCreated: 05-Jul-2001\n\n# Motives")
    page = row("n.rst", "B\n=\n\n:Author: Ann *b*\n:Date: 2020-01-02\n\nx\n")
    assert page["text"] == "# B\n\nAuthor: Ann b\nDate: 2020-01-02\n\nx\n"
    assert row("n.rst", "Warning: a\nb\n\nx\n")["frontmatter"] is None


TAGS = [
    ("list", "---\ntags: [a, '#b', a, A]\n---\n", ["a", "b"]),
    ("commas", "---\ntags: a, b c,\n---\n", ["a", "b c"]),
    ("marks", "---\ntags: '#a #b'\n---\n", ["a", "b"]),
    ("one, and a number", "---\nTag: 2024\n---\n", ["2024"]),
    ("nothing", "---\ntags:\n---\n", []),
    (
        "in the text",
        "#one and (#no) x#no #two/three, #four-4\n- #fünf",
        ["one", "two/three", "four-4", "fünf"],
    ),
    ("digits alone", "see #123, #1a #2024/05", ["1a"]),
    ("not in code", "`#no` \n```\n#no\n```\n\n    #no\n\n#yes", ["yes"]),
    ("not in comments, links, html", "%%#no%% [a #no](b#no) <!-- #no --> [[x #no]] #yes", ["yes"]),
    ("headings are none", "# no\n#\n##no\n#yes", ["yes"]),
    ("both", "---\ntags: [A]\n---\n#a #b", ["A", "b"]),
]


@pytest.mark.parametrize(("text", "tags"), [c[1:] for c in TAGS], ids=[c[0] for c in TAGS])
def test_tags(text: str, tags: list[str]):
    assert row("n.md", text)["tags"] == tags


def test_only_markdown_has_tags_in_its_text():
    assert [row(f"n.{end}", "a #b\n")["tags"] for end in ("md", "txt", "html", "rst")] == [
        ["b"],
        [],
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        ("aliases: [A, B b, A]", "aliases", ["A", "B b"]),
        ("aliases: A, B", "aliases", ["A", "B"]),
        ("aliases: ", "aliases", []),
        ("aliases: {a: b}", "aliases", []),
        ("aliases: [[x], y]", "aliases", ["y"]),
        ("type: [idea, note]", "doc_type", "idea, note"),
        ("type: a, b", "doc_type", "a, b"),
        ('type: ["[[Types/Map|Map]]", "[[Note]]"]', "doc_type", "Map, Note"),
        ("type: []", "doc_type", None),
        ("created: 2024-03-01", "created_at", datetime(2024, 3, 1, tzinfo=UTC)),
        ("date: 2024-03-01T10:20", "created_at", datetime(2024, 3, 1, 10, 20, tzinfo=UTC)),
        ("date: 2024/03/01", "created_at", datetime(2024, 3, 1, tzinfo=UTC)),
        (
            "Modified: 2024-03-01 10:20:30 +02:00",
            "modified_at",
            datetime(2024, 3, 1, 8, 20, 30, tzinfo=UTC),
        ),
        (
            "updated: 2024-03-01T10:20:30Z",
            "modified_at",
            datetime(2024, 3, 1, 10, 20, 30, tzinfo=UTC),
        ),
    ],
)
def test_fields_of_the_frontmatter_and_times_without_zone_are_utc(
    line: str, column: str, expected: object
):
    made = row("n.md", f"---\n{line}\n---\nx")
    assert (made[column], made["defects"]) == (expected, [])


@pytest.mark.parametrize(
    ("path", "front", "day"),
    [
        ("Daily/2025-04-20.md", "", (2025, 4, 20)),
        ("journals/2025_04_20.md", "", (2025, 4, 20)),
        ("2025-04-20 Call with the roofer.txt", "", (2025, 4, 20)),
        ("20250420.md", "", (2025, 4, 20)),
        ("2025-04-20.md", "created: 2024-01-02", (2024, 1, 2)),
        ("2025-02-31.md", "", None),
        ("202504201215 Zettel.md", "", None),
        ("192.168.10.20.md", "", None),
        ("2025-04.md", "", None),
    ],
)
def test_a_file_without_a_time_has_the_day_that_its_name_begins_with(path, front, day):
    made = row(path, f"---\n{front}\n---\nx" if front else "x")
    assert made["created_at"] == (day and datetime(*day, tzinfo=UTC))


@pytest.mark.parametrize("value", ["yesterday", "2024-13-01", "0001-01-01T00:00+14:00"])
def test_a_time_that_cannot_be_read_is_a_defect(value: str):
    made = row("n.md", f"---\ncreated: {value}\n---\nx")
    assert made["created_at"] is None
    assert made["defects"] == ["time_unreadable: created"]


def test_the_other_fields():
    text = "---\ntype: log\ndescription: what it is\nextra: {a: [1, ~]}\n---\nx\n"
    made = row("a/n.md", text)
    assert (made["doc_id"], made["path"], made["format"]) == ("s:a/n.md", "a/n.md", "markdown")
    assert (made["doc_type"], made["description"]) == ("log", "what it is")
    assert json.loads(made["frontmatter"])["extra"] == {"a": ["1", None]}
    assert made["text"][made["body_start"] :] == "x\n"
    assert row("n.md", "x")["frontmatter"] is None


@pytest.mark.parametrize(
    "content",
    [
        "\ufeff---\r\ntitle: é\r\n---\r\n# A\r\n\tb\r\n",
        "a\rb",
        "no line end",
        "%%hidden%% shown",
        " \n\nx\n\n",
    ],
)
@pytest.mark.parametrize("path", ["n.md", "n.txt"])
def test_markdown_and_plain_text_are_stored_as_they_are(path: str, content: str):
    made = row(path, content)
    assert made["text"] == content
    assert made["defects"] == []


GERMAN = "Müller und Söhne grüßen aus der Straße"


@pytest.mark.parametrize("path", ["n.md", "n.txt"])
def test_the_body_begins_behind_a_byte_order_mark(path: str):
    assert row(path, "\ufeffx")["body_start"] == 3


CHARSETS = [
    ("utf-8 with a mark", "\ufeffé".encode(), "\ufeffé", None),
    ("latin", GERMAN.encode("cp1252"), GERMAN, "charset_detected"),
    ("utf-16", "\ufeffé x".encode("utf-16-le"), "é x", "charset_detected:utf-16"),
    ("utf-16 big-endian", "\ufeffé x".encode("utf-16-be"), "é x", "charset_detected:utf-16"),
]


@pytest.mark.parametrize(
    ("data", "text", "defect"), [c[1:] for c in CHARSETS], ids=[c[0] for c in CHARSETS]
)
def test_charsets(data: bytes, text: str, defect: str | None):
    made = row("n.md", data)
    assert made["text"] == text
    assert [d.startswith(defect or "-") for d in made["defects"]] == ([True] if defect else [])


def test_an_html_page_may_say_its_charset():
    page = '<html><head><meta charset="windows-1251"><title>Да</title></head><p>Привет, мир'
    assert "Привет, мир" in row("n.html", page.encode("cp1251"))["text"]


FAULTS = [
    ("empty", "n.md", b"", {}, "empty"),
    ("blank", "n.txt", b"\xef\xbb\xbf \r\n\t\n", {}, "empty"),
    ("NUL", "n.md", b"a\0b", {}, "binary"),
    ("control characters", "n.md", b"\x01\x02\xff\xfe\x03 abc", {}, "binary"),
    ("half a UTF-16", "n.md", b"\xff\xfea", {}, "binary"),
    ("program", "n.exe", b"MZ", {}, "unknown_format"),
    ("no extension", "Makefile", b"a", {}, "unknown_format"),
    ("a name like an extension", "x.md/md", b"a", {}, "unknown_format"),
    ("way out", "n.enex", b"a", {}, "unknown_format"),
    ("large", "n.md", b"abc", {"max_document_bytes": 2}, "too_large"),
    ("large rst", "n.rst", b"abc\n" * (1 << 18) + b"a", {}, "too_large"),
    ("lone surrogate", "n\udcff.md", b"abc", {}, "bad_path"),
    ("page without text", "n.html", b"<script>x</script>", {}, "empty"),
    ("rst with an endless line", "n.rst", b"a " * 6000, {}, "unreadable"),
    ("rst nested to death", "n.rst", b"- " * 2000 + b"a", {}, "unreadable"),
]


@pytest.mark.parametrize(
    ("path", "data", "settings", "code"), [c[1:] for c in FAULTS], ids=[c[0] for c in FAULTS]
)
def test_what_is_no_document_says_why(path: str, data: bytes, settings: dict, code: str):
    assert reason(path, data, **settings).partition(":")[0] == code


def test_a_format_that_is_not_read_has_a_way_out():
    assert reason("n.enex", b"a").startswith("unknown_format: import it in Obsidian")
    assert not set(WAYS_OUT) & set(DOCUMENT_FORMATS)


def test_a_fault_of_the_source_and_a_second_copy_are_set_aside():
    files = [
        RawFile("a.md", b"x", "excluded: by a pattern"),
        RawFile("b.md", b"x"),
        RawFile("b.md", b"x"),
    ]
    made = read_documents(files, source="s", partition="u", settings=DocumentSettings())
    assert made.documents["path"].to_pylist() == ["b.md"]
    assert made.quarantine["reason"].to_pylist() == [
        "excluded: by a pattern",
        "duplicate: the path was given twice",
    ]
    assert made.quarantine["byte_count"].to_pylist() == [1, 1]


def test_every_file_ends_in_one_table_whatever_the_order():
    files = {
        f"{name}.{end}": name * n for n, name in enumerate("abcdef") for end in ("md", "txt", "bin")
    }
    one, other = read(files), read(dict(reversed(files.items())))
    assert one.documents.equals(other.documents) and one.quarantine.equals(other.quarantine)
    ends = [*one.documents["path"].to_pylist(), *one.quarantine["place"].to_pylist()]
    assert sorted(ends) == sorted(files)


def test_the_text_of_a_page_is_markdown():
    page = (
        "<nav>menu</nav><h1>A</h1><p>b <b>c</b> <a href='d.html#e'>f</a>"
        "<pre><code class=language-py>g # h</code></pre><h2>I</h2>j"
    )
    assert (
        row("n.html", page)["text"]
        == "# A\n\nb **c** [f](d.html#e)\n\n```py\ng # h\n```\n\n## I\n\nj\n"
    )


def test_a_page_of_confluence_is_its_content_and_the_frame_is_properties():
    page = (
        '<title>M : S</title><div id="breadcrumb-section"><ol id="breadcrumbs"><li class="first">Mill</ol></div>'
        '<h1 id="title-heading"><span id="title-text"> Mill : Sluice </span></h1><div class="page-metadata">Created by '
        '<span class="author"> Maud</span>, last modified by <span class="editor"> Jo</span> on Mar 02, 2021</div>'
        '<p><a href="Gate_2.html">Gate</a><img src="images/icons/x.gif"><div id="footer">Confluence</div>'
    )
    made = row("Sluice_1.html", page)
    assert made["text"] == "# Sluice\n\n[Gate](Gate_2.html)\n"
    assert (made["title"], made["modified_at"].day, made["created_at"]) == ("Sluice", 2, None)
    assert {"space": "Mill", "author": "Maud", "editor": "Jo"}.items() <= json.loads(
        made["frontmatter"]
    ).items()


def test_the_text_of_restructured_text_is_markdown_and_keeps_what_docutils_does_not_know():
    text = (
        "A\n=\n\nb ``c`` :ref:`d <e>` *f*\n\n.. versionadded:: 1\n   G\n\n.. code-block:: py\n\n   h = 1\n\n"
        ".. include:: /etc/passwd\n\n.. raw:: html\n\n   <b>i</b>\n\nJ\n-\n\nk undefined_\n"
    )
    made = row("n.rst", text)["text"]
    known = ("# A\n", "`c`", "`d`", "*f*", "## J", "h = 1")
    for piece in (
        *known,
        "versionadded:: 1",
        "G",
        "include:: /etc/passwd",
        "<b>i</b>",
        "undefined_",
    ):
        assert piece in made
    assert "root:" not in made and "System Message" not in made


def test_text_that_is_very_deep_in_a_page_stays():
    made = row("n.html", "<p>shown</p>" + "<div>" * 20_000 + "deep")
    assert made["text"] == "shown\n\ndeep\n" and made["defects"] == []


@pytest.mark.parametrize(
    ("text", "title", "expected"),
    [
        ("# One\n\n# Two\n\nof a book\n", "Book", "Book"),
        ("# One\n\nof a book\n", "Book", "Book"),
        ("# One\n", "Logo", "One"),
        ("# Name\n\n# Two\n", None, "a"),
        ("ab\n\n## Slide\n", None, "a"),
        ("## NAME\n\n## Two\n", None, "a"),
        ("## Slide\n", None, "Slide"),
        ("# One\n\n# Two\n", None, "One"),
    ],
)
def test_a_converted_file_has_title_times_and_pages(text: str, title: str | None, expected: str):
    converted = Converted(
        text, ["x"], title, [0, 3], created="2024-05-06T07:08:09+02:00", modified="no time"
    )
    made = read_documents(
        [RawFile("a.pdf", b"", converted=converted)],
        source="s",
        partition="u",
        settings=DocumentSettings(),
    )
    (row,) = made.documents.to_pylist()
    assert (row["title"], row["text"], row["page_starts"], row["format"]) == (
        expected,
        text,
        [0, 3],
        "pdf",
    )
    assert (
        row["created_at"] == datetime(2024, 5, 6, 5, 8, 9, tzinfo=UTC)
        and row["modified_at"] is None
    )
    assert row["defects"] == ["x", "time_unreadable: modified"]
