"""How good the published index is: queries, what every profile finds for them, and the report."""

from typing import Any

import dagster as dg
import ibis
import polars as pl
import pyarrow as pa

from assets.protocols.search import Evaluator
from assets.stages.shown import outs, table_metadata
from transforms.evaluation import ground_truth, quality
from transforms.evaluation import report as evaluation
from transforms.evaluation.judgements import judgements
from transforms.schemas.evaluation import EVALUATION_QUERIES, EVALUATION_RELEVANCE, EVALUATION_RUNS

GROUP = "evaluation"


def evaluation_queries_asset() -> dg.AssetsDefinition:
    """The multi-asset `evaluation_queries`, `evaluation_relevance`."""
    tables = {"evaluation_queries": EVALUATION_QUERIES, "evaluation_relevance": EVALUATION_RELEVANCE}

    @dg.multi_asset(name="read_ground_truth", group_name=GROUP, outs=outs(tables, ground_truth.VERSION))
    def read_ground_truth(evaluator: dg.ResourceParam[Evaluator]) -> tuple[Any, Any]:
        queries, relevance = evaluator.ground_truth()
        return queries, relevance

    return read_ground_truth


def evaluation_runs_asset() -> dg.AssetsDefinition:
    """The asset `evaluation_runs`: every query under every profile."""

    @dg.asset(
        group_name=GROUP,
        kinds={"parquet"},
        deps=["search_index"],
        description=EVALUATION_RUNS.comment,
        metadata=table_metadata(EVALUATION_RUNS),
    )
    def evaluation_runs(evaluation_queries: ibis.Table, evaluator: dg.ResourceParam[Evaluator]) -> pa.Table:
        return evaluator.run(evaluation_queries.to_pyarrow())

    return evaluation_runs


def evaluation_report_asset(changes: dict[str, dict[str, Any]]) -> dg.AssetsDefinition:
    """The asset `evaluation_report`; `changes` is what each profile changes."""

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
                _frame(evaluation_queries.to_pyarrow()),
                judgements(_frame(relevance), contents),
                _frame(evaluation_runs.to_pyarrow()),
                contents.chunks,
                evaluator.facts(),
            ),
            changes,
        )
        written = evaluator.save(report)
        means = {
            f"{row['profile']}: {quality.HEADLINE}": row["mean"]
            for row in report["summary"]
            if (row["stage"], row["level"]) == quality.MAIN
            and row["measure"] == quality.HEADLINE
            and row["tag"] is None
        }
        paths = {kind: dg.MetadataValue.path(place) for kind, place in written.items()}
        return dg.MaterializeResult(metadata={"queries": len(report["queries"]), **means, **paths})

    return evaluation_report


def _frame(table: pa.Table) -> pl.DataFrame:
    return pl.from_arrow(table)  # type: ignore[return-value]
