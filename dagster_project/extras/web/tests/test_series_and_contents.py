"""Patch series as they are read, and the table of contents of a source of documents: its own, or by
folder and path.
"""

import duckdb
import pytest

from dagster_project.extras.web.contents import nav_lines, order_of_reading
from dagster_project.extras.web.patches import patch_difference, series_page, versions
from dagster_project.index.search.lookup import asking
from transforms.errors import UnknownIdError

HUNK = "diff --git a/x b/x\nindex {}..99\n--- a/x\n+++ b/x\n@@ -{} +1 @@\n-old\n+{}\n"
GAVE = "> Acked-by: Old <o@x>\nReviewed-by: Ada <a@x>\nReviewed-by: Ada <a@x>\n"
BOOK = "# Book\n[hello](a.md)\n- [Two](g/two.md)\n  - [One](<g/one.md#x>)\n- [Draft]()\n- [Away](../x.md)\n"
MANUAL = "```\n.. toctree::\n   :glob:\n\n   z\n   how/index\n   https://x.example/\n   m*\n```\n"
HOW = "```{toctree}\n---\nmaxdepth: 1\n---\nNamed <b>\n/z\na\n/index\n```\n"
MKDOCS = "x: !!python/name:os.system\nnav:\n- d.md\n- Part:\n  - Named: p/z.md\n  - p/a.md\n  - gone.md\nz: *a\n"


def test_a_series_has_its_versions_what_replies_gave_and_what_two_patches_change():
    db = duckdb.connect()
    db.execute("""
        CREATE MACRO lake_text(body) AS body;
        CREATE TABLE patch_series(message_id TEXT, series_id TEXT, posting_id TEXT, patch_id TEXT, version INT, part INT,
          is_reply BOOL, is_latest BOOL, is_cover BOOL);
        INSERT INTO patch_series VALUES ('a1', 's', 'a', 'a1', 1, 1, false, false, false),
          ('a2', 's', 'a', 'a2', 1, 2, false, false, false), ('r', 's', 'a', 'a1', 1, 1, true, false, false),
          ('b1', 's', 'b', 'b1', 2, 1, false, true, false), ('b2', 's', 'b', 'b2', 2, 2, false, true, false);
        CREATE TABLE messages(message_id TEXT, subject TEXT, effective_at TIMESTAMP, from_name TEXT, from_addr TEXT,
          body TEXT);
        CREATE TABLE thread_tree(message_id TEXT, thread_id TEXT);
        CREATE VIEW stored_messages AS FROM messages""")
    bodies = {
        "a1": HUNK.format(1, 1, "new"),
        "a2": "",
        "r": GAVE,
        "b1": HUNK.format(2, 7, "newer"),
        "b2": "",
    }
    for name, body in bodies.items():
        db.execute(
            "INSERT INTO messages VALUES ($1, 'of ' || $1, now(), NULL, 'x', $2)", [name, body]
        )
    series = series_page(ask := asking(db), "r")
    assert (series.id, series.title) == ("s", "of b1")
    shown = [
        (posting.version, [(p.row["message_id"], p.trailers, p.replies) for p in posting.patches])
        for posting in series.postings
    ]
    given = [("Reviewed-by", "Ada")]
    assert shown == [(1, [("a1", given, 1), ("a2", [], 0)]), (2, [("b1", [], 0), ("b2", [], 0)])]
    row = {"series_id": "s", "part": 2, "is_cover": False, "patch_id": "b2"}
    parts = [(r["message_id"], r["is_this"], r["before"]) for r in versions(ask, row)]
    assert parts == [("a2", False, None), ("b2", True, "a2")]
    with pytest.raises(UnknownIdError):
        series_page(ask, "none")
    found = patch_difference(ask, "a1", "b1")
    assert [line for line in found.lines if line[0] in "ar" and line[0]] == [
        ("r", "-+new"),
        ("a", "++newer"),
    ]
    assert patch_difference(ask, "a1", "a1").note == "both say the same"


@pytest.mark.parametrize(
    ("texts", "mkdocs", "expected"),
    [
        (
            {"SUMMARY.md": BOOK, "a.md": "", "rest.md": "", "g/one.md": "", "g/two.md": ""},
            "",
            [
                "0 Book",
                "0 A.MD",
                "1 G/TWO.MD",
                "2 G/ONE.MD",
                "1 Draft",
                "0 REST.MD",
                "0 SUMMARY.MD",
            ],
        ),
        (
            {
                "index.rst": MANUAL,
                "how/index.md": HOW,
                "z.rst": "",
                "m.rst": "",
                "how/a.rst": "",
                "how/b.rst": "",
            },
            "",
            ["0 INDEX.RST", "1 Z.RST", "1 HOW/INDEX.MD", "2 HOW/B.RST", "2 HOW/A.RST", "1 M.RST"],
        ),
        (
            {"docs/d.md": "", "docs/p/a.md": "", "docs/p/z.md": ""},
            MKDOCS,
            ["0 DOCS/D.MD", "0 Part", "1 DOCS/P/Z.MD", "1 DOCS/P/A.MD"],
        ),
        (
            {"b.md": "", "s/a.md": "", "s/README.md": ""},
            "",
            ["0 B.MD", "0 s", "1 S/README.MD", "1 S/A.MD"],
        ),
    ],
)
def test_documents_are_in_the_order_of_reading(
    texts: dict[str, str], mkdocs: str, expected: list[str]
):
    db = duckdb.connect().execute(
        "CREATE TABLE documents(doc_id TEXT, source TEXT, title TEXT, path TEXT, text TEXT)"
    )
    for path, text in texts.items():
        db.execute("INSERT INTO documents VALUES ($1, 's', upper($1), $1, $2)", [path, text])
    entries = order_of_reading(asking(db), "s", nav_lines(mkdocs))
    assert [f"{depth} {title}" for depth, title, _ in entries] == expected
