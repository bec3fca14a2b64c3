"""The published index as the settings say that it is opened: all that a search needs, and nothing
that builds.
"""

import logging
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from dagster_project.config.places import LABEL_FILE
from dagster_project.config.settings import Settings, changed_search
from dagster_project.index.files.arrays import damage_of_the_day
from dagster_project.index.publish.versions import CURRENT, current_version
from dagster_project.index.search.conditions.copies import ShownCopies, as_published, narrowing
from dagster_project.index.search.filters import excluded_leaves, where_conditions
from dagster_project.index.search.ranking import ranking_of
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.models.embedders import make_embedder
from dagster_project.models.language_models import make_reranker
from dagster_project.outgoing.screen import Screen
from transforms.errors import (
    IndexUnavailableError,
    LensError,
    QueryError,
    SettingsError,
    WeftError,
    shortened,
)
from transforms.hashing import text_hash
from transforms.retrieval.query_language import TEXT_FIELDS, Condition, leaves_of
from transforms.retrieval.scheduled_searches import Answers
from transforms.retrieval.search_filters import Filters
from transforms.settings.search import RankingOptions, SearchOptions

LOOKED_EVERY = 1.0
"""Seconds between two looks at which version is current; up to as many pass before a new one is
opened, so that many programs do not open it at once.
"""
_NICENESS = 10


def open_index(
    settings: Settings,
    for_assistant: bool = False,
    lens: str | None = None,
    place: Path | None = None,
) -> SearchIndex:
    """The published index of these settings, or its part under a lens; texts are for people or for
    an assistant.

    It is the current version, or the file at `place`.

    SettingsError if no lens has that name, LensError if it cannot be applied to this version.
    """
    embedder = make_embedder(settings.embedding, settings.gemini, settings.safety)
    reranker = make_reranker(settings.rerank, settings.gemini, settings.safety)
    place = place or current_version(settings.root / "index")
    index = SearchIndex(place, embedder, settings.terms, settings.search, reranker)
    index.labels = settings.base / LABEL_FILE
    if lens is not None:
        index = _under_lens(settings, index, lens)
    else:
        try:
            index.ranked_by(ranking_of(index.path, settings.index))
        except WeftError:
            index.close()
            raise
    clear = settings.lenses[lens].emails if lens is not None else ()
    index.screen = Screen(settings.safety, for_assistant, clear)
    return index


def require_lens(settings: Settings, lens: str | None) -> None:
    """SettingsError if no lens has this name, or if it has no condition, or one on text."""
    if lens is None:
        return
    if lens not in settings.lenses:
        names = ", ".join(settings.lenses) or "none: add one to [lenses]"
        raise SettingsError(f"no lens is called {shortened(lens)!r}; known are {names}")
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
    """The index narrowed by a lens; `whole` is closed."""
    from dagster_project.index.publish.lens.lens_file import (
        LensBuild,
        Narrowing,
        lens_file,
        lens_of,
    )

    with closing(whole):
        require_lens(settings, name)
        labels = whole.labels if "sensitivity:" in settings.lenses[name].where else None
        digest = (
            text_hash(labels.read_text(errors="replace")) if labels and labels.is_file() else ""
        )
        lens = lens_of(settings, name, digest)
        file = lens_file(settings.root, whole.path, lens)
        if not file.exists():
            whole.ranked_by(ranking_of(whole.path, settings.index))
            conditions = where_conditions(lens.where)
            try:
                scope = _scope(settings, whole, conditions, file.parent)
            except QueryError:
                # Its message may name things that the lens does not show.
                leaves = {leaf for condition in conditions for leaf in leaves_of(condition)}
                included = leaves - excluded_leaves(conditions)
                lacking = ", ".join(
                    sorted(str(leaf) for leaf in included if whole.conditions.values.lacks(leaf))
                )
                why = f", which holds no {lacking}" if lacking else ""
                raise LensError(
                    f"the lens {name!r} cannot be applied to this version{why}: `search` with its conditions says why"
                ) from None
            embed = None if whole.embedder.is_paid else whole.embedder.embed_documents
            texts = Narrowing(whole.path, *scope, whole.vectors)
            LensBuild(texts, settings, file, embed, lens.masks).write()
    index = SearchIndex(file, whole.embedder, whole.term_settings, whole.settings, whole.reranker)
    index.published, index.labels = whole.path, whole.labels
    return index


def _scope(
    settings: Settings, whole: SearchIndex, conditions: Sequence[Condition], folder: Path
) -> ShownCopies:
    """The chunks and copies that a lens of these conditions shows; it judges a mail by the copy and
    threads that it shows.

    A file that is narrowed by the places alone is in `folder` until that is known.
    """
    from dagster_project.index.publish.lens.lens_file import LensBuild, Narrowing

    scope = whole.conditions.shown(conditions)
    if not (places := narrowing(conditions)):
        return scope
    wide = whole.conditions.shown(places)
    leaves = {leaf for condition in conditions for leaf in leaves_of(condition)}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".narrowed-{os.getpid()}-", dir=folder) as aside:
        file = Path(aside) / "narrowed.duckdb"
        LensBuild(Narrowing(whole.path, *wide, whole.vectors), settings, file, None).write()
        with closing(
            SearchIndex(file, whole.embedder, whole.term_settings, whole.settings)
        ) as narrowed:
            narrowed.labels = whole.labels
            scope = narrowed.conditions.shown(
                conditions, lambda _: leaves
            )  # it may lack a name that the whole has
            return as_published(scope, narrowed.connection, whole.connection)


def with_options(settings: Settings, options: RankingOptions) -> Settings:
    """The settings with the changes of one search in [search]; QueryError if no profile has the
    name it gives.
    """
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
        self, queries: Sequence[str], filters: Filters, limit: int, options: SearchOptions
    ) -> Answers:
        """The hits of each query that meet the filters."""
        with closing(open_index(with_options(self.settings, options))) as index:
            result = index.search(queries, filters, limit)
            return Answers(result.hits, result.labels, index.manifest["version"])


class FollowedIndex:
    """The current version of a folder, held open once for each question at a time; `opener` opens
    it.

    A thread of low priority looks every `looked_every` seconds which version is current, opens a
    new one as often as the older is open, and tries each with a question; then they take its place,
    so that nobody waits for them. Each day it compares all bytes of the version that answers. After
    an answer from a new version nobody is answered from an older one, and nobody from a file that
    `weft forget` deleted.
    """

    def __init__(
        self, folder: Path, opener: Callable[[], SearchIndex], looked_every: float = LOOKED_EVERY
    ):
        self._link, self._opener, self._looked_every = folder / CURRENT, opener, looked_every
        self._lock = threading.Lock()
        self._answering: Path | None = None
        self._refused: Path | None = None
        self._free: list[SearchIndex] = []
        self._in_use, self._most = 0, 1
        """Questions that are answered now, and the most at once of this version: as many indexes
        stay open.
        """
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @contextmanager
    def index(self) -> Iterator[SearchIndex]:
        """The version that answers now, for one question.

        IndexUnavailableError or ModelMismatchError if the current one cannot be opened.
        """
        with self._lock:
            self._in_use += 1
            self._most = max(self._most, self._in_use)
        index = None
        try:
            index = self._take() or self._opened_now()
            yield index
        except IndexUnavailableError:
            self._let_go()  # the next question opens it again, which rebuilds what is damaged
            raise
        finally:
            with self._lock:
                self._in_use -= 1
                has_room = len(self._free) < self._most
                if index is not None and index.published == self._answering and has_room:
                    self._free.append(index)
                    index = None
            if index is not None:
                index.close()

    def close(self) -> None:
        """Close all versions; one that still answers is closed after its answer."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._let_go()

    def _let_go(self) -> None:
        """Close the free indexes; one that still answers is closed after its answer."""
        with self._lock:
            older, self._free, self._answering = self._free, [], None
        _close(older)

    def _take(self) -> SearchIndex | None:
        """The index that was used last, whose files are mostly in memory; None if none may answer."""
        with self._lock:
            is_refused = self._refused is not None and self._refused == self._link.resolve()
            if is_refused or self._answering is None or not self._answering.exists():
                return None
            return self._free.pop() if self._free else None

    def _opened_now(self) -> SearchIndex:
        """The current version, opened while a question waits."""
        while True:
            current = self._link.resolve()
            try:
                index = self._opener()
            except (WeftError, OSError, duckdb.Error):
                if current == self._link.resolve():
                    raise
                continue  # its file is gone, as another is current
            if self._answer_from(index.published, ()):
                return index
            index.close()

    def _answer_from(self, version: Path, indexes: Sequence[SearchIndex]) -> bool:
        """Let a version answer, with these that are free; False if another is current by now, or if
        a question opened it before they were: each such race would leave more open.
        """
        with self._lock:
            if version != self._link.resolve() or any(
                index.published != version for index in indexes
            ):
                return False
            if indexes and version == self._answering:
                return False
            older: list[SearchIndex] = []
            if version != self._answering:
                older, self._free, self._most = self._free, [], max(1, self._in_use)
            self._answering, self._refused = version, None
            self._free += indexes
            if not self._thread.ident:
                self._thread.start()
        _close(older)
        return True

    def _follow(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._over.wait(self._looked_every):
            current = self._link.resolve()
            if current in (self._answering, self._refused):
                self._compare()
                continue
            self._over.wait(random.uniform(0, self._looked_every))
            indexes: list[SearchIndex] = []
            try:
                for _ in range(self._most):
                    indexes.append(self._opener())
                    indexes[-1].search(["?"])
            except (WeftError, OSError, duckdb.Error):
                self._refused = current  # the next question raises the reason
                _close(indexes)
                if self._answering is not None and not self._answering.exists():
                    self._let_go()
            else:
                if self._over.is_set() or not self._answer_from(current, indexes):
                    _close(indexes)

    def _compare(self) -> None:
        """Once a day compare all bytes beside the version that answers: a damaged block is named,
        and the next to open the version rebuilds it.
        """
        with self._lock:
            files = {index.path for index in self._free}
        for file in files:
            try:
                damage = damage_of_the_day(file)
            except OSError as error:
                damage = IndexUnavailableError(f"{file} cannot be compared: {error}")
            if damage:
                logging.getLogger("weft").warning("%s", damage)
                self._let_go()


def _close(indexes: Iterable[SearchIndex]) -> None:
    for index in indexes:
        index.close()
