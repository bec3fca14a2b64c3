"""Plots of the measurements, drawn from the tables of the page that they stand on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

PAGE = Path(__file__).parent / "measurements" / "speed.md"
_INK, _SOFT, _COLOURS = "#7a7a7a", "#c9a28d", ("#b4552d", "#3f7ea6", "#4f8a5b", "#8a5fa8")
_SHOWN = (
    "one query for the window, vectors",
    "one query, vectors and terms",
    "a query per chunk, vectors and terms",
    "the same by coverage (default)",
)


def rows_below(head: str) -> list[list[str]]:
    """The cells of the table of the page whose first line is `head`, without marks of emphasis."""
    table = PAGE.read_text(encoding="utf-8").partition(f"{head}\n")[2].partition("\n\n")[0]
    return [re.sub(r"\*\*", "", line).strip("| ").split(" | ") for line in table.splitlines()[1:]]


def stages_plot() -> str:
    """docs/images/stages.svg: seconds of the stages of the first build of a large list."""
    rows = rows_below("| stage | rows | seconds |")
    return bars_svg("Seconds of each stage", {stage: float(seconds) for stage, _, seconds in rows})


def topics_plot() -> str:
    """docs/images/topics.svg: topics of a window that a context finds, by how many there are."""
    head = "| strategy | 2 topics | 3 topics | 5 topics | recall, 2 | recall, 3 | recall, 5 | right tokens, 2 | 3 | 5 |"
    found = {row[0]: row for row in rows_below(head)}
    lines = {
        name: [(n, float(v)) for n, v in zip((2, 3, 5), found[name][1:4], strict=True)] for name in _SHOWN
    }
    return lines_svg("Share of the topics with a right mail, by topics of the window", lines)


def bars_svg(title: str, values: Mapping[str, float]) -> str:
    """Bars with their names at the left and their values behind them."""
    most, parts = max(values.values()), [_head(title, 720, 24 * len(values) + 8)]
    for number, (name, value) in enumerate(values.items()):
        y, width = 24 * number + 6, 380 * value / most
        parts += [
            _text(250, y + 13, name, "end"),
            f'<rect x="258" y="{y}" width="{width:.1f}" height="17" rx="2" fill="{_SOFT}"/>',
            _text(264 + width, y + 13, f"{value:,.0f}"),
        ]
    return "\n".join([*parts, "</svg>", ""])


def lines_svg(title: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over one scale from 0 to 1, their names at their right ends."""
    ends = [x for line in lines.values() for x, _ in line]
    low, high = min(ends), max(ends)
    parts = [_head(title, 720, 270)]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = 230 - 210 * share
        parts += [
            f'<path d="M40 {y}H440" stroke="{_INK}" stroke-opacity=".25"/>',
            _text(34, y + 4, f"{share:g}", "end"),
        ]
    parts += [
        _text(40 + 400 * (x - low) / (high - low), 252, f"{x:g} topics", "middle") for x in sorted(set(ends))
    ]
    for colour, (name, line) in zip(_COLOURS, lines.items(), strict=False):
        points = [(40 + 400 * (x - low) / (high - low), 230 - 210 * value) for x, value in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points),
            _text(points[-1][0] + 10, points[-1][1] + 4, name, colour=colour),
        ]
    return "\n".join([*parts, "</svg>", ""])


def _head(title: str, width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
