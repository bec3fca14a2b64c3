"""The report on how the system does, for whoever looks at it in Dagster."""

import dagster as dg

from assets.protocols.search import OperationsHistory

GROUP = "operations"


def operations_report_asset() -> dg.AssetsDefinition:
    """The asset `operations_report`: plots and figures in its metadata; it stores nothing."""

    @dg.asset(
        group_name=GROUP,
        kinds={"markdown"},
        deps=["readiness"],
        description="Throughput per step, lag, reuse of vectors, quarantine by reason, size and live share, with plots.",
    )
    def operations_report(
        context: dg.AssetExecutionContext, operations_history: dg.ResourceParam[OperationsHistory]
    ) -> dg.MaterializeResult:
        from transforms.operations.plots import report

        figures = operations_history.figures(context.instance)
        text = report(figures)
        return dg.MaterializeResult(metadata={"report": dg.MetadataValue.md(text), "characters": len(text)})

    return operations_report
