"""What people see in a terminal: progress, tables and hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from dagster_project.cli.safe_console import terminal
from transforms.text.visible import visible

if TYPE_CHECKING:
    from dagster_project.cli.doctor import Finding
    from dagster_project.orchestration.backfill import BackfillResult
    from dagster_project.orchestration.build import BuildResult
    from dagster_project.orchestration.dry_run import Outlook
    from dagster_project.orchestration.fetch import FetchOutcome
    from dagster_project.orchestration.plan import Plan
    from dagster_project.resources.search.disclosure import Prompted
    from dagster_project.resources.search.filters import Understood
    from dagster_project.resources.search.lookup import Reading
    from dagster_project.resources.search.search_index import SearchResult

_STAGES = {
    "fetch": "fetching",
    "messages": "reading mail",
    "message_blocks": "parsing blocks",
    "message_chunks": "cutting chunks",
    "message_terms": "counting terms",
    "message_references": "finding references",
    "slow_chunks": "slow lane: chunks",
    "slow_terms": "slow lane: terms",
    "documents": "reading documents",
    "document_nodes": "finding headings",
    "document_references": "finding links",
    "document_chunks": "cutting sections",
    "document_terms": "counting terms",
    "conversations": "reading chats",
    "conversation_markdown": "making windows",
    "conversation_query_chunks": "cutting queries",
    "conversation_chunks": "cutting turns",
    "conversation_terms": "counting terms",
    "conversation_context": "finding context",
    "embeddings": "embedding texts",
    "backfill": "backfill, bytes",
    "chunk_classes": "finding code",
    "chunk_similarities": "ordering chunks",
    "chunk_keywords": "finding keywords",
    "search_index": "publishing",
}
_SHOWN_WITH_A_HIT = 5
_EXPANSION_CHARS = 200
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


class BuildView:
    """Shows a build: one progress line per stage while it runs, a table at its end."""

    def __init__(self, show: bool):
        self.console = terminal()
        self.show = show
        self._partitions: dict[str, int] = {}
        self._tasks: dict[str, Any] = {}
        self._progress = Progress(
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description:<18}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[rows]:>9,} rows  {task.fields[partition]}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            disable=not show,
            # A bar that takes over the streams obeys the sequences of what is written to them.
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> BuildView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._tasks:
            return
        if kind is None:
            self._end_lines()
        self._progress.stop()

    def _end_lines(self) -> None:
        """Show the stages so far as done."""
        for task in self._progress.tasks:
            self._progress.update(task.id, total=task.completed, partition="")

    def plan(self, plan: Plan) -> None:
        """Say what will be done."""
        if not self.show:
            return
        self.console.print(
            f"{len(plan.partitions)} partitions in the sources, {len(plan.stale)} to make, {len(plan.vanished)} to remove"
        )
        for line in plan.told():
            self.console.print(line, soft_wrap=True)
        for tables in plan.stale.values():
            for table in tables:
                self._partitions[table] = self._partitions.get(table, 0) + 1

    def step(self, stage: str, partition: str | None, rows: int) -> None:
        """Move the line of a stage on."""
        if not self.show:
            return
        if not self._tasks:
            self._progress.start()
        if stage not in self._tasks:
            self._end_lines()
            self._tasks[stage] = self._progress.add_task(
                _STAGES.get(stage, stage), total=self._partitions.get(stage), rows=0, partition=""
            )
        task = self._tasks[stage]
        seen = self._progress.tasks[task].fields["rows"]
        self._progress.update(task, advance=1, rows=seen + rows, partition=partition or "")
        if stage in ("fetch", "search_index"):
            self._progress.update(task, total=self._progress.tasks[task].completed)

    def backfilled(self, done: BackfillResult) -> None:
        """What a backfill made, and the table of what is published."""
        rate = done.bytes / max(done.seconds, 1e-9) / 1e6
        self.console.print(
            f"{len(done.partitions)} partitions, {done.bytes / 1e6:,.1f} MB in {done.batches} batches "
            f"({rate:,.1f} MB/s, publishing included)"
        )
        self.summary(done.build)

    def summary(self, result: BuildResult) -> None:
        """The table of what is published, or that nothing changed."""
        for line in result.told():
            self.console.print(line, soft_wrap=True)
        if result.published is None:
            self.console.print(f"Nothing changed; the index is current ({result.seconds:.1f} s).")
            return
        self.console.print(f"Published version {result.published['version']}")
        table = Table()
        table.add_column("table")
        table.add_column("rows", justify="right")
        for name in _SHOWN:
            if f"rows_{name}" in result.published:
                table.add_row(name, f"{result.published[f'rows_{name}']:,}")
        self.console.print(table)
        if result.slow:
            self.console.print(f"Very long texts of {len(result.slow)} partitions were made by the slow lane")
        if refused := result.embedding.get("refused_texts"):
            self.console.print(
                f"{refused:,} texts are refused by the model and found by their words alone: see the table "
                "embedding_refusals"
            )
        self.console.print(f"{result.published['path']}  ({result.seconds:.1f} s)", soft_wrap=True)


def print_hits(queries: list[str], result: SearchResult, version: str) -> None:
    """Hits as people read them: subject, thread, author, snippet, scores, citation."""
    console = terminal()
    rows = result.hits.to_pylist()
    for number, query in enumerate(queries):
        hits = [r for r in rows if r["query"] == number]
        console.print(
            Text(f"{query}", style="bold"),
            Text(f"  {len(hits)} hits" if hits else "  nothing found"),
            Text(
                "" if not hits or result.labels[number] == "PASS" else f" {result.labels[number]}",
                style="red",
            ),
        )
        _print_understood(console, result.understood[number])
        for hit in hits:
            _print_hit(console, hit)
        console.print()
    console.print(
        f"{result.seconds * 1000:.0f} ms, {result.vector_path} vector search, version {version}", style="dim"
    )


def _print_understood(console: Console, query: Understood) -> None:
    """What a query with conditions was understood as, and how many chunks meet each."""
    said = [f"{c['condition']} ({c['chunks']:,} chunks)" for c in query.conditions]
    if said:
        order = f"ranked by {query.text!r}" if query.order == "score" else "the newest first"
        console.print(f"     only {', '.join(said)}; {order}", style="dim", soft_wrap=True)
    if query.note:
        console.print(f"     {query.note}", style="dim", soft_wrap=True)


def _print_hit(console: Console, hit: dict[str, Any]) -> None:
    when = f"{hit['effective_at']:%Y-%m-%d %H:%M}" if hit["effective_at"] else "no date"
    console.print(Text(f"{hit['rank']:>3}. ") + Text(hit["subject"] or "(no subject)", style="bold cyan"))
    if hit["source_kind"] == "document":
        facts = [hit["breadcrumb"], *([when] if hit["effective_at"] else []), hit["source"]]
    elif hit["source_kind"] == "conversation":
        facts = [when, hit["source"]]
    else:
        single = hit["thread_size"] == 1
        thread = "single mail" if single else f"mail {hit['thread_position'] + 1} of {hit['thread_size']}"
        author = hit["from_name"] or hit["from_addr"] or "unknown author"
        facts = [author, when, hit["list_id"], thread]
    file = [hit["filename"]] if hit["filename"] else []
    console.print("     " + " · ".join([*facts, hit["chunk_kind"], *file]))
    snippet = Text(hit["snippet"])
    for start, end in hit["highlights"]:
        snippet.stylize("bold yellow", start, end)
    console.print(Text("     ") + snippet, soft_wrap=False)
    console.print(f"     {scores(hit)}  ⟨{hit['citation']}⟩", style="dim", soft_wrap=True)
    for part in hit["constituents"][:_SHOWN_WITH_A_HIT]:
        console.print(Text(f"       for {part['doc_id']}: {part['reason']}", style="dim"), soft_wrap=True)
    for near in hit["expansions"]:
        text = " ".join(near["text"].split())[:_EXPANSION_CHARS]
        console.print(
            Text(f"       {near['kind']}: {text}  ") + Text(f"⟨{near['citation']}⟩", style="dim"),
            soft_wrap=True,
        )


def scores(hit: dict[str, Any]) -> str:
    """The parts of a score in one line; a hit that is listed has none."""
    if not hit["score"] and hit["lexical_rank"] is None and hit["vector_rank"] is None:
        return "listed"
    ranks = [f"{n} {hit[f'{n}_score']:.3f} (#{hit[f'{n}_rank'] or '–'})" for n in ("lexical", "vector")]
    thread = f" + thread {hit['thread_score']:.3f}" if hit["thread_score"] else ""
    again = ""
    if hit["reranker"]:
        parts = [f"{p['part']} {p['value']:.3f}" for p in hit["rerank_parts"] or () if p["value"]]
        told = f" = {' + '.join(parts)}" if parts else ""
        again = (
            f"; reranked {hit['rerank_score']:.3f}{told} (#{hit['rank_before']} before) by {hit['reranker']}"
        )
    return f"{hit['score']:.3f} = fused {hit['fused_score']:.3f}{thread}; {', '.join(ranks)}{again}"


def print_fetched(outcomes: Mapping[str, FetchOutcome]) -> None:
    """What became of each source's fetch, and how old its newest mail or file is."""
    rows = [
        {
            "source": name,
            "outcome": outcome.as_json()["outcome"].lower(),
            "added": outcome.added,
            "changed": outcome.changed,
            "removed": outcome.removed,
            "bytes": outcome.bytes,
            "newest": "" if outcome.lag_seconds is None else _ago(outcome.lag_seconds),
        }
        for name, outcome in outcomes.items()
    ]
    print_records(rows, "No source has `fetch`; docs/settings.md says how it is fetched.")
    for name, outcome in outcomes.items():
        for note in (outcome.notes or "").splitlines():
            terminal().print(f"{name}: {note}", soft_wrap=True)


def _ago(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.1f} hours ago" if hours < 48 else f"{hours / 24:,.0f} days ago"


def print_outlook(found: Outlook) -> None:
    """What a build would do, why, and what it would take."""
    from dagster_project.orchestration.plan import ANEW

    console = terminal()
    if found.as_json()["outcome"] == "NOTHING":
        console.print(f"Nothing to do: the index shows the {found.partitions} partitions of the sources.")
        return
    console.print(
        f"{len(found.pieces)} of {found.partitions} partitions to make, {len(found.removed)} to remove"
    )
    for why, count in found.reasons.items():
        like = next(piece.partition for piece in found.pieces if piece.why == why)
        console.print(f"  {count:>6,}  {why}, such as {like}", soft_wrap=True)
    for why in dict.fromkeys(found.whole.values()):
        tables = ", ".join(table for table, reason in found.whole.items() if reason == why)
        console.print(f"Tables over all partitions, {why}: {tables}", soft_wrap=True)
    if found.slow:
        console.print(
            f"{len(found.slow)} partitions wait for the slow lane, {found.waiting_bytes:,} bytes of text"
        )
    if found.left:
        console.print(f"{found.left} partitions are left to the backfill that is under way")
    for path, damage in found.damaged.items():
        console.print(f"{path}: {damage}", soft_wrap=True)
    if found.anew:
        console.print(ANEW, soft_wrap=True)
    if found.texts:
        price = f", {found.price_usd:,.2f} US dollars" if found.price_usd else ""
        console.print(f"At most {found.texts:,} texts to embed, some {found.tokens:,} tokens{price}")
    if found.seconds is None:
        console.print("How long it takes no earlier run tells.")
    else:
        longest = sorted(found.seconds_by_step.items(), key=lambda step: -step[1])[:5]
        steps = ", ".join(f"{name} {seconds:,.1f}" for name, seconds in longest)
        console.print(f"Some {found.seconds:,.0f} s by earlier runs: {steps}", soft_wrap=True)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    console = terminal()
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int | float) else str(value)
        console.print(f"{name.replace('_', ' '):<16}{shown:>24}")


def print_records(records: Sequence[Mapping[str, Any]], none: str) -> None:
    """Records as a table, or `none` where there are none."""
    if records:
        print_rows(pa.Table.from_pylist([dict(r) for r in records]))
    else:
        terminal().print(none)


def print_findings(findings: Sequence[Finding]) -> None:
    """What `weft doctor` found, one line each, and below what is not well the remedy."""
    console = terminal()
    styles = {"ok": "green", "warning": "yellow", "fault": "bold red"}
    for finding in findings:
        state = Text(f"{finding.state:<8}", style=styles[finding.state])
        console.print(state + Text(f"{finding.area:<12}{finding.found}"), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"{'':<20}→ {finding.remedy}", style="cyan"), soft_wrap=True)


def print_stripe(rows: list[dict[str, Any]]) -> None:
    """The chunks of a stripe in its order, each under its title."""
    console = terminal()
    for row in rows:
        facts = f"chunk {row['chunk_index']}, similarity {row['similarity']:.3f}{', code' if row['is_code'] else ''}"
        console.print(Text(row["title"], style="bold cyan") + Text(f"  {facts}", style="dim"), soft_wrap=True)
        console.print(Text(row["text_display"]), soft_wrap=True)
        console.print()


def print_prompted(found: Sequence[Prompted]) -> None:
    """The chunks of stored questions, each with its question and where it stands."""
    console = terminal()
    for number, hit in enumerate(found, 1):
        console.print(Text(f"{number:>3}. ") + Text(hit.title, style="bold cyan"))
        asked = f"asked: {hit.question} ({hit.distance} bits away, similarity {hit.similarity:.3f})"
        console.print(Text(f"     {asked}"), soft_wrap=True)
        console.print(Text(hit.text), soft_wrap=True)
        console.print(f"     ⟨{hit.node_id or hit.doc_id}⟩", style="dim", soft_wrap=True)


def print_rows(rows: pa.Table) -> None:
    """A result of SQL as a table."""
    table = Table()
    for name, type_ in zip(rows.column_names, rows.schema.types, strict=True):
        is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
        table.add_column(visible(name), justify="right" if is_number else "left")
    for row in rows.to_pylist():
        # The widths of columns are measured before the console makes texts safe.
        table.add_row(*("" if v is None else visible(str(v)) for v in row.values()))
    terminal().print(table)


def reading_line(found: Reading) -> str:
    """What a text is, in one line."""
    at = found.facts.get("effective_at")
    place = None if found.byte_start is None else f"bytes {found.byte_start}-{found.byte_end}"
    facts = [
        f"{found.kind} {found.id}",
        place,
        found.title,
        found.facts.get("from_name") or found.facts.get("from_addr"),
        at and f"{at:%Y-%m-%d %H:%M}",
    ]
    return " · ".join(fact for fact in facts if fact)
