"""The figures of a running system as Markdown with plots; apart from the figures, because drawing is slow to import."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from transforms.operations.figures import INDEX_BYTES, LAGS, LIVE_SHARE, REUSE, Figures, throughput
from transforms.text.markdown_tables import table

_INCHES, _DPI = (9.0, 8.0), 80
_COLOURS = 32
"""Of the palette: enough for lines and the edges of letters, and a third of the bytes of full colour."""
_MOST_BARS = 14


def report(figures: Figures) -> str:
    """Markdown: the facts, the plots as one inline PNG, and the numbers behind the bars."""
    picture = base64.b64encode(plots(figures)).decode()
    sections = [
        table(("fact", "value"), list(figures.facts.items())),
        f"![Throughput, lag, reuse, quarantine and size](data:image/png;base64,{picture})",
        "### Rows per second, by step of the last runs",
        table(
            ("step", "rows", "seconds", "rows/s"),
            [
                (s, f"{n:,}", f"{t:,.2f}", f"{r:,.0f}")
                for s, n, t, r in throughput(figures.stages).iter_rows()
            ],
        ),
        "### Quarantine by reason",
        table(("reason", "rows"), [(reason, f"{n:,}") for reason, n in figures.quarantine.iter_rows()]),
    ]
    return "\n\n".join(sections) + "\n"


def plots(figures: Figures) -> bytes:
    """Five plots as one PNG in few colours."""
    figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots(3, 2)
    rates = throughput(figures.stages).head(_MOST_BARS)
    _bars(axes[0, 0], "rows per second", rates["stage"].to_list(), rates["rate"].to_list(), log=True)
    _lines(axes[0, 1], "lag of new texts, seconds", figures.history, LAGS)
    _lines(axes[1, 0], "share of vectors reused", figures.history, (REUSE,), top=1.05)
    reasons = figures.quarantine.head(_MOST_BARS)
    _bars(axes[1, 1], "quarantine by reason", reasons["reason"].to_list(), reasons["rows"].to_list())
    _lines(axes[2, 0], "index, bytes", figures.history, (INDEX_BYTES,))
    _lines(axes[2, 1], "live share of cached vectors", figures.history, (LIVE_SHARE,), top=1.05)
    full_colour = io.BytesIO()
    figure.savefig(full_colour, format="png")
    small = io.BytesIO()
    Image.open(full_colour).convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE).save(
        small, format="png", optimize=True
    )
    return small.getvalue()


def _bars(
    axes: Axes, title: str, names: Sequence[str], values: Sequence[float], *, log: bool = False
) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    if not names:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, fontsize=8)
        return
    axes.barh(range(len(names)), values, color="#3b6ea5", log=log)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _lines(
    axes: Axes, title: str, history: pl.DataFrame, names: Sequence[str], *, top: float | None = None
) -> None:
    axes.set_title(title, fontsize=9)
    axes.tick_params(labelsize=7)
    for name in names:
        values = history.filter(pl.col("figure") == name).sort("at")
        axes.plot(values["at"].to_list(), values["value"].to_list(), marker=".", label=name)
    axes.set_ylim(0, top)
    axes.tick_params(axis="x", labelrotation=30)
    if len(names) > 1:
        axes.legend(fontsize=7)
