"""Hits and texts of the index as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from dagster_project.cli.safe_console import terminal
from dagster_project.resources.search.filters import Understood
from dagster_project.resources.search.hit_table import SearchResult
from dagster_project.resources.search.lookup import Reading

if TYPE_CHECKING:
    from dagster_project.resources.search.disclosure import Prompted

_SHOWN_WITH_A_HIT = 5
_EXPANSION_CHARS = 200


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
    """The conditions of a query as the search understood them, and how many chunks meet each."""
    conditions = [f"{c['condition']} ({c['chunks']:,} chunks)" for c in query.conditions]
    if conditions:
        order = f"ranked by {query.text!r}" if query.order == "score" else "the newest first"
        console.print(f"     only {', '.join(conditions)}; {order}", style="dim", soft_wrap=True)
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
    rerank = ""
    if hit["reranker"]:
        parts = [f"{p['part']} {p['value']:.3f}" for p in hit["rerank_parts"] or () if p["value"]]
        sum_ = f" = {' + '.join(parts)}" if parts else ""
        rerank = (
            f"; reranked {hit['rerank_score']:.3f}{sum_} (#{hit['rank_before']} before) by {hit['reranker']}"
        )
    return f"{hit['score']:.3f} = fused {hit['fused_score']:.3f}{thread}; {', '.join(ranks)}{rerank}"


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
