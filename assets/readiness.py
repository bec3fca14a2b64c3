"""When the texts of the published version got how far."""

import polars as pl

from assets.protocols.search import Publisher
from assets.stages.declaration import Display, Made, MarkdownFigure, Needs, Stage
from transforms.operations import figures as measures

TABLE = "readiness"


def readiness_stage() -> Stage:
    """The stage of the table `readiness` of the published file, kept beside it.

    The times of a text survive there when the file is lost.
    """
    return Stage(
        TABLE,
        _readiness,
        Display(
            "Keeps the times of the published file's texts beside it.",
            "publish",
            ("duckdb", "polars"),
        ),
        needs=Needs(("publisher",), deps=("search_index",)),
    )


def _readiness(publisher: Publisher) -> Made:
    published = publisher.readiness()
    lags = measures.lags(published.table)
    worst = lags.select(pl.col("p50", "p95", "max").max()).row(0, named=True)
    facts = {
        "lag_by_source": MarkdownFigure(measures.markdown(lags)),
        **{f"lag_{name}_seconds": round(value or 0.0, 3) for name, value in worst.items()},
        "waiting": measures.waits(published.table),
    }
    return Made([published.table], facts, {"index": published.version})
