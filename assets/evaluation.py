"""The quality of the published index: queries, the lists of every profile for them, and the report."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import ibis
import polars as pl
import pyarrow as pa

from assets.protocols.search import Evaluator
from assets.stages.declaration import Display, Needs, Stage
from transforms.evaluation import quality
from transforms.evaluation import report as evaluation
from transforms.evaluation.judgements import judgements

GROUP = "evaluation"


def evaluation_stages() -> list[Stage]:
    """The stages of the queries with their right answers, and of the lists of each profile for
    them.
    """
    return [
        Stage(
            "read_ground_truth",
            _ground_truth,
            Display(
                "Reads the queries of `evaluation.queries` and their right answers.",
                kinds=("python",),
                group=GROUP,
            ),
            outputs=("evaluation_queries", "evaluation_relevance"),
            needs=Needs(("evaluator",)),
        ),
        Stage(
            "evaluation_runs",
            _runs,
            Display(
                "Asks the published index each query under every profile.",
                kinds=("python",),
                group=GROUP,
            ),
            inputs=("evaluation_queries",),
            needs=Needs(("evaluator",), deps=("search_index",)),
        ),
    ]


def _ground_truth(evaluator: Evaluator) -> Sequence[pa.Table]:
    return evaluator.ground_truth()


def _runs(queries: ibis.Table, evaluator: Evaluator) -> pa.Table:
    return evaluator.run(queries.to_pyarrow())


def evaluation_report_asset(changes: dict[str, dict[str, Any]]) -> dg.AssetsDefinition:
    """The asset `evaluation_report`; `changes` has the changes of each profile."""

    @dg.asset(
        group_name=GROUP,
        kinds={"json", "html"},
        description="Quality with intervals, per profile, stage, level and tag, as JSON and as a page.",
    )
    def evaluation_report(
        evaluation_queries: ibis.Table,
        evaluation_relevance: ibis.Table,
        evaluation_runs: ibis.Table,
        evaluator: dg.ResourceParam[Evaluator],
    ) -> dg.MaterializeResult:
        relevance = evaluation_relevance.to_pyarrow()
        contents = evaluator.contents(relevance)
        report = evaluation.report(
            evaluation.Evaluation(
                pl.DataFrame(evaluation_queries.to_pyarrow()),
                judgements(pl.DataFrame(relevance), contents),
                pl.DataFrame(evaluation_runs.to_pyarrow()),
                contents.chunks,
                evaluator.facts(),
            ),
            changes,
        )
        files = evaluator.save(report)
        means = {
            f"{row['profile']}: {quality.HEADLINE}": row["mean"]
            for row in report["summary"]
            if (row["stage"], row["level"]) == quality.MAIN
            and row["measure"] == quality.HEADLINE
            and row["tag"] is None
        }
        paths = {kind: dg.MetadataValue.path(place) for kind, place in files.items()}
        return dg.MaterializeResult(metadata={"queries": len(report["queries"]), **means, **paths})

    return evaluation_report
