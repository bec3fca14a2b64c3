"""Gates, hits that one hit stands for, diversity, and the whole list of stages."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.hit_tables import hits_of, with_facts
from transforms.retrieval import collapse, cutoffs, pipeline
from transforms.retrieval.diversity import diversified, marginal_order
from transforms.retrieval.hits import Patches, Step
from transforms.settings.search import BUILT_IN_PROFILES, SearchSettings


def chunks(step: Step | pipeline.StageResult) -> list[int]:
    return step.hits.get_column("chunk_no").to_list()


def stages(settings: SearchSettings) -> list[pipeline.SearchStage]:
    return [*pipeline.pooling(settings), *pipeline.scaling(settings), *pipeline.finishing(settings)]


def into(step: Step) -> dict[int, int | None]:
    return dict(step.dropped.select("chunk_no", "into").iter_rows())


def test_what_words_found_passes_the_gate_of_similarity():
    hits = hits_of(
        {0: [4, 3, 2, 1]}, vector_score=[0.5, 0.2, 0.2, 0.3], lexical_rank=[None, None, 1, 2]
    )
    step = cutoffs.near_enough(hits, "vector_score", 0.3)
    assert chunks(step) == [0, 2, 3]
    assert step.dropped.get_column("reason")[0] == "cosine 0.2 is below 0.3"


def test_of_a_patch_the_latest_posting_takes_the_highest_place():
    postings = [
        {"revision": 1, "version": 1, "is_latest": False},
        {},
        {"revision": 2, "version": 1, "is_latest": True},
        {"revision": 1, "version": 3, "is_latest": True},
        {"revision": 1, "version": 2, "is_latest": False},
    ]
    step = collapse.latest_first(
        with_facts(hits_of({0: [5, 4, 3, 2, 1]}), origins=postings), SearchSettings()
    )
    assert (chunks(step), step.hits["score"].to_list()) == ([3, 1, 2, 4, 0], [5, 4, 3, 2, 1])


def test_documents_keep_their_best_hits_and_threads_one():
    hits = hits_of({0: [5, 4, 3, 2]}, documents=[0, 0, 0, 1], threads=[7, 7, 7, 7])
    step = collapse.best_of_documents(hits, SearchSettings(per_document=2))
    assert (chunks(step), into(step)) == ([0, 1, 3], {2: 0})
    hits = hits.with_columns(is_mail=pl.col("chunk_no") < 2)
    step = collapse.best_of_documents(hits, SearchSettings())
    assert (chunks(step), into(step)) == ([0, 2, 3], {1: 0})
    step = collapse.best_of_threads(hits, SearchSettings())
    assert (chunks(step), into(step)) == ([0], {1: 0, 2: 0, 3: 0})


@pytest.mark.parametrize(
    ("numbers", "versions", "latest", "as_ranked", "kept", "gone"),
    [
        # The latest version takes the place of the best one.
        ([1, 2, 1], [1, 1, 3], [2], [], [2, 1], {0: 2}),
        # Without the latest it is the highest version; texts that are no patch are nobody's version.
        ([1, -1, 1, -1], [1, 0, 2, 0], [], [], [2, 1, 3], {0: 2}),
        # A query for a version keeps the best.
        ([1, 2, 1], [1, 1, 3], [2], [0], [0, 1], {2: 0}),
        ([-1, -1, -1], [0, 0, 0], [], [], [0, 1, 2], {}),
    ],
)
def test_a_patch_is_shown_in_one_version(
    numbers: list[int],
    versions: list[int],
    latest: list[int],
    as_ranked: list[int],
    kept: list[int],
    gone: dict[int, int],
):
    hits = hits_of({0: [4, 3, 2, 1][: len(numbers)]})
    is_latest = np.isin(np.arange(len(numbers)), latest)
    patches = Patches(np.array(numbers), np.array(versions), is_latest)
    step = collapse.versions_once(hits, patches, as_ranked)
    assert (chunks(step), into(step)) == (kept, gone)
    places = [min([n, *(m for m, to in gone.items() if to == n)]) for n in kept]
    assert step.hits.get_column("score").to_list() == [4.0 - place for place in places]
    relation = {2: "a later version"} if as_ranked else {0: "an earlier version"}
    for chunk, reason in step.dropped.select("chunk_no", "reason").iter_rows():
        assert reason == relation[chunk]


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(-1, 2), st.integers(1, 4)), max_size=12))
def test_hits_that_fold_into_none_keep_their_order(rows: list[tuple[int, int, int]]):
    scores = {query: [9.0 - n for n, row in enumerate(rows) if row[0] == query] for query in (0, 1)}
    hits = hits_of({query: values for query, values in scores.items() if values})
    number, version = (np.array([row[n] for row in rows], dtype=np.int64) for n in (1, 2))
    patches = Patches(number, version, np.zeros(len(rows), dtype=bool))
    step = collapse.versions_once(hits, patches, [])
    keys = hits.select("query", "chunk_no").rows()
    alone = [
        key
        for key in keys
        if sum(number[key[1]] == number[n] and q == key[0] for q, n in keys) == 1
    ]
    kept = step.hits.select("query", "chunk_no").rows()
    assert [key for key in kept if key in set(alone)] == alone
    gone = {(q, n) for q, n in step.dropped.select("query", "chunk_no").iter_rows()}
    assert sorted([*kept, *gone]) == sorted(keys)
    assert {(q, n) for q, n in step.dropped.select("query", "into").iter_rows()} <= {*kept}


ALIKE = np.array([[1, 0], [1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)


@pytest.mark.parametrize(
    ("diversity", "order"), [(0.0, [0, 1, 2, 3]), (0.5, [0, 2, 1, 3]), (1.0, [0, 2, 3, 1])]
)
def test_the_dial_goes_from_the_best_to_the_most_unlike(diversity: float, order: list[int]):
    assert marginal_order(np.array([1, 0.9, 0.5, 0.2]), ALIKE, diversity) == order


@examples(50)
@given(st.lists(st.floats(-5, 1e6), min_size=1, max_size=4), st.floats(0, 1))
def test_relevance_is_laid_over_the_scale_of_likeness_whatever_scores_are(
    scores: list[float], dial: float
):
    hits = with_facts(hits_of({0: scores}), vectors=ALIKE)
    step = diversified(hits, SearchSettings(diversity=dial))
    assert sorted(chunks(step)) == sorted(hits.get_column("chunk_no").to_list())
    assert chunks(step)[0] == chunks(Step(hits, hits))[0] or dial == 1


def test_scores_of_a_source_are_divided_by_its_best():
    hits = with_facts(hits_of({0: [8, 6, 2]}), source_of={0: "mail", 1: "mail", 2: "notes"})
    step = pipeline.by_source(hits, SearchSettings())
    assert step.hits.select("chunk_no", "score").rows() == [(0, 1.0), (2, 1.0), (1, 0.75)]


def test_a_hit_stands_for_all_that_went_into_it_by_several_steps():
    first = pl.DataFrame(
        {"query": [0, 0], "chunk_no": [3, 4], "reason": ["same", "weak"], "into": [2, None]}
    )
    then = pl.DataFrame({"query": [0], "chunk_no": [2], "reason": ["thread"], "into": [1]})
    types = {"query": pl.Int32, "chunk_no": pl.Int64, "into": pl.Int64}
    held = pipeline.merged(hits_of({0: [2, 1]}), [first.cast(types), then.cast(types)])
    assert held.select("chunk_no", "into", "reason").rows() == [(2, 1, "thread"), (3, 1, "same")]


@pytest.mark.parametrize(
    "changed", [*BUILT_IN_PROFILES.values(), {"collapse_threads": True, "diversity": 0.3}]
)
def test_every_stage_has_its_place_in_the_declared_order(changed: dict[str, Any]):
    names = [stage.name for stage in stages(SearchSettings.model_validate(changed))]
    places = [pipeline.STAGES.index(name) for name in names]
    if changed.get("aggregation", "off") == "off":
        assert places == sorted(places)
    assert (names[-1], len(set(names))) == ("final", len(names))


@examples(60)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), st.integers(0, 2)), max_size=20),
    st.sampled_from(
        [
            {},
            {"cutoff_ratio": 0.5},
            {"collapse_threads": True, "diversity": 0.5},
            {"aggregation": "before_elbow", "cutoff_ratio": 0.5},
        ]
    ),
)
def test_every_candidate_is_a_hit_or_was_dropped_once_with_a_reason(
    rows: list[tuple[int, int, int]], changed: dict[str, Any]
):
    scores, documents, threads = ([row[i] for row in rows] for i in range(3))
    hits = hits_of({0: scores}, documents, threads).drop_nulls("query")
    hits = with_facts(
        hits.select(pl.exclude("stands_for")),
        path_of={},
        vectors=np.tile(ALIKE, (5, 1)),
        origins=[{}] * len(rows),
        source_of=dict.fromkeys(range(len(rows)), "s"),
    )
    chosen = SearchSettings.model_validate({"rerank": "off", "limit": 5, **changed})
    told: list[tuple[str, list[int], list[int]]] = []

    def note(stage: str, found: pl.DataFrame, dropped: pl.DataFrame) -> None:
        assert dropped.get_column("reason").null_count() == 0
        told.append(
            (
                stage,
                found.get_column("chunk_no").to_list(),
                dropped.get_column("chunk_no").to_list(),
            )
        )

    made = pipeline.through(pipeline.started(hits, note), stages(chosen), chosen, note)
    assert [stage for stage, *_ in told] == [
        "lexical",
        "vector",
        "fused",
        *(s.name for s in stages(chosen)),
    ]
    gone = [chunk for *_, dropped in told for chunk in dropped]
    assert sorted([*chunks(made), *gone]) == list(range(len(rows)))
    assert len(made.hits) <= 5
