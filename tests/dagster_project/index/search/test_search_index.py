"""The two ways to search vectors agree, and a filtered search takes the exact one."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from dagster_project.index.files.arrays import FIRST, folder_of
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.sql import query_current
from dagster_project.models.embedders import make_embedder
from tests.archives import Workspace
from transforms.errors import IndexUnavailableError, QueryError
from transforms.retrieval.query_dates import time_span
from transforms.retrieval.search_filters import Filters

QUERIES = ["compactor load", "release schedule", "broken index after a crash"]


@pytest.fixture
def index(library: Workspace) -> SearchIndex:
    """An index whose vectors are searched by HNSW."""
    settings = library.settings
    path = (library.index / "CURRENT").resolve()
    return SearchIndex(path, make_embedder(settings.embedding), settings.terms, settings.search)


@pytest.fixture
def copied(built_once: Workspace, tmp_path: Path) -> SearchIndex:
    """A copy of a published version that a test may damage."""
    current = (built_once.index / "CURRENT").resolve()
    path = Path(shutil.copy(current, tmp_path))
    shutil.copytree(folder_of(current), folder_of(path))
    settings = built_once.settings
    return SearchIndex(path, make_embedder(settings.embedding), settings.terms, settings.search)


def test_hnsw_finds_what_the_exact_search_finds(index: SearchIndex):
    assert index.manifest["vector_search"] == "hnsw"
    index.settings = index.settings.model_copy(update={"vector_search": "ann"})
    near = index.search(QUERIES)
    index.settings = index.settings.model_copy(update={"vector_search": "exact"})
    exact = index.search(QUERIES)
    assert (near.vector_path, exact.vector_path) == ("hnsw", "exact")
    columns = ["query", "rank", "doc_id"]
    assert near.hits.select(columns).to_pylist() == exact.hits.select(columns).to_pylist()
    for a, b in zip(
        near.hits["vector_score"].to_pylist(), exact.hits["vector_score"].to_pylist(), strict=True
    ):
        assert a == pytest.approx(b, abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "unit"),
    [
        ({}, "doc_id"),
        ({"per_document": 1}, "doc_id"),
        ({"collapse_threads": True, "pool": 2}, "thread_id"),
    ],
)
def test_a_longer_list_looks_deeper(index: SearchIndex, changes: dict[str, int], unit: str):
    few = {"candidates_lexical": 2, "candidates_vector": 2, "thread_weight": 0.0}
    few_of_all = index.settings.model_copy(update=few | changes)
    found = index.search(["compactor"], Filters(kind="message"), limit=4, settings=few_of_all).hits
    assert len(set(found[unit].to_pylist())) == 4


@pytest.mark.parametrize(
    ("query", "weight"), [("compactor --fast", 1.0), ('"compactor" load', 1.0), ("compactor", 0.7)]
)
def test_a_query_with_symbols_or_a_phrase_has_a_weight_of_its_own(
    index: SearchIndex, query: str, weight: float
):
    def scores(**changes: float) -> list[tuple[str, float]]:
        settings = index.settings.model_copy(update={"rerank": "off"} | changes)
        hits = index.search([query], settings=settings).hits
        return [*zip(hits["chunk_id"].to_pylist(), hits["score"].to_pylist(), strict=True)]

    assert scores(lexical_weight_symbols=1.0) == scores(lexical_weight=weight)
    assert scores(lexical_weight=1.0) != scores(lexical_weight=0.7)


@pytest.mark.parametrize(("rest", "factor"), [("", 1.5), (" zebra unicorn aubergine", 1.0)])
def test_a_thread_gives_more_if_the_words_stand_together(
    index: SearchIndex, rest: str, factor: float
):
    unranked = index.settings.model_copy(update={"rerank": "off"})
    found = index.ranked(["compactor load" + rest], settings=unranked).hits
    assert found["thread_score"].max() == pytest.approx(factor * found["fused_score"].max())


@pytest.mark.exhaustive
def test_a_filtered_search_is_exact_and_keeps_to_the_filter(index: SearchIndex):
    index.settings = index.settings.model_copy(update={"vector_search": "ann"})
    result = index.search(QUERIES, Filters(list="dev", since=datetime(2000, 1, 1, tzinfo=UTC)))
    assert result.vector_path == "exact"
    assert set(result.hits["list_id"].to_pylist()) == {"dev"}


def test_above_the_limit_of_exact_search_the_signs_of_vectors_find_the_same(copied: SearchIndex):
    exact = copied.search(QUERIES)
    copied.settings = copied.settings.model_copy(update={"exact_max_chunks": 0})
    coded = copied.search(QUERIES)
    assert (exact.vector_path, coded.vector_path) == ("exact", "codes")
    assert coded.hits.column("chunk_id").to_pylist() == exact.hits.column("chunk_id").to_pylist()
    filtered = copied.search(QUERIES, Filters(list="dev"))
    assert filtered.vector_path == "codes"
    assert set(filtered.hits["list_id"].to_pylist()) == {"dev"}


@pytest.mark.exhaustive
def test_arrays_are_published_beside_the_file_and_made_again_where_they_are_missing(
    copied: SearchIndex,
):
    beside = folder_of(copied.path)
    assert beside.is_dir()
    hits = copied.search(QUERIES).hits
    written = {path.name: path.read_bytes() for path in beside.rglob("*.npy")}
    assert {"chunks.npy", "codes.npy", "counts.npy", "vectors.npy"} < written.keys()
    shutil.rmtree(beside)
    again = SearchIndex(copied.path, copied.embedder, copied.term_settings, copied.settings)
    assert again.search(QUERIES).hits.equals(hits)
    made = {path.name: path.read_bytes() for path in beside.rglob("*.npy")}
    assert made == written


def torn(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def refused(file: Path) -> None:
    file.unlink()
    file.mkdir()  # nobody can read a folder as a file, whatever their rights


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("hits.sqlite", torn, r"arrays is damaged .*`weft build` makes it again"),
        (f"{FIRST}/term_ends.npy", torn, r"arrays is damaged .*`weft build` makes it again"),
        (
            f"{FIRST}/starts.npy",
            Path.unlink,
            r"starts\.npy is missing.*`weft build` makes it again",
        ),
        (f"{FIRST}/starts.npy", refused, r"arrays cannot be read \(.*look at its rights"),
    ],
)
def test_arrays_that_cannot_be_read_are_named_with_the_way_out(
    copied: SearchIndex, name: str, harm: Callable[[Path], None], said: str
):
    harm(folder_of(copied.path) / name)
    again = SearchIndex(copied.path, copied.embedder, copied.term_settings, copied.settings)
    with pytest.raises(IndexUnavailableError, match=said):
        again.search(QUERIES)


def test_arrays_that_cannot_be_made_are_no_damaged_folder(copied: SearchIndex):
    shutil.rmtree(folder_of(copied.path))
    again = SearchIndex(copied.path, copied.embedder, copied.term_settings, copied.settings)
    again.manifest = {**again.manifest, "dimensions": "many"}
    with pytest.raises(IndexUnavailableError, match="cannot be made from it.*weft build") as fault:
        again.search(QUERIES)
    assert "delete" not in str(fault.value)


ASKED = {
    "search": lambda index: index.search(QUERIES),
    "ranked": lambda index: index.ranked(QUERIES),
    "rank_each": lambda index: index.rank_each(
        QUERIES, {"default": index.settings}, 5, lambda *told: None
    ),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_half_written_file_says_what_to_do(
    copied: SearchIndex, ask: Callable[[SearchIndex], object], tmp_path: Path
):
    copy = tmp_path / "weft-half.duckdb"
    data = copied.path.read_bytes()
    kept = len(data) // 8
    copy.write_bytes(data[:kept] + bytes(len(data) - 2 * kept) + data[-kept:])
    with pytest.raises(IndexUnavailableError, match="weft-half.*weft build"):
        ask(SearchIndex(copy, copied.embedder, copied.term_settings, copied.settings))


def test_an_index_in_a_folder_that_cannot_be_written_to_is_searched(copied: SearchIndex):
    hits = copied.search(QUERIES).hits
    beside = folder_of(copied.path)
    shutil.rmtree(beside)
    beside.write_text("in the way")
    again = SearchIndex(copied.path, copied.embedder, copied.term_settings, copied.settings)
    assert again.search(QUERIES).hits.equals(hits)


def test_a_batch_answers_like_single_queries(copied: SearchIndex):
    batch = copied.search(QUERIES).hits.to_pylist()
    for number, query in enumerate(QUERIES):
        alone = copied.search([query]).hits.to_pylist()
        assert [h["doc_id"] for h in alone] == [h["doc_id"] for h in batch if h["query"] == number]


def test_a_query_of_nothing_near_has_no_hits_and_says_what_was_meant(copied: SearchIndex):
    result = copied.search(["garbagx florbex"])
    assert (result.labels, result.hits.num_rows) == (("NO_RESULTS",), 0)
    assert result.understood[0].nearest and result.understood[0].meant == []
    far = copied.search(["compactr zyzzq quuxly plorbix vorpalin brillig"])
    assert (far.labels, far.understood[0].meant) == (("NO_RESULTS",), [])
    copied.settings = copied.settings.model_copy(update={"weak": True})
    shown = copied.search(["garbagx florbex"])
    assert (shown.labels, shown.understood[0].nearest) == (("NO_RESULTS",), None)
    assert shown.hits.num_rows


def test_a_word_that_may_have_been_meant_is_written_as_in_the_texts(copied: SearchIndex):
    for query, meant in (
        ("garbagx colector", ["garbage collector"]),
        ("shel garbagx colector", ["shell garbage collector"]),
        ("garbagx florbex", []),
    ):
        assert copied.search([query]).understood[0].meant == meant


def test_hits_that_hold_what_a_query_demands_are_results(copied: SearchIndex):
    far = {"label_pass": 3.0, "label_weak": 3.0}  # more than any hit has
    copied.settings = copied.settings.model_copy(update=far)
    queries = [
        '"the compactor"',
        'b:"the compactor" memory',
        "compactor",
        'compactor -"no such text"',
    ]
    assert copied.search(queries).labels == ("PASS", "PASS", "NO_RESULTS", "NO_RESULTS")


def test_a_query_that_names_nothing_is_no_answer(copied: SearchIndex):
    assert "PASS" not in copied.search(["the the of and", "to be or not", "0 1 2"]).labels


def test_an_empty_query_is_a_fault_that_says_so(copied: SearchIndex):
    for query in ("", " \n"):
        with pytest.raises(QueryError, match="the query is empty: name words"):
            copied.search([query])
    assert copied.search([""], Filters(since=datetime(1990, 1, 1, tzinfo=UTC))).hits.num_rows


@pytest.mark.exhaustive
def test_many_threads_ask_by_sql_at_once(built_once: Workspace):
    def ask(number: int) -> int:
        held = query_current(
            built_once.index, "SELECT count(*) + $n AS n FROM messages", {"n": number}
        )
        return int(held.column("n")[0].as_py())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(40))) == [21 + n for n in range(40)]


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("how the compactor was measured on 5 January 2004", "2004-01-05"),
        ("herons in December 2023", "2023-12"),
    ],
)
def test_the_day_that_a_question_names_lifts_its_hits(index: SearchIndex, query: str, day: str):
    lists: dict[str, pl.DataFrame] = {}
    index.ranked([query], report=lambda stage, hits, dropped: lists.update({stage: hits}))
    before = dict(lists["latest"].select("chunk_no", "score").iter_rows())
    risen = {
        n
        for n, score in lists["lifted"].select("chunk_no", "score").iter_rows()
        if score > before[n]
    }
    dated = index.conditions.values.dated(*(time_span(day) or (None, None)))
    kinds = {
        n: row["chunk_kind"]
        for n, row in index.arrays.rows.of({*dated.tolist()} & {*before}).items()
    }
    # As far as a text holds the other words.
    assert set() != risen <= {n for n, kind in kinds.items() if kind != "window_segment"}
    assert index.resolved([query])[0].understood.lifts == [f"d:{day}"]


def test_names_that_pseudonyms_replaced_do_not_hide_a_hit(index: SearchIndex):
    # So many names that the vector is not near to that of "Where do the herons nest?".
    names = "Adalbert Hildegund Irmingard Kunigunde Ottokar Siegmund Walburga Wilhelmina"
    others = ", ".join(f"{name}'s" for name in names.split())
    shown = f"did Bertrand, {others} herons nest"
    assert index.has_pseudonyms
    assert index.ranked([shown.lower(), shown]).labels == ("NO_RESULTS", "WEAK")


def test_words_in_quoted_history_alone_find_the_mail_and_show_the_quote(index: SearchIndex):
    result = index.search(["deeper", "deeper zebra unicorn aubergine", "compactor"])
    first = next(hit for hit in result.hits.to_pylist() if hit["query"] == 0)
    assert result.labels == ("PASS", "NO_RESULTS", "PASS")
    assert first["doc_id"] == "m500@example.org" and "deeper" in first["quoted_text"]
    assert index.ranked(["compactor", "deeper"]).history == {1}
