"""The published index as the settings say that it is opened: all that a search needs, and nothing that builds."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from dagster_project.config.settings import Settings, changed_search
from dagster_project.resources.models.embedders import make_embedder
from dagster_project.resources.models.rerankers import make_reranker
from dagster_project.resources.outgoing.screen import Screen
from dagster_project.resources.publish.lens_file import Lens, LensBuild, lens_file
from dagster_project.resources.publish.versions import CURRENT
from dagster_project.resources.qdrant.service import points_of
from dagster_project.resources.search.filters import Filters, excluded_leaves, where_conditions
from dagster_project.resources.search.search_index import SearchIndex, open_current
from transforms.errors import LensError, QueryError, SettingsError, WeftError, shortened
from transforms.retrieval.query_language import TEXT_FIELDS, leaves_of
from transforms.retrieval.saved_searches import Answers
from transforms.settings.search import RankingOptions, SearchOptions

_LOOKED_EVERY = 1.0
"""Seconds between two looks at which version is current; up to as many pass before a new one is opened, so that many
programs do not open it at once."""
_NICENESS = 10


def open_index(settings: Settings, for_assistant: bool = False, lens: str | None = None) -> SearchIndex:
    """The published index of these settings, or what a lens shows of it; texts are for people or for an assistant.

    SettingsError if no lens has that name, LensError if it cannot be applied to this version.
    """
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
    reranker = make_reranker(settings.rerank, settings.gemini, settings.safety)
    index = open_current(settings.root / "index", embedder, settings.terms, settings.search, reranker)
    if lens is not None:
        index = _under_lens(settings, index, lens)
    else:
        try:
            index.points = points_of(index.path, settings.index)
        except WeftError:
            index.close()
            raise
    index.screen = Screen(settings.safety, for_assistant)
    return index


def require_lens(settings: Settings, lens: str | None) -> None:
    """SettingsError if no lens has this name, or if its conditions could not be told from no condition at all."""
    if lens is None:
        return
    if lens not in settings.lenses:
        known = ", ".join(settings.lenses) or "none: add one to [lenses]"
        raise SettingsError(f"no lens is called {shortened(lens)!r}; known are {known}")
    try:
        conditions = where_conditions(settings.lenses[lens].where)
    except QueryError as fault:
        raise SettingsError(f"the lens {lens!r}: {fault}") from fault
    fields = {leaf.field for condition in conditions for leaf in leaves_of(condition)}
    if not conditions or fields.intersection(TEXT_FIELDS):
        raise SettingsError(
            f"the lens {lens!r} is to hold conditions on sources, lists, kinds, tags, authors, paths and days, as "
            "`source:docs OR l:public`; a text without conditions would show all"
        )


def _under_lens(settings: Settings, whole: SearchIndex, name: str) -> SearchIndex:
    """The index narrowed to what a lens shows; `whole` is closed."""
    with closing(whole):
        require_lens(settings, name)
        lens = Lens(name, settings.lenses[name].where)
        file = lens_file(settings.root, whole.path, lens)
        if not file.exists():
            whole.points = points_of(whole.path, settings.index)
            conditions = where_conditions(lens.where)
            try:
                chunks = whole.conditions.shown(conditions)
            except QueryError:
                # Its message may name what the lens does not show.
                leaves = {leaf for condition in conditions for leaf in leaves_of(condition)}
                included = leaves - excluded_leaves(conditions)
                lacking = ", ".join(
                    sorted(str(leaf) for leaf in included if whole.conditions.values.lacks(leaf))
                )
                why = f", which holds no {lacking}" if lacking else ""
                raise LensError(
                    f"the lens {name!r} cannot be applied to this version{why}: `weft search` with its conditions says why"
                ) from None
            embed = None if whole.embedder.is_paid else whole.embedder.embed_documents
            LensBuild(whole.path, chunks, settings.search, settings.terms, whole.vectors).write(file, embed)
    index = SearchIndex(file, whole.embedder, whole.term_settings, whole.settings, whole.reranker)
    index.published = whole.path
    return index


def with_options(settings: Settings, options: RankingOptions) -> Settings:
    """The settings with what one search changes in [search]; QueryError if no profile has the name it gives."""
    try:
        search = settings.profile(options.profile) if options.profile else settings.search
    except ValueError as error:
        raise QueryError(str(error)) from error
    return settings.model_copy(update={"search": changed_search(search, options.changes())})


class PublishedSearcher:
    """Opens the current version for each batch of queries."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def search(
        self, queries: Sequence[str], filters: Mapping[str, Any], limit: int, options: SearchOptions
    ) -> Answers:
        """The hits of each query; `filters` are those of `Filters` by name."""
        with closing(open_index(with_options(self.settings, options))) as index:
            result = index.search(queries, Filters(**filters), limit)
            return Answers(result.hits, result.labels, index.manifest["version"])


class FollowedIndex:
    """The current version of a folder, held open; `opened` opens it.

    Another that is published is opened and tried with a question beside it, by a thread of low priority; then it takes the
    place of the older, so that nobody waits for it. One thread at a time may ask.
    """

    def __init__(self, folder: Path, opened: Callable[[], SearchIndex]):
        self._link, self._opened = folder / CURRENT, opened
        self._answering: SearchIndex | None = None
        self._next: SearchIndex | None = None
        self._refused: Path | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def index(self) -> SearchIndex:
        """The version that answers now; IndexUnavailableError or ModelMismatchError if it cannot be opened."""
        if self._answering is None:
            self._answering = self._opened()
            self._thread.start()
        elif self._refused is not None and self._refused == self._link.resolve():
            self._replace(self._opened())
        elif (opened := self._next) is not None:
            self._next = None
            self._replace(opened)
        assert self._answering is not None
        return self._answering

    def close(self) -> None:
        """Close all versions."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for index in (self._answering, self._next):
            if index is not None:
                index.close()
        self._answering = self._next = None

    def _replace(self, opened: SearchIndex) -> None:
        if self._answering is not None:
            self._answering.close()
        self._answering, self._refused = opened, None

    def _follow(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._over.wait(_LOOKED_EVERY):
            current, index = self._link.resolve(), self._answering
            if self._next is not None or index is None or current in (index.published, self._refused):
                continue
            self._over.wait(random.uniform(0, _LOOKED_EVERY))
            try:
                opened = self._opened()
                opened.search(["?"])
            except (WeftError, OSError, duckdb.Error):
                self._refused = current  # the next search raises the reason
            else:
                self._next = opened
