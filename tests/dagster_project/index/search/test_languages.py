"""`language:` and the words that queries in the language of an archive leave out."""

import pytest

from dagster_project.config.settings import Settings
from dagster_project.index.search.search_index import SearchIndex
from tests.archives import Mail, Workspace
from tests.dagster_project.index.search.test_filters import opened
from transforms.errors import QueryError
from transforms.languages import function_words

GERMAN = "Warum ist das Netz so langsam, und kann man es auch ohne einen neuen Router schneller machen?"
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
    assert [found(index, q) for q in ("language:de", "language:german router", "-language:en", "language:fr")] == [
        {"m2"}, {"m2"}, {"m2", "m3"}, set(),
    ]  # fmt: skip
    with pytest.raises(QueryError, match="language: takes english, german"):
        found(index, "language:klingon")
    workspace.write("dev.2004-01.mbox", [*mails[:1], *mails[2:], Mail(5, GERMAN.upper())])
    workspace.build()
    assert found(opened(workspace), "language:de") == {"m5"}


@pytest.mark.parametrize("stemmer", ["german", "none", "english", "tamil"])
def test_queries_leave_out_the_words_of_the_language_whose_stemmer_is_set(stemmer: str):
    settings = Settings(sources=(), terms={"stemmer": stemmer})
    assert settings.search.stopwords == (function_words(stemmer) or function_words("english"))
    own = Settings(sources=(), terms={"stemmer": stemmer}, search={"stopwords": ["foo"]})
    assert own.search.stopwords == ("foo",)
