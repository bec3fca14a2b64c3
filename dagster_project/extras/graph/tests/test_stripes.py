"""Every beginning of a stripe represents the document: baselines, similarities, the order itself."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_project.extras.graph.transforms.schema import CHUNK_SIMILARITIES, STRIPE_ORDERS
from dagster_project.extras.graph.transforms.settings import GraphSettings
from dagster_project.extras.graph.transforms.stripes import (
    chunk_similarities,
    stripe_factor,
    stripe_orders,
)


def similarities(near: Sequence[float], baseline: int = 0, doc_id: str = "s:a.md") -> pa.Table:
    """The table for one document whose chunks are as near to the baseline as given."""
    rows = [
        {
            "chunk_id": f"{doc_id}-{index}",
            "doc_id": doc_id,
            "chunk_index": index,
            "baseline": "conceptual",
            "baseline_index": baseline,
            "cosine": value,
            "jaccard": None,
            "similarity": value,
        }
        for index, value in enumerate(near)
    ]
    return CHUNK_SIMILARITIES.from_rows(rows)


def order(near: Sequence[float], baseline: int = 0) -> list[int]:
    rows = stripe_orders(similarities(near, baseline)).sort_by("place")
    return rows.column("chunk_index").to_pylist()


def falling(count: int) -> list[float]:
    """Similarities of chunks that are the less near the later they stand."""
    return [1 - index / 100 for index in range(count)]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (1, [0]),
        (2, [0, 1]),
        (7, [0, 1, 2, 3, 4, 5, 6]),
        (8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (9, [0, 1, 4, 7, 2, 5, 8, 3, 6]),
        (12, [0, 1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9]),
        (13, [0, 1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12]),
        (16, [0, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12]),
        (21, [0, *range(1, 21, 4), *range(2, 21, 4), *range(3, 21, 4), *range(4, 21, 4)]),
        (
            25,
            [
                0,
                *range(1, 25, 5),
                *range(2, 25, 5),
                *range(3, 25, 5),
                *range(4, 25, 5),
                *range(5, 25, 5),
            ],
        ),
    ],
)
def test_orders_of_the_published_graph(chunks: int, expected: list[int]):
    assert order(falling(chunks)) == expected


@pytest.mark.parametrize(
    ("beside", "factor"),
    [(0, 1), (6, 1), (7, 1), (8, 3), (11, 3), (12, 3), (13, 4), (15, 4), (20, 4), (24, 5)],
)
def test_factor(beside: int, factor: int):
    assert pl.select(stripe_factor(pl.lit(beside))).item() == factor


def test_chunks_are_ranked_by_similarity_and_ties_by_place():
    assert order([1, 0.2, 0.5, 0.5, 0.9]) == [0, 4, 2, 3, 1]


def test_a_baseline_in_the_middle_comes_first_though_another_chunk_is_as_near():
    assert order([1, 0.3, 1, 0.4], baseline=2) == [2, 0, 3, 1]


def stripe(orders: pa.Table, doc_id: str) -> list[str]:
    """The chunks of a document in the order of their places, which leave no gap."""
    rows = pl.DataFrame(orders).filter(doc_id=doc_id, baseline="conceptual").sort("place")
    assert rows["place"].to_list() == list(range(len(rows)))
    return rows["chunk_id"].to_list()


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=40), st.data())
def test_the_order_holds_every_chunk_once(near: list[float], data: st.DataObject):
    orders = stripe_orders(similarities(near, data.draw(st.integers(0, len(near) - 1))))
    assert sorted(stripe(orders, "s:a.md")) == sorted(f"s:a.md-{n}" for n in range(len(near)))


def test_documents_do_not_mix():
    both = pa.concat_tables([similarities(falling(9)), similarities(falling(3), doc_id="s:b.md")])
    orders = stripe_orders(both)
    assert stripe(orders, "s:b.md") == ["s:b.md-0", "s:b.md-1", "s:b.md-2"]
    assert stripe(orders, "s:a.md") == stripe(stripe_orders(similarities(falling(9))), "s:a.md")


def near(
    vectors: Sequence[Sequence[float]],
    code: Sequence[bool],
    headings: Sequence[str] = (),
    texts: Sequence[str] = (),
    **settings: Any,
) -> dict[str, list[dict[str, Any]]]:
    """The similarities of one document's chunks by baseline."""
    normal = np.array(vectors, dtype=np.float32)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    ids = [f"c{n}" for n in range(len(code))]
    chunks = pa.table(
        {
            "chunk_id": ids,
            "doc_id": ["s:a.md"] * len(ids),
            "chunk_index": range(len(ids)),
            "heading_path": pa.array(
                [[h] for h in headings] or [[]] * len(ids), pa.list_(pa.string())
            ),
            "text_display": pa.array(texts or [""] * len(ids), pa.large_string()),
            "vector": pa.array(list(normal), pa.list_(pa.float32(), normal.shape[1])),
        }
    )
    classes = pa.table({"chunk_id": ids, "is_code": pa.array(code, pa.bool_())})
    found: dict[str, list[dict[str, Any]]] = {}
    for row in chunk_similarities(chunks, classes, GraphSettings(**settings)).to_pylist():
        found.setdefault(row["baseline"], []).append(row)
    return found


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ([False, False, False], {"conceptual": 0}),
        ([True, False, True], {"conceptual": 1, "technical": 0}),
        ([False, False, True], {"conceptual": 0, "technical": 2}),
        ([True, True, True], {"conceptual": 0, "technical": 0}),
        ([False], {"conceptual": 0}),
    ],
)
def test_baselines_by_class(code: list[bool], expected: dict[str, int]):
    found = near([[1, n] for n in range(len(code))], code)
    assert {b: rows[0]["baseline_index"] for b, rows in found.items()} == expected
    assert all(len(rows) == len(code) for rows in found.values())


@pytest.mark.parametrize(
    ("headings", "technical"),
    [
        (["Overview", "Quick Reference", "More"], 1),
        (["Overview", "The API reference (v2)", "More"], 1),
        (["Overview", "More", "Quick Reference"], None),
        (["Quick Reference", "More", "Rest"], None),
    ],
)
def test_baselines_by_title_are_the_first_chunk_and_the_second(
    headings: list[str], technical: int | None
):
    found = near([[1, 0], [1, 1], [0, 1]], [True, False, False], headings, profile="text")
    assert found["conceptual"][0]["baseline_index"] == 0
    assert (found["technical"][0]["baseline_index"] if "technical" in found else None) == technical


def test_similarity_is_the_cosine():
    rows = near([[1, 0], [3, 4], [0, 1]], [False] * 3)["conceptual"]
    assert [(r["similarity"], r["jaccard"]) for r in rows] == [(1, None), (0.6, None), (0, None)]


def test_mixed_similarity_counts_shared_words():
    texts = ["Cats and DOGS", "dogs and birds", "", "cats, and dogs!"]
    rows = near([[1, 0], [3, 4], [0, 1], [1, 0]], [False] * 4, texts=texts, similarity="mixed")[
        "conceptual"
    ]
    assert [r["jaccard"] for r in rows] == [1, 0.5, 0, 1]
    assert [r["similarity"] for r in rows] == pytest.approx([1, 0.7 * 0.6 + 0.3 * 0.5, 0, 1])


def test_no_documents_make_empty_tables():
    made = stripe_orders(CHUNK_SIMILARITIES.empty())
    assert made.num_rows == 0
    assert made.schema.equals(STRIPE_ORDERS.arrow)
