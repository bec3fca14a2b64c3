"""The report on a running system: its figures, and plots that fit into an event log."""

import base64
import re
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from transforms.operations.figures import (
    BLOCKS,
    HISTORY,
    MONTHS,
    QUARANTINE,
    SIZES,
    STAGE_RATES,
    Figures,
    figures_report,
    throughput,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = (
    "lag_p50_seconds",
    "lag_p95_seconds",
    "lag_max_seconds",
    "reuse_ratio",
    "index_bytes",
    "live_share",
)


def figures(hours: int) -> Figures:
    told = [(AT + timedelta(hours=h), name, float(h)) for h in range(hours) for name in NAMES]
    stages = [("mail", 10, 2.0), ("mail", 30, 2.0), ("terms", 5, 0.0)][: hours * 3]
    return Figures(
        pl.DataFrame(stages, STAGE_RATES, orient="row"),
        pl.DataFrame(told, HISTORY, orient="row"),
        {
            title: pl.DataFrame([("a|b", 3)] * min(hours, most), ["name", "rows"], orient="row")
            for title, most in ((QUARANTINE, 1), (BLOCKS, 1), (SIZES, 1), (MONTHS, 300))
        },
        {"version": "abc"},
    )


def test_throughput_is_over_all_runs_and_the_slowest_step_is_first():
    rows = throughput(figures(1).stages).rows()
    assert [row[0] for row in rows] == ["mail", "terms"]
    assert rows[0] == ("mail", 40, 4.0, 10.0)


@pytest.mark.parametrize("hours", [pytest.param(0, marks=pytest.mark.exhaustive), 100])
def test_the_report_has_a_small_picture_and_is_the_same_for_the_same(hours: int):
    from transforms.operations.plots import plots

    text = figures_report(figures(hours), plots(figures(hours)))
    found = re.search(r"\(data:image/png;base64,([^)]+)\)", text)
    assert found and base64.b64decode(found[1]).startswith(b"\x89PNG")
    assert len(text) < 100_000
    assert ("| a\\|b | 3 |" in text) == (hours > 0)
    assert hours == 0 or figures_report(figures(hours), plots(figures(hours))) == text
    assert "weft[plots]" in figures_report(figures(hours), None)
