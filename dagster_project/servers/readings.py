"""Answers to the commands that read, as JSON: the same in the process of a command and in a server."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from dagster_project.config.settings import Settings, load_settings
from dagster_project.index.search import similar
from dagster_project.index.search.lookup import Ask, reading
from dagster_project.index.search.opened_index import open_index, with_options
from dagster_project.index.search.query_rewriting import make_rewriter
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.statements.sql import query_current
from dagster_project.outgoing.screen import Screen
from transforms.retrieval.query_rewriting import Standalone
from transforms.retrieval.search_filters import SEARCH_FILTERS, Filters
from transforms.settings.search import SearchOptions

Reader = Callable[[Settings, SearchIndex, Mapping[str, Any]], dict[str, Any]]
"""Gives the answer to a question: the `command` and its options by their names, as JSON has them."""


def answer_here(config: Path | None, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question, as the command prints it with --json.

    Raises the faults of Weft that explain why there is none.
    """
    settings = load_settings(config)
    if question["command"] == "context":
        from dagster_project.servers.context_reading import context_here

        return context_here(settings, question)
    if question["command"] == "get":
        screen = Screen(settings.safety)
        ask = screen.asking(partial(query_current, settings.root / "index"))
        return _text(ask, screen, question)
    with closing(open_index(settings)) as index:
        return reader_of(question["command"])(settings, index, question)


def reader_of(command: str) -> Reader:
    """The function that answers a command; KeyError for an unknown one."""
    if command == "context":
        from dagster_project.servers.context_reading import read_context

        return read_context
    return _READERS[command]


def search_request(
    settings: Settings, question: Mapping[str, Any]
) -> tuple[list[Standalone], Filters, Settings]:
    """The queries of a search as they are used, its filters, and the settings with its options."""
    options = {name: question[name] for name in SearchOptions.model_fields}
    changed = with_options(settings, SearchOptions(**options))
    rewriter = make_rewriter(
        settings.queries, settings.sentences.name, settings.gemini, settings.safety
    )
    rewritten = [rewriter.standalone(query, question["turns"]) for query in question["queries"]]
    filters = {f.name: question.get(f.name) for f in SEARCH_FILTERS}
    for name in (f.name for f in SEARCH_FILTERS if f.is_day and filters[f.name]):
        filters[name] = datetime.fromisoformat(str(filters[name]))
    return rewritten, Filters(**filters), changed


def _search(settings: Settings, index: SearchIndex, question: Mapping[str, Any]) -> dict[str, Any]:
    rewritten, filters, changed = search_request(settings, question)
    texts = [query.used for query in rewritten]
    plain, limit = question["plain"], question["limit"]
    result = index.search(texts, filters, limit, plain, settings=changed.search)
    return result.as_json(rewritten, index.manifest["version"])


def _similar(_: Settings, index: SearchIndex, question: Mapping[str, Any]) -> dict[str, Any]:
    name = question["name"]
    result = similar.similar(index, name, question["limit"])
    return result.as_json([Standalone(name, name)], index.manifest["version"])


def _text(ask: Ask, screen: Screen, question: Mapping[str, Any]) -> dict[str, Any]:
    text = reading(ask, question["name"])
    return replace(text, text=screen.text(text.text)).as_json()


_READERS: dict[str, Reader] = {
    "search": _search,
    "similar": _similar,
    "get": lambda _, index, question: _text(index.ask, index.screen, question),
}
"""The commands whose answers need an index and no conversation."""
