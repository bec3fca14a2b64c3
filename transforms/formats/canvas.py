"""Canvases of Obsidian (JSON Canvas 1.0) to Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from transforms.formats.converted import Converted, heading


def canvas_markdown(text: str) -> Converted | None:
    """A canvas as Markdown, from its top to its foot: cards with text, embeds of files, links; None if it is none.

    A group is a heading over the cards inside of it, and comes after those in none. Arrows with a label come last.
    """
    try:
        canvas = json.loads(text)
        nodes = sorted(canvas.get("nodes", []), key=lambda node: (node["y"], node["x"]))
        names = {node["id"]: _name(node) for node in nodes}
        arrows = [
            f"{names[edge['fromNode']]} → {edge['label']} → {names[edge['toNode']]}"
            for edge in canvas.get("edges", [])
            if edge.get("label")
        ]
        groups = [node for node in nodes if node["type"] == "group"]
        parts = [_shown(node) for node in nodes if node["type"] != "group" and not _group(node, groups)]
        for group in groups:
            parts.append(heading(2, group.get("label") or ""))
            parts += [_shown(n) for n in nodes if n["type"] != "group" and _group(n, groups) == group["id"]]
        return Converted("\n\n".join(filter(None, [*parts, *arrows])) + "\n", [])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _group(node: dict[str, Any], groups: Sequence[dict[str, Any]]) -> str | None:
    """The smallest group that a card begins in."""
    around = [
        g for g in groups
        if g["x"] <= node["x"] < g["x"] + g["width"] and g["y"] <= node["y"] < g["y"] + g["height"]
    ]  # fmt: skip
    return min(around, key=lambda g: g["width"] * g["height"])["id"] if around else None


def _shown(node: dict[str, Any]) -> str:
    """A card as Markdown."""
    if node["type"] == "file":
        return f"![[{node['file']}{node.get('subpath', '')}]]"
    return f"<{node['url']}>" if node["type"] == "link" else str(node.get("text", ""))


def _name(node: dict[str, Any]) -> str:
    """A card in few words: its first line, file, address or label."""
    lines = str(node.get("text") or node.get("file") or node.get("url") or node.get("label") or "").split(
        "\n"
    )
    return lines[0].lstrip("# ")
