"""Stripes and questions of the graph as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.extras.graph.stripes_and_prompts import Prompted


def print_stripe(rows: list[dict[str, Any]]) -> None:
    """The chunks of a stripe in its order, each under its title."""
    console = terminal()
    for row in rows:
        facts = f"chunk {row['chunk_index']}, similarity {row['similarity']:.3f}{', code' if row['is_code'] else ''}"
        console.print(Text(row["title"], style="bold cyan") + Text(f"  {facts}", style="dim"), soft_wrap=True)
        console.print(Text(row["text_display"]), soft_wrap=True)
        console.print()


def print_prompted(hits: Sequence[Prompted]) -> None:
    """The chunks of stored questions, each with its question and where it stands."""
    console = terminal()
    for number, hit in enumerate(hits, 1):
        console.print(Text(f"{number:>3}. ") + Text(hit.title, style="bold cyan"))
        question = f"asked: {hit.question} ({hit.distance} bits away, similarity {hit.similarity:.3f})"
        console.print(Text(f"     {question}"), soft_wrap=True)
        console.print(Text(hit.text), soft_wrap=True)
        console.print(f"     ⟨{hit.node_id or hit.doc_id}⟩", style="dim", soft_wrap=True)
