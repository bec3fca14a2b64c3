"""An explanation as people read it: the stages, the way of the hits through them, what was dropped and why."""

from __future__ import annotations

from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from dagster_project.cli.safe_console import terminal
from dagster_project.resources.search.explain import Explanation


def print_explanation(made: Explanation, rows: int) -> None:
    """One line per stage, a table of the hits with their place in each, the first drops of each, the fate of an id."""
    console = terminal()
    console.print(Text(made.query, style="bold") + Text(f"  {made.label}"))
    console.print(_stages(made))
    if made.stages:
        console.print(_ways(made, rows))
    for table in made.stages:
        gone = table.steps.filter(pl.col("rank").is_null())
        if gone.height:
            console.print(Text(f"{table.stage} dropped {gone.height:,}", style="bold"))
            for row in gone.head(rows).iter_rows(named=True):
                console.print(Text(f"  #{row['rank_before']} ") + _dropped(made, row), soft_wrap=True)
    if made.fate is not None:
        console.print(Text(f"{made.fate.id}: {made.fate.answer}", style="bold cyan"), soft_wrap=True)
        for m in made.fate.moments:
            place = m.reason if m.rank is None else f"#{m.rank}"
            score = "" if m.score is None else f"  {m.score:.3f}"
            console.print(Text(f"  {m.stage:<16}{place}{score}"), soft_wrap=True)
    facts = f"{made.seconds * 1000:.0f} ms, {made.vector_path} vector search, version {made.version}"
    console.print(facts, style="dim")


def _stages(made: Explanation) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    for name in ("ms", "hits", "dropped", "best", "last"):
        table.add_column(name, justify="right")
    for stage in made.stages:
        kept = stage.steps.drop_nulls("rank")
        best, last = ("", "") if kept.is_empty() else (f"{kept['score'][i]:.3f}" for i in (0, -1))
        gone = stage.steps.height - kept.height
        table.add_row(stage.stage, f"{stage.seconds * 1000:.1f}", f"{kept.height:,}", f"{gone:,}", best, last)
    return table


def _ways(made: Explanation, rows: int) -> Table:
    """The place of each of the last hits in the list of every stage."""
    table = Table(box=None, pad_edge=False)
    for stage in made.stages:
        table.add_column(stage.stage, justify="right")
    table.add_column("id", overflow="fold")
    table.add_column("title", no_wrap=True)
    ranks = [dict(stage.steps.select("chunk_no", "rank").iter_rows()) for stage in made.stages]
    for chunk in made.stages[-1].steps.drop_nulls("rank").head(rows)["chunk_no"]:
        _, place, title = made.name(chunk)
        places = [f"#{found[chunk]}" if found.get(chunk) else "–" for found in ranks]
        table.add_row(*places, Text(place), Text(title))
    return table


def _dropped(made: Explanation, row: dict[str, Any]) -> Text:
    _, place, title = made.name(row["chunk_no"])
    into = made.name(row["into"])[1]
    stands = f" → {into}" if into else ""
    return Text(f"{place}  ") + Text(title, style="cyan") + Text(f"  {row['reason']}{stands}", style="dim")
