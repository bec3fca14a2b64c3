"""Parts of a document to the section that holds enough of them."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import examples
from tests.hit_tables import hits_of, with_facts
from transforms.retrieval.aggregation import Match, SectionNode, aggregated, in_sections
from transforms.settings.search import SearchSettings

# doc with three chapters; a has two parts, b four, c one; a1 has two parts of its own.
TREE = {
    "doc": SectionNode(None, 0, 1),
    "a": SectionNode("doc", 1, 3),
    "b": SectionNode("doc", 1, 3),
    "c": SectionNode("doc", 1, 3),
    "a1": SectionNode("a", 2, 2),
    "a2": SectionNode("a", 2, 2),
    "b1": SectionNode("b", 2, 4),
    "b2": SectionNode("b", 2, 4),
    "b3": SectionNode("b", 2, 4),
    "b4": SectionNode("b", 2, 4),
    "c1": SectionNode("c", 2, 1),
    "a1x": SectionNode("a1", 3, 2),
    "a1y": SectionNode("a1", 3, 2),
}
SEED = SearchSettings(aggregation="after_elbow")
LATER = SearchSettings(aggregation="before_elbow")


def found(matches: dict[str, float], settings: SearchSettings = SEED) -> dict[str, float]:
    made = aggregated([Match(name, score) for name, score in matches.items()], TREE, settings)
    return {m.node_id: m.score for m in made}


@pytest.mark.parametrize(
    ("matches", "expected"),
    [
        ({}, {}),
        ({"b1": 3}, {"b1": 3}),  # a quarter of the parts
        ({"b1": 3, "b2": 2}, {"b": 3}),  # half of them, the threshold itself
        ({"b1": 3, "b2": 2, "b": 1}, {"b": 3}),  # the parent matched too
        ({"b1": 1, "b2": 2, "b": 5}, {"b": 5}),
        ({"c1": 2}, {"c": 2}),  # an only child; then one chapter of three
        ({"a1x": 4}, {"a": 4}),  # half of a1, half of a, a third of doc
        ({"a1x": 4, "b1": 3, "b2": 2}, {"doc": 4}),  # a and b: two chapters of three
        ({"b1": 3, "b": 2}, {"b": 3}),  # a match inside another match, too few for the threshold
        ({"b1": 3, "doc": 1}, {"doc": 3}),  # the same across depths
    ],
)
def test_parts_become_their_section_where_enough_of_them_match(
    matches: dict[str, float], expected: dict[str, float]
):
    assert found(matches) == expected


def test_the_later_order_wants_two_parts_and_adds_them_up():
    assert found({"c1": 2}, LATER) == {"c1": 2}
    assert found({"b1": 3, "b2": 4}, LATER) == {"b": 5}
    assert found({"b1": 3, "b2": 4, "b": 12}, LATER) == {"b": 13}
    assert found({"b1": 3}, SEED.model_copy(update={"aggregation_threshold": 0.25})) == {"doc": 3}


def test_a_section_names_what_it_stands_for():
    (match,) = aggregated([Match("a1x", 4), Match("b1", 3), Match("b2", 2)], TREE, SEED)
    assert [(m.node_id, m.score) for m in match.leaves()] == [("a1x", 4), ("b1", 3), ("b2", 2)]


def above(name: str) -> list[str]:
    parent = TREE[name].parent_id
    return [] if parent is None else [parent, *above(parent)]


@examples(60)
@given(
    st.dictionaries(st.sampled_from(sorted(TREE)), st.integers(1, 9)),
    st.randoms(use_true_random=False),
    st.sampled_from([SEED, LATER]),
)
def test_no_hit_stands_beside_its_ancestor_none_is_lost_and_the_order_of_matches_does_not_matter(
    matches: dict[str, int], random, chosen: SearchSettings
):
    listed = [Match(name, float(score)) for name, score in matches.items()]
    made = aggregated(listed, TREE, chosen)
    names = {m.node_id for m in made}
    assert all(not set(above(name)) & names for name in names)
    assert sorted(leaf.node_id for m in made for leaf in m.leaves()) == sorted(matches)
    assert [m.score for m in made] == sorted((m.score for m in made), reverse=True)
    if chosen is SEED:
        assert max(matches.values(), default=0) == max((m.score for m in made), default=0)
    else:
        total = sum(m.score**2 for m in made)
        assert math.isclose(total, sum(s**2 for s in matches.values()), rel_tol=1e-9)
    random.shuffle(listed)
    assert aggregated(listed, TREE, chosen) == made


def shown(scores: Sequence[float], nodes: dict[int, str]) -> tuple[list, list]:
    paths = {
        chunk: [{"node_id": name, **TREE[name]._asdict()} for name in (node, *above(node))]
        for chunk, node in nodes.items()
    }
    kept, dropped = in_sections(with_facts(hits_of({0: scores}), paths), SEED)
    return kept.select("chunk_no", "score", "stands_for").rows(), dropped.select(
        "chunk_no", "into", "reason"
    ).rows()


def test_hits_become_one_hit_by_the_best_chunk_and_others_stay():
    kept, dropped = shown([1, 5, 2, 3], {0: "b2", 1: "b1", 2: "c", 3: "a2"})
    assert kept == [(1, 5.0, "doc")]
    assert dropped == [(3, 1, "part of doc"), (2, 1, "part of doc"), (0, 1, "part of doc")]
    kept, dropped = shown([1, 5, 2, 4], {0: "b2", 1: "b1"})
    assert kept == [(1, 5.0, "b"), (3, 4.0, None), (2, 2.0, None)]
    assert dropped == [(0, 1, "part of b")]


def test_chunks_of_one_section_are_one_match():
    kept, dropped = shown([1, 5, 4], {0: "b1", 1: "b1"})
    assert (kept, dropped) == ([(1, 5.0, "b1"), (2, 4.0, None)], [(0, 1, "part of b1")])
