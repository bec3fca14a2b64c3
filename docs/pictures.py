"""Draws a graph in layers as SVG, for the pictures of the documentation that follow from the code."""

from collections.abc import Iterable, Mapping, Sequence
from xml.sax.saxutils import escape

_LETTER, _LINE, _GAP, _ROOM, _EDGE = 7.1, 15, 14, 40, 9
"""Units of the picture: width of a letter, height of a line, between boxes, between layers, inside
a box.
"""


def layers(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The nodes of a graph without circles, each in the layer after the last one that leads to it.

    Inside a layer a node stands where those that it is joined to stand on average (Sugiyama,
    barycentre).

    >>> layers("abcd", [("a", "c"), ("b", "c"), ("a", "d")])
    [['b', 'a'], ['c', 'd']]
    """
    names, pairs = list(nodes), list(edges)
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for before, after in pairs:
            depth[after] = max(depth[after], depth[before] + 1)
    rows = [
        [name for name in names if depth[name] == level] for level in sorted(set(depth.values()))
    ]
    joined = {name: [a if b == name else b for a, b in pairs if name in (a, b)] for name in names}
    for _ in range(8):
        for row in rows:
            places = {name: (i + 0.5) / len(r) for r in rows for i, name in enumerate(r)}
            middle = {n: sum(places[o] for o in joined[n]) / (len(joined[n]) or 1) for n in row}
            row.sort(key=lambda name: (middle[name], name))
    return rows


def without_shortcuts(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The edges of a graph without circles that no longer way replaces.

    >>> without_shortcuts([("a", "b"), ("b", "c"), ("a", "c")])
    [('a', 'b'), ('b', 'c')]
    """
    pairs = sorted(set(edges))
    after: dict[str, set[str]] = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)

    def reached(start: str) -> set[str]:
        return {n for b in after.get(start, ()) for n in (b, *reached(b))}

    further = {a: {n for b in followers for n in reached(b)} for a, followers in after.items()}
    return [(a, b) for a, b in pairs if b not in further[a]]


def layered_svg(
    title: str, boxes: Mapping[str, Sequence[str]], edges: Iterable[tuple[str, str]]
) -> str:
    """A picture of a graph from left to right: `boxes` are the lines in the box of each node, the
    first one bold.
    """
    pairs = list(edges)
    columns = layers(boxes, pairs)
    height = max(sum(_height(boxes[n]) + _GAP for n in column) for column in columns) + _GAP
    places: dict[str, tuple[float, float, float]] = {}
    x = float(_GAP)
    for column in columns:
        width = max(len(line) for n in column for line in boxes[n]) * _LETTER + 2 * _EDGE
        space = (height - sum(_height(boxes[n]) for n in column)) / (len(column) + 1)
        y = space
        for name in column:
            places[name] = (x, y, width)
            y += _height(boxes[name]) + space
        x += width + _ROOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x - _ROOM + _GAP:.0f} {height:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="11.5" role="img" aria-label="{escape(title)}">'
    ]
    lines += [_curve(places[a], _height(boxes[a]), places[b], _height(boxes[b])) for a, b in pairs]
    lines += [line for name, text in boxes.items() for line in _box(places[name], text)]
    return "\n".join([*lines, "</svg>", ""])


def _height(text: Sequence[str]) -> int:
    return len(text) * _LINE + _EDGE


def _curve(
    a: tuple[float, float, float], a_height: int, b: tuple[float, float, float], b_height: int
) -> str:
    x1, y1, x2, y2 = a[0] + a[2], a[1] + a_height / 2, b[0], b[1] + b_height / 2
    bend = (x1 + x2) / 2
    path = f"M{x1:.1f} {y1:.1f}C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="#7a7a7a" stroke-opacity=".6"/>'


def _box(place: tuple[float, float, float], text: Sequence[str]) -> Iterable[str]:
    x, y, width = place
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_height(text)}" rx="5" '
        'fill="#f3e9df" stroke="#8a8a8a"/>'
    )
    for number, line in enumerate(text):
        weight = ' font-weight="600"' if not number else ""
        yield (
            f'<text x="{x + _EDGE:.1f}" y="{y + _LINE * (number + 1) + 1:.1f}" fill="#222"{weight}>'
            f"{escape(line)}</text>"
        )
