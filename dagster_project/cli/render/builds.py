"""Builds, fetches and plans as people read them in a terminal: progress while they run, tables at
their end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from dagster_project.cli.render.tables import print_records
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.extensions import extras
from dagster_project.orchestration.dry_run import Outlook
from dagster_project.orchestration.names import WAITS
from dagster_project.orchestration.outcomes import BuildResult, FetchOutcome
from dagster_project.orchestration.plan import FULL, Plan
from transforms.toml_file import toml_file

_STAGES = toml_file(__name__, "stages.toml") | {
    stage: words for extra in extras() for stage, words in extra.progress.items()
}
_SHOWN = (
    "messages",
    "threads",
    "attachments",
    "blocks",
    "documents",
    "nodes",
    "conversations",
    "links",
    "chunks",
    "embeddings",
    "terms",
    "postings",
    "exclusions",
    "quarantine",
)


_LINE_EVERY = 10.0
"""Seconds between two lines of progress on a pipe."""


class _Seconds(ProgressColumn):
    """The seconds that a stage took so far; while it runs also the rest by its speed, where its end
    is known.
    """

    def render(self, task: Task) -> Text:
        """The seconds, which run on while the stage does."""
        seconds = task.fields["seconds"]
        if task.finished:
            return Text(f"{seconds:6.1f} s")
        seconds += time.monotonic() - task.fields["since"]
        remaining = task.time_remaining
        rest = (
            ""
            if task.total is None or not remaining
            else f", {timedelta(seconds=round(remaining))} left"
        )
        return Text(f"{seconds:6.0f} s{rest}")


class _Rows(ProgressColumn):
    """How many rows a stage made; nothing of a stage that counts none."""

    def render(self, task: Task) -> Text:
        """The number of rows."""
        rows = task.fields["rows"]
        return Text(f"{rows:>9,} rows" if rows or not task.fields["is_phase"] else " " * 14)


class BuildView:
    """Shows a build: one progress line per stage while it runs, a table at its end.

    On a pipe it prints a line each `every` seconds.
    """

    def __init__(self, show: bool, every: float = _LINE_EVERY):
        self.console = terminal()
        self.show = show
        self._partitions = Counter[str]()
        self._tasks: dict[str, Any] = {}
        self._every, self._is_over = every, threading.Event()
        self._lines = threading.Thread(target=self._print_lines, daemon=True)
        self._since = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<18}", markup=False),
            BarColumn(bar_width=24),
            _Rows(),
            TextColumn("{task.fields[partition]}", markup=False),
            _Seconds(),
            console=self.console,
            disable=not show,
            # A bar that takes over the streams obeys the control sequences in them.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> BuildView:
        if self.show:
            self.console.print("Looking for changes in the sources")
            if not self.console.is_terminal:
                self._lines.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._lines.ident:
            self._lines.join()
        if not self._tasks:
            return
        if kind is None:
            self._end_lines()
        self._progress.stop()

    def _print_lines(self) -> None:
        """Print the stage that runs now, again and again until the build is over."""
        begun = time.monotonic()
        while not self._is_over.wait(self._every):
            seconds = f"{time.monotonic() - begun:,.0f} s"
            tasks = list(self._progress.tasks)
            if not tasks:
                self.console.print(f"{seconds}: looking for changes")
                continue
            task = tasks[-1]
            of = f" of {task.total:,.0f}" if task.total else ""
            done = f", {task.completed:,.0f}{of} partitions" if task.completed else ""
            rows = f", {task.fields['rows']:,} rows" if task.fields["rows"] else ""
            self.console.print(f"{seconds}: {task.description}{done}{rows}", markup=False)

    def _end_lines(self) -> None:
        """Show the stages so far as finished."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=task.completed, partition="")

    def plan(self, plan: Plan) -> None:
        """Print how many partitions the build will rebuild and remove."""
        if not self.show:
            return
        self.console.print(
            f"{len(plan.partitions)} partitions in the sources, {len(plan.stale)} to make, {len(plan.vanished)} to remove"
        )
        for line in plan.warnings():
            self.console.print(line, soft_wrap=True)
        for tables in plan.stale.values():
            self._partitions.update(tables)

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Move the line of a stage on."""
        if not self.show:
            return
        if stage == WAITS:
            if partition:
                self.console.print(f"Waits for {partition}, as the lake is in use", soft_wrap=True)
            return
        if not self._tasks:
            self._progress.start()
        if stage not in self._tasks:
            self._end_lines()
            self._tasks[stage] = self._progress.add_task(
                _STAGES.get(stage, stage),
                total=self._partitions.get(stage),
                rows=0,
                is_phase=stage.startswith("publish_"),
                partition="",
                seconds=0.0,
                since=0.0,
            )
        task, now = self._tasks[stage], time.monotonic()
        before = self._progress.tasks[task].fields
        self._progress.update(
            task,
            advance=1 if rows or partition else 0,
            rows=before["rows"] + rows,
            partition=partition or "",
            seconds=before["seconds"] + now - self._since,
            since=now,
        )
        self._since = now
        if stage == "fetch" or (stage == "search_index" and rows):
            self._progress.update(task, total=self._progress.tasks[task].completed)

    def summary(self, result: BuildResult) -> None:
        """Print the table of the published version, or that nothing changed."""
        for line in result.warnings():
            self.console.print(line, soft_wrap=True)
        if result.published is None:
            self.console.print(f"Nothing changed; the index is current ({result.seconds:.1f} s).")
            return
        self.console.print(f"Published version {result.published['version']}")
        table = Table("table", Column("rows", justify="right"))
        for name in _SHOWN:
            if f"rows_{name}" in result.published:
                table.add_row(name, f"{result.published[f'rows_{name}']:,}")
        self.console.print(table)
        if result.slow:
            self.console.print(f"Very long texts of {len(result.slow)} partitions were made last")
        if refused := result.embedding.get("refused_texts"):
            self.console.print(
                f"{refused:,} texts are refused by the model and found by their words alone: see the table "
                "embedding_refusals"
            )
        self.console.print(f"{result.published['path']}  ({result.seconds:.1f} s)", soft_wrap=True)


def print_fetched(outcomes: Mapping[str, FetchOutcome]) -> None:
    """Print the outcome of each source's fetch, and the age of its newest mail or file."""
    rows: list[dict[str, Any]] = []
    for name, outcome in outcomes.items():
        counts = {
            count: getattr(outcome, count) for count in ("added", "changed", "removed", "bytes")
        }
        hours = (outcome.lag_seconds or 0) / 3600
        ago = f"{hours:.1f} hours ago" if hours < 48 else f"{hours / 24:,.0f} days ago"
        newest = "" if outcome.lag_seconds is None else ago
        rows.append(
            {
                "source": name,
                "outcome": outcome.as_json()["outcome"].lower(),
                **counts,
                "newest": newest,
            }
        )
    print_records(rows, "No source has `fetch`; `weft help live-sources` says how to fetch one.")
    for name, outcome in outcomes.items():
        for note in (outcome.notes or "").splitlines():
            terminal().print(f"{name}: {note}", soft_wrap=True)


def print_outlook(outlook: Outlook) -> None:
    """The partitions that a build would rebuild, the reasons, and an estimate of its cost."""
    console = terminal()
    if outlook.as_json()["outcome"] == "NOTHING":
        of = "the sources that can be read" if outlook.broken else "the sources"
        console.print(
            f"Nothing to do: the index shows the {outlook.partitions} partitions of {of}."
        )
        return
    console.print(
        f"{len(outlook.pieces)} of {outlook.partitions} partitions to make, {len(outlook.removed)} to remove"
    )
    for why, count in outlook.reasons.items():
        like = next(piece.partition for piece in outlook.pieces if piece.why == why)
        console.print(f"  {count:>6,}  {why}, such as {like}", soft_wrap=True)
    for why in dict.fromkeys(outlook.whole.values()):
        tables = ", ".join(table for table, reason in outlook.whole.items() if reason == why)
        console.print(f"Tables over all partitions, {why}: {tables}", soft_wrap=True)
    if outlook.slow:
        console.print(
            f"{len(outlook.slow)} partitions wait for the slow lane, {outlook.waiting_bytes:,} bytes of text"
        )
    for path, damage in outlook.damaged.items():
        console.print(f"{path}: {damage}", soft_wrap=True)
    if outlook.is_full:
        console.print(FULL, soft_wrap=True)
    if outlook.texts:
        price = f", {outlook.price_usd:,.2f} US dollars" if outlook.price_usd else ""
        console.print(
            f"At most {outlook.texts:,} texts to embed, some {outlook.tokens:,} tokens{price}"
        )
    if outlook.seconds is None:
        console.print("How long it takes no earlier run tells.")
    else:
        longest = sorted(outlook.seconds_by_step.items(), key=lambda step: -step[1])[:5]
        steps = ", ".join(f"{name} {seconds:,.1f}" for name, seconds in longest)
        console.print(f"Some {outlook.seconds:,.0f} s by earlier runs: {steps}", soft_wrap=True)
