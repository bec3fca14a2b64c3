"""What diffs change: unified, context and plain ones."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from transforms.text.diffs import binary_ranges, diff_columns, file_starts


def columns_of(diff: str, file: str = "", hunk: str = "") -> dict[str, Any]:
    frame = pl.DataFrame({"diff": [diff], "file": [file], "hunk": [hunk]})
    return diff_columns(frame).row(0, named=True)


GIT = """diff --git a/src/old.c b/src/new.c
similarity index 90%
rename from src/old.c
rename to src/new.c
--- a/src/old.c
+++ b/src/new.c
@@ -1,3 +1,3 @@ int main(void)
 same
--- a comment of SQL that goes
 same
+++ counter;
"""
CONTEXT = """*** src/a.c.orig	Tue Jul  4 23:02:01 2000
--- src/a.c	Tue Jul  4 23:35:21 2000
*************** f(int x)
*** 1,4 ****
  same
! old
- gone
--- 1,4 ----
  same
! new
+ more
"""
PLAIN = "12c12,13\n< old\n---\n> new\n> more\n"


@pytest.mark.parametrize(
    ("diff", "files", "functions", "added", "removed"),
    [
        (
            GIT,
            ["src/new.c", "src/old.c"],
            ["int main(void)"],
            "++ counter;",
            "-- a comment of SQL that goes",
        ),
        (CONTEXT, ["src/a.c"], ["f(int x)"], " new\n more", " old\n gone"),
        (PLAIN, [], [], "> new\n> more".replace("> ", " "), " old"),
        ("Index: a/b.c\n=====\n@@ -1 +1 @@\n-x\n+y\n", ["a/b.c"], [], "y", "x"),
        ("--- old.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", [], [], "", "x"),
        ("no diff at all\n", [], [], "", ""),
    ],
    ids=["git", "context", "plain", "index", "deleted", "none"],
)
def test_files_functions_and_lines(
    diff: str, files: list[str], functions: list[str], added: str, removed: str
) -> None:
    columns = columns_of(diff)
    assert (columns["diff_files"], columns["diff_functions"]) == (files, functions)
    assert (columns["added_lex"], columns["removed_lex"]) == (added, removed)
    counts = (columns["lines_added"], columns["lines_removed"])
    assert counts == tuple(len(t.split("\n")) if t else 0 for t in (added, removed))


def test_a_piece_inside_a_file_and_hunk_knows_both() -> None:
    columns = columns_of("+x\n", "src/a.c", "@@ -1,2 +1,3 @@ static int f(void)")
    assert (columns["diff_files"], columns["diff_functions"]) == (
        ["src/a.c"],
        ["static int f(void)"],
    )


LINES = st.sampled_from(
    GIT.splitlines() + CONTEXT.splitlines() + PLAIN.splitlines() + ["", "-", "+", "++", "--"]
)


@given(st.lists(LINES, max_size=30))
@examples(100)
def test_every_word_is_added_removed_or_stays(lines: list[str]) -> None:
    diff = "\n".join(lines)
    columns = columns_of(diff)
    words = [w for part in ("added_lex", "removed_lex", "rest") for w in columns[part].split()]
    assert sorted(w.strip("+-<>!") for w in words if w.strip("+-<>!")) == sorted(
        w.strip("+-<>!") for w in diff.split() if w.strip("+-<>!")
    )


@given(st.lists(LINES, max_size=30))
@examples(50)
def test_starts_of_files_rise_and_lie_at_lines(lines: list[str]) -> None:
    diff = "\n".join(lines)
    starts = file_starts(diff, 0, len(diff))
    assert starts == sorted(set(starts))
    assert all(at == 0 or diff[at - 1] == "\n" for at in starts)


@pytest.mark.parametrize(
    "text", ["begin the day with tea\nand end\nit\n", "GIT binary patch is what I meant\n", "end\n"]
)
def test_prose_is_no_binary(text: str) -> None:
    assert binary_ranges(text) == []
