"""Saved searches: each person who asks `weft serve` names the addresses of results in files beside
the settings.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dagster_project.extras.web.question import Question, question_of
from dagster_project.extras.web.site import Site
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import ASKER
from dagster_project.system.disk_space import may_be_made
from dagster_project.system.durable import write_privately
from dagster_project.system.locks import alone
from transforms.errors import DisclosureLimitError, QueryError, SettingsError, shortened
from transforms.text.storable import storable

_MOST = 50
"""Searches that one person may have."""
_UNWRITABLE = (
    "Searches are saved in {}: give this server the right to write there, or mount that so."
)
_SHARED = "All who read under this lens without a token are one: ask whoever runs this server for a token."
_LOOKED_AT, _MOST_COUNTS = 50, 1_000
"""Hits of a search among which new ones are counted, and counts that are remembered."""
_NEW = """
SELECT count(*) FROM readiness
WHERE date_trunc('second', published_at) > $since AND doc_id IN (SELECT unnest($ids::VARCHAR[]))
"""


class _Search(BaseModel):
    """A name for the address of results; `visited_at` is when the version of the last visit was
    published.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1, max_length=80)
    address: str = Field(max_length=4_000)
    visited_at: datetime

    @property
    def question(self) -> Question:
        """The query and the filters of the address."""
        return question_of(dict(parse_qsl(urlsplit(self.address).query)))


_SEARCHES = TypeAdapter(dict[str, _Search])


def saved_as(site: Site, question: Question, index: SearchIndex) -> _Search | None:
    """The search of the person who asks that asks the same; the version that answers is then that
    of its last visit.
    """
    published = _published(index)
    search = next((s for s in _own(site) if s.question.address() == question.address()), None)
    if search and search.visited_at < published:
        # A folder that cannot be written hides no hits.
        with suppress(SettingsError, OSError), _changed(site) as searches:
            searches[search.name] = search.model_copy(update={"visited_at": published})
    return search


def own_searches(site: Site, index: SearchIndex, most: int = _MOST) -> list[tuple[_Search, int]]:
    """The first searches of the person who asks, by name, each with the number of its new texts.

    New are those of the best fifty hits that no version held, or not with this content, at the last
    visit.
    """
    return [(search, _new(site, index, search)) for search in _own(site)[:most]]


def _new(site: Site, index: SearchIndex, search: _Search) -> int:
    key, counts = (index.version, search.address, search.visited_at), site.new_texts
    question = search.question
    if search.visited_at < _published(index) and key not in counts:
        try:
            hits = index.search([question.query], question.filters, _LOOKED_AT, question.plain).hits
        except QueryError:
            return 0  # the page of its results says what is wrong
        if len(counts) > _MOST_COUNTS:
            counts.clear()
        ids = hits.column("doc_id").to_pylist()
        (counts[key],) = (
            index.ask(_NEW, {"since": search.visited_at, "ids": ids}).column(0).to_pylist()
        )
    return counts.get(key, 0)


def _published(index: SearchIndex) -> datetime:
    return datetime.fromisoformat(index.manifest["published_at"])


def why_not(site: Site) -> str:
    """Why the person who asks cannot save searches; empty if they can."""
    if site.lens and ASKER.get() is None:
        return _SHARED
    return "" if may_be_made(file := _file(site)) else _UNWRITABLE.format(file.parent)


def _own(site: Site) -> list[_Search]:
    """The searches of the person who asks, by name; none if their file is not valid."""
    with suppress(SettingsError):
        searches = {} if site.lens and ASKER.get() is None else _read(_file(site))
        return sorted(searches.values(), key=lambda search: search.name.casefold())
    return []


def searches_page(site: Site, request: Request, index: SearchIndex) -> Response:
    """The saved searches of the person who asks; a POST saves, renames or deletes one and leads
    back to them.

    DisclosureLimitError for a person who cannot save any, QueryError for a name that is taken, or
    too many searches.
    """
    if request.method == "GET":
        _read(_file(site))
        values = {"searches": own_searches(site, index), "why_not": why_not(site)}
        return site.page("searches.html", request, index, **values)
    if reason := why_not(site):
        raise DisclosureLimitError(reason)
    try:
        form = dict(parse_qsl(request.state.body.decode(), max_num_fields=9))
        with _changed(site) as searches:
            _change(searches, form, _published(index))
    except ValidationError as error:
        fault = error.errors()[0]
        raise QueryError(f"the {fault['loc'][0]} of a saved search: {fault['msg']}") from error
    except ValueError as error:
        raise QueryError(f"this is not a form of these pages: {error}") from error
    except OSError as error:
        raise SettingsError(_UNWRITABLE.format(_file(site).parent)) from error
    return RedirectResponse("/searches", 303)


def _change(searches: dict[str, _Search], form: Mapping[str, str], published: datetime) -> None:
    """Save the search of a form in place of that named `before`, or with `do=delete` only take that
    away.
    """
    name = " ".join(storable(form.get("name", "")).split())
    before = searches.pop(form.get("before", ""), None)
    if form.get("do") == "delete":
        return
    if name in searches:
        raise QueryError(
            f"you have a search named {shortened(name)!r}: take another name, or delete that one"
        )
    if len(searches) >= _MOST:
        raise QueryError(f"{_MOST} searches are saved, as many as can be: delete one first")
    address = before.address if before else form.get("address", "")
    search = _Search(
        name=name, address=address, visited_at=before.visited_at if before else published
    )
    if search.question.is_empty:
        raise QueryError("there is nothing to save: search for something first")
    searches[name] = search


def _file(site: Site) -> Path:
    """The file of the person who asks; a name has no spaces."""
    person = ASKER.get()
    return site.settings.base / "searches" / (f"of {person}.json" if person else "own.json")


def _read(file: Path) -> dict[str, _Search]:
    try:
        return _SEARCHES.validate_json(file.read_bytes()) if file.exists() else {}
    except ValidationError as error:
        raise SettingsError(f"{file}: {error.errors()[0]['msg']}; mend it or delete it") from error


@contextmanager
def _changed(site: Site) -> Iterator[dict[str, _Search]]:
    """The searches of the person who asks by name, to be changed and then written."""
    file = _file(site)
    with alone(file.parent / ".lock"):
        searches = _read(file)
        yield searches
        write_privately(file, _SEARCHES.dump_json(searches, indent=1).decode())
