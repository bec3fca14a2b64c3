"""Ground truth is read as it is written, and every fault names file, query and entry."""

from pathlib import Path

import pytest

from transforms.errors import GroundTruthError
from transforms.evaluation import ground_truth

SAMPLE = Path(__file__).parents[3] / "data" / "sample" / "queries.yaml"
WHOLE = """
queries:
  - id: a
    query: all forms
    tags: [question, mail]
    relevant:
      - {message: "<one@x>", grade: 2, topic: cause}
      - {thread: "root@x"}
      - {node: "docs:a.md#b", grade: 0}
      - {document: "notes:A b.md"}
      - {chunk: "0123"}
      - {passage: "exact words", document: "docs:a.md", grade: 3}
      - {chat: "part of a turn"}
  - {id: b, query: "drafted", drafted: true, relevant: [{message: "m@x"}]}
"""


def test_all_forms_become_rows():
    truth = ground_truth.parse_ground_truth(WHOLE, "q.yaml")
    rows = truth.relevance.to_pylist()
    assert [r["form"] for r in rows] == [
        "message",
        "thread",
        "node",
        "document",
        "chunk",
        "passage",
        "chat",
        "message",
    ]
    assert {r["form"] for r in rows} == set(ground_truth.FORMS)
    assert rows[0] == {
        "query_id": "a",
        "entry": 0,
        "form": "message",
        "target": "one@x",
        "text": None,
        "grade": 2,
        "topic": "cause",
    }
    assert (rows[5]["target"], rows[5]["text"], rows[5]["grade"]) == ("docs:a.md", "exact words", 3)
    assert (rows[6]["target"], rows[6]["text"]) == (None, "part of a turn")
    assert [(q["query_id"], q["tags"], q["is_draft"]) for q in truth.queries.to_pylist()] == [
        ("a", ["question", "mail"], False),
        ("b", [], True),
    ]


def test_what_is_written_is_what_is_read():
    truth = ground_truth.parse_ground_truth(WHOLE, "q.yaml")
    again = ground_truth.parse_ground_truth(
        ground_truth.as_yaml(truth, "two lines\nof a note"), "q.yaml"
    )
    assert again.queries.equals(truth.queries) and again.relevance.equals(truth.relevance)


def test_the_sample_is_valid():
    truth = ground_truth.parse_ground_truth(SAMPLE.read_text(encoding="utf-8"), "queries.yaml")
    assert truth.queries.num_rows == 36
    assert set(truth.relevance["form"].to_pylist()) == {*ground_truth.FORMS} - {"chunk", "passage"}


def entry(text: str) -> str:
    return f"queries:\n  - {{id: q1, query: x, relevant: [{{message: a}}, {text}]}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queries: [", "f.yaml line 2: no valid YAML"),
        ("- a", "f.yaml: has no list `queries`"),
        ("queries: []\nextra: 1", "f.yaml: unknown key 'extra'"),
        ("queries: [x]", "f.yaml: query 1: is not a mapping"),
        ("queries: [{query: x}]", "f.yaml: query 1: has no `id`"),
        ("queries: [{id: 'a b', query: x}]", "f.yaml: query 1: has no `id`"),
        ("queries: [{id: q1, query: x, relevent: []}]", "f.yaml: query q1: unknown key 'relevent'"),
        ("queries: [{id: q1, query: ' '}]", "f.yaml: query q1: has no text"),
        ("queries: [{id: q1, query: x, tags: one}]", "f.yaml: query q1: `tags` are not a list"),
        ("queries: [{id: q1, query: x}]", "f.yaml: query q1: has no list of right answers"),
        (
            "queries: [{id: q1, query: x, relevant: [{message: a, grade: 0}]}]",
            "query q1: has no entry with a grade",
        ),
        (entry("x"), "f.yaml: query q1, entry 2: is not a mapping"),
        (entry("{mesage: a}"), "f.yaml: query q1, entry 2: names none of message, thread"),
        (entry("{message: b, path: a}"), "entry 2: unknown key 'path'; known are grade, message"),
        (entry("{message: b, document: a}"), "entry 2: unknown key 'document'; known"),
        (entry("{message: 7}"), "entry 2: `message` is not a text"),
        (entry("{message: b, grade: high}"), "entry 2: `grade` is not a whole number"),
        (entry("{message: b, grade: true}"), "entry 2: `grade` is not a whole number"),
        (entry("{message: b, grade: -1}"), "entry 2: `grade` is not a whole number"),
        (entry("{message: a, grade: 2}"), "entry 2: is entry 1 again"),
        (entry("{message: '<a>'}"), "entry 2: is entry 1 again"),
        (entry("{passage: words}"), "entry 2: names no `document`"),
        (entry("{node: 'docs:a.md'}"), "entry 2: `node` has no `#`"),
        (
            "queries: [{id: q, query: x, relevant: [{chat: a}]}, {id: q, query: y, relevant: [{chat: a}]}]",
            "'q' is in f",
        ),
    ],
)
def test_faults_name_file_query_and_entry(text: str, said: str):
    with pytest.raises(GroundTruthError) as fault:
        ground_truth.parse_ground_truth(text, "f.yaml")
    assert said in str(fault.value)


def test_two_files_may_not_share_an_id():
    first, second = (ground_truth.parse_ground_truth(WHOLE, f) for f in ("one.yaml", "two.yaml"))
    with pytest.raises(GroundTruthError, match="'a' is in one.yaml and again in two.yaml"):
        ground_truth.join_files([first, second])
    assert ground_truth.join_files([]).queries.num_rows == 0


BEIR_QUERIES = (
    '{"_id": "1", "text": "first question", "metadata": {}}\n{"_id": "2", "text": "second"}\n'
)
TREC_QUERIES = "1\tfirst question\n2\tsecond\n"
BEIR_QRELS = "query-id\tcorpus-id\tscore\n1\td one\t2\n1\td2\t0\n"
TREC_QRELS = "1 0 d-one 2\n1 0 d2 0\n"


@pytest.mark.parametrize(
    ("queries", "qrels", "target"),
    [
        (BEIR_QUERIES, BEIR_QRELS, "docs:d one"),
        (TREC_QUERIES, BEIR_QRELS, "docs:d one"),
        (BEIR_QUERIES, TREC_QRELS, "docs:d-one"),
        (TREC_QUERIES, TREC_QRELS, "docs:d-one"),
    ],
)
def test_beir_and_trec_files_become_ground_truth(queries: str, qrels: str, target: str):
    truth = ground_truth.from_retrieval_files(
        queries, qrels, "document", "qrels.tsv", prefix="docs:"
    )
    assert [q["query"] for q in truth.queries.to_pylist()] == ["first question"]
    (row,) = truth.relevance.to_pylist()
    assert (row["form"], row["target"], row["grade"]) == ("document", target, 2)
    assert ground_truth.parse_ground_truth(
        ground_truth.as_yaml(truth), "x"
    ).relevance.to_pylist() == [row]


@pytest.mark.parametrize(
    ("queries", "qrels", "said"),
    [
        ("{bad", TREC_QRELS, "queries line 1"),
        ("1 no tab", TREC_QRELS, "queries line 1"),
        (TREC_QUERIES, "1 0 d 1\n1 d\n", "qrels line 2"),
        (TREC_QUERIES, "9 0 d 1\n", "query '9' is not among"),
    ],
)
def test_faults_of_retrieval_files_name_the_line(queries: str, qrels: str, said: str):
    with pytest.raises(GroundTruthError, match=said):
        ground_truth.from_retrieval_files(queries, qrels, "message", "f")
