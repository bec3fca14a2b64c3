"""`language:` and the words that queries in the language of an archive leave out."""

from shutil import rmtree

import pytest
from pytest import approx

from dagster_project.config.settings import Settings
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Mail, Workspace
from tests.dagster_project.index.publish.test_macro_sql import bm25
from tests.dagster_project.index.search.test_filters import opened
from transforms.errors import QueryError
from transforms.languages import function_words

GERMAN = (
    "Warum ist das Netz so langsam, und kann man es auch ohne einen neuen Router schneller machen?"
)
ENGLISH = "Why is the network slow, and can it be made faster without a router that is new?"


def found(index: SearchIndex, query: str) -> set[str]:
    return {hit["doc_id"].partition("@")[0] for hit in index.search([query]).hits.to_pylist()}


def test_a_condition_finds_the_texts_of_a_language_after_every_build(workspace: Workspace):
    mails = [
        Mail(1, ENGLISH),
        Mail(2, GERMAN),
        Mail(3, "router"),
        Mail(4, f"{ENGLISH}\n\n> {GERMAN}\n\nThe same here."),
    ]
    workspace.write("dev.2004-01.mbox", mails)
    workspace.build()
    index = opened(workspace)
    assert [
        found(index, q)
        for q in ("language:de", "language:german router", "-language:en", "language:fr")
    ] == [
        {"m2"},
        {"m2"},
        {"m2", "m3"},
        set(),
    ]
    with pytest.raises(QueryError, match="language: takes english, german"):
        found(index, "language:klingon")
    workspace.write("dev.2004-01.mbox", [*mails[:1], *mails[2:], Mail(5, GERMAN.upper())])
    workspace.build()
    assert found(opened(workspace), "language:de") == {"m5"}


def test_texts_are_stemmed_by_their_languages_and_queries_by_all(workspace: Workspace):
    workspace.configure(terms={"stemmer": "english+german"})
    mails = [
        Mail(1, f"{ENGLISH} Connections of the running house."),
        Mail(2, f"{GERMAN} Alle Verbindungen der H\u00e4user.", "H\u00e4user"),
        Mail(3, "H\u00e4user"),
        Mail(4, f"{GERMAN} Das Haus ist running, run.", "Haus"),
        Mail(5, f"{GERMAN} Am Haus."),
    ]
    statements = (
        "SELECT term, df FROM terms",
        "FROM term_forms",
        "SELECT * EXCLUDE term_id FROM postings",
    )
    tables = []
    for some in (mails, mails[:4], None):
        if some:
            workspace.write("dev.2004-01.mbox", some)
        else:
            rmtree(workspace.index)
        workspace.build()
        index = opened(workspace)
        tables.append([sorted(index.connection.execute(s).fetchall()) for s in statements])
        for query in ("h\u00e4user", "running house", "die Verbindungen"):
            rows = (
                index.connection.execute("FROM search_text($q)", {"q": query})
                .to_arrow_table()
                .to_pylist()
            )
            scores = bm25(index, query)
            assert [row["chunk_id"] for row in rows] == [chunk for chunk, _ in scores]
            assert [row["score"] for row in rows] == approx(
                [score for _, score in scores], abs=1e-4
            )
    assert tables[1] == tables[2] != tables[0]
    queries = (
        "b:haus",
        "b:h\u00e4user",
        "connection b:connection",
        "b:Verbindung",
        "subject:hauses",
    )
    assert [found(index, q) for q in queries] == [
        {"m2", "m4"},
        {"m2", "m3", "m4"},
        {"m1"},
        {"m2"},
        {"m2", "m4"},
    ]
    assert index.postings.df("haus|h\u00e4user") == 3 and index.postings.df("run|running") == 2
    hits = index.search(["haus"]).hits.to_pylist()
    marked = {hit["doc_id"]: [hit["snippet"][a:b] for a, b in hit["highlights"]] for hit in hits}
    assert marked["m2@example.org"] == ["H\u00e4user"]


@pytest.mark.parametrize("stemmer", ["german", "none", "english", "tamil", "english+german"])
def test_queries_leave_out_the_words_of_the_language_whose_stemmer_is_set(stemmer: str):
    settings = Settings(sources=(), terms={"stemmer": stemmer})
    words = (
        word
        for name in stemmer.split("+")
        for word in function_words(name) or function_words("english")
    )
    assert settings.search.stopwords == tuple(dict.fromkeys(words))
    own = Settings(sources=(), terms={"stemmer": stemmer}, search={"stopwords": ["foo"]})
    assert own.search.stopwords == ("foo",)
