"""Plots of the measurements, drawn from the tables of the page that they stand on."""

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


def topics_plot() -> str:
    """docs/images/topics.svg: topics of a window that a context finds, by how many there are."""
    head = "| strategy | 2 topics | 3 topics | 5 topics | recall, 2 | recall, 3 | recall, 5 | right tokens, 2 | 3 | 5 |"
    found = {row[0]: row for row in rows_below(head)}
    lines = {
        name: [(n, float(v)) for n, v in zip((2, 3, 5), found[name][1:4], strict=True)]
        for name in _SHOWN
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
        _text(40 + 400 * (x - low) / (high - low), 252, f"{x:g} topics", "middle")
        for x in sorted(set(ends))
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


def curves_svg(
    title: str, panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
) -> str:
    """Panels in two columns, each with lines from 0 over the same mails, their names above in the
    lines' colours.
    """
    parts = [_head(title, 720, 250 * -(-len(panels) // 2))]
    for number, (name, lines) in enumerate(panels.items()):
        left, top = 60 + 360 * (number % 2), 250 * (number // 2)
        parts += _panel(left, top, name, lines)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    left: float, top: float, name: str, lines: Mapping[str, Sequence[tuple[float, float]]]
) -> list[str]:
    """One panel, 270 wide and 150 high, with its scales."""
    most = max(value for line in lines.values() for _, value in line)
    furthest = max(x for line in lines.values() for x, _ in line)
    base = top + 205
    parts = [_text(left, top + 16, name)]
    for share in (0, 0.5, 1):
        y = base - 150 * share
        parts += [
            f'<path d="M{left} {y}h270" stroke="{_INK}" stroke-opacity=".25"/>',
            _text(left - 6, y + 4, f"{most * share:,.{0 if most >= 20 else 1}f}", "end"),
        ]
    across = sorted({x for line in lines.values() for x, _ in line})
    parts += [
        _text(left + 270 * x / furthest, base + 18, f"{x / 1000:,.0f}k", "middle") for x in across
    ]
    for place, (colour, (label, line)) in enumerate(zip(_COLOURS, lines.items(), strict=False)):
        points = [(left + 270 * x / furthest, base - 150 * value / most) for x, value in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points),
            _text(left + 135 * (place % 2), top + 33 + 15 * (place // 2), label, colour=colour),
        ]
    return parts


def _head(title: str, width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
