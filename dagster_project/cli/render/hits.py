"""Answers of searches as people read them in a terminal; this module loads nothing that searches."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from dagster_project.cli.render.lines import minute
from dagster_project.cli.terminal.safe_console import terminal
from dagster_project.index.search.completeness_line import completeness_line
from transforms.conversations.pseudonyms import pseudonym_tails, short_pseudonyms
from transforms.mail.list_tags import without_list_tags
from transforms.retrieval.counts import Count
from transforms.retrieval.folding import folded_by_relation
from transforms.retrieval.preference_words import preference_sentence
from transforms.schemas.kinds import UNAUTHORED

_SHOWN_WITH_A_HIT = 3
_EXPANSION_CHARS = 200
_INDENT = 5


class Details(NamedTuple):
    """The facts to print beside the texts of hits: how they were found, and other matches in their
    documents.
    """

    explain: bool = False
    more: bool = False


_LABELS = {
    "WEAK": "a weak match: they may only share words with it",
    "NO_RESULTS": "none is near: the least distant texts",
}
"""The labels of hits that may not answer, in words."""


def print_hits(answer: Mapping[str, Any], details: Details) -> None:
    """The answer to a search (`SearchResult.as_json`) as people read it, hits of one thread
    together: subject, author, text, the quote that it answers, citation.
    """
    console = terminal()
    for query in answer["queries"]:
        hits = query["hits"]
        label = f"  {_LABELS.get(query['label'], '')}" if hits else ""
        count = f"  {_count(query)}" if hits else "  nothing found"
        used = query["explain"]["used"]
        console.print(Text(used, style="bold"), Text(count), Text(label, style="red"))
        print_understood(console, query["understood"])
        by_thread: dict[object, list[dict[str, Any]]] = {}
        for hit in hits:
            by_thread.setdefault(hit["thread_id"] or hit["rank"], []).append(hit)
        for of_thread in by_thread.values():
            for place, hit in enumerate(of_thread):
                _print_hit(console, hit, details, is_further=place > 0)
        console.print()
    path = f", {answer['vector_path']} vector search" if details.explain else ""
    console.print(completeness_line(answer["completeness"]), style="dim", soft_wrap=True)
    took = f"{answer['seconds'] * 1000:.0f} ms{path}"
    console.print(f"{took}, version {answer['version']}", style="dim")


def _count(query: Mapping[str, Any]) -> str:
    """How many hits are shown, and of how many."""
    shown, count = len(query["hits"]), Count(**query["count"])
    hits = f"{shown} hit{'s' * (shown > 1)}"
    return hits if shown == count.hits and count.is_exact else f"{hits} of {count.line()}"


def print_understood(console: Console, query: Mapping[str, Any]) -> None:
    """The conditions of a query (`Understood`) as the search understood them, and how many chunks
    meet each.
    """
    conditions = [f"{c['condition']} ({c['chunks']:,} chunks)" for c in query["conditions"]]
    ranks = query["order"] == "score"
    order = f"ranked by {query['text']!r}" if ranks else "the newest first"
    nearest = query["nearest"]
    lines = [
        (conditions, "dim", f"only {', '.join(conditions)}; {order}"),
        (
            query["lifts"],
            "dim",
            f"read as {query['text']!r}; {preference_sentence(query['lifts'])}",
        ),
        (query["note"], "dim", query["note"]),
        (query["meant"], "", f"did you mean {', '.join(query['meant'])}?"),
        (nearest, "dim", f"nearest, but not near: {nearest}; --weak shows it"),
    ]
    for facts, style, line in lines:
        if facts:
            console.print(f"     {line}", style=style, soft_wrap=True)


def _print_hit(console: Console, hit: dict[str, Any], details: Details, is_further: bool) -> None:
    """One hit; a further one of its thread is under the subject of the first, unless it has
    another.
    """
    title = without_list_tags(hit["subject"] or "(no subject)", filter(None, [hit["list_id"]]))
    subject = Text(short_pseudonyms(title), style="bold cyan")
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
    when = minute(hit["effective_at"]) or "no date"
    if hit["source_kind"] == "document":
        dated = [when] if hit["effective_at"] else []
        section = (hit["breadcrumb"] or "").removeprefix("> ").removeprefix(f"{hit['subject']} › ")
        return [*([section] if section not in ("", hit["subject"]) else []), *dated, hit["source"]]
    if hit["source_kind"] == "conversation":
        return [*filter(None, [short_pseudonyms(hit["from_name"] or "")]), when, hit["source"]]
    if not hit["thread_size"]:  # a file of a chat
        return [when, hit["source"], f"attached file {hit['filename'] or ''}".strip()]
    single = hit["thread_size"] == 1
    thread = "single mail" if single else f"mail {hit['thread_position']} of {hit['thread_size']}"
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
    """Print the hits that a hit replaces, other matches in its mail or document, and the texts
    around it.
    """
    others = [part for part in hit["folded"] if part["doc_id"] != hit["doc_id"]]
    for heading, parts in folded_by_relation(others):
        shown = parts if details.more else parts[:_SHOWN_WITH_A_HIT]
        rest = (
            "" if len(shown) == len(parts) else f" (--more shows {len(parts) - len(shown)} further)"
        )
        console.print(f"     {heading}{rest}", style="dim", soft_wrap=True)
        for part in shown:
            facts = (part["author"], part["day"])
            line = " · ".join([part["title"] or "(no subject)", *filter(None, facts)])
            console.print(
                Text(f"       {short_pseudonyms(line)}  ")
                + Text(f"⟨{part['doc_id']}⟩", style="dim"),
                soft_wrap=True,
            )
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
        rerank += f": {hit['label']}" if hit["label"] else ""
    return (
        f"{hit['score']:.3f} = fused {hit['fused_score']:.3f}{thread}; {', '.join(ranks)}{rerank}"
    )
