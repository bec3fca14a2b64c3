"""Judgements and runs of any search engine in the forms of TREC, and their measures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from transforms.errors import GroundTruthError
from transforms.evaluation import metrics, quality

Grades = dict[str, dict[str, int]]
"""By query the grade of each judged item; 0 and less is wrong."""
_RUN_FIELDS = 6


def parse_grades(text: str, file: str) -> Grades:
    """The grades of lines of query, item and grade (BEIR, with or without its heading) or of query,
    anything, item and grade (TREC); `file` is its name in faults.

    Fields are separated by tabs if a line has some, else by blanks. Raises GroundTruthError that
    names the line.
    """
    grades: Grades = {}
    for place, number, line in _lines(text, f"{file} qrels"):
        fields = line.split("\t") if "\t" in line else line.split()
        if number == 1 and not _is_integer(fields[-1]):
            continue
        if len(fields) not in (3, 4) or not _is_integer(fields[-1]):
            raise GroundTruthError(f"{place}: neither `query item grade` nor `query 0 item grade`")
        query, item, grade = fields[0].strip(), fields[-2].strip(), int(float(fields[-1]))
        grades.setdefault(query, {})[item] = grade
    return grades


def parse_run(text: str, file: str) -> dict[str, list[str]]:
    """By query the items of a run, best first: lines of query, anything, item, rank, score and name.

    The order is that of trec_eval: by score, equal ones by item from the end of the alphabet; ranks
    are not read. Raises GroundTruthError that names the line.
    """
    scores: dict[str, dict[str, float]] = {}
    for place, _, line in _lines(text, file):
        fields = line.split()
        try:
            query, _, item, _, score, _ = fields
            value = float(score)
        except ValueError as error:
            raise GroundTruthError(
                f"{place}: not the {_RUN_FIELDS} fields `query Q0 item rank score name`"
            ) from error
        if item in scores.setdefault(query, {}):
            raise GroundTruthError(f"{place}: query {query!r} has {item!r} again; name it once")
        scores[query][item] = value
    return {
        query: sorted(items, key=lambda item: (items[item], item), reverse=True)
        for query, items in scores.items()
    }


def run_report(grades: Grades, runs: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Any]:
    """The measures of runs by name, the first of them the baseline.

    `order`: the names; `queries`: the judged queries that have a right item; `summary` and
    `comparisons`: as in `transforms.evaluation.quality`; `unjudged`: by run its queries without a
    right item, which are left out. A query that a run lacks has 0 in it. Raises GroundTruthError if
    no item is right.
    """
    measured = {name: metrics.query_measures(run, grades) for name, run in runs.items()}
    queries = [q for q, items in grades.items() if max(items.values()) > 0]
    if not queries:
        raise GroundTruthError("no judgement has a grade above 0: there is nothing to measure")
    stage, level = quality.MAIN
    values = pl.concat(
        [
            frame.select(
                pl.lit(name).alias("profile"),
                pl.lit(stage).alias("stage"),
                pl.lit(level).alias("level"),
                *metrics.PER_QUERY,
            )
            for name, frame in measured.items()
        ]
    )
    baseline, *others = runs
    return {
        "order": list(runs),
        "queries": queries,
        "summary": quality.summary(values, {}),
        "comparisons": quality.comparisons(values, baseline, others),
        "unjudged": {name: sorted(run.keys() - set(queries)) for name, run in runs.items()},
    }


def _lines(text: str, file: str) -> Iterator[tuple[str, int, str]]:
    """The place, number and text of each line that is not blank."""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if line.strip():
            yield f"{file} line {number}", number, line


def _is_integer(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(\.0+)?", text.strip()))
