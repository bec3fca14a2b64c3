"""The table of contents of a source of documents: its own, or by folder and path."""

import duckdb
import pytest

from dagster_project.extras.web.contents import nav_lines, order_of_reading
from dagster_project.index.search.lookup import asking

BOOK = "# Book\n[hello](a.md)\n- [Two](g/two.md)\n  - [One](<g/one.md#x>)\n- [Draft]()\n- [Away](../x.md)\n"
MANUAL = "```\n.. toctree::\n   :glob:\n\n   z\n   how/index\n   https://x.example/\n   m*\n```\n"
HOW = "```{toctree}\n---\nmaxdepth: 1\n---\nNamed <b>\n/z\na\n/index\n```\n"
MKDOCS = (
    "x: !!python/name:os.system\nnav:\n- d.md\n- Part:\n  - Named: p/z.md\n  - p/a.md\n  - gone.md\nz: *a\n"
)


@pytest.mark.parametrize(
    ("texts", "mkdocs", "expected"),
    [
        ({"SUMMARY.md": BOOK, "a.md": "", "rest.md": "", "g/one.md": "", "g/two.md": ""}, "",
         ["0 Book", "0 A.MD", "1 G/TWO.MD", "2 G/ONE.MD", "1 Draft", "0 REST.MD", "0 SUMMARY.MD"]),
        ({"index.rst": MANUAL, "how/index.md": HOW, "z.rst": "", "m.rst": "", "how/a.rst": "", "how/b.rst": ""}, "",
         ["0 INDEX.RST", "1 Z.RST", "1 HOW/INDEX.MD", "2 HOW/B.RST", "2 HOW/A.RST", "1 M.RST"]),
        ({"docs/d.md": "", "docs/p/a.md": "", "docs/p/z.md": ""}, MKDOCS,
         ["0 DOCS/D.MD", "0 Part", "1 DOCS/P/Z.MD", "1 DOCS/P/A.MD"]),
        ({"b.md": "", "s/a.md": "", "s/README.md": ""}, "", ["0 B.MD", "0 s", "1 S/README.MD", "1 S/A.MD"]),
    ],
)  # fmt: skip
def test_documents_are_in_the_order_of_reading(texts: dict[str, str], mkdocs: str, expected: list[str]):
    db = duckdb.connect().execute(
        "CREATE TABLE documents(doc_id TEXT, source TEXT, title TEXT, path TEXT, text TEXT)"
    )
    for path, text in texts.items():
        db.execute("INSERT INTO documents VALUES ($1, 's', upper($1), $1, $2)", [path, text])
    entries = order_of_reading(asking(db), "s", nav_lines(mkdocs))
    assert [f"{depth} {title}" for depth, title, _ in entries] == expected
