"""Judgements and runs in the forms of TREC, read as trec_eval reads them."""

import pytest
import pytrec_eval

from transforms.errors import GroundTruthError
from transforms.evaluation import trec
from transforms.evaluation.quality import HEADLINE

QRELS = "1 0 a 2\n1 0 b 0\n2\t0\tc\t1\n\n3 0 z -1\n"
RUNS = {
    "blanks": "1 Q0 a 9 2.5 x\n1 Q0 d 1 0.5 x\n2 Q0 c 1 1e-3 x\n",
    "tabs and ties": "1\tQ0\tb\t1\t1\tx\n1\tQ0\ta\t2\t1.0\tx\n9\tQ0\td\t1\t3\tx\n",
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_has_the_measures_of_trec_eval(name: str):
    grades, run = trec.parse_grades(QRELS, "q"), trec.parse_run(RUNS[name], "r")
    report = trec.run_report(grades, {name: run})
    judged = {query: grades[query] for query in report["queries"]}
    assert list(judged) == ["1", "2"]
    lines = [line.split() for line in RUNS[name].splitlines()]
    scored = {q: {i: float(s) for p, _, i, _, s, _ in lines if p == q} for q in judged}
    full = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut"}).evaluate(scored)
    right = sum(full.get(q, {}).get("ndcg_cut_10", 0.0) for q in judged) / len(judged)
    (mean,) = (row["mean"] for row in report["summary"] if row["measure"] == HEADLINE)
    assert mean == pytest.approx(right, abs=1e-6)
    assert report["unjudged"][name] == sorted(run.keys() - judged.keys())


def test_runs_are_compared_with_the_first():
    grades = trec.parse_grades(QRELS, "q")
    runs = {name: trec.parse_run(text, name) for name, text in RUNS.items()}
    (row,) = (r for r in trec.run_report(grades, runs)["comparisons"] if r["measure"] == HEADLINE)
    assert (row["baseline"], row["won"], row["lost"]) == ("blanks", [], ["1", "2"])


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (trec.parse_run, "1 Q0 a 1 9 x\n1 0 a 2\n", "f line 2: not the 6 fields"),
        (trec.parse_run, "1 Q0 a 1 high x\n", "f line 1: not the 6 fields"),
        (trec.parse_run, "1 Q0 a 1 9 x\n1 Q0 a 2 8 x\n", "line 2: query '1' has 'a' again"),
        (trec.parse_grades, "1 0 a 1\n1 a\n", "f qrels line 2"),
    ],
)
def test_faults_name_the_line(read, text: str, said: str):
    with pytest.raises(GroundTruthError, match=said):
        read(text, "f")


def test_judgements_without_a_right_item_are_a_fault():
    with pytest.raises(GroundTruthError, match="nothing to measure"):
        trec.run_report({"1": {"a": 0}}, {"r": {}})
