"""A label is about the query: it is the same in all programs, however many hits they show."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from dagster_project.index.search.explain import explanation
from dagster_project.index.search.opened_index import PublishedSearcher, open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.servers import answers
from dagster_project.servers.readings import reader_of
from tests.archives import Workspace
from transforms.retrieval.search_filters import Filters
from transforms.settings.search import SearchOptions

QUERIES = {
    "compactor": "PASS",
    "how the compactor was measured": "PASS",
    "where do the herons nest?": "PASS",
    "who agrees with all of it": "PASS",
    "herons zebras unicorns": "WEAK",
    "the weather in Lisbon": "NO_RESULTS",
    "xqzt wvvb kkpl": "NO_RESULTS",
}
LIMITS = (1, 3, 10, 50)


@pytest.fixture(scope="module")
def index(library: Workspace) -> Iterator[SearchIndex]:
    with closing(open_index(library.settings)) as index:
        yield index


@pytest.mark.parametrize(("query", "label"), QUERIES.items())
def test_a_label_is_the_same_at_each_limit_in_each_program(
    library: Workspace, index: SearchIndex, query: str, label: str
):
    searcher, options = PublishedSearcher(library.settings), SearchOptions()
    question = {
        **options.model_dump(),
        "queries": [query],
        "turns": [],
        "plain": False,
    }
    labels = set()
    for limit in LIMITS:
        result = index.search([query], limit=limit)
        asked = reader_of("search")(library.settings, index, question | {"limit": limit})
        labels |= {
            *result.labels,
            answers.hits(index, result).answer.label,
            explanation(index, query, limit=limit).label,
            asked["queries"][0]["label"],
            *searcher.search([query], Filters(), limit, options).labels,
        }
    assert labels == {label}


def test_a_longer_list_begins_with_the_shorter_one(index: SearchIndex):
    columns = ("query", "rank", "chunk_no")
    limits = (*LIMITS, 20, 80, 100)
    ranked = {n: index.ranked([*QUERIES], limit=n).hits.select(columns) for n in limits}
    longest = ranked[100]
    for limit, hits in ranked.items():
        assert hits.rows() == longest.filter(longest["rank"] <= limit).rows()
