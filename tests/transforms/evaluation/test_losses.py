"""Right answers that a search did not return, and the stage that dropped each."""

import polars as pl

from transforms.evaluation.report import counts, losses

STAGES = ("lexical", "vector", "fused", "gated", "documents", "pool", "final")
# query, stage, rank, chunk, document, why the next stage dropped it
RUNS = [
    ("q1", "lexical", 1, "a/0", "a", None),
    ("q1", "vector", 1, "b/0", "b", None),
    ("q1", "fused", 1, "a/0", "a", None),
    ("q1", "fused", 2, "a/1", "a", "cosine 0.114 is below 0.3"),
    ("q1", "fused", 3, "b/0", "b", "cosine 0.201 is below 0.3"),
    ("q1", "fused", 4, "b/1", "b", "cosine 0.102 is below 0.3"),
    ("q1", "fused", 5, "c/0", "c", None),
    ("q1", "gated", 1, "a/0", "a", None),
    ("q1", "gated", 2, "c/0", "c", None),
    ("q1", "documents", 1, "a/0", "a", None),
    ("q1", "documents", 2, "c/0", "c", "behind the first 1"),
    ("q1", "pool", 1, "a/0", "a", None),
    ("q1", "final", 1, "a/0", "a", None),
    ("q2", "lexical", 1, "e/0", "e", None),
]


def lost(right: dict[str, str]) -> dict[tuple[str, str], tuple[str, str]]:
    runs = pl.DataFrame(
        [("p", *row) for row in RUNS],
        schema=["profile", "query_id", "stage", "rank", "chunk_id", "doc_id", "reason"],
        orient="row",
    )
    pairs = [(query, doc) for query, docs in right.items() for doc in docs]
    found = losses(
        runs, pl.DataFrame(pairs, schema=["query_id", "doc_id"], orient="row"), {"p": STAGES}
    )
    return {(query, doc): (stage, reason) for _, query, doc, stage, reason in found.iter_rows()}


def test_the_stage_that_dropped_the_last_chunk_of_a_right_answer_is_named_with_its_reason():
    assert lost({"q1": "abcd", "q2": "e"}) == {
        ("q1", "b"): ("gated", "cosine 0.201 is below 0.3"),
        ("q1", "c"): ("pool", "behind the first 1"),
        ("q1", "d"): ("fused", "no candidate"),
        ("q2", "e"): ("fused", "behind the first 400 chunks"),
    }


def test_reasons_are_counted_without_the_scores_of_single_hits():
    gone = pl.DataFrame(
        [
            ("p", "q1", "b", "gated", "cosine 0.201 is below 0.3"),
            ("p", "q1", "c", "gated", "cosine 0.102 is below 0.3"),
            ("p", "q1", "d", "pool", "behind the first 100"),
        ],
        schema=["profile", "query_id", "doc_id", "stage", "reason"],
        orient="row",
    )
    assert counts(gone, ["p", "lossless"]) == {
        "p": [
            {"stage": "gated", "reason": "cosine … is below …", "answers": 2},
            {"stage": "pool", "reason": "behind the first 100", "answers": 1},
        ],
        "lossless": [],
    }
