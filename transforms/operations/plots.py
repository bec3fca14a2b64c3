"""The figures of a running system as plots; apart from the figures, because matplotlib is an extra
and slow to import.
"""

import io
from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from transforms.operations.figures import (
    BLOCKS,
    INDEX_BYTES,
    LAGS,
    LIVE_SHARE,
    MONTHS,
    QUARANTINE,
    REUSE,
    SIZES,
    Figures,
    throughput,
)

_RATES, _LAGS, _REUSED = "rows per second", "lag of new texts, seconds", "share of vectors reused"
_BYTES, _LIVE = "index, bytes", "live share of cached vectors"
_INCHES, _DPI = (9.0, 12.0), 80
_COLOURS = 32
"""Colours of the palette: enough for lines and the edges of letters, and a third of the bytes of
full colour.
"""
_MOST_BARS = 14
_MARGINS = {"left": 0.2, "right": 0.97, "top": 0.97, "bottom": 0.06, "wspace": 0.55, "hspace": 0.5}
"""Shares of the figure and of an axis. matplotlib's layout engines draw everything a second time to
find such margins.
"""


def plots(figures: Figures) -> bytes:
    """The plots as one PNG in few colours."""
    figure = Figure(figsize=_INCHES, dpi=_DPI)
    axes = figure.subplot_mosaic(
        [
            [_RATES, _LAGS],
            [_REUSED, QUARANTINE],
            [_BYTES, _LIVE],
            [BLOCKS, SIZES],
            [MONTHS, MONTHS],
        ],
        gridspec_kw=_MARGINS,
    )
    for title, plot in axes.items():
        plot.set_title(title.lower(), fontsize=9)
        plot.tick_params(labelsize=7)
    rates = throughput(figures.stages).head(_MOST_BARS)
    _bars(axes[_RATES], rates["stage"].to_list(), rates["rate"].to_list(), log=True)
    _lines(axes[_LAGS], figures.history, LAGS)
    _lines(axes[_REUSED], figures.history, (REUSE,), top=1.05)
    _lines(axes[_BYTES], figures.history, (INDEX_BYTES,))
    _lines(axes[_LIVE], figures.history, (LIVE_SHARE,), top=1.05)
    for title in (QUARANTINE, BLOCKS, SIZES):
        counts = figures.counts[title].head(_MOST_BARS)
        _bars(axes[title], counts["name"].to_list(), counts["rows"].to_list())
    _columns(axes[MONTHS], figures.counts[MONTHS])
    full_colour = io.BytesIO()
    figure.savefig(full_colour, format="png")
    small = io.BytesIO()
    Image.open(full_colour).convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE).save(
        small, format="png", optimize=True
    )
    return small.getvalue()


def _bars(axes: Axes, names: Sequence[str], values: Sequence[float], *, log: bool = False) -> None:
    if not names:
        axes.text(0.5, 0.5, "none", ha="center", va="center", transform=axes.transAxes, fontsize=8)
        return
    axes.barh(range(len(names)), values, color="#3b6ea5", log=log)
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _columns(axes: Axes, counts: pl.DataFrame) -> None:
    """A column for each row, with the names of a few of them."""
    places = range(0, len(counts), max(1, len(counts) // _MOST_BARS))
    axes.bar(range(len(counts)), counts["rows"].to_list(), color="#3b6ea5")
    axes.set_xticks(list(places), [counts["name"][place] for place in places], rotation=30)


def _lines(
    axes: Axes, history: pl.DataFrame, names: Sequence[str], *, top: float | None = None
) -> None:
    for name in names:
        values = history.filter(pl.col("figure") == name).sort("at")
        axes.plot(values["at"].to_list(), values["value"].to_list(), marker=".", label=name)
    axes.set_ylim(0, top)
    axes.tick_params(axis="x", labelrotation=30)
    if len(names) > 1:
        axes.legend(fontsize=7)
