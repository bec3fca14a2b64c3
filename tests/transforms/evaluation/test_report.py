"""Runs and judgements become a report that says what was found, how sure that is, and what got lost
where.
"""

import json

import polars as pl
import pytest

from transforms.evaluation import quality as quality_
from transforms.evaluation import report as evaluation
from transforms.evaluation.judgements import Contents, Judgements, judgements
from transforms.evaluation.quality import comparisons, document_quality, quality
from transforms.evaluation.report import Evaluation, report, retrieved_measures
from transforms.schemas.operations import EVALUATION_QUERIES, EVALUATION_RELEVANCE, EVALUATION_RUNS

QUERIES = 6


def chunk(doc: str, part: int = 0) -> str:
    return f"{doc}/{part}"


def listed(profile: str, query: int, stage: str, chunks: list[str]) -> list[dict]:
    return [
        {
            "profile": profile,
            "query_id": f"q{query}",
            "stage": stage,
            "rank": rank,
            "chunk_id": c,
            "doc_id": c.partition("/")[0],
            "thread_id": "t" + c[1],
            "score": 1 / rank,
            "similarity": 0.5 if stage == "final" else None,
            "label": "PASS" if stage == "final" else None,
            "reason": None,
        }
        for rank, c in enumerate(chunks, 1)
    ]


def contents(chunks: pl.DataFrame, texts: dict[str, str]) -> Contents:
    """Chunks of documents, some of them with their texts, in an index without mails, sections and
    chats.
    """
    mails, nodes = ["message_id", "thread_id"], ["node_id", "doc_id"]
    bounds = dict.fromkeys(("depth", "heading_start", "byte_end"), pl.Int64)
    return Contents(
        chunks,
        chunks.select("doc_id", "thread_id").unique(),
        pl.DataFrame(schema=dict.fromkeys(mails, pl.String)),
        pl.DataFrame(schema=dict.fromkeys(nodes, pl.String) | bounds),
        pl.DataFrame(
            list(texts.items()), schema=dict.fromkeys(("doc_id", "text"), pl.String), orient="row"
        ),
        pl.DataFrame(schema=dict.fromkeys(("chunk_id", "text"), pl.String)),
    )


def world() -> tuple[pl.DataFrame, Judgements, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Six queries; for each the documents d0 (grade 2) and d1 (grade 1) are right.

    Profile `good` has d0 first; `bad` loses d0 between the fused list and the final one.
    """
    queries = EVALUATION_QUERIES.from_rows(
        [
            {
                "query_id": f"q{n}",
                "query": f"text {n}",
                "tags": ["even" if n % 2 == 0 else "odd"],
                "file": "f",
                "is_draft": False,
            }
            for n in range(QUERIES)
        ]
    )
    relevance = EVALUATION_RELEVANCE.from_rows(
        [
            {
                "query_id": f"q{n}",
                "entry": d,
                "form": "document",
                "target": f"d{d}",
                "text": None,
                "grade": 2 - d,
                "topic": None,
            }
            for n in range(QUERIES)
            for d in range(2)
        ]
    )
    rows = []
    for n in range(QUERIES):
        rows += listed("good", n, "fused", ["d0/0", "d0/1", "d2/0", "d1/0"])
        rows += listed("good", n, "final", ["d0/0", "d2/0", "d1/0"])
        rows += listed("bad", n, "fused", ["d2/0", "d0/1", "d1/0"])
        rows += listed("bad", n, "final", ["d2/0", "d1/0"] if n else ["d0/0"])
    runs = pl.DataFrame(
        rows, schema_overrides={"similarity": pl.Float64, "label": pl.String, "reason": pl.String}
    )
    ids = [chunk(f"d{d}", part) for d in range(3) for part in range(2)]
    chunks = pl.DataFrame(
        [(i, i[:2], "t" + i[1], "document", 10 * int(i[3]), 10 * int(i[3]) + 10) for i in ids],
        schema=["chunk_id", "doc_id", "thread_id", "source_kind", "byte_start", "byte_end"],
        orient="row",
    )
    facts = pl.DataFrame(
        {
            "chunk_id": ids,
            "chunk_kind": ["review_pair"] + ["section"] * 5,
            "needs_parent": [True] + [False] * 5,
            "has_patch_markers": [True] + [False] * 5,
            "quote_share": [0.0] * 4 + [0.9, 0.0],
            "checksum": ["same", "same", "b", "c", "d", "e"],
            "thread_size": [25] + [1] * 5,
            "thread_attachments": [0] * 6,
        }
    )
    frame = pl.from_arrow(queries)
    assert isinstance(frame, pl.DataFrame)
    judged = judgements(pl.from_arrow(relevance), contents(chunks, {}))  # type: ignore[arg-type]
    return frame, judged, runs, chunks, facts


def made() -> dict:
    queries, judged, runs, chunks, facts = world()
    return report(
        Evaluation(queries, judged, runs, chunks, facts), {"good": {}, "bad": {"fusion": "rrf"}}
    )


def mean(found: dict, *row: str) -> float:
    """The mean of a profile, stage, level and measure over all queries."""
    names = ("profile", "stage", "level", "measure", "tag")
    (mean,) = [
        r["mean"] for r in found["summary"] if tuple(r[name] for name in names) == (*row, None)
    ]
    return mean


def test_a_right_answer_that_gets_lost_shows_where():
    found = made()
    assert mean(found, "bad", "fused", "document", "Recall@5") == 1
    assert mean(found, "bad", "final", "document", "Recall@5") == 0.5
    places = found["queries"][1]["results"]["bad"]["places"]
    assert places == {"d0": {"final": None, "fused": 2}, "d1": {"final": 2, "fused": 3}}
    assert found["queries"][1]["results"]["bad"]["lost"] == {
        "d0": ["final", "behind the first 400 chunks"]
    }
    assert found["queries"][1]["results"]["good"]["lost"] == {}
    lost = {"stage": "final", "reason": "behind the first 400 chunks", "answers": 6}
    assert found["losses"]["bad"][0] == lost


def test_chunk_level_counts_every_right_chunk_and_document_level_each_document_once():
    found = made()
    assert mean(found, "good", "fused", "chunk", "Recall@5") == pytest.approx(3 / 4)
    assert mean(found, "good", "fused", "document", "Recall@5") == 1
    assert mean(found, "good", "fused", "chunk", "Coverage@10") == 1


def test_documents_alone_are_measured_as_in_the_report():
    _, judged, runs, chunks, _ = world()
    whole = quality(runs, judged, chunks, 100, ["good", "bad"]).filter(
        stage="final", level="document"
    )
    assert (
        document_quality(runs, judged, ["good", "bad"]).sort(pl.all()).equals(whole.sort(pl.all()))
    )


def test_a_profile_that_finds_nothing_has_nothing_right():
    queries, judged, runs, chunks, facts = world()
    found = report(Evaluation(queries, judged, runs, chunks, facts), {"good": {}, "none": {}})
    assert mean(found, "none", "final", "document", "nDCG@10") == 0
    assert found["labels"]["none"]["NO_RESULTS"] == QUERIES
    assert document_quality(runs.clear(), judged, ["none"])["value"].to_list() == [0] * 7 * QUERIES


def test_passages_are_measured_on_the_bytes_of_the_first_chunks():
    queries, _, runs, chunks, facts = world()
    relevance = EVALUATION_RELEVANCE.from_rows(
        [
            {
                "query_id": f"q{n}",
                "entry": 0,
                "form": "passage",
                "target": "d0",
                "text": "abcdefgh",
                "grade": 1,
                "topic": None,
            }
            for n in range(QUERIES)
        ]
    )
    judged = judgements(pl.from_arrow(relevance), contents(chunks, {"d0": "......abcdefgh......"}))
    found = report(Evaluation(queries, judged, runs, chunks, facts), {"good": {}}, 10)
    assert mean(found, "good", "fused", "chunk", "passage recall") == pytest.approx(4 / 8)
    assert mean(found, "good", "fused", "chunk", "passage precision") == pytest.approx(
        4 / 10, abs=1e-6
    )
    assert mean(found, "good", "fused", "chunk", "passage IoU") == pytest.approx(4 / 14, abs=1e-6)
    twice = report(Evaluation(queries, judged, runs, chunks, facts), {"good": {}})
    assert mean(twice, "good", "fused", "chunk", "passage recall") == 1


def test_intervals_are_left_out_where_too_few_queries_are_there():
    rows = [r for r in made()["summary"] if r["tag"] == "even" and r["measure"] == "nDCG@10"]
    assert [(r["queries"], r["low"], r["high"]) for r in rows] == [(3, None, None)] * 2
    (hit,) = [
        r
        for r in made()["summary"]
        if (r["tag"], r["measure"], r["profile"]) == ("even", "Hit@10", "good")
    ]
    assert hit["low"] < hit["mean"] == hit["high"] == 1


def test_profiles_are_compared_query_by_query():
    (row,) = [r for r in made()["comparisons"] if r["measure"] == "Recall@5"]
    assert (row["baseline"], row["profile"], row["queries"]) == ("good", "bad", QUERIES)
    assert row["difference"] == pytest.approx(-0.5)
    assert row["high"] < 0
    assert (row["won"], row["lost"]) == ([], [f"q{n}" for n in range(QUERIES)])


def test_a_query_that_only_one_profile_was_asked_is_not_compared():
    values = pl.DataFrame(
        [("a", *quality_.MAIN, "q1", "nDCG@10", 0.5), ("b", *quality_.MAIN, "q2", "nDCG@10", 0.5)],
        schema=quality_.QUALITY,
        orient="row",
    )
    assert comparisons(values, "a", ["b"]) == []


def test_hits_carry_their_grades_and_their_places_in_earlier_stages():
    first, second, _ = made()["queries"][0]["results"]["good"]["hits"]
    assert (first["doc_id"], first["grade"], first["stages"]) == ("d0", 2, {"fused": (1, 1.0)})
    assert (second["doc_id"], second["grade"], second["stages"]["fused"][0]) == ("d2", 0, 3)


def test_tags_follow_from_the_best_right_answers():
    assert made()["queries"][0]["tags"] == ["even", "short-reply", "patch-review", "long-debate"]


def test_retrieved_measures_by_hand():
    _, _, runs, _, facts = world()
    found = retrieved_measures(runs, facts)
    assert found["index"] == {
        "chunks": 6,
        "needs_parent": pytest.approx(1 / 6, abs=1e-5),
        "nearly_all_quote": pytest.approx(1 / 6, abs=1e-5),
    }
    assert found["retrieved"]["good"]["duplicates"] == pytest.approx(1 / 4)
    assert found["retrieved"]["bad"]["duplicates"] == 0


def test_a_report_is_json_and_the_same_each_time():
    first, second = (json.dumps(made(), sort_keys=True, allow_nan=False) for _ in range(2))
    assert first == second


def test_two_reports_become_one_with_before_and_after():
    before = made() | {
        "texts": {"documents": {"d0": ["a", "b"]}, "chunks": {}},
        "timing": {"made_at": "1", "latency": {"good": {"p50_ms": 1}}},
    }
    queries, judged, runs, chunks, facts = world()
    worse = report(
        Evaluation(queries.filter(pl.col("query_id") != "q5"), judged, runs, chunks, facts),
        {"bad": {}},
    )
    after = worse | {
        "texts": {"documents": {"d1": ["c", "d"]}, "chunks": {}},
        "timing": {"made_at": "2", "latency": {"bad": {"p50_ms": 2}}},
    }
    joined = evaluation.before_and_after(before, after)
    assert joined["order"] == ["before", "after"]
    assert joined["not_measured"] == ["q5"]
    (row,) = [r for r in joined["comparisons"] if r["measure"] == "Recall@5"]
    assert (row["queries"], row["difference"]) == (5, pytest.approx(-0.5))
    assert joined["texts"]["documents"] == {"d0": ["a", "b"], "d1": ["c", "d"]}
    assert joined["timing"]["latency"] == {"before": {"p50_ms": 1}, "after": {"p50_ms": 2}}


def test_no_queries_make_an_empty_report():
    _, _, _, chunks, facts = world()
    nothing = pl.from_arrow(EVALUATION_QUERIES.empty())
    empty = pl.from_arrow(EVALUATION_RELEVANCE.empty())
    runs, judged = pl.from_arrow(EVALUATION_RUNS.empty()), judgements(empty, contents(chunks, {}))
    found = report(Evaluation(nothing, judged, runs, chunks, facts), {"default": {}})
    assert (found["queries"], found["summary"], found["comparisons"]) == ([], [], [])
