"""Queries drafted from titles, links and answered questions."""

from datetime import datetime

import polars as pl
import pytest

from transforms.evaluation.ground_truth import (
    NOTE,
    as_yaml,
    draft_queries,
    parse_ground_truth,
    plain_subject,
)


@pytest.mark.parametrize(
    ("subject", "plain"),
    [
        ("Re: [HACKERS] Re: index bloat after crash", "index bloat after crash"),
        ("[PATCH v3 2/7] Aw: fix the cache", "fix the cache"),
        ("AW[2]: lock order", "lock order"),
        ("Regression in sort", "Regression in sort"),
        ("re:", ""),
    ],
)
def test_subjects_without_marks(subject: str, plain: str):
    assert plain_subject(subject) == plain


MAILS = [
    (
        "m1",
        "T1",
        None,
        "Compactor eats all memory",
        "ann",
        "Hello. Why does the compactor take all memory at night? Ann",
        1,
    ),
    ("m2", "T1", "m1", "Re: Compactor eats all memory", "bob", "Set the limit.", 2),
    ("m3", "T1", "m2", "Re: Compactor eats all memory", "ann", "Thanks, that worked.", 3),
    ("m4", "T1", "m1", "Re: Compactor eats all memory", "cid", "No idea.", 4),
    ("m5", "T2", None, "Release", "bob", "It is out. Can anybody of you test it on a board?", 5),
    ("m6", "T2", "m5", "Re: Release", "bob", "I did.", 6),
    ("m7", "T2", "m6", "Re: Release", "bob", "Thanks to me.", 7),
]
NODES = [
    ("d:a.md", "Guide to the whole thing", 0),
    ("d:a.md#x", "Recover a torn log", 1),
    ("d:a.md#y", "Short", 1),
    ("d:a.md#z", "Said in two places", 1),
    ("d:b.md#z", "said in two places", 2),
]
LINKS = [
    ("m9", "m1", "fixes", "", "[PATCH] keep the limit in mind"),
    ("m9", "m2", "quoted", "", "[PATCH] keep the limit in mind"),
    ("m9", None, "link", "", "[PATCH] keep the limit in mind"),
    ("d:a.md", "d:a.md#x", "markdown", "how to recover a log", None),
    ("d:a.md", "d:b.md", "wiki", "b", None),
]


def draft(count: int = 10):
    mails = pl.DataFrame(
        [(*row[:6], datetime(2025, 1, row[6])) for row in MAILS],
        schema=[
            "message_id",
            "thread_id",
            "parent_id",
            "subject",
            "from_addr",
            "text",
            "effective_at",
        ],
        orient="row",
    )
    nodes = pl.DataFrame(NODES, schema=["node_id", "title", "depth"], orient="row")
    links = pl.DataFrame(
        LINKS, schema=["from_id", "to_id", "kind", "text", "from_subject"], orient="row"
    )
    return draft_queries(mails, nodes, links, count, "draft")


def test_each_kind_is_drafted_and_marked():
    truth = draft()
    targets = {r["query_id"]: (r["form"], r["target"]) for r in truth.relevance.to_pylist()}
    rows = truth.queries.to_pylist()
    assert {(q["tags"][0], q["query"], *targets[q["query_id"]]) for q in rows} == {
        ("subject", "Compactor eats all memory", "thread", "m1"),
        ("heading", "Recover a torn log", "node", "d:a.md#x"),
        ("link", "keep the limit in mind", "message", "m1"),
        ("link", "how to recover a log", "node", "d:a.md#x"),
        ("answered", "Why does the compactor take all memory at night?", "message", "m2"),
    }
    assert all(q["is_draft"] for q in rows)


def test_a_draft_is_ground_truth():
    truth = draft()
    again = parse_ground_truth(as_yaml(truth, NOTE), "draft")
    assert again.queries.to_pylist() == truth.queries.to_pylist()


def test_a_small_draft_is_part_of_a_larger_one():
    few, many = (set(draft(n).queries.column("query_id").to_pylist()) for n in (1, 10))
    assert few < many
    assert len(few) == 4
