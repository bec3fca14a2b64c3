"""Patch series as they are read: versions, what replies gave to a part, and a diff of two diffs."""

import duckdb
import pytest

from dagster_project.extras.web.patches import patch_difference, series_page, versions
from dagster_project.index.search.lookup import Ask, asking
from transforms.errors import UnknownIdError

HUNK = "diff --git a/x b/x\nindex {}..99\n--- a/x\n+++ b/x\n@@ -{} +1 @@\n-old\n+{}\n"
GAVE = "> Acked-by: Old <o@x>\nReviewed-by: Ada <a@x>\nReviewed-by: Ada <a@x>\n"


@pytest.fixture
def ask() -> Ask:
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
    bodies = {"a1": HUNK.format(1, 1, "new"), "a2": "", "r": GAVE, "b1": HUNK.format(2, 7, "newer"), "b2": ""}
    for name, body in bodies.items():
        db.execute("INSERT INTO messages VALUES ($1, 'of ' || $1, now(), NULL, 'x', $2)", [name, body])
    return asking(db)


def test_a_series_has_its_versions_and_each_part_what_replies_gave_it(ask: Ask):
    series = series_page(ask, "r")
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


def test_two_patches_differ_in_what_they_say_and_not_in_numbers(ask: Ask):
    found = patch_difference(ask, "a1", "b1")
    assert [line for line in found.lines if line[0] in "ar" and line[0]] == [("r", "-+new"), ("a", "++newer")]
    assert patch_difference(ask, "a1", "a1").note == "both say the same"
