"""Evaluations and sweeps as people read them in a terminal."""

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from dagster_project.cli.terminal.safe_console import SafeConsole, terminal
from transforms.evaluation.metrics import MEASURES
from transforms.evaluation.quality import HEADLINE, MAIN

_WIDE = "Recall@100"
_DESIGN_MEASURES = ("MRR@10", "Recall@10", _WIDE)
"""Measures that fit beside the costs of designs."""


def print_report(report: Mapping[str, Any], paths: Mapping[str, str]) -> None:
    """Scores of each profile with intervals, best and worst queries of the baseline, and the places
    of the files.
    """
    console = terminal()
    console.print(_scores(report))
    console.print(_stages(report))
    _print_comparisons(console, report)
    if tags := _tags(report):
        console.print(f"{HEADLINE} of {report['order'][0]} by tag: {', '.join(tags)}", style="dim")
    for line in _left_out(report):
        console.print(line, style="dim")
    for kind, place in paths.items():
        console.print(f"{kind}: {place}", soft_wrap=True)


def print_runs(report: Mapping[str, Any]) -> None:
    """Scores of each run (`transforms.evaluation.trec.run_report`), and how far it is from the first."""
    console = terminal()
    console.print(_scores(report))
    _print_comparisons(console, report)
    for name, queries in report["unjudged"].items():
        if queries:
            console.print(
                f"{name}: {len(queries)} queries without a right answer are left out", style="dim"
            )


def _print_comparisons(console: Console, report: Mapping[str, Any]) -> None:
    for row in report["comparisons"]:
        if row["measure"] == HEADLINE:
            console.print(
                f"{row['profile']} − {row['baseline']}: {HEADLINE} {row['difference']:+.3f} "
                f"[{_short(row['low'], '+')}, {_short(row['high'], '+')}], p {row['p_value']:.3f}; "
                f"{len(row['won'])} queries won, {len(row['lost'])} lost"
            )


def print_sweep(rows: Sequence[Mapping[str, Any]], measure: str) -> None:
    """Settings by quality, those on the frontier of quality against cost marked."""
    title = "settings by quality; * is on the frontier of quality against time"
    table = _table(title, ("", "settings"), (measure, "95 % interval", "ms/query"))
    for row in rows:
        interval = f"{_short(row['low'])}–{_short(row['high'])}"
        mark = "*" if row["frontier"] else ""
        table.add_row(
            mark, row["profile"], _short(row["mean"]), interval, f"{row['ms_per_query']:.2f}"
        )
    terminal().print(table)


def print_designs(rows: Sequence[Mapping[str, Any]]) -> None:
    """The designs beside the default: quality, how far the default is ahead of each, and costs."""
    costs = ("ms/query", "chunks", "MB", "build s")
    shown = (f"{HEADLINE} 95 %", *_DESIGN_MEASURES, "default ahead by", *costs)
    title = "the designs beside the default, hits counted as documents"
    table = _table(title, (Column("design", no_wrap=True),), shown)
    for row in rows:
        ahead = f"{row['ahead']:+.3f} [{_short(row['ahead_low'], '+')}, {_short(row['ahead_high'], '+')}]"
        table.add_row(
            row["design"],
            f"{_short(row[HEADLINE])} {_short(row['low'])}–{_short(row['high'])}",
            *(_short(row[measure]) for measure in _DESIGN_MEASURES),
            "" if row is rows[0] else ahead,
            f"{row['ms_per_query']:.1f}",
            f"{row['chunks']:,}",
            f"{row['megabytes']:.1f}",
            f"{row['build_seconds']:.1f}",
        )
    terminal().print(table)


@contextlib.contextmanager
def counted_progress(count: int, show: bool) -> Iterator[Callable[[str], None]]:
    """A bar on stderr; call the function that it yields after each of `count` steps.

    Where queries come in several batches, the bar grows with each.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = SafeConsole(sys.stderr)
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not show,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as progress:
        task = progress.add_task("settings", total=count)

        def done(profile: str) -> None:
            (state,) = progress.tasks
            if state.completed >= (state.total or 0):
                progress.update(task, total=state.completed + count)
            progress.advance(task)

        yield done


def _scores(report: Mapping[str, Any]) -> Table:
    """Means of every measure and profile; the interval of the headline."""
    queries = len(report["queries"])
    title = f"{queries} queries, hits counted as documents"
    table = _table(title, ("profile",), (*MEASURES, f"{HEADLINE} 95 %"))
    rows = {
        (row["profile"], row["measure"]): row
        for row in report["summary"]
        if row["tag"] is None and (row["stage"], row["level"]) == MAIN
    }
    for profile in report["order"]:
        if values := [rows[profile, measure] for measure in MEASURES if (profile, measure) in rows]:
            headline = rows[profile, HEADLINE]
            interval = f"{_short(headline['low'])}–{_short(headline['high'])}"
            table.add_row(profile, *(_short(row["mean"]) for row in values), interval)
    return table


def _stages(report: Mapping[str, Any]) -> Table:
    """HEADLINE and Recall@100 of the list after each stage, a column per profile; blank where it is
    switched off.
    """
    table = _table(f"after each stage: {HEADLINE} / {_WIDE}", ("stage",), report["order"])
    means = {
        (row["profile"], row["stage"], row["measure"]): _short(row["mean"])
        for row in report["summary"]
        if row["tag"] is None and row["level"] == MAIN[1]
    }
    for stage in report["stages"]:
        cells = [[means.get((p, stage, m), "") for m in (HEADLINE, _WIDE)] for p in report["order"]]
        table.add_row(stage, *(" / ".join(filter(None, pair)) for pair in cells))
    return table


def _tags(report: Mapping[str, Any]) -> list[str]:
    columns = (report["order"][0], HEADLINE)
    return [
        f"{row['tag']} {row['mean']:.2f} ({row['queries']})"
        for row in report["summary"]
        if row["tag"] is not None and (row["profile"], row["measure"]) == columns
    ]


def _left_out(report: Mapping[str, Any]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for row in report["entries"]["counts"]:
        counts[row["status"]] += row["entries"]
    if count := counts["unanswerable"]:
        yield f"{count} right answers are chat, and no conversation is published: left out"
    if count := counts["missing"]:
        yield f"{count} right answers are not in the index: they count as not found"
    if names := report["not_measured"]:
        yield f"not measured, without an answer that could be found: {', '.join(names)}"


def _table(title: str, texts: Iterable[str | Column], numbers: Iterable[str]) -> Table:
    """A table without rows: columns of texts, then columns of numbers, which end at the right."""
    columns = (Column(name, justify="right") for name in numbers)
    return Table(*texts, *columns, title=title, title_justify="left")


def _short(value: float | None, sign: str = "") -> str:
    return "?" if value is None else f"{value:{sign}.3f}"
