"""The views of the published file on a few mails, and search by meaning through `weft sql`."""

from functools import partial

import duckdb
import pytest

from dagster_project.index.files.arrays import _SQL
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.statements.sql import query_current
from dagster_project.models.embedders import make_embedder
from tests.archives import Mail, Once, Workspace

DIFF = "diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-old\n+new\n"
REVIEW = "> +new\nLooks right.\nReviewed-by: Ben Stone <ben@example.org>\nTested-by: Ben Stone <ben@example.org>\n"
ADA, BEN = "Ada Flint <ada@example.org>", "Ben Stone <ben@example.org>"
HOME = "Ada Flint <ada@home.example>"


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Workspace:
    """A patch in two versions, of which the second was reviewed, and a question that nobody
    answered.
    """
    work = Workspace(tmp_path_factory.mktemp("views") / "work").configure()
    work.write(
        "dev.2004-01.mbox",
        [
            Mail(0, DIFF, "[PATCH] x: turn the wheel", sender=ADA),
            Mail(1, "> +new\nWhy?", "Re: [PATCH] x: turn the wheel", reply_to=0, sender=BEN),
            Mail(5, f"{DIFF}\nmore\n", "[PATCH v2] x: turn the wheel", sender=ADA),
            Mail(
                9,
                REVIEW,
                "Re: [PATCH v2] x: turn the wheel",
                reply_to=5,
                sender=BEN,
                headers=[f"Cc: {ADA}, {HOME}"],
            ),
            Mail(20, "Does the compactor run at night?", "Compactor", sender=ADA),
            Mail(21, "Does it run? Anybody?", "Re: Compactor", reply_to=20, sender=HOME),
            Mail(
                22,
                "Your mail was built.",
                "Re: Compactor",
                reply_to=20,
                sender="bot <dev-bot@example.org>",
            ),
        ],
    )
    return once(work)


def rows(work: Workspace, statement: str) -> list[tuple]:
    return [
        tuple(row.values())
        for row in query_current(work.settings.root / "index", statement).to_pylist()
    ]


@pytest.mark.exhaustive
def test_views_answer_who_how_fast_and_what_is_open(made_once: Workspace):
    shown = "author, answers, reply_seconds / 3600, is_first, is_own, is_automatic"
    assert rows(made_once, f"SELECT {shown} FROM reply_times ORDER BY replied_at") == [
        ("Ben Stone", "Ada Flint", 1.0, True, False, False),
        ("Ben Stone", "Ada Flint", 4.0, True, False, False),
        ("Ada Flint", "Ada Flint", 1.0, False, True, False),
        ("bot", "Ada Flint", 2.0, False, False, True),
    ]
    shown = "t.subject, author, t.message_count, participant_count, is_unanswered"
    assert rows(
        made_once, f"SELECT {shown} FROM open_threads JOIN threads t USING (thread_id)"
    ) == [("Compactor", "Ada Flint", 3, 2, True)]
    people = "SELECT role, person_id, name FROM participants WHERE message_id = 'm9@example.org'"
    ada, ben = ("ada@example.org", "Ada Flint"), ("ben@example.org", "Ben Stone")
    assert sorted(rows(made_once, people)) == [
        *[("cc", *ada)] * 2,
        ("from", *ben),
        ("reviewed-by", *ben),
        ("tested-by", *ben),
    ]
    versions = (
        "SELECT * EXCLUDE (series_id, posting_id, posted_at) FROM series_versions ORDER BY ALL"
    )
    assert rows(made_once, versions) == [
        (1, "x: turn the wheel", "Ada Flint", 1, 1, False),
        (2, "x: turn the wheel", "Ada Flint", 1, 1, True),
    ]
    assert rows(
        made_once,
        "SELECT version, message_id, trailer, person FROM series_reviews ORDER BY trailer",
    ) == [
        (2, "m9@example.org", "reviewed-by", "Ben Stone"),
        (2, "m9@example.org", "tested-by", "Ben Stone"),
    ]


@pytest.mark.exhaustive
def test_an_answer_is_by_another_person_and_not_by_a_program(made_once: Workspace):
    index = open_index(made_once.settings)
    assert {hit["doc_id"] for hit in index.search(["is:unanswered"]).hits.to_pylist()} == {
        "m20@example.org"
    }
    names = dict(index.connection.execute("SELECT chunk_no, doc_id FROM chunks").fetchall())
    asks = {
        names[hit["chunk_no"]]: part["value"] < 0
        for hit in index.ranked(["Does the compactor run?"], limit=9).hits.to_dicts()
        for part in hit["rerank_parts"]
        if part["part"] == "asker"
    }
    assert (asks["m21@example.org"], asks["m22@example.org"]) == (True, False)


@pytest.mark.exhaustive
def test_meaning_is_searched_with_the_model_of_the_settings(made_once: Workspace):
    settings = made_once.settings
    embedder = partial(make_embedder, settings.embedding, settings.gemini, settings.safety)
    search = partial(query_current, settings.root / "index", embedder=embedder)
    found = search(
        "SELECT rank, doc_id, cosine FROM search_semantic('compactor at night', 2)"
    ).to_pylist()
    assert [row["rank"] for row in found] == [1, 2] and found[0]["doc_id"] == "m20@example.org"
    assert 1 >= found[0]["cosine"] > found[1]["cosine"]
    asked = search("FROM search_semantic($words, 1)", {"words": "compactor"})
    assert asked.num_rows == 1


@pytest.mark.exhaustive
def test_no_view_and_no_array_compares_each_row_with_each(made_once: Workspace):
    views = made_once.column("SELECT view_name FROM duckdb_views() WHERE NOT internal")
    assert views
    for query in [*(f"SELECT * FROM {view}" for view in views), _SQL("chunks")]:
        ((_, plan),) = made_once.sql(f"EXPLAIN {query}")
        assert not {"BLOCKWISE_NL_JOIN", "NESTED_LOOP_JOIN", "CROSS_PRODUCT"} & set(plan.split()), (
            query
        )


@pytest.mark.exhaustive
def test_meaning_is_not_searched_without_the_model_and_says_what_to_do(made_once: Workspace):
    with pytest.raises(duckdb.InvalidInputException, match="`weft sql`, or use similar"):
        duckdb.connect(f"{made_once.settings.root}/index/CURRENT", read_only=True).execute(
            "FROM search_semantic('x')"
        )
