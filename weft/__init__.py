"""Weft in Python: open a published index, search it, read what it cites, ask it SQL, build it.

The records are those of `/api`, and the same functions answer. docs/python.md has examples.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TypeVar

import duckdb
from pydantic import BaseModel, ValidationError

from dagster_project.config.places import DEFAULT_CONFIG
from dagster_project.config.settings import Settings, faults_of, load_settings
from dagster_project.context.context_tables import add_contexts
from dagster_project.context.sessions import Account
from dagster_project.index.publish.versions import current_version, version_of
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.index.search.similar import similar
from dagster_project.index.search.statements.context_sql import is_about_context
from dagster_project.index.search.statements.sql import opened_for_sql, relation_of
from dagster_project.outgoing.screen import Screen
from dagster_project.servers import answers
from dagster_project.servers.answers import (
    Block,
    Hit,
    Hits,
    PersonList,
    PersonRecord,
    QuestionAnswer,
    Shown,
    Source,
    SourceList,
    Text,
    Verification,
)
from dagster_project.servers.requests import AskRequest, ModelRequest, SearchRequest, ThreadRequest
from dagster_project.servers.threads import Thread, ThreadMessage, thread_record
from transforms.errors import (
    IndexUnavailableError,
    QueryError,
    SettingsError,
    SourceError,
    UnknownIdError,
    WeftError,
)
from transforms.retrieval.search_filters import read_filters
from transforms.settings.search import SearchOptions

__all__ = [
    "QuestionAnswer",
    "Block",
    "Built",
    "Hit",
    "Hits",
    "Index",
    "IndexUnavailableError",
    "PersonList",
    "PersonRecord",
    "QueryError",
    "SearchOptions",
    "SettingsError",
    "Source",
    "SourceError",
    "SourceList",
    "Text",
    "Thread",
    "ThreadMessage",
    "UnknownIdError",
    "Verification",
    "WeftError",
    "build",
    "open",
]

_Answer = TypeVar("_Answer", bound=BaseModel)
_MOST_HITS = 1_000
"""Hits of one search, as `weft search --limit` takes them."""
_ALL = 1 << 40
"""More characters than a text has."""
_AS_SET = SearchOptions()


class Index:
    """One published version, opened for reading: a build that follows does not change what it
    answers; `open` again for the new one.

    Threads may share it: their questions are answered one after the other. Texts are shown as
    `safety.outputs` says, as on the pages. Under a lens each answer leaves a receipt and counts
    against the bounds of the lens.

    Every method raises `WeftError` with a sentence that names the thing, the place and the way out;
    its `remedy` is what to do about faults of its kind.
    """

    def __init__(self, settings: Settings, lens: str | None):
        self._settings, self._lens, self._lock = settings, lens, RLock()
        self._closing = ExitStack()
        self._index = open_index(settings, lens=lens)
        self._closing.callback(self._index.close)
        self._account = Account(settings, lens, self._index) if lens else None
        self._connections: dict[bool, duckdb.DuckDBPyConnection] = {}
        """One without the contexts of chats, and one with them."""

    def __enter__(self) -> "Index":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; relations of `sql` cannot be read any longer."""
        self._closing.close()

    @property
    def version(self) -> str:
        """The name of the version that answers."""
        return self._index.version

    def search(
        self,
        query: str,
        limit: int | None = None,
        *,
        plain: bool = False,
        options: SearchOptions = _AS_SET,
        **conditions: str | None,
    ) -> Hits:
        """The best hits of a query in the query language, or of words alone if it is `plain`.

        `conditions` are `list`, `author`, `path`, `tag`, `has`, `source`, `kind`, `series`, `since`
        and `until`, each a text as the command line takes it. `limit` is `search.limit` of the
        settings if it is left out, 1,000 at most. `label` of the answer says how far the hits can
        be trusted. Raises `QueryError` for a query or a condition that cannot be understood.
        """

        def work(index: SearchIndex) -> Shown[Hits]:
            request = SearchRequest(q=query, limit=limit, plain=plain, **options.model_dump())
            filters = read_filters(conditions)
            return answers.best_hits(self._settings, index, request, filters, _MOST_HITS)

        return self._answered("search", query, work)

    def similar(self, id: str, limit: int = 10) -> Hits:
        """The texts nearest to a mail, thread, document, section, chunk or window of a chat, itself
        left out.
        """
        return self._answered(
            "similar", id, lambda index: answers.hits(index, similar(index, id, limit))
        )

    def get(self, id: str, byte_start: int = 0, max_characters: int = _ALL) -> Text:
        """The exact text of a citation, Message-ID, chunk, thread, document or path.

        `byte_start` counts the bytes of its UTF-8. Raises `UnknownIdError`, which names the
        nearest ids, if the index holds nothing of that name.
        """
        return self._answered(
            "get", id, lambda index: answers.text(index, id, byte_start, max_characters)
        )

    def context(
        self,
        text: str,
        budget_tokens: int | None = None,
        *,
        where: str = "",
        unmasked: bool = False,
    ) -> Block:
        """Cited passages for a text, a conversation or a draft, in `budget_tokens` tokens.

        `where` has conditions of the query language that all passages meet. The block is masked as
        for assistants, unless `unmasked` is true, which no lens allows.
        """
        if unmasked and self._lens:
            raise QueryError("unmasked shows what a lens may hide: leave it out, or open no lens")
        budget = budget_tokens or self._settings.context.budget_tokens

        def work(index: SearchIndex) -> Shown[Block]:
            screen = Screen(index.screen.settings, not unmasked, index.screen.clear)
            with index.screened(screen):
                return answers.block(self._settings, index, text, budget, where)

        return self._answered("context", text, work)

    def ask(
        self,
        question: str,
        *,
        model: bool = False,
        decisions: bool = False,
        **conditions: str | None,
    ) -> QuestionAnswer:
        """The answer to a question in sentences of the sources, each with its citation.

        With `model`, that of `[answers]` writes them, and those that no source says are left out.
        With `decisions`, the question is a topic, and the answer lists what was decided on it.
        `conditions` are those of `search`.
        """

        def work(index: SearchIndex) -> Shown[QuestionAnswer]:
            request = (ModelRequest if model else AskRequest)(q=question, decisions=decisions)
            return answers.question_answered(
                self._settings, index, request, read_filters(conditions)
            )

        return self._answered("ask", question, work)

    def thread(
        self, id: str, query: str = "", *, start: int = 0, limit: int | None = None
    ) -> Thread:
        """A thread with the texts of its mails in reading order, by its id or by a Message-ID in it.

        With a `query`, `evidence` has citations of the mails that bear it out. 500 mails are a
        page; `next` is where the next one starts, None on the last.
        """
        request = {"id": id, "q": query, "start": start, "limit": limit}
        return self._answered(
            "thread",
            id,
            lambda index: thread_record(index, ThreadRequest.model_validate(request)),
        )

    def person(self, name: str, limit: int = 10) -> PersonList:
        """The people whose name or address holds the words of `name`: addresses, mails, threads."""
        return self._answered(
            "person", name, lambda index: answers.people_named(index, name, limit)
        )

    def verify(self, text: str) -> Verification:
        """Each sentence of a text with its colour, and each citation in it followed back to its source."""
        return self._answered(
            "verify",
            text,
            lambda index: answers.verified(self._settings, index, self._lens, text),
        )

    def sources(self) -> SourceList:
        """The sources of the index, with kinds, mailing lists, counts and the newest text."""
        return self._answered("sources", "", answers.sources)

    def sql(self, statement: str, **values: object) -> duckdb.DuckDBPyRelation:
        """The rows of one SELECT on the tables of the index, as a relation of DuckDB: `.pl()` makes
        Polars of it, `.to_arrow_table()` Arrow, `.fetchall()` tuples.

        `values` are those of the statement's parameters (`$name`). The statement may use the macros
        of the file, `search_semantic(words, k)` and the tables of the contexts of chats, such as
        `conversation_retrievals`; it reaches no other file. Rows are read when the relation is,
        before `close`, and texts are as they are stored: under a lens that masks or bounds texts
        `QueryError` is raised.
        """
        with self._lock:
            if self._lens and not self._shows_all():
                raise QueryError(
                    f"the lens {self._lens!r} masks or bounds texts, which rows of SQL would not be: "
                    "use search, get and thread"
                )
            has_contexts = is_about_context(statement)
            if has_contexts not in self._connections:
                further = partial(add_contexts, self._settings, self._index)
                opened = opened_for_sql(
                    self._index.path, self._index.embedder, *([further] if has_contexts else [])
                )
                self._connections[has_contexts] = self._closing.enter_context(opened)
            connection = self._connections[has_contexts]
            return relation_of(connection, self._index.path, statement, values)

    def _shows_all(self) -> bool:
        """True if the lens neither bounds nor masks what it shows."""
        lens = self._settings.lenses[self._lens] if self._lens else None
        return self._index.screen.is_open and not (lens and lens.is_limited)

    def _answered(
        self, tool: str, question: str, work: Callable[[SearchIndex], Shown[_Answer]]
    ) -> _Answer:
        """The answer of `work`, under a lens after its receipt is written."""
        with self._lock:
            finds = self._index.screen.finds
            finds.clear()
            try:
                shown = work(self._index)
            except ValidationError as fault:
                raise QueryError(faults_of(fault)) from fault
            if self._account:
                self._account.note(f"weft.{tool}", question, shown.passages, finds)
            return shown.answer


@dataclass(frozen=True)
class Built:
    """The result of a build: the version that is current now, and whether it is new.

    `partitions` were rebuilt, `removed` ones are gone; `faults` has a line for each source that cannot be read or
    fetched, whose earlier texts stay; `warnings` has lines on what else deserves a look. `seconds`
    is the time that it took.
    """

    version: str
    is_new: bool
    partitions: tuple[str, ...]
    removed: tuple[str, ...]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float


def open(path: str | PathLike[str] | None = None, *, lens: str | None = None) -> Index:
    """The published index of a settings file, or of the `weft.toml` in a folder; without a path of
    `$WEFT_CONFIG`, else of the `weft.toml` here. Under a `lens` of `[lenses]` it shows its part.

    Raises `SettingsError` for settings that are not there or not valid, `IndexUnavailableError`
    before the first build.
    """
    return Index(_settings(path), lens)


def build(
    path: str | PathLike[str] | None = None,
    *,
    fetch: bool = True,
    verify: bool = False,
    on_step: Callable[[str, str | None, int], None] = lambda stage, partition, rows: None,
) -> Built:
    """Read what changed in the sources of a settings file, and publish the index, as `weft build`.

    Remotes are fetched before, if `fetch` is true; `verify` looks for damaged files first. `on_step`
    is called after each step with its stage, its partition if it has one, and its rows. A source
    that cannot be read is a line of `faults`; `SourceError` is raised if none can be read, other
    `WeftError`s if nothing could be published.
    """
    from dagster_project.orchestration.build import build as run_build
    from dagster_project.orchestration.instance import open_instance

    settings = _settings(path)
    with open_instance(settings) as instance:
        result = run_build(settings, instance, fetch=fetch, verify=verify, tell=on_step)
    return Built(
        version=version_of(current_version(settings.root / "index")),
        is_new=result.published is not None,
        partitions=tuple(sorted(result.plan.stale)),
        removed=tuple(sorted(result.plan.vanished)),
        faults=tuple(result.faults().splitlines()),
        warnings=tuple(result.warnings()),
        seconds=result.seconds,
    )


def _settings(path: str | PathLike[str] | None) -> Settings:
    if path is not None and Path(path).is_dir():
        path = Path(path) / DEFAULT_CONFIG
    return load_settings(Path(path) if path is not None else None)
