"""Hits, texts, tables and explanations of searches as people read them in a terminal."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.index.search.explain import Explanation
from dagster_project.index.search.filters import Understood
from dagster_project.index.search.hit_table import SearchResult
from dagster_project.index.search.lookup import Reading
from transforms.conversations.pseudonyms import pseudonym_tails, short_pseudonyms
from transforms.schemas.chunks import UNAUTHORED
from transforms.text.visible import visible

_SHOWN_WITH_A_HIT = 3
_EXPANSION_CHARS = 200
_INDENT = 5
_LEAST_WIDTH = 13
"""Signs of a line that a column takes at least, so that a word or a day stays whole."""


class Details(NamedTuple):
    """The facts to print beside the texts of hits: how they were found, and other matches in their documents."""

    explain: bool = False
    more: bool = False


def print_hits(queries: list[str], result: SearchResult, version: str, details: Details) -> None:
    """Hits as people read them, those of one thread together: subject, author, text, the quote that it answers, citation."""
    console = terminal()
    rows = result.hits.to_pylist()
    for number, query in enumerate(queries):
        hits = [r for r in rows if r["query"] == number]
        label = "" if not hits or result.labels[number] == "PASS" else f" {result.labels[number]}"
        count = f"  {len(hits)} hit{'s' * (len(hits) > 1)}" if hits else "  nothing found"
        console.print(Text(query, style="bold"), Text(count), Text(label, style="red"))
        _print_understood(console, result.understood[number])
        by_thread: dict[object, list[dict[str, Any]]] = {}
        for hit in hits:
            by_thread.setdefault(hit["thread_id"] or hit["rank"], []).append(hit)
        for of_thread in by_thread.values():
            for place, hit in enumerate(of_thread):
                _print_hit(console, hit, details, is_further=place > 0)
        console.print()
    path = f", {result.vector_path} vector search" if details.explain else ""
    console.print(result.completeness.line(), style="dim", soft_wrap=True)
    console.print(f"{result.seconds * 1000:.0f} ms{path}, version {version}", style="dim")


def _print_understood(console: Console, query: Understood) -> None:
    """The conditions of a query as the search understood them, and how many chunks meet each."""
    conditions = [f"{c['condition']} ({c['chunks']:,} chunks)" for c in query.conditions]
    order = f"ranked by {query.text!r}" if query.order == "score" else "the newest first"
    lines = [
        (conditions, "dim", f"only {', '.join(conditions)}; {order}"),
        (query.lifts, "dim", f"higher if {' or '.join(query.lifts)}"),
        (query.note, "dim", query.note),
        (query.meant, "", f"did you mean {', '.join(query.meant)}?"),
        (query.nearest, "dim", f"nearest, but not near: {query.nearest}; --weak shows it"),
    ]
    for facts, style, line in lines:
        if facts:
            console.print(f"     {line}", style=style, soft_wrap=True)


def _print_hit(console: Console, hit: dict[str, Any], details: Details, is_further: bool) -> None:
    """One hit; a further one of its thread is under the subject of the first, unless it has another."""
    subject = Text(short_pseudonyms(hit["subject"] or "(no subject)"), style="bold cyan")
    facts = Text(" · ".join(_facts(hit)))
    if is_further and _bare(hit["subject"]) == _bare(hit["thread_subject"]):
        console.print(Text(f"{hit['rank']:>3}. ") + facts, soft_wrap=True)
    else:
        console.print(Text(f"{hit['rank']:>3}. ") + subject, soft_wrap=True)
        _print_inside(console, facts)
    _print_inside(console, short_pseudonyms(hit["before"] or ""), style="dim")
    snippet = Text(hit["snippet"])
    for start, end in hit["highlights"]:
        snippet.stylize("bold yellow", start, end)
    _print_inside(console, Text().join(snippet.divide(pseudonym_tails(snippet.plain))[::2]))
    _print_inside(console, short_pseudonyms(hit["after"] or ""), style="dim")
    if hit["quoted_text"]:
        by = f" {hit['quoted_name']}" if hit["quoted_name"] else ""
        _print_inside(console, f"answering{by}: “{hit['quoted_text']}”", style="dim italic")
    if details.explain:
        console.print(f"     {hit['chunk_kind']}: {scores(hit)}", style="dim", soft_wrap=True)
    console.print(f"     ⟨{hit['citation']}⟩", style="dim", soft_wrap=True)
    _print_other(console, hit, details)


def _facts(hit: dict[str, Any]) -> list[str]:
    """The author, time and place of the text of a hit."""
    when = f"{hit['effective_at']:%Y-%m-%d %H:%M}" if hit["effective_at"] else "no date"
    if hit["source_kind"] == "document":
        dated = [when] if hit["effective_at"] else []
        section = (hit["breadcrumb"] or "").removeprefix("> ").removeprefix(f"{hit['subject']} › ")
        return [*([section] if section not in ("", hit["subject"]) else []), *dated, hit["source"]]
    if hit["source_kind"] == "conversation":
        return [*filter(None, [short_pseudonyms(hit["from_name"] or "")]), when, hit["source"]]
    if not hit["thread_size"]:  # a file of a chat
        return [when, hit["source"], f"attached file {hit['filename'] or ''}".strip()]
    single = hit["thread_size"] == 1
    thread = (
        "single mail" if single else f"mail {hit['thread_position'] + 1} of {hit['thread_size']}"
    )
    kind = hit["content_class"]
    what = [kind] if kind in ("patch", "log") else []
    if hit["chunk_kind"] == UNAUTHORED:
        what = ["nothing but quotes"]
    if hit["attachment_id"]:
        what = [f"attached {'file' if kind == 'text' else kind} {hit['filename'] or ''}".strip()]
    return [
        hit["from_name"] or hit["from_addr"] or "unknown author",
        when,
        hit["list_id"],
        thread,
        *what,
    ]


def _print_inside(console: Console, text: Text | str | None, style: str = "") -> None:
    """A text below the number of its hit, every line of it."""
    if text:
        whole = Text(text) if isinstance(text, str) else text
        for line in whole.wrap(console, console.width - _INDENT):
            line.rstrip()
            console.print(Text(" " * _INDENT) + line, style=style, soft_wrap=True)


def _bare(subject: str | None) -> str:
    """A subject as it is compared: without the marks of replies and the tags before it."""
    return re.sub(r"^(?:\s*(?:\w{2,3}:|\[[^\]]*\]))+\s*", "", subject or "").casefold()


def _print_other(console: Console, hit: dict[str, Any], details: Details) -> None:
    """Print the hits that a hit replaces, other matches in its mail or document, and the texts around it."""
    constituents = [part for part in hit["constituents"] if part["doc_id"] != hit["doc_id"]]
    for part in constituents[:_SHOWN_WITH_A_HIT]:
        console.print(
            Text(f"     also {part['doc_id']}: {part['reason']}", style="dim"), soft_wrap=True
        )
    if len(constituents) > _SHOWN_WITH_A_HIT:
        console.print(f"     and {len(constituents) - _SHOWN_WITH_A_HIT} more", style="dim")
    if hit["more"]:
        count = len(hit["more"])
        what = "attachment" if hit["source_kind"] != "document" else "section"
        of = " of this page" if what == "section" else ""
        matches = f"{what}{of} matches" if count == 1 else f"{what}s{of} match"
        console.print(f"     {count} more {matches}", style="dim")
    for part in hit["more"] if details.more else ():
        console.print(
            Text(f"       {part['title']}  ") + Text(f"⟨{part['citation']}⟩", style="dim"),
            soft_wrap=True,
        )
    for near in hit["expansions"]:
        text = " ".join(near["text"].split())[:_EXPANSION_CHARS]
        console.print(
            Text(f"       {near['kind']}: {text}  ") + Text(f"⟨{near['citation']}⟩", style="dim"),
            soft_wrap=True,
        )


def scores(hit: dict[str, Any]) -> str:
    """The parts of a score in one line; `listed` for a hit without a score."""
    if not hit["score"] and hit["lexical_rank"] is None and hit["vector_rank"] is None:
        return "listed"
    ranks = [
        f"{n} {hit[f'{n}_score']:.3f} (#{hit[f'{n}_rank'] or '–'})" for n in ("lexical", "vector")
    ]
    thread = f" + thread {hit['thread_score']:.3f}" if hit["thread_score"] else ""
    rerank = ""
    if hit["reranker"]:
        parts = [f"{p['part']} {p['value']:.3f}" for p in hit["rerank_parts"] or () if p["value"]]
        sum_ = f" = {' + '.join(parts)}" if parts else ""
        rerank = f"; reranked {hit['rerank_score']:.3f}{sum_} (#{hit['rank_before']} before) by {hit['reranker']}"
    return (
        f"{hit['score']:.3f} = fused {hit['fused_score']:.3f}{thread}; {', '.join(ranks)}{rerank}"
    )


def reading_line(text: Reading) -> str:
    """The kind, position, title, author and date of a text in one line."""
    at = text.facts.get("effective_at")
    place = None if text.byte_start is None else f"bytes {text.byte_start}-{text.byte_end}"
    facts = [
        f"{text.kind} {text.id}",
        place,
        text.title,
        text.facts.get("from_name") or text.facts.get("from_addr"),
        at and f"{at:%Y-%m-%d %H:%M}",
    ]
    return " · ".join(fact for fact in facts if fact)


_WIDEST = 1 << 20
"""Characters of the widest line of a table in a pipe."""


def print_facts(facts: Mapping[str, Any]) -> None:
    """Names and values, one a line."""
    console = terminal()
    for name, value in facts.items():
        formatted = f"{value:,}" if isinstance(value, int | float) else str(value)
        console.print(f"{name.replace('_', ' '):<16}{formatted:>24}")


def print_records(records: Sequence[Mapping[str, Any]], none: str) -> None:
    """Records as a table, or `none` where there are none."""
    if records:
        print_rows(pa.Table.from_pylist([dict(r) for r in records]))
    else:
        terminal().print(none)


def print_rows(rows: pa.Table) -> None:
    """A result of SQL as a table; if it is too wide for the terminal, the first columns, and the names of the others."""
    console, table = terminal(), Table()
    most = max(console.width // _LEAST_WIDTH, 1) if console.is_terminal else rows.num_columns
    rows, others = rows.select(rows.column_names[:most]), rows.column_names[most:]
    for name, type_ in zip(rows.column_names, rows.schema.types, strict=True):
        is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
        table.add_column(visible(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows.to_pylist():
        # The widths of columns are measured before the console makes texts safe.
        table.add_row(*("" if v is None else visible(str(v)) for v in row.values()))
    if not console.is_terminal:
        widest = console.options.update(max_width=_WIDEST)
        console.width = max(console.width, console.measure(table, options=widest).maximum)
    console.print(table)
    if others:
        console.print(
            f"{len(others)} more columns: {', '.join(others)}. Select them by name.", style="dim"
        )


_SHOWN_CHARS = 200


def print_explanation(result: Explanation, rows: int) -> None:
    """One line per stage, a table of the hits with their place in each, the first drops of each, the fate of an id."""
    console = terminal()
    console.print(Text(result.query, style="bold") + Text(f"  {result.label}"))
    _print_understood(console, result.understood)
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


def print_plan(plan: Mapping[str, Any]) -> None:
    """The plan of a context: its stages, its queries, the passages of the block, and those left out with the reason."""
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
    """The place of each of the last hits in the list of every stage, below its id and title: a line fits a terminal."""
    names = [stage.stage for stage in result.stages]
    lines = [Text(" ".join(names), style="bold")]
    for (_, place, title), places in result.ways(rows):
        shown = (f"#{n}" if n else "–" for n in places)
        lines += [
            Text(f"{place}  ") + Text(title, style="cyan"),
            Text(" ".join(map(str.rjust, shown, map(len, names)))),
        ]
    return Text("\n").join(lines)
