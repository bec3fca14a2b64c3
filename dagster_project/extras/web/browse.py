"""Lists to browse in without a query, or of the hits of one: threads, notes, chats and files under
their headings.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dagster_project.extras.web.facets import MOST_ROWS
from dagster_project.extras.web.question import Question, page_of, question_of, with_parameters
from dagster_project.extras.web.site import Site
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.receipts import Disclosed
from dagster_project.system.sql_files import SqlFile
from transforms.errors import QueryError, shortened

_SQL = SqlFile(__file__, "browse.sql")
_LISTS = {
    "threads": "Threads",
    "unanswered": "Unanswered",
    "files": "Files and pictures",
    "folders": "By folder",
    "days": "By day",
    "notes": "Tags and links",
    "today": "This day",
}
"""The lists, with their titles."""
_PER_PAGE = 100


def browse(site: Site, request: Request, index: SearchIndex) -> Response:
    """The page of a list (`view`, by default the first with anything in it), of the whole index or
    of the texts that meet a question; lists without anything are left out.
    """
    params, question = request.query_params, question_of(request.query_params)
    view, page = params.get("view"), params.get("page", "0")
    if view is not None and view not in _LISTS:
        raise QueryError(f"view takes {', '.join(_LISTS)}, not {shortened(view)!r}")
    start = int(page) * _PER_PAGE if page.isascii() and page.isdigit() and len(page) < 6 else 0
    chunks = None if question.is_empty else _chunks_of(index, question)
    filled = _filled(index, chunks)
    view = view or next(iter(filled), next(iter(_LISTS)))
    rows = _rows(index, _SQL(view), view, chunks, start)
    more = view != "notes" and len(rows) > _PER_PAGE
    shown = [{**row, "address": _address(row)} for row in (rows[:_PER_PAGE] if more else rows)]
    request.state.shown += [
        Disclosed(row["id"], row["title"], row["id"]) for row in shown if row["title"]
    ]
    sections = [(name, list(of)) for name, of in groupby(shown, key=lambda row: row["heading"])]
    at = start // _PER_PAGE
    turns = [("prev", at - 1)] if at else []
    turns += [("next", at + 1)] if more else []
    pages = [(turn, question.address("/browse", view=view, page=number)) for turn, number in turns]
    tabs = [
        (name, question.address("/browse", view=name), title)
        for name, title in _LISTS.items()
        if name in (*filled, view)
    ]
    return site.page(
        "browse.html",
        request,
        index,
        view=view,
        title=_LISTS[view],
        tabs=tabs,
        sections=sections,
        pages=pages,
        has_files=site.shows_files(index),
    )


def _filled(index: SearchIndex, chunks: Sequence[int] | None) -> list[str]:
    """The lists with anything in them, in order."""
    statements = {name: _SQL("one_row", list=_SQL(name)) for name in _LISTS}
    return [name for name, text in statements.items() if _rows(index, text, name, chunks)]


def _rows(
    index: SearchIndex, statement: str, view: str, chunks: Sequence[int] | None, start: int = 0
) -> list[dict[str, Any]]:
    values: dict[str, Any] = {"chunks": chunks}
    values |= {} if view == "notes" else {"start": start}
    values |= {"today": f"{datetime.now(UTC):%m-%d}"} if view == "today" else {}
    return index.ask(statement, values).to_pylist()


def _chunks_of(index: SearchIndex, question: Question) -> Sequence[int]:
    """The chunks that meet a question's conditions; the best ones if it has words."""
    resolved = index.resolved([question.query], question.filters, question.plain)
    if (listed := resolved[0].listed) is not None:
        return listed[:MOST_ROWS].tolist()
    return index.ranked(resolved, limit=_PER_PAGE).hits.get_column("chunk_no").to_list()


def _address(row: dict[str, Any]) -> str:
    listed = {"tag": {"tag": row["id"]}, "month": {"q": f"kind:document d:{row['id']}"}}.get(
        row["kind"]
    )
    return with_parameters("/", listed) if listed else page_of(row["kind"], row["id"])
