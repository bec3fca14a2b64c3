"""The stages of a search and the plan of a context as people read them in a terminal."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Column, Table
from rich.text import Text

from dagster_project.cli.render.hits import print_understood
from dagster_project.cli.render.tables import print_records
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.index.search.explain import Explanation
from transforms.signs import sign_languages, surest_language

_SHOWN_CHARS = 200
_NEUTRAL = "no signs of questions and news are known for {}: they do not change the order"


def print_plan(plan: Mapping[str, Any]) -> None:
    """The plan of a context: its stages, its queries, the passages of the block, and those left out
    with the reason.
    """
    console = terminal()
    print_records(plan["stages"], "no stages")
    for query in plan["queries"]:
        numbers = ", ".join(map(str, query["passages"])) or "none"
        console.print(
            Text(f"query {query['query']}: passages {numbers}", style="bold"), soft_wrap=True
        )
        console.print(Text(f"  {' '.join(query['text'].split())[:_SHOWN_CHARS]}"), soft_wrap=True)
        if query["first"] and (reason := query["first"]["reason"]):
            console.print(
                Text(f"  without its first hit, {query['first']['chunk_id']}: {reason}"),
                soft_wrap=True,
            )
    for number, entry in enumerate(plan["chosen"], 1):
        console.print(Text(f"{number:>3} {_line_of(entry)}"), soft_wrap=True)
    for entry in plan["dropped"]:
        console.print(Text(f"  - {_line_of(entry)}: {entry['reason']}"), soft_wrap=True)
    console.print(f"model {plan['model']}, version {plan['index_version']}", style="dim")


def _line_of(entry: Mapping[str, Any]) -> str:
    first, last = entry["lines"]
    return f"{entry['place']} lines {first}-{last} bytes {entry['byte_start']}-{entry['byte_end']}"


def print_explanation(result: Explanation, rows: int) -> None:
    """One line per stage, a table of the hits with their place in each, the first drops of each,
    the fate of an id.
    """
    console = terminal()
    console.print(Text(result.query, style="bold") + Text(f"  {result.label}"))
    print_understood(console, result.understood._asdict())
    if not sign_languages(result.query):
        console.print(Text(_NEUTRAL.format(surest_language(result.query)), style="dim"))
    console.print(_stages(result))
    if result.stages:
        console.print(_ways(result, rows), soft_wrap=True)
    for table in result.stages:
        dropped = table.steps.filter(pl.col("rank").is_null())
        if dropped.height:
            console.print(Text(f"{table.stage} dropped {dropped.height:,}", style="bold"))
            for row in dropped.head(rows).iter_rows(named=True):
                _, place, title = result.name(row["chunk_no"])
                target = f" → {into}" if (into := result.name(row["into"])[1]) else ""
                reason = (f"\n     {row['reason']}{target}", "dim")
                line = Text.assemble(f"  #{row['rank_before']} {place}  ", (title, "cyan"), reason)
                console.print(line, soft_wrap=True)
    if result.fate is not None:
        console.print(
            Text(f"{result.fate.id}: {result.fate.answer}", style="bold cyan"), soft_wrap=True
        )
        for m in result.fate.moments:
            place = m.reason if m.rank is None else f"#{m.rank}"
            score = "" if m.score is None else f"  {m.score:.3f}"
            console.print(Text(f"  {m.stage:<16}{place}{score}"), soft_wrap=True)
    facts = f"{result.seconds * 1000:.0f} ms, {result.vector_path} vector search, version {result.version}"
    console.print(facts, style="dim")


def _stages(result: Explanation) -> Table:
    numbers = (Column(name, justify="right") for name in ("ms", "hits", "dropped", "best", "last"))
    table = Table("stage", *numbers, box=None, pad_edge=False)
    for stage in result.stages:
        ranked = stage.steps.drop_nulls("rank")
        best, last = (
            ("", "") if ranked.is_empty() else (f"{ranked['score'][i]:.3f}" for i in (0, -1))
        )
        dropped = stage.steps.height - ranked.height
        table.add_row(
            stage.stage,
            f"{stage.seconds * 1000:.1f}",
            f"{ranked.height:,}",
            f"{dropped:,}",
            best,
            last,
        )
    return table


def _ways(result: Explanation, rows: int) -> Text:
    """The place of each of the last hits in the list of every stage, below its id and title: a line
    fits a terminal.
    """
    names = [stage.stage for stage in result.stages]
    lines = [Text(" ".join(names), style="bold")]
    for (_, place, title), places in result.ways(rows):
        shown = (f"#{n}" if n else "–" for n in places)
        lines += [
            Text(f"{place}  ") + Text(title, style="cyan"),
            Text(" ".join(map(str.rjust, shown, map(len, names)))),
        ]
    return Text("\n").join(lines)
